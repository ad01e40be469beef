"""docs/json: the schemas of what commands print with --json, and the page that is made from them.

Run as a program it brings the page up to date; the tests only compare.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "json"
PAGE = FOLDER / "README.md"
SUFFIX = ".schema.json"
BLOCK = re.compile(r"(<!-- begin fields -->\n).*?(<!-- end -->)", re.DOTALL)

Schema = dict[str, Any]


@cache
def schemas() -> dict[str, Schema]:
    """By name, as `ls`; `common` holds what several share."""
    return {path.name.removesuffix(SUFFIX): json.loads(path.read_text()) for path in sorted(FOLDER.glob(f"*{SUFFIX}"))}


@cache
def validator(name: str) -> Draft202012Validator:
    """For one line of a command."""
    registry: Registry[Any] = Registry().with_resources(
        (f"{each}{SUFFIX}", Resource.from_contents(schema)) for each, schema in schemas().items()
    )
    return Draft202012Validator(schemas()[name], registry=registry)


@cache
def _of_error() -> Draft202012Validator:
    return Draft202012Validator(schemas()["common"]["$defs"]["error"])


def problems(name: str, line: Any) -> list[str]:
    """What is wrong with a line; of several forms, what keeps it from the one that it is most like.

    An error before any line is the same object for every command.
    """
    found = []
    of_error = isinstance(line, dict) and "error" in line and "exit_code" in line
    for error in (_of_error() if of_error else validator(name)).iter_errors(line):
        forms: dict[Any, list[Any]] = {}
        for each in error.context or ():
            forms.setdefault(each.schema_path[0], []).append(each)
        nearest = min(forms.values(), key=len) if forms else [error]
        found += [f"{name}: {each.json_path}: {each.message[-300:]}" for each in nearest]
    return found


@lru_cache(maxsize=20_000)
def problems_of_line(name: str, line: str) -> list[str]:
    """What is wrong with a line as it was printed; many runs print the same ones."""
    return problems(name, json.loads(line))


def objects(schema: Any) -> Iterator[Schema]:
    """Every object with declared properties in a schema."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for each in schema.values():
            yield from objects(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from objects(each)


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return f"{schema['$ref'].rpartition('/')[2]}"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join("null" if each is None else f"`{each}`" for each in schema["enum"])
    given = schema.get("type", "any")
    names = [given] if isinstance(given, str) else list(given)
    if "array" in names and "items" in schema:
        names[names.index("array")] = f"list of {_type(schema['items'])}"
    if "object" in names and isinstance(schema.get("additionalProperties"), dict):
        names[names.index("object")] = f"map to {_type(schema['additionalProperties'])}"
    return " or ".join(names)


def _fields(schema: Schema) -> Iterator[str]:
    if not schema.get("properties"):
        return
    yield "| field | type | |"
    yield "|---|---|---|"
    for name, each in schema["properties"].items():
        yield f"| `{name}` | {_type(each)} | {each['description'].replace('|', chr(92) + '|')} |"
    yield ""


def _described(schema: Schema) -> Iterator[str]:
    """An object, or each of its forms."""
    for each in schema.get("oneOf", [schema] if "properties" in schema else []):
        if "oneOf" in schema:
            yield each["description"]
            yield ""
        yield from _fields(each)


def page() -> str:
    """The whole page as it should be."""
    lines: list[str] = []
    for name, schema in schemas().items():
        lines += [f"## {schema['title']}", "", f"{schema['description']} ([schema]({name}{SUFFIX}))", ""]
        lines += _described(schema)
        for part, each in schema.get("$defs", {}).items():
            lines += [f"### {part}", ""]
            if "oneOf" not in each:
                lines += [each["description"], ""] if "description" in each else []
            lines += _described(each)
    body = "\n".join(lines)
    return BLOCK.sub(lambda match: f"{match[1]}{body}{match[2]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
