"""Translate the journal of an execution (one undoable change of a log directory) into a script: the operations for each
of its steps, in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, field

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.names import READ_BY_A_BROKER
from kafkalog.recovery.act.digest import digest_of_zeros
from kafkalog.recovery.act.journal import EntryKind, FileState, Journal, Step
from kafkalog.recovery.act.operations import (
    FILES,
    STAGED,
    CutOff,
    Drop,
    DropDirectory,
    Install,
    Link,
    MakeDirectory,
    Move,
    MoveDirectory,
    Operation,
    Replace,
    need,
    tail_of,
)
from kafkalog.recovery.act.states import A_DIRECTORY, ABSENT, Place, Timeline, Tree, Uncut, Untouched, Whole
from kafkalog.recovery.decide.actions import ActionKind

__all__ = ["Script", "describe"]


class Script(Struct, frozen=True, kw_only=True):
    """Operations of a journal, and the timeline of states that they make; `ends` has the number of operations up to the
    end of each step.

    A broker recovers each partition by itself. So operations on files of one partition directory are done in order, but
    independently of other directories.
    """

    operations: list[Operation]
    timeline: Timeline
    ends: list[int]
    stretches: list[tuple[int, int]]
    """(first, end exclusive) numbers of operations that are ordered only within each directory; an operation that is
    ordered with all others is a stretch of its own
    """
    partitions: list[str | None]
    """partition directory in which each operation changes files; None if it is ordered with all others"""
    _of_saved: dict[Place, str] = field(default_factory=dict)

    def group(self, place: Place) -> str:
        """Top-level entry of the log directory that a place is in; for a place in the execution's directory the one
        that it belongs to, or ''.
        """
        return self._of_saved.get(place, "") if place.in_run else place.path.partition("/")[0]

    def waves(self, done: Collection[int], *, back: bool = False) -> Iterator[list[int]]:
        """Yield the operations that are not in `done`, in order, in lists of numbers. With `back`, yield the operations
        in `done`, in reverse order. The operations of a list may be carried out and flushed together, because each is
        in another partition directory. An operation that is ordered with all others is alone in its list. Yields
        nothing if no operation is left.
        """
        for first, end in reversed(self.stretches) if back else self.stretches:
            chains: dict[str | None, list[int]] = {}
            for number in range(first, end):
                if (number in done) is back:
                    chains.setdefault(self.partitions[number], []).append(number)
            left = [chain if back else chain[::-1] for chain in chains.values()]
            while left:
                yield [chain.pop() for chain in left]
                left = [chain for chain in left if chain]


def _in_stretches(partitions: list[str | None]) -> list[tuple[int, int]]:
    stretches: list[tuple[int, int]] = []
    for number, partition in enumerate(partitions):
        if stretches and partition is not None and partitions[number - 1] is not None:
            stretches[-1] = (stretches[-1][0], number + 1)
        else:
            stretches.append((number, number + 1))
    return stretches


class _Writer:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.timeline = Timeline()
        self.operations: list[Operation] = []

    def add(self, operation: Operation) -> None:
        operation.describe(self.timeline)
        self.timeline.end_operation()
        self.operations.append(operation)

    def begin(self, place: Place, state: Whole | Uncut | Tree) -> None:
        """Record the state that a step expects. Raises `ValueError` if earlier steps leave another one."""
        if self.timeline.knows(place):
            need(self.timeline.state(place) == state)
        else:
            self.timeline.begin(place, state)

    def new(self, place: Place, state: Whole) -> None:
        need(not self.timeline.knows(place))
        self.timeline.begin(place, state)

    def surroundings(self) -> None:
        touched = {step.path for step in self.journal.steps if step.kind is ActionKind.REMOVE_DIRECTORY}
        for path in self.journal.directories:
            if path and path not in touched:
                self.timeline.begin(Place(False, path), A_DIRECTORY)
        for path, bystander in self.journal.bystanders.items():
            self.timeline.begin(Place(False, path), Untouched(bystander.kind, bystander.size, bystander.mtime_ns))

    def step(self, number: int, step: Step) -> None:
        same = self.journal.same_mount
        path, saved = Place(False, step.path), Place(True, f"{FILES}/{step.path}")
        whole = None if step.before is None else Whole(step.before.size, step.before.digest)
        match step:
            case Step(kind=ActionKind.REMOVE, before=FileState() as before):
                self.begin(path, Whole(before.size, before.digest))
                if not same:
                    self.new(saved, Whole(before.size, before.digest))
                self.add(Move(path, saved) if same else Drop(path, saved, before))
            case Step(
                kind=ActionKind.TRUNCATE, before=FileState() as before, kept_bytes=int(kept), kept_crc32c=int(crc)
            ):
                tail = None
                self.begin(path, Uncut(kept=kept, kept_crc32c=crc, size=before.size, tail_digest=before.digest))
                if before.digest != digest_of_zeros(before.size - kept):
                    tail = Place(True, tail_of(step.path, kept))
                    self.new(tail, Whole(before.size - kept, before.digest))
                self.add(CutOff(path=path, tail=tail, kept=kept, before=before))
            case Step(kind=ActionKind.RENAME, target=str(target)):
                if whole is not None:
                    self.begin(path, whole)
                self.add(Move(path, Place(False, target)))
            case Step(kind=ActionKind.RENAME_DIRECTORY, target=str(target)):
                self.add(MoveDirectory(path, Place(False, target)))
            case Step(kind=ActionKind.MAKE_DIRECTORY):
                need(not self.timeline.knows(path))
                self.add(MakeDirectory(path))
            case Step(kind=ActionKind.WRITE, after=FileState() as after):
                staged = Place(True, f"{STAGED}/{number}")
                self.new(staged, Whole(after.size, after.digest))
                saved_to = saved if whole is not None else None
                self.write(path, staged, saved_to, whole, step.before, after.attributes.mtime_ns)
            case Step(kind=ActionKind.REMOVE_DIRECTORY, before=FileState() as before, entries=Mapping() as entries):
                self.remove_directory(path, saved, before, entries)
            case _:
                raise ValueError

    def write(
        self,
        path: Place,
        staged: Place,
        saved: Place | None,
        whole: Whole | None,
        before: FileState | None,
        mtime_ns: int,
    ) -> None:
        if whole is not None:
            self.begin(path, whole)
        if self.journal.same_mount:
            if saved is not None:
                self.add(Link(path, saved))
            self.add(Replace(staged, path, saved))
            return
        if saved is not None and whole is not None:
            self.new(saved, whole)
        self.add(Install(staged=staged, path=path, saved=saved, before=before, mtime_ns=mtime_ns))

    def remove_directory(
        self, path: Place, saved: Place, before: FileState, entries: Mapping[str, tuple[str, FileState | None]]
    ) -> None:
        if self.journal.same_mount:
            self.begin(path, Tree(entries))
            self.add(MoveDirectory(path, saved))
            return
        self.timeline.begin(path, A_DIRECTORY)
        for name, (kind, state) in entries.items():
            inside = Place(False, f"{path.path}/{name}")
            need(state is not None and kind != EntryKind.OTHER)
            if state is not None and kind == EntryKind.FILE:
                self.begin(inside, Whole(state.size, state.digest))
                self.new(Place(True, f"{saved.path}/{name}"), Whole(state.size, state.digest))
            else:
                self.timeline.begin(inside, A_DIRECTORY)
        for name, (kind, state) in sorted(entries.items(), reverse=True):
            inside, copy = Place(False, f"{path.path}/{name}"), Place(True, f"{saved.path}/{name}")
            if state is not None:
                self.add(Drop(inside, copy, state) if kind == EntryKind.FILE else DropDirectory(inside, state))
        self.add(DropDirectory(path, before))


def describe(journal: Journal, source: str) -> Script:
    """Return the script of a journal: its operations in order, and the state of each place before and after each.
    `source` is the journal's path, for the error message. Reads no files. Raises `FormatError` if the steps contradict
    each other.
    """
    writer = _Writer(journal)
    ends = []
    writer.surroundings()
    for number, step in enumerate(journal.steps):
        try:
            writer.step(number, step)
        except ValueError:
            raise FormatError(
                f"this is not a recovery journal that kafkalog wrote: step {number + 1} ({step.kind} {step.path}) does "
                "not follow from the steps before it",
                source=source,
            ) from None
        ends.append(len(writer.operations))
    for name in READ_BY_A_BROKER:
        if not writer.timeline.knows(Place(False, name)):
            writer.timeline.begin(Place(False, name), ABSENT)
    partitions = [operation.partition() if journal.same_mount else None for operation in writer.operations]
    of_saved = {
        place: partition
        for operation, partition in zip(writer.operations, partitions, strict=True)
        if partition is not None
        for place in operation.places()
        if place.in_run
    }
    return Script(
        operations=writer.operations,
        timeline=writer.timeline,
        ends=ends,
        stretches=_in_stretches(partitions),
        partitions=partitions,
        _of_saved=of_saved,
    )
