"""What a caller hands over is what the annotations say, or `UsageError` says in one sentence what it is instead.

Arguments are examined where a caller comes in: functions when a package hands them out (`lazily`), methods in the
classes that are `checked`.  Inside, modules take functions from each other as they are.  The annotation is the only
declaration of what an argument may be.  Integers are those that 64 bits hold, a path is one that the system can be
asked for, and whatever memory is given for bytes is examined as bytes: a view of larger items would be counted in
those.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, ParamSpec, TypeVar

from kafkalog.codec.errors import UsageError

__all__ = ["at_door", "byte_view", "check_fields", "checked", "shown"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Class = TypeVar("_Class", bound=type)
_Test = Callable[[Any], bool]
_INT64 = 2**63
_SHOWN = 60


def byte_view(data: Any) -> memoryview:
    """Any contiguous memory as a view of bytes; `UsageError` for what is none."""
    try:
        return memoryview(data).cast("B")
    except (TypeError, BufferError, ValueError):
        raise UsageError(f"{shown(data)} is not contiguous bytes") from None


def shown(value: Any) -> str:
    """A value and its type, short enough for a sentence, whatever its class does."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever the caller's class does
        text = "a value"
    return f"{text if len(text) <= _SHOWN else text[:_SHOWN] + '...'} ({type(value).__name__})"


def _is_int(value: Any) -> bool:
    if type(value) is not int:
        try:
            value = type(value).__index__(value)
        except Exception:  # noqa: BLE001 - no number, or a class of the caller's
            return False
    return bool(-_INT64 <= value < _INT64)


def _is_float(value: Any) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _is_flag(value: Any) -> bool:
    try:
        return value is not None and hasattr(type(value), "__bool__") and bool(value) in (True, False)
    except Exception:  # noqa: BLE001 - an array of several values, or a class of the caller's
        return False


def _is_path(value: Any) -> bool:
    try:
        text = value if isinstance(value, str) else type(value).__fspath__(value)
        return isinstance(text, str) and "\0" not in text and bool(text.encode(sys.getfilesystemencoding(), _ESCAPED))
    except Exception:  # noqa: BLE001 - no path, one that has no bytes, or a class of the caller's
        return False


_ESCAPED = sys.getfilesystemencodeerrors()
_PLAIN: dict[Any, _Test | None] = {
    Any: None, object: None, int: _is_int, float: _is_float, bool: _is_flag, type(None): lambda value: value is None,
    None: lambda value: value is None,
}  # fmt: skip
_MOST_LOOKED_AT = 10_000
"""Elements of a container that are examined before whoever uses them does."""


def _is_buffer(value: Any) -> bool:
    return isinstance(value, bytes | bytearray | memoryview) or (
        not isinstance(value, str) and _has_buffer(value) and not isinstance(value, collections.abc.Iterator)
    )


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except (TypeError, BufferError, ValueError):
        return False
    return True


def _of(hint: Any) -> _Test | None:
    """What tells whether a value is of a type; None where everything is."""
    if isinstance(hint, str | TypeVar | ParamSpec):
        return _named(hint) if isinstance(hint, str) else None
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is typing.Literal:
        return lambda value: any(value is each or value == each for each in arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is not None:
        return _generic(origin, arguments)
    if getattr(hint, "_is_protocol", False):
        names = [name for name in vars(hint) if not name.startswith("_") and name != "size"]
        return lambda value: all(callable(getattr(type(value), name, None)) for name in names)
    if hint is bytes or hint is memoryview:
        return _is_buffer
    return lambda value: isinstance(value, hint)


def _named(name: str) -> _Test:
    """A type that is imported only where it is used: by its name."""
    last = name.rpartition(".")[2]
    return lambda value: any(each.__name__ == last for each in type(value).__mro__)


def _union(arguments: Sequence[Any]) -> _Test | None:
    if any(_is_path_type(each) for each in arguments):
        others = [_of(each) for each in arguments if each is not str and not _is_path_type(each)]
        return lambda value: _is_path(value) or any(test is None or test(value) for test in others)
    tests = [_of(each) for each in arguments]
    if None in tests:
        return None
    return lambda value: any(test(value) for test in tests if test is not None)


def _is_path_type(hint: Any) -> bool:
    return getattr(typing.get_origin(hint) or hint, "__name__", "") == "PathLike"


def _tuple(arguments: Sequence[Any]) -> _Test:
    if arguments[-1:] == (...,):
        return _generic(tuple, arguments[:1])
    tests = [_of(each) for each in arguments]
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(tests)
        and all(test is None or test(each) for test, each in zip(tests, value, strict=True))
    )


def _generic(origin: Any, arguments: Sequence[Any]) -> _Test:
    """A container; its elements too where they can be examined without being used up."""
    tests = [_of(each) for each in arguments] if issubclass(origin, collections.abc.Iterable) else []

    def test(value: Any) -> bool:
        if not isinstance(value, origin) or (isinstance(value, str) and origin is not type):
            return False  # the letters of a name are not a list of names
        if origin is collections.abc.Iterable and len(arguments) == 1 and not isinstance(arguments[0], type):
            return True  # records of several kinds: whoever makes one of each examines them
        if len(tests) == 1 and tests[0] is not None and isinstance(value, Sequence | set | frozenset):
            first = tests[0]
            return all(first(each) for each, _ in zip(value, range(_MOST_LOOKED_AT), strict=False))
        if len(tests) == 2 and isinstance(value, dict):
            of_key, of_value = tests
            return all(
                (of_key is None or of_key(key)) and (of_value is None or of_value(each)) for key, each in value.items()
            )
        return True

    return test


def _resolved(function: Any, name: str, text: Any) -> Any:
    """The type that an annotation names, or the annotation where its names are not there when the program runs."""
    if not isinstance(text, str):
        return text
    try:
        holder = types.SimpleNamespace(__annotations__={name: text}, __wrapped__=None)
        return typing.get_type_hints(holder, vars(sys.modules[function.__module__]))[name]
    except NameError:
        return text if text.replace(".", "").isidentifier() else Any


_PATH = "a possible path"


def _is_simple(hint: Any) -> bool:
    """Whether every value whose class is just this one is taken as it is."""
    return hint in (bool, bytes, types.NoneType) or (isinstance(hint, type) and is_dataclass(hint))


class _Parameter:
    """How one argument is examined."""

    __slots__ = ("_as_bytes", "_as_they_are", "_as_view", "_element", "_name", "_test", "_type")

    def __init__(self, function: Any, name: str, annotation: Any) -> None:
        hint = _resolved(function, name, annotation)
        members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        self._name = name
        text = annotation if isinstance(annotation, str) else getattr(hint, "__name__", str(hint))
        self._type = _PATH if text == "PathLike" else text
        self._test = _of(hint)
        elements = typing.get_args(hint) if typing.get_origin(hint) is collections.abc.Iterable else ()
        single = len(elements) == 1 and isinstance(elements[0], type)
        self._element = _Parameter(function, f"each of {name}", elements[0]) if single else None
        self._as_view = memoryview in members
        self._as_bytes = bytes in members and not self._as_view
        self._as_they_are = {each for each in members if _is_simple(each)} | ({bytes} if self._as_view else set())

    def taken(self, value: Any) -> Any:
        """The argument as the function gets it; `UsageError` if it is another thing."""
        if type(value) in self._as_they_are:
            return value
        if self._test is not None and not self._test(value):
            if isinstance(value, str) and not value and self._type == _PATH:
                raise UsageError(f"{self._name}: a path cannot be empty")
            raise UsageError(f"{self._name} is {shown(value)}, not {self._type}")
        if self._element is not None and not isinstance(value, list | tuple | set | frozenset):
            return map(self._element.taken, value)
        kind = type(value)
        if kind is bytes or not (self._as_view or self._as_bytes) or kind is str:
            return value
        if not isinstance(value, bytearray | memoryview) and not _is_buffer(value):
            return value
        return byte_view(value) if self._as_view else bytes(byte_view(value))


class _Parameters:
    """The parameters of one function, found when it is called first."""

    def __init__(self, function: Any) -> None:
        self.ordered: list[_Parameter | None] = []
        self.named: dict[str, _Parameter] = {}
        self.rest: _Parameter | None = None
        for each in inspect.signature(function).parameters.values():
            known = None if each.annotation is each.empty else _Parameter(function, each.name, each.annotation)
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
                self.ordered.append(known)
            elif each.kind is each.VAR_POSITIONAL:
                self.rest = known
            if known is not None and each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD):
                self.named[each.name] = known

    def taken(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call; one too many, or an unknown one, is Python's `TypeError` when the call is made."""
        given = []
        for number, value in enumerate(arguments):
            known = self.ordered[number] if number < len(self.ordered) else self.rest
            given.append(value if known is None else known.taken(value))
        return given, {
            name: value if (known := self.named.get(name)) is None else known.taken(value)
            for name, value in named.items()
        }


def _examining(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, which raises `UsageError` for arguments that are not what its annotations say."""
    parameters = functools.cache(lambda: _Parameters(function))

    @functools.wraps(function)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        given, by_name = parameters().taken(arguments, named)
        return function(*given, **by_name)

    return call


_AT_DOORS: dict[Callable[..., Any], Callable[..., Any]] = {}


def at_door(function: Callable[..., Any], package: str) -> Callable[..., Any]:
    """A public function as packages hand it out: its arguments are examined, and it is pickled by its name in one."""
    handed_out = _AT_DOORS.get(function)
    if handed_out is None:
        handed_out = _AT_DOORS[function] = _examining(function)
        handed_out.__module__ = package
    return handed_out


def checked(kind: _Class) -> _Class:
    """The class, whose public methods examine their arguments; its `__init__` too, if no dataclass writes that."""
    beginnings = ("__getitem__",) if is_dataclass(kind) else ("__getitem__", "__init__")
    for name, method in [*vars(kind).items()]:
        function = method.__func__ if isinstance(method, classmethod) else method
        is_public = name in beginnings or not name.startswith("_")
        if is_public and isinstance(function, types.FunctionType) and len(inspect.signature(function).parameters) > 1:
            examining = _examining(function)
            setattr(kind, name, classmethod(examining) if isinstance(method, classmethod) else examining)
    return kind


_FIELDS: dict[type, dict[str, _Parameter]] = {}


def check_fields(instance: Any) -> None:
    """Examine the fields of a dataclass in the same way, from its `__post_init__`."""
    kind = type(instance)
    fields = _FIELDS.get(kind)
    if fields is None:
        annotations = {
            name: text
            for each in reversed(kind.__mro__)
            for name, text in vars(each).get("__annotations__", {}).items()
        }
        fields = _FIELDS[kind] = {name: _Parameter(kind, name, text) for name, text in annotations.items()}
    for name, parameter in fields.items():
        parameter.taken(getattr(instance, name))
