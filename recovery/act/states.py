"""What may be in a place before, during and after a run, and how far a run has come.

A run is a sequence of operations, each of which happens whole or not at all.  So for every place that it touches or
relies on, the state after each operation is known beforehand, and how far a run came that was cut short is found by
looking: it is the operation after which every place is as it is now.  Where there is none, somebody else has changed
something since, and nothing may be done on the strength of the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkalog.classes import dataclass
from kafkalog.recovery.act.journal import FileState

__all__ = ["ABSENT", "A_DIRECTORY", "Cut", "Place", "State", "Timeline", "Tree", "Uncut", "Unexpected", "Whole"]


class Place(NamedTuple):
    """A path below the log directory, or (`in_run`) below the run's own directory in the quarantine."""

    in_run: bool
    path: str

    @property
    def parent(self) -> Place:
        """The directory it is in."""
        return Place(self.in_run, self.path.rpartition("/")[0])


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing is there."""


@dataclass(frozen=True, slots=True)
class ADirectory:
    """A directory; what is in it are places of their own."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A file with this content."""

    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Uncut:
    """A file with all its bytes, of which those from `kept` on are to go."""

    kept: int
    kept_crc32c: int
    size: int
    tail_digest: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A file without its last bytes; `tail` is where they are kept, None if they are zeros."""

    kept: int
    kept_crc32c: int
    size: int
    tail: Place | None


@dataclass(frozen=True)
class Tree:
    """A directory with all that is in it, told by kinds, sizes and times."""

    entries: Mapping[str, tuple[str, FileState | None]]

    def __hash__(self) -> int:
        return hash(tuple(self.entries))


@dataclass(frozen=True, slots=True)
class Untouched:
    """An entry that the run does not touch, told by kind, size and time."""

    kind: str
    size: int
    mtime_ns: int


State = Absent | ADirectory | Whole | Uncut | Cut | Tree | Untouched
ABSENT = Absent()
A_DIRECTORY = ADirectory()


class Unexpected(Exception):
    """A place that is in no state that it could be in."""

    def __init__(self, place: Place, what: str) -> None:
        self.place = place
        self.what = what
        super().__init__(place, what)


def _note(below: dict[Place, set[Place]], place: Place) -> None:
    """Note a place in the directory it is in, and that in the one above."""
    parent = place
    while parent.path:
        child, parent = parent, parent.parent
        known = below.setdefault(parent, set())
        if child in known:
            break
        known.add(child)


class Timeline:
    """The states of every place, by the number of operations that are done."""

    def __init__(self) -> None:
        self.now: dict[Place, State] = {}
        self.operations = 0
        self._history: dict[Place, list[tuple[int, State]]] = {}
        self._below: dict[Place, set[Place]] | None = None
        """directory -> what is in it, once that was asked for"""

    def begin(self, place: Place, state: State) -> None:
        """What is in a place before the first operation that touches it."""
        self._set(place, state, [(0, state)])

    def put(self, place: Place, state: State) -> None:
        """What the operation that is being added leaves in a place."""
        history = self._history.get(place) or [(0, ABSENT)]
        self._set(place, state, [*history, (self.operations + 1, state)])

    def _set(self, place: Place, state: State, history: list[tuple[int, State]]) -> None:
        self.now[place] = state
        self._history[place] = history
        if self._below is not None:
            _note(self._below, place)

    def end_operation(self) -> None:
        """The operation that was described is complete."""
        self.operations += 1

    def knows(self, place: Place) -> bool:
        """Something was said of a place."""
        return place in self._history

    def state(self, place: Place) -> State:
        """What is in a place by now."""
        return self.now.get(place, ABSENT)

    def below(self, place: Place) -> Iterator[Place]:
        """Every place below a directory that anything was said of."""
        if self._below is None:
            self._below = {}
            for known in self._history:
                _note(self._below, known)
        for child in sorted(self._below.get(place, ())):
            if child in self._history:
                yield child
            yield from self.below(child)

    def places(self) -> list[Place]:
        """All places, those of the log directory first."""
        return sorted(self._history)

    def spans(self, place: Place) -> Iterator[tuple[int, int, State]]:
        """First and last number of operations after which a place is in a state."""
        history = self._history[place]
        for number, (first, state) in enumerate(history):
            last = history[number + 1][0] - 1 if number + 1 < len(history) else self.operations
            if first <= last:
                yield first, last, state

    def at(self, place: Place, position: int) -> State:
        """What is in a place after so many operations."""
        for first, last, state in self.spans(place):
            if first <= position <= last:
                return state
        return ABSENT
