"""What the tests of the house ask of the program's modules: each is read and parsed once for all of them.

Trees are not kept, but what is asked for: all trees together take a quarter of a gigabyte.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Call", "Module", "Text", "module"]

_DESCRIBED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Call:
    """A call by a name, or by an attribute of `owner`, which is empty where it is no plain name."""

    line: int
    owner: str | None
    name: str
    positional: int
    """how many arguments have no name; those behind a star are not counted, and -1 stands for them"""


@dataclass(frozen=True, slots=True)
class Text:
    """A string; `is_statement` if it stands alone, as docstrings do."""

    line: int
    value: str
    is_statement: bool


@dataclass(frozen=True, slots=True)
class Module:
    """One file of Python."""

    source: str
    classes: tuple[str, ...]
    calls: tuple[Call, ...]
    of_os: tuple[tuple[int, str], ...]
    """line and name of every attribute of `os`"""
    parameters: tuple[tuple[str, int], ...]
    """name of each function, with the number of its parameters, `self` and `cls` left out"""
    docstrings: tuple[tuple[int, str], ...]
    """of classes and functions, with the lines of these"""
    texts: tuple[Text, ...]


def _call(node: ast.Call) -> Call | None:
    positional = -1 if any(isinstance(each, ast.Starred) for each in node.args) else len(node.args)
    called = node.func
    if isinstance(called, ast.Name):
        return Call(node.lineno, None, called.id, positional)
    if isinstance(called, ast.Attribute):
        owner = called.value.id if isinstance(called.value, ast.Name) else ""
        return Call(node.lineno, owner, called.attr, positional)
    return None


def _count(given: ast.arguments) -> int:
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return len([each for each in named if each.arg not in ("self", "cls")])


@cache
def module(path: Path) -> Module:
    """What is in a file."""
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    described = [(node.lineno, ast.get_docstring(node)) for node in nodes if isinstance(node, _DESCRIBED)]
    return Module(
        source=source,
        classes=tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
        calls=tuple(found for node in nodes if isinstance(node, ast.Call) and (found := _call(node)) is not None),
        of_os=tuple(
            (node.lineno, node.attr)
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
        ),
        parameters=tuple(
            (node.name, _count(node.args))
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        docstrings=tuple((line, text) for line, text in described if text is not None),
        texts=tuple(
            Text(node.lineno, node.value, id(node) in alone)
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ),
    )
