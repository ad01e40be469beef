"""Describe the states of files before, during and after an execution (one journaled change of a log directory), to find
out how far the execution came.

An execution is a sequence of operations, each of which happens whole or not at all. So for every place that it touches
or relies on, the state after each operation is known beforehand. An interrupted execution has come to the operation
after which every place has its present state. If there is no such operation, something else has changed a file since,
and the journal must not be acted on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from kafkalog.recovery.act.journal import FileState

__all__ = ["ABSENT", "A_DIRECTORY", "Cut", "Place", "State", "Timeline", "Tree", "Uncut", "Unexpected", "Whole"]


class Place(NamedTuple):
    """A path below the log directory, or (`in_run`) below the execution's own directory in the quarantine."""

    in_run: bool
    path: str

    @property
    def parent(self) -> Place:
        """Directory that contains the place."""
        return Place(self.in_run, self.path.rpartition("/")[0])


class Absent(Struct, frozen=True):
    """Nothing is there."""


class ADirectory(Struct, frozen=True):
    """A directory; its entries are places of their own."""


class Whole(Struct, frozen=True):
    """A file with this content."""

    size: int
    digest: str


class Uncut(Struct, frozen=True, kw_only=True):
    """A file with all its bytes, before those from `kept` on are removed."""

    kept: int
    kept_crc32c: int
    size: int
    tail_digest: str


class Cut(Struct, frozen=True, kw_only=True):
    """A file without its last bytes; `tail` is the place that keeps them, None if they are zeros."""

    kept: int
    kept_crc32c: int
    size: int
    tail: Place | None


class Tree(Struct, frozen=True):
    """A directory with everything in it, compared by kinds, sizes and times."""

    entries: Mapping[str, tuple[str, FileState | None]]

    def __hash__(self) -> int:
        return hash(tuple(self.entries))


class Untouched(Struct, frozen=True):
    """An entry that the execution does not touch, compared by kind, size and time."""

    kind: str
    size: int
    mtime_ns: int


State = Absent | ADirectory | Whole | Uncut | Cut | Tree | Untouched
ABSENT = Absent()
A_DIRECTORY = ADirectory()


class Unexpected(Exception):
    """Raised for a place whose state fits no step of the execution; `what` is a predicate such as "was changed", to
    follow the place's name in a message.
    """

    def __init__(self, place: Place, what: str) -> None:
        self.place = place
        self.what = what
        super().__init__(place, what)


def _note(below: dict[Place, set[Place]], place: Place) -> None:
    """Add `place` to the children of its parent directory in `below` (directory -> places directly in it). Then add
    each parent to the children of its own parent, up to the root. Stops at the first that is there already.
    """
    parent = place
    while parent.path:
        child, parent = parent, parent.parent
        known = below.setdefault(parent, set())
        if child in known:
            break
        known.add(child)


class Timeline:
    """State of every place (path in the log directory or the quarantine) by the number of completed operations."""

    def __init__(self) -> None:
        self.now: dict[Place, State] = {}
        self.operations = 0
        self._history: dict[Place, list[tuple[int, State]]] = {}
        self._below: dict[Place, set[Place]] | None = None
        """directory -> places in it; None until it is needed"""

    def begin(self, place: Place, state: State) -> None:
        """Set the state of a place before the first operation that touches it."""
        self._set(place, state, [(0, state)])

    def put(self, place: Place, state: State) -> None:
        """Set the state that the operation being added leaves in a place."""
        history = self._history.get(place) or [(0, ABSENT)]
        self._set(place, state, [*history, (self.operations + 1, state)])

    def _set(self, place: Place, state: State, history: list[tuple[int, State]]) -> None:
        self.now[place] = state
        self._history[place] = history
        if self._below is not None:
            _note(self._below, place)

    def end_operation(self) -> None:
        """Finish the description of an operation."""
        self.operations += 1

    def knows(self, place: Place) -> bool:
        """Whether the timeline has a place."""
        return place in self._history

    def state(self, place: Place) -> State:
        """State of a place after the operations described so far; absent if unknown."""
        return self.now.get(place, ABSENT)

    def below(self, place: Place) -> Iterator[Place]:
        """Yield every known place below a directory, at any depth, sorted by name within each directory. Each directory
        comes before its content. The directory itself, and directories without a known state, are not yielded. Yields
        nothing if no place is below it. The first call computes the tree of places and caches it.
        """
        if self._below is None:
            self._below = {}
            for known in self._history:
                _note(self._below, known)
        for child in sorted(self._below.get(place, ())):
            if child in self._history:
                yield child
            yield from self.below(child)

    def places(self) -> list[Place]:
        """All known places, those of the log directory first."""
        return sorted(self._history)

    def spans(self, place: Place) -> Iterator[tuple[int, int, State]]:
        """Yield (first, last, state) for each state of a place, in order: the place has this state if at least `first`
        and at most `last` operations are completed. Raises `KeyError` if the place is unknown.
        """
        history = self._history[place]
        for number, (first, state) in enumerate(history):
            last = history[number + 1][0] - 1 if number + 1 < len(history) else self.operations
            if first <= last:
                yield first, last, state

    def at(self, place: Place, position: int) -> State:
        """Return the state of a place after `position` operations; absent if unknown."""
        for first, last, state in self.spans(place) if self.knows(place) else ():
            if first <= position <= last:
                return state
        return ABSENT
