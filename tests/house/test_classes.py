"""The dataclasses of the package are those of the standard library, whose methods are only made later."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import operator
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kafkalog import classes

SOURCE = '''
@dataclass(**options)
class Base:
    """It has one of every kind of field."""

    first: int
    hidden: object = field(default=(), repr=False)
    many: list[int] = field(default_factory=list, compare=not options.get("frozen"))
    unlike: int = field(default=3, compare=False)
    named: int = field(default=4, kw_only=True)
    later: int | None = field(default=None, init=False)
    set_later: list[int] = field(default_factory=list, init=False, compare=False)
    if "frozen" not in options:
        def __post_init__(self):
            self.later = self.first + 1

@dataclass(**options)
class Derived(Base):
    """It has fields of its own."""

    own: str = "own"

@dataclass(**options)
class Own:
    """It brings methods."""

    value: int

    def __repr__(self):
        return "its own"

    def __hash__(self):
        return 7

@dataclass(**options)
class Compared:
    """It says itself what is equal."""

    value: int

    def __eq__(self, other):
        return self.value % 2 == other.value % 2

@dataclass(**options)
class Empty:
    """It has no field."""
'''
OPTIONS = [
    {"slots": slots, "frozen": frozen, "kw_only": named, **more}
    for slots, frozen, named in itertools.product((False, True), repeat=3)
    for more in ({}, {"order": True}, {"eq": False})
]
THEIRS = "theirs of the standard library"
OURS = "ours of the package"


def made(module: str, decorator: Any, options: dict[str, bool]) -> dict[str, Any]:
    """The classes of `SOURCE`, in a module of that name, so that they can be pickled."""
    options = {name: value for name, value in options.items() if value or name == "eq"}
    home = type(sys)(module)
    home.__dict__.update(dataclass=decorator, field=dataclasses.field, options=options)
    sys.modules[module] = home
    exec("from __future__ import annotations\n" + SOURCE, home.__dict__)
    return {name: kind for name, kind in vars(home).items() if dataclasses.is_dataclass(kind)}


WORDS: dict[str, list[dict[str, Any]]] = {
    "Base": [{"first": 1}, {"first": 1}, {"first": 2, "hidden": [1]}, {"first": 1, "unlike": 9}, {}],
    "Derived": [{"first": 1}, {"first": 1, "own": "x"}, {"first": 1, "named": 9, "many": [2]}],
    "Own": [{"value": 1}, {"value": 1}, {"value": 1, "other": 2}],
    "Compared": [{"value": 1}, {"value": 3}, {"value": 4}],
    "Empty": [{}, {}],
}
TURNS: list[Callable[[Any], Any]] = [lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy]


def outcome(do: Callable[..., object], *arguments: object, **named: object) -> object:
    """What a call gives, or the kind of error, as something that two modules have in common."""
    try:
        got = do(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - whichever it is, both have to raise it
        return type(error)
    return got if isinstance(got, bool | int | tuple | str) or got is None else repr(got)


def derived(kind: Any, frozen: bool) -> str:
    """What a user derives with the library's own decorator."""
    decorator: Any = dataclasses.dataclass

    @decorator(frozen=frozen)
    class Own(kind):  # type: ignore[misc]
        one_more: int = 5

    made = Own(*WORDS[kind.__name__][0].values()) if WORDS[kind.__name__][0].keys() <= {"first", "value"} else Own()
    return f"{made}, {outcome(setattr, made, 'one_more', 6)}, {outcome(hash, made)}, {made == copy.copy(made)}"


def of_instance(one: Any, others: list[Any]) -> dict[str, object]:
    """What can be seen of an instance."""
    state = repr(dataclasses.asdict(one))
    told: dict[str, object] = {"state": state, "replaced": outcome(dataclasses.replace, one)}
    compared: Any = type(one).__eq__
    told["hash"] = None if compared is object.__eq__ else outcome(hash, one)
    for each in dataclasses.fields(one):
        told[f"assign {each.name}"] = outcome(setattr, copy.copy(one), each.name, 1)
        told[f"delete {each.name}"] = outcome(delattr, copy.copy(one), each.name)
    for turn in TURNS:
        assert repr(dataclasses.asdict(turn(one))) == state
    for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        told[compare.__name__] = tuple(outcome(compare, one, other) for other in others)
    return told


def behaviour(kinds: dict[str, Any]) -> dict[str, object]:
    """What can be seen of the classes and of their instances."""
    seen: dict[str, object] = {}
    for name, kind in kinds.items():
        names = tuple(each.name for each in dataclasses.fields(kind))
        seen[name] = names, kind.__match_args__, kind.__doc__
        seen[f"{name} parameters"] = repr(kind.__dataclass_params__)
        for frozen in (False, True):
            seen[f"{name} derived, {frozen=}"] = outcome(derived, kind, frozen)
        seen[f"{name} by position"] = outcome(kind, 5), outcome(kind, 5, first=6), outcome(kind, *range(20))
        made = [outcome(kind, **words) for words in WORDS[name]]
        seen[f"{name} made"] = made
        instances = [kind(**words) for words, one in zip(WORDS[name], made, strict=True) if not isinstance(one, type)]
        assert len(instances) > 1
        seen[f"{name} instances"] = [of_instance(one, instances) for one in instances]
        seen[f"{name} attributes"] = [outcome(lambda one: sorted(vars(one)), one) for one in instances]
        # at the end, for this makes the methods
        seen[f"{name} signature"] = str(inspect.signature(kind)), kind.__hash__ is not None
    return seen


@pytest.mark.parametrize("few", [0, 3, 10_000])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(name for name, on in options.items() if on))
def test_they_behave_alike(options: dict[str, bool], few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_FEW", few)
    theirs = behaviour(made(THEIRS, dataclasses.dataclass, options))
    ours = behaviour(made(OURS, classes.dataclass, options))
    assert ours == theirs


def test_methods_are_made_when_they_are_needed() -> None:
    kind = made(OURS, classes.dataclass, {"frozen": True, "slots": True})["Base"]
    assert not inspect.isfunction(vars(kind)["__init__"])
    for _ in range(100):
        kind(1)
        assert not inspect.isfunction(vars(kind)["__init__"])
    kind(1)
    assert inspect.isfunction(vars(kind)["__init__"])
    assert not inspect.isfunction(vars(kind)["__eq__"])


def test_what_is_frozen_takes_nothing_new() -> None:
    for slots in (False, True):
        one = made(OURS, classes.dataclass, {"frozen": True, "slots": slots})["Base"](1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.new = 1
