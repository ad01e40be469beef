"""Check arguments of public functions and methods against their annotations, and raise `UsageError` with one sentence
about an argument of another type. Functions are checked when a package exports them (`lazily`), methods if their class
has the decorator `checked`. Inside the library nothing is checked again. Integers must fit 64 bits, and paths must be
possible for the operating system. Memory of any item type is viewed as bytes: otherwise its length would count larger
items.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import operator
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Annotated, Any, Literal, ParamSpec, TypeAlias, TypeVar

from msgspec import Struct

from kafkalog.codec.common.errors import UsageError

__all__ = ["TIMES", "Bounds", "Count", "at_door", "byte_view", "check_fields", "checked", "plain_type", "shown"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Class = TypeVar("_Class", bound=type)
_Take = Callable[[Any], Any]
"""Function that returns an argument as the callee gets it, and raises any exception if it has another type."""
_INT64 = 2**63
_SHOWN = 60
_MOST_LOOKED_AT = 10_000
"""Elements of a container that are checked before the call; later ones are not."""
_FILE_NAMES = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_PATH = "PathLike"


def byte_view(data: Any) -> memoryview:
    """Return a view of the memory of any bytes-like object as bytes. Raises `UsageError` if `data` has no contiguous
    memory.
    """
    try:
        return memoryview(data).cast("B")
    except (TypeError, BufferError, ValueError):
        raise UsageError(f"{shown(data)} is not contiguous bytes") from None


def shown(value: Any) -> str:
    """Return the `repr` and the type of a value as short text for a message; a long `repr` is cut and ends with `...`.
    If `repr` raises, the text begins with "a value".
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever the caller's class does
        text = "a value"
    return f"{text if len(text) <= _SHOWN else text[:_SHOWN] + '...'} ({type(value).__name__})"


def _require(condition: bool, value: Any) -> Any:
    if not condition:
        raise TypeError
    return value


def _integer(value: Any) -> int:
    number = int(operator.index(value))
    return _require(-_INT64 <= number < _INT64, number)  # type: ignore[no-any-return]


def _number(value: Any) -> float:
    return _require(math.isfinite(value), value) if isinstance(value, float) else _integer(value)


def _flag(value: Any) -> bool:
    return _require(value is not None and hasattr(type(value), "__bool__"), bool(value))  # type: ignore[no-any-return]


def _path(value: Any) -> Any:
    text = value if isinstance(value, str) else type(value).__fspath__(value)
    return _require(bool(text) and "\0" not in text and bool(text.encode(*_FILE_NAMES)), value)


def _view(value: Any) -> memoryview:
    memoryview(value).release()  # an error of its own for memory that is not contiguous
    return byte_view(value)


def _of_protocol(protocol: type) -> _Take:
    names = [name for name, member in vars(protocol).items() if callable(member) and not name.startswith("_")]
    return lambda value: _require(all(callable(getattr(type(value), name, None)) for name in names), value)


_TAKES: dict[Any, _Take] = {
    Any: lambda value: value, int: _integer, float: _number, bool: _flag, memoryview: _view,
    bytes: lambda value: bytes(_view(value)),
}  # fmt: skip
_CONVERTED = _TAKES.keys() - {bool, bytes}


class Bounds(Struct, frozen=True):
    """Bounds of a number, declared as `Annotated[int, Bounds(...)]`; an `Option` of a field declares them too."""

    within: tuple[int, int]
    """lowest and highest number (inclusive)"""


TIMES = (0, _INT64 - 1)
"""milliseconds since 1970 that can be now"""
Count: TypeAlias = Annotated[int, Bounds((1, _INT64 - 1))]
"""number of processes or threads: 1 or more"""


def _taking(name: str, hint: Any) -> _Take:
    """Return the function that checks values of the type `hint` for the argument `name`. It returns the value,
    converted if the type requires it (a memory view for any bytes-like object, an int for an index). For an unsuitable
    value it raises any exception, which `_examiner` turns into `UsageError`.
    """
    origin, arguments, members = typing.get_origin(hint), typing.get_args(hint), _members(hint)
    if len(members) > 1:
        covered = {str} if any(map(_is_path, members)) else {bytes, bytearray} if memoryview in members else set()
        return _any_of([_taking(name, member) for member in members if member not in covered])
    if _is_path(hint):
        return _path
    if origin is Literal:
        return lambda value: _require(isinstance(value, str) and value in arguments, value)
    if origin is tuple and arguments[-1] is not ...:
        return _tuple([_taking(name, argument) for argument in arguments])
    if origin is not None:
        return _container(name, origin, [argument for argument in arguments if argument is not ...])
    if getattr(hint, "_is_protocol", False):
        return _of_protocol(hint)
    return _TAKES.get(hint) or (lambda value: _require(isinstance(value, hint), value))


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type alone."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _is_path(hint: Any) -> bool:
    return getattr(typing.get_origin(hint), "__name__", "") == _PATH


def _any_of(takes: Sequence[_Take]) -> _Take:
    def take(value: Any) -> Any:
        for of_member in takes:
            try:
                return of_member(value)
            except UsageError:
                raise
            except Exception:  # noqa: BLE001, S110 - whatever the caller's class does
                pass
        raise TypeError

    return take


def _tuple(takes: Sequence[_Take]) -> _Take:
    def take(value: Any) -> Any:
        for of_element, element in zip(takes, _require(isinstance(value, tuple), value), strict=True):
            of_element(element)
        return value

    return take


def _container(name: str, origin: type, arguments: Sequence[Any]) -> _Take:
    """Return a function that checks a container and its elements: all keys and values of a dict, the first
    `_MOST_LOOKED_AT` elements of another collection, nothing inside any other mapping. It returns the same container;
    for an iterator another one, which raises `UsageError` at the first element of a wrong type. It raises an exception
    for a str, a value of another type or a wrong element. The elements of an `Iterable[...]` are checked only if their
    type is a plain class, not a union or generic.
    """
    if origin is Iterable and not isinstance(arguments[0], type):
        arguments = ()
    takes = [_taking(name, argument) for argument in arguments] if issubclass(origin, Iterable) else []

    def take(value: Any) -> Any:
        _require(isinstance(value, origin) and not isinstance(value, str), value)  # letters are not a list of names
        if len(takes) == 2 and isinstance(value, dict):
            for pair in value.items():
                for of_part, part in zip(takes, pair, strict=True):
                    of_part(part)
        elif len(takes) == 1 and isinstance(value, Collection):
            for element in islice(value, _MOST_LOOKED_AT):
                takes[0](element)
        elif len(takes) == 1:
            return map(_examiner(f"each of {name}", arguments[0], arguments[0].__name__), value)
        return value

    return take


def _examiner(name: str, hint: Any, text: str) -> _Take:
    """Return the function that checks and converts values for the argument `name`. It returns the value to use, and
    raises `UsageError` if the value is not of the type `hint` or not within its bounds. `text` is the type's name in
    the message.
    """
    extras = getattr(hint, "__metadata__", ())
    within = next((bounds for extra in extras if (bounds := getattr(extra, "within", None)) is not None), None)
    if extras:
        hint = typing.get_args(hint)[0]
    take = _taking(name, hint)
    members = _members(hint)
    as_they_are = {member for member in members if isinstance(member, type) and member not in _CONVERTED}
    as_they_are -= {str} if any(map(_is_path, members)) else set()

    def examine(value: Any) -> Any:
        if type(value) in as_they_are:
            return value
        try:
            taken = take(value)
        except UsageError:
            raise
        except Exception:  # noqa: BLE001 - whatever the caller's class does
            if text == _PATH and isinstance(value, str) and not value:
                raise UsageError(f"{name}: a path cannot be empty") from None
            raise UsageError(f"{name} is {shown(value)}, not {'a possible path' if text == _PATH else text}") from None
        if within is not None and isinstance(taken, int) and not within[0] <= taken <= within[1]:
            which, bound = ("smallest", within[0]) if taken < within[0] else ("largest", within[1])
            raise UsageError(f"{name} is {taken}; the {which} possible value is {bound}")
        return taken

    return examine


def _examiners(module: str, annotations: Mapping[str, Any]) -> dict[str, _Take]:
    """Return the checking function for each annotated name. Annotations are resolved in `module`, which must be loaded
    completely: a `NameError` is raised if a name in them is not defined there.
    """
    holder = types.SimpleNamespace(__annotations__=dict(annotations))
    hints = typing.get_type_hints(holder, vars(sys.modules[module]), include_extras=True)
    return {name: _examiner(name, hints[name], plain_type(text)) for name, text in annotations.items()}


def plain_type(text: str) -> str:
    """Return the text of an annotation without bounds: the text of the type for `Annotated[type, ...]`, "int" for
    `Count`, any other text unchanged.
    """
    if text == "Count":
        return "int"
    if not text.startswith("Annotated["):
        return text
    (statement,) = ast.parse(text).body
    return ast.unparse(statement.value.slice.elts[0])  # type: ignore[attr-defined]


def _as_it_is(value: Any) -> Any:
    return value


def _examining(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a wrapper of the function that checks, and if necessary converts, its arguments before each call. The
    wrapper raises `UsageError` for an argument of another type or out of its bounds. Annotations are evaluated at the
    first call.
    """

    @functools.cache
    def examiners() -> tuple[list[_Take], _Take, dict[str, _Take]]:
        parameters = inspect.signature(function).parameters.values()
        annotated = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
        by_name = _examiners(function.__module__, annotated)
        in_order = [by_name.get(each.name, _as_it_is) for each in parameters if each.kind < each.VAR_POSITIONAL]
        rest = [by_name[parameter.name] for parameter in parameters if parameter.kind is parameter.VAR_POSITIONAL]
        return in_order, (rest or [_as_it_is])[0], by_name

    @functools.wraps(function)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        in_order, rest, by_name = examiners()
        return function(
            *map(operator.call, in_order, arguments),
            *map(rest, arguments[len(in_order) :]),
            **{name: by_name.get(name, _as_it_is)(value) for name, value in named.items()},
        )

    return call


_AT_DOORS: dict[Callable[..., Any], Callable[..., Any]] = {}


def at_door(function: Callable[..., Any], package: str) -> Callable[..., Any]:
    """Return the wrapper of a public function that `package` exports. The wrapper converts arguments if necessary, and
    raises `UsageError` for one of a wrong type or out of its bounds. It is pickled by its name in the package. Every
    call for the same function returns the same wrapper, with the package of the first call.
    """
    handed_out = _AT_DOORS.get(function)
    if handed_out is None:
        handed_out = _AT_DOORS[function] = _examining(function)
        handed_out.__module__ = package
    return handed_out


def checked(*hot: str) -> Callable[[_Class], _Class]:
    """Return a class decorator that makes public methods, class methods, `__getitem__` and `__init__` check their
    annotated arguments and raise `UsageError`. Not wrapped: methods named in `hot` (called too often), inherited
    methods, static methods, properties, and the `__init__` of a dataclass. The class is changed in place and returned.
    """

    def decorate(kind: _Class) -> _Class:
        private = {"__init__"} if is_dataclass(kind) else set()
        for name, method in [*vars(kind).items()]:
            function = method.__func__ if isinstance(method, classmethod) else method
            is_door = name in {"__getitem__", "__init__"} - private or not name.startswith("_")
            is_door = is_door and name not in hot and isinstance(function, types.FunctionType)
            if is_door and function.__annotations__.keys() - {"return"}:
                examining = _examining(function)
                setattr(kind, name, classmethod(examining) if isinstance(method, classmethod) else examining)
        return kind

    return decorate


@functools.cache
def _field_examiners(kind: Any) -> dict[str, _Take]:
    names = kind.__struct_fields__ if issubclass(kind, Struct) else [field.name for field in fields(kind)]
    return _examiners(kind.__module__, {name: kind.__annotations__[name] for name in names})


def check_fields(instance: Any) -> None:
    """Check the fields of a Struct or dataclass against their annotations; raise `UsageError` for the first that does
    not fit. Values are not converted. To be called from `__post_init__`.
    """
    kind: Any = type(instance)
    for name, take in _field_examiners(kind).items():
        take(getattr(instance, name))
