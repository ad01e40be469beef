"""Dataclasses whose methods are made when they are first used.

The standard library writes and compiles half a millisecond of methods for each class where it is declared, which was a
sixth of all that a short command takes; most classes of a command are never compared or printed, and many never made.
Of most others there are few instances: the first of these are filled and hashed field by field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields, make_dataclass
from dataclasses import dataclass as declared
from functools import cache, partial
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "expect_many"]

_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_FEW = 100
"""Calls that take about as long field by field as making the method and calling that."""
_few = _FEW


def expect_many() -> None:
    """Make each method when it is first called, from now on: there will be more than a few instances."""
    global _few
    _few = 0


class _Later:
    """Descriptor for a method of a dataclass. It replaces itself by the method that the standard library makes: at the
    first use, or for methods that can work field by field (such as `__init__`) after `_few` uses.
    """

    __slots__ = ("calls", "home", "name", "options", "until_then")

    def __init__(self, home: type, name: str, options: dict[str, bool]) -> None:
        self.home, self.name, self.options = home, name, options
        self.until_then = _FIELD_BY_FIELD.get(name)
        self.calls = 0

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        is_of_class = instance is None  # then `__hash__` is only looked at: whether a default can be hashed
        if self.until_then is not None and self.calls < _few and not (is_of_class and self.name == "__init__"):
            self.calls += 1
            return partial(self.until_then, self) if is_of_class else partial(self.until_then, self, instance)
        return self.made(instance)

    def made(self, instance: object) -> Any:
        """Make the method with the standard library, and store it in the class in place of this descriptor. Return it,
        bound to `instance` unless that is None.
        """
        home: Any = self.home
        same = {"__module__": home.__module__, "__qualname__": home.__qualname__, "__doc__": home.__doc__ or ""}
        same |= {"__post_init__": None} if hasattr(home, "__post_init__") else {}
        wanted: dict[str, Any] = {"init": False, "repr": False, "eq": False} | self.options
        rows = [(field.name, field.type, field) for field in fields(home)]
        method = getattr(make_dataclass(home.__name__, rows, namespace=same, **wanted), self.name)
        setattr(home, self.name, method)
        return method if instance is None else method.__get__(instance)


def _fill(later: _Later, instance: Any, /, *values: object, **named: object) -> None:
    """Set the fields of an instance as `__init__` does with valid arguments, defaults and `__post_init__` included.
    With invalid arguments call the real `__init__`, which raises `TypeError`.
    """
    home: Any = later.home
    wanted = [each for each in fields(home) if each.init]
    given = dict(zip([each.name for each in wanted if not each.kw_only], values, strict=False)) | named
    needed = {each.name for each in wanted if each.default is MISSING and each.default_factory is MISSING}
    fit = len(given) == len(values) + len(named) and needed <= given.keys() <= {each.name for each in wanted}
    if not fit:
        later.made(instance)(*values, **named)
        return
    store = partial(object.__setattr__ if later.options["frozen"] else setattr, instance)
    for field in fields(home):
        if field.name in given:
            store(field.name, given[field.name])
        elif field.default_factory is not MISSING:
            store(field.name, field.default_factory())
        elif field.init or (later.options["slots"] and field.default is not MISSING):
            store(field.name, field.default)
    if hasattr(home, "__post_init__"):
        instance.__post_init__()


def _hash_of(later: _Later, instance: Any) -> int:
    kinds = fields(later.home)
    of_hash = [kind.name for kind in kinds if (kind.compare if kind.hash is None else kind.hash)]
    return hash(tuple(getattr(instance, name) for name in of_hash))


_FIELD_BY_FIELD: dict[str, Callable[..., Any]] = {"__init__": _fill, "__hash__": _hash_of}


def _refuse_assignment(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


_names: Callable[[Any], tuple[str, ...]] = cache(_fields_of)


def _state(self: Any) -> list[object]:
    return [getattr(self, name) for name in _names(type(self))]


def _set_state(self: Any, state: list[object]) -> None:
    for name, value in zip(_names(type(self)), state, strict=True):
        object.__setattr__(self, name, value)


def _with_methods(kind: Any, slots: bool, kw_only: bool, frozen: bool, eq: bool, order: bool) -> Any:
    if any(hasattr(base, "__dataclass_fields__") for base in kind.__mro__[1:]):
        return declared(slots=slots, kw_only=kw_only, frozen=frozen, eq=eq, order=order)(kind)
    hashed = kind.__dict__.get("__hash__")  # Python puts None there beside an `__eq__`
    kind.__doc__ = kind.__doc__ or kind.__name__  # else the library writes down the signature, for a millisecond
    made: Any = declared(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(kind)
    later = {"__init__": {"init": True, "frozen": frozen, "slots": slots}, "__repr__": {"repr": True}}
    if eq:
        later["__eq__"] = {"eq": True}
        if frozen and hashed is None:
            later["__hash__"] = {"eq": True, "frozen": True}
    later |= {name: {"eq": True, "order": True} for name in _ORDER if order}
    for name, options in later.items():
        if name == "__hash__" or name not in kind.__dict__:
            setattr(made, name, _Later(made, name, options))
    if eq and not frozen and hashed is None:
        made.__hash__ = None
    told = made.__dataclass_params__  # by which the library knows what may be derived from what
    told.init, told.repr, told.eq, told.order, told.frozen = True, True, eq, order, frozen
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_assignment, _refuse_deletion
        if slots:
            made.__getstate__, made.__setstate__ = _state, _set_state
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(kind=None, /, *, slots=False, kw_only=False, frozen=False, eq=True, order=False):
        """`dataclasses.dataclass`, with the options that are used here."""
        if kind is None:
            return lambda kind: _with_methods(kind, slots, kw_only, frozen, eq, order)
        return _with_methods(kind, slots, kw_only, frozen, eq, order)
