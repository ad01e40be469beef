"""Carry out and undo the journal of an execution (one journaled, undoable change of a log directory), and find out how
far an interrupted one came.

Everything is compared before anything is changed. A journal that does not fit the present files is not acted on in
either direction, and the refusal leaves every byte and every time as it was.
"""

from __future__ import annotations

import bisect
import errno
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct, field, structs

from kafkalog.codec.common.errors import RecoveryRefused, StorageError
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE
from kafkalog.recovery.act.journal import CLOSING, JOURNAL, MANIFEST, PREPARING, UNDOING, UNDONE, EntryKind, Journal
from kafkalog.recovery.act.operations import FILES, STAGED, Disks
from kafkalog.recovery.act.preparing import finish_document, write_document
from kafkalog.recovery.act.script import Script, describe
from kafkalog.recovery.act.states import (
    A_DIRECTORY,
    ABSENT,
    Cut,
    Place,
    State,
    Tree,
    Uncut,
    Unexpected,
    Untouched,
    Whole,
)
from kafkalog.recovery.decide.actions import ActionKind

__all__ = ["Located", "locate", "refuse_newcomers", "roll_back", "roll_forward"]

_SECTOR = 512


class Located(Struct, frozen=True, kw_only=True):
    """An execution that fits the present files: its operations, and which of them are done.

    Operations are numbered from 0. Those before `position` are done. `further` maps a partition directory to a higher
    position: that directory's operations before it are done too.
    """

    journal: Journal
    script: Script
    position: int
    further: Mapping[str, int] = field(default_factory=dict)

    def state(self, place: Place) -> State:
        """State that `place` should have at present: after `position` operations, or after those that `further` has for
        its partition directory. `ABSENT` if the journal does not know the place.
        """
        return self.script.timeline.at(place, self.further.get(self.script.group(place), self.position))

    @property
    def done(self) -> set[int]:
        """Numbers of the operations that are done: all before `position`, and in each directory of `further` all before
        its own position.
        """
        last = max(self.further.values(), default=self.position)
        partitions = self.script.partitions
        further = {number for number in range(self.position, last)
                   if number < self.further.get(partitions[number] or "", self.position)}  # fmt: skip
        return set(range(self.position)) | further


class _Looker:
    """Compares places with the states that they should have; each digest is computed once."""

    def __init__(self, disks: Disks, *, to_undo: bool, undoing: bool) -> None:
        self._disks = disks
        self._to_undo = to_undo
        self._undoing = undoing
        self._digests: dict[tuple[Place, int, int], str] = {}

    def _digest(self, place: Place, start: int, end: int) -> str:
        key = (place, start, end)
        if key not in self._digests:
            fs, path = self._disks.at(place)
            self._digests[key] = fs.digest(path, start, end)
        return self._digests[key]

    def fits(self, place: Place, state: State) -> bool:
        if self._to_undo and place.in_run and place.path.startswith(STAGED + "/"):
            return True  # not needed any more
        fs, path = self._disks.at(place)
        status = fs.status(path)
        if status is None or state == ABSENT:
            return status is None and state == ABSENT
        size = status.st_size
        if stat.S_ISDIR(status.st_mode):
            if isinstance(state, Tree):
                return self._is_tree(place, state)
            return state == A_DIRECTORY or (isinstance(state, Untouched) and state.kind == EntryKind.DIRECTORY)
        if not stat.S_ISREG(status.st_mode):
            return isinstance(state, Untouched) and state.kind == EntryKind.OTHER
        if isinstance(state, Cut) and self._to_undo and status.st_nlink > 1:
            return False  # what is put back would appear under the other name too
        match state:
            case Whole():
                return size == state.size and self._digest(place, 0, size) == state.digest
            case Untouched(kind=EntryKind.FILE):
                return (size, status.st_mtime_ns) == (state.size, state.mtime_ns)
            case Uncut():
                return (
                    size == state.size
                    and self._digest(place, state.kept, size) == state.tail_digest
                    and fs.crc32c(path, state.kept) == state.kept_crc32c
                )
            case Cut():
                is_cut = size == state.kept or (self._undoing and self._is_partly_back(place, size, state))
                return is_cut and fs.crc32c(path, state.kept) == state.kept_crc32c
            case _:
                return False

    def _is_tree(self, place: Place, state: Tree) -> bool:
        fs, path = self._disks.at(place)
        entries = {}
        for inside, status in fs.walk(path):
            name = inside[len(path) + 1 :]
            if stat.S_ISREG(status.st_mode):
                entries[name] = (EntryKind.FILE, status.st_size, status.st_mtime_ns)
            else:
                entries[name] = (EntryKind.DIRECTORY if stat.S_ISDIR(status.st_mode) else EntryKind.OTHER, 0, 0)
        wanted = {
            name: (kind, file.size, file.attributes.mtime_ns) if file and kind == EntryKind.FILE else (kind, 0, 0)
            for name, (kind, file) in state.entries.items()
        }
        return entries == wanted

    def _is_partly_back(self, place: Place, size: int, state: Cut) -> bool:
        """Whether the present file can be the result of an interrupted undo that was writing the removed tail back.
        `size` is the file's present size; False unless it is above `state.kept` and at most `state.size` bytes. From
        byte `state.kept` on, each byte must be equal to the one in the saved tail, or 0 (not yet written).

        Without a saved tail, the removed bytes were zeros. Holes of the file are not compared. Reads both files; raises
        `StorageError` if one cannot be read.
        """
        if not state.kept < size <= state.size:
            return False
        for position, data in self._disks.pieces(place, state.kept, size):
            saved = bytearray(len(data))
            if state.tail is not None:
                for offset, piece in self._disks.pieces(state.tail, position, position + len(data)):
                    saved[offset : offset + len(piece)] = piece
            for start in range(0, len(data), _SECTOR):
                ours, theirs = data[start : start + _SECTOR], saved[start : start + _SECTOR]
                if ours != theirs and any(a not in (b, 0) for a, b in zip(ours, theirs, strict=True)):
                    return False
        return True


_Spans = list[tuple[int, int]]


def _overlap(spans: _Spans, others: _Spans) -> _Spans:
    both = [(max(low, first), min(high, last)) for low, high in spans for first, last in others]
    return [(low, high) for low, high in both if low <= high]


def locate(disks: Disks, journal: Journal, name: str, *, to_undo: bool = False) -> Located:
    """Compare the present files with the states that a journal predicts, and return how far the execution came. Only
    reads. `name` is the file name of the journal's document. For `manifest.json` all operations must be done; with any
    other name, any number of operations can be done.

    If several positions fit, because an operation changes nothing visible, the lowest is returned; with `to_undo` the
    highest. So an operation may be repeated, but none is left out.

    Raises `Unexpected` if no position fits all files; it names the first place that contradicts the places before it.
    Raises `Unexpected` too for an unknown entry in a touched directory. Raises `FormatError` if the journal's steps
    contradict each other. Raises `RecoveryRefused` if a removed directory is nested too deeply (`FileSystem.walk`).
    Raises `StorageError` if a file cannot be read.
    """
    script = describe(journal, f"{disks.quarantine.root}/{disks.run_id}/{name}")
    timeline = script.timeline
    looker = _Looker(disks, to_undo=to_undo, undoing=name == UNDOING)
    end = len(script.operations)
    marks = _Marks(script)
    whole = [(end, end)] if name == MANIFEST else [(0, end)]
    common = marks.of(whole)
    possible: dict[str, _Spans] = {}
    for place in timeline.places():
        group = script.group(place)
        before = possible.get(group, whole)
        spans = [(low, high) for low, high, state in timeline.spans(place) if _is_open(low, high, before)
                 and _is_open(*marks.of([(low, high)])[0], common) and looker.fits(place, state)]  # fmt: skip
        possible[group] = _overlap(before, spans)
        common = _overlap(common, marks.of(possible[group]))
        if not common:
            status = disks.at(place)[0].status(disks.at(place)[1])
            raise Unexpected(place, "is not there" if status is None else "was changed")
    first, last = marks.positions(common[-1][1] if to_undo else common[0][0])
    further = {}
    for group, spans_of_group in possible.items():
        here = _overlap(spans_of_group, [(first, last)])
        reached = here[-1][1] if to_undo else here[0][0]
        if reached > first:
            further[group] = reached
    located = Located(journal=journal, script=script, position=first, further=further)
    refuse_newcomers(disks, located)
    return located


class _Marks:
    """Numbers ("marks") for stages of an execution. A mark is one position between operations, or all positions of
    neighbouring operations in partition directories: each directory advances there by itself, so they cannot be told
    apart.
    """

    def __init__(self, script: Script) -> None:
        self._ranges = [(0, 0)]
        for first, end in script.stretches:
            if script.partitions[first] is None:
                self._ranges.append((end, end))
            else:
                self._ranges[-1] = (self._ranges[-1][0], end)
        self._firsts = [first for first, _last in self._ranges]

    def of(self, spans: _Spans) -> _Spans:
        """Convert spans of positions to spans of marks. A span is (first, last), both included; spans are in ascending
        order. Two spans that share a mark are joined.
        """
        marks: _Spans = []
        for low, high in spans:
            first, last = (bisect.bisect_right(self._firsts, position) - 1 for position in (low, high))
            if marks and first <= marks[-1][1]:
                marks[-1] = (marks[-1][0], last)
            else:
                marks.append((first, last))
        return marks

    def positions(self, mark: int) -> tuple[int, int]:
        """First and last position of a mark."""
        return self._ranges[mark]


def _is_open(low: int, high: int, possible: _Spans) -> bool:
    return any(low <= last and first <= high for first, last in possible)


def refuse_newcomers(disks: Disks, located: Located) -> None:
    """Raise `Unexpected` for an entry in a directory that the execution touches, other than the log directory itself,
    if the journal does not know it. Raise it also for an entry that should be absent at this point of the journal.
    Temporary files of this execution are allowed. Only directories that exist at this point are listed. Raises
    `StorageError` if a directory cannot be listed.
    """
    timeline = located.script.timeline
    for place in timeline.places():
        if place.in_run or located.state(place) != A_DIRECTORY:
            continue
        for name in disks.root.names(place.path):
            inside = Place(False, f"{place.path}/{name}")
            known = timeline.knows(inside) and located.state(inside) != ABSENT
            if not known and not name.endswith(disks.temporary("")):
                raise Unexpected(inside, "was not there")


def roll_forward(
    disks: Disks,
    located: Located,
    withhold_marker: Callable[[], str | None],
    forget: Callable[[], None],
    on_step: Callable[[], None] = lambda: None,
) -> tuple[Journal, str | None]:
    """Carry out all operations that are not done, check the sizes of all files, turn the journal into the manifest, and
    remove the staged files. Return the journal, and the reason why the clean-shutdown marker was withheld, or None.

    `withhold_marker` is called before a clean-shutdown marker is written, and returns a reason against it or None. With
    a reason, the execution ends without the marker: the journal is rewritten and returned without this step, and sizes
    are not checked. `on_step` is called after each operation.

    If an operation finds that a file was changed since the plan, the done operations are undone. Then `forget` is
    called to remove the execution from the pointer file, the execution's directory is removed, and `RecoveryRefused` is
    raised. Raises `StorageError` if the disk fails, if a size is wrong at the end, or if undoing would overwrite
    another process's change. The execution then stays unfinished.
    """
    journal, script = located.journal, located.script
    marker = _marker_begins(script, journal)
    withheld = None
    done = located.done
    _flush_done(disks, located)
    for wave in script.waves(frozenset(done)):
        if wave[0] == marker:
            withheld = withhold_marker()
            if withheld is not None:
                journal = structs.replace(journal, steps=journal.steps[:-1])
                write_document(disks, journal, JOURNAL)
                script = describe(journal, disks.run_id)
                break
        try:
            with _together(disks, script, wave):
                for number in wave:
                    script.operations[number].do(disks)
                    done.add(number)
                    on_step()
        except RecoveryRefused as refused:
            _take_back_unless_changed(disks, _having_done(journal, script, done), forget, refused)
            raise
    _remove_temporaries(disks, script)
    if withheld is None:  # else somebody else was here meanwhile
        _verify(disks, script)
    finish_document(disks, JOURNAL, MANIFEST)
    disks.quarantine.remove_tree(f"{disks.run_id}/{STAGED}")
    return journal, withheld


def _having_done(journal: Journal, script: Script, done: set[int]) -> Located:
    """Return the state of an execution in which the operations numbered `done` are done. A stretch is a series of
    operations that are ordered only within each partition directory. The position in the result is the start of the
    first stretch with an operation that is not done. `further` has each partition directory with done operations in
    this stretch, and the number after the last of them. If all operations are done, the position is the end of the
    script and `further` is empty.
    """
    for first, end in script.stretches:
        here = [number for number in range(first, end) if number in done]
        if len(here) < end - first:
            return Located(
                journal=journal,
                script=script,
                position=first,
                further={script.partitions[number] or "": number + 1 for number in here},
            )
    return Located(journal=journal, script=script, position=len(script.operations))


@contextmanager
def _together(disks: Disks, script: Script, wave: Sequence[int]) -> Iterator[None]:
    """Context manager that flushes the changes of a wave once, at its end. `wave` has the numbers of operations that
    may be flushed together. Before the context begins, missing parent directories in the quarantine are created and
    flushed. For a wave of one operation it does nothing, because the operation flushes its changes itself.
    `RecoveryRefused` within the context passes through after the flush; after any other exception nothing is flushed.
    Raises `StorageError` if a parent directory cannot be created or flushing fails.
    """
    if len(wave) == 1:
        yield
        return
    with disks.flushed_together():
        for number in wave:
            for place in script.operations[number].places():
                if place.in_run:
                    disks.make_parents(place)
    with disks.flushed_together():
        yield


def _flush_done(disks: Disks, located: Located) -> None:
    """Flush (fsync) the files and directories changed by the done operations of the last stretch that was begun. An
    interrupted process may not have flushed them. A stretch is a series of operations that are ordered only within each
    partition directory. Does nothing if no operation is done. Raises `StorageError` if flushing fails.
    """
    done = located.done
    if not done:
        return
    first = next(first for first, _end in reversed(located.script.stretches) if first <= max(done))
    with disks.flushed_together():
        disks.quarantine.unsure(disks.run_id)
        for number in sorted(number for number in done if number >= first):
            for place in located.script.operations[number].places():
                for place_or_parent in (place, place.parent):
                    fs, path = disks.at(place_or_parent)
                    fs.unsure(path.rstrip("/"))


def _take_back_unless_changed(
    disks: Disks, located: Located, forget: Callable[[], None], refused: RecoveryRefused
) -> None:
    """Undo an execution that cannot continue, call `forget` to remove it from the pointer file, and remove its
    directory in the quarantine. `refused` is the reason; it is not raised here, but only named in the error below.

    Raises `StorageError` (EBUSY), with nothing undone, if another process has changed a file after the execution
    changed it: this content must not be overwritten. While undoing, raises the errors of `roll_back`.
    """
    looker = _Looker(disks, to_undo=True, undoing=False)
    touched = {place for number in located.done for place in located.script.operations[number].places()}
    for place in sorted(touched):
        if not looker.fits(place, located.state(place)):
            what = (
                f"{refused}; and so was a file that this run had changed already, so what was done stays: all that was "
                f"removed is in {disks.quarantine.root}/{disks.run_id}"
            )
            raise StorageError(errno.EBUSY, what, disks.full(place)) from refused
    finish_document(disks, JOURNAL, UNDOING)
    _take_back(disks, located, UNDOING, forget)
    disks.quarantine.remove_tree(disks.run_id)


def _marker_begins(script: Script, journal: Journal) -> int | None:
    """Return the number of the first operation of the last step if this step writes the clean-shutdown marker
    (`.kafka_cleanshutdown`); None if it does not, or there are no steps.
    """
    if not journal.steps or journal.steps[-1].path != CLEAN_SHUTDOWN_FILE:
        return None
    if journal.steps[-1].kind is not ActionKind.WRITE:
        return None
    return script.ends[-2] if len(script.ends) > 1 else 0


def _verify(disks: Disks, script: Script) -> None:
    """Raise `StorageError` (EIO) if a file that the execution wrote, truncated or renamed is missing or has another
    size. Also raise it if something exists that should be absent: what was removed, or a file that a broker reads at
    its start (`READ_BY_A_BROKER`) and that was not there before. Only sizes are compared; the quarantine is not
    checked. Raises `StorageError` too if a file cannot be examined.
    """
    timeline = script.timeline
    for place in timeline.places():
        state = timeline.state(place)
        wanted = state.size if isinstance(state, Whole) else state.kept if isinstance(state, Cut) else None
        if place.in_run or (wanted is None and state != ABSENT):
            continue
        status = disks.root.status(place.path)
        if (None if status is None else status.st_size) != wanted:
            raise StorageError(
                5,
                "the file is not as this run left it: another process wrote to it, or the disk lost the change",
                disks.full(place),
            )


def roll_back(disks: Disks, located: Located, name: str, forget: Callable[[], None]) -> None:
    """Undo all done operations, last first, restore the modification times of directories, and rename the journal to
    `undone.json`. Then the saved and staged files in the quarantine are removed.

    `name` is the present name of the journal's document. It is renamed to `undoing.json`, and to `closing.json` when
    all files are restored, so that an interrupted undo can continue; `preparing.json` is renamed to `closing.json` at
    once, because nothing was changed yet. `forget` is called when all files are restored, and removes the execution
    from the pointer file. Raises `RecoveryRefused` if something has the former name of a renamed file or directory,
    `StorageError` if the disk fails; the undo then stays unfinished.
    """
    if name == PREPARING:  # it changed nothing, and the directory may not name it yet, as it must while it is undone
        finish_document(disks, name, CLOSING)
        name = CLOSING
    elif name not in (UNDOING, CLOSING):
        finish_document(disks, name, UNDOING)
    _take_back(disks, located, CLOSING if name == CLOSING else UNDOING, forget)


def _take_back(disks: Disks, located: Located, name: str, forget: Callable[[], None]) -> None:
    journal, script = located.journal, located.script
    _flush_done(disks, located)
    for wave in script.waves(located.done, back=True):
        with _together(disks, script, wave):
            for number in wave:
                script.operations[number].take_back(disks)
    _remove_temporaries(disks, script)
    if not journal.same_mount:
        _restore_directories(disks, journal)
    if name != CLOSING:
        finish_document(disks, name, CLOSING)
    forget()
    with disks.flushed_together():
        for path, mtime_ns in sorted(journal.directories.items(), reverse=True):
            disks.root.set_mtime(path, mtime_ns)
            disks.root.sync_directory(path)
    finish_document(disks, CLOSING, UNDONE)
    for saved in (STAGED, FILES):
        disks.quarantine.remove_tree(f"{disks.run_id}/{saved}")


def _remove_temporaries(disks: Disks, script: Script) -> None:
    """Remove the temporary files that interrupted operations left beside their target files, and flush these
    directories. Missing ones are ignored. Raises `StorageError` if one cannot be removed.
    """
    for operation in script.operations:
        place = operation.written_beside()
        temporary = None if place is None else disks.temporary(place.path)
        if place is not None and temporary is not None and disks.root.status(temporary) is not None:
            disks.root.remove(temporary)
            disks.sync(place)


def _restore_directories(disks: Disks, journal: Journal) -> None:
    """Set the attributes of the directories that an undo created again to the values in the journal: owner, mode,
    extended attributes and modification time. Inner directories are set before outer ones. Raises `StorageError` if one
    is missing or cannot be set.
    """
    for step in journal.steps:
        if step.kind is not ActionKind.REMOVE_DIRECTORY or step.entries is None or step.before is None:
            continue
        for name, (kind, state) in sorted(step.entries.items(), reverse=True):
            if kind == EntryKind.DIRECTORY and state is not None:
                disks.root.set_attributes(f"{step.path}/{name}", state.attributes)
        disks.root.set_attributes(step.path, step.before.attributes)
