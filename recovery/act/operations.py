"""Define the operations of an execution (one journaled, undoable change of a log directory). Each happens whole or not
at all, and can be undone.

A step becomes one or two operations. If the quarantine is on the mount of the log directory, files are moved by
renaming. If not, whole and verified copies are made before the execution begins, and originals are removed. Either way
every byte is somewhere on disk at every moment.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct, structs

from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.recovery.act.digest import Piece
from kafkalog.recovery.act.fs import Attributes, Facts, FileSystem, Owner
from kafkalog.recovery.act.journal import FileState
from kafkalog.recovery.act.states import A_DIRECTORY, ABSENT, Cut, Place, Timeline, Uncut, Whole
from kafkalog.recovery.facts.survey import FileFacts

__all__ = ["FILES", "STAGED", "Disks", "Operation", "need", "owner_of_new", "tail_of"]

FILES, STAGED = "files", "staged"
_FILE_MODE, _DIRECTORY_MODE = 0o644, 0o755


class Disks:
    """The log directory (`root`) and the execution's own directory in the quarantine. `expected` has the facts (size,
    modification time, inode) of files when the plan was made: a file that is about to be changed must still have them.
    """

    def __init__(
        self, root: FileSystem, quarantine: FileSystem, run_id: str, expected: Mapping[str, FileFacts] | None = None
    ) -> None:
        self.root = root
        self.quarantine = quarantine
        self.run_id = run_id
        self.expected = expected or {}
        self._own: set[str] = set()
        """paths at which this execution has changed something"""
        self._made: set[str] = set()
        """directories that exist in the execution's directory"""

    def changed(self, *places: Place) -> None:
        """Note that the execution has changed these places, so that the facts of the plan no longer apply there."""
        self._own.update(place.path for place in places if not place.in_run)

    def at(self, place: Place) -> tuple[FileSystem, str]:
        """Return the root that holds a place, and the path below that root."""
        return (self.quarantine, f"{self.run_id}/{place.path}") if place.in_run else (self.root, place.path)

    def pieces(self, place: Place, start: int = 0, end: int | None = None) -> Iterator[Piece]:
        """Yield the bytes of a file from `start` to `end` (exclusive; None: its end) as `FileSystem.read` does."""
        fs, path = self.at(place)
        return fs.read(path, start, end)

    def full(self, place: Place) -> str:
        """Absolute path of a place."""
        fs, path = self.at(place)
        return os.path.join(fs.root, path)

    def temporary(self, path: str) -> str:
        """Name for a temporary file beside a file: brokers ignore it, and no other execution uses it."""
        return f"{path}.{self.run_id}.kafkalog-tmp"

    def sync(self, *places: Place) -> None:
        """Make the names in the directories of these places durable, in the quarantine first."""
        for parent in sorted({place.parent for place in places}, reverse=True):
            fs, path = self.at(parent)
            fs.sync_directory(path.rstrip("/"))

    @contextmanager
    def flushed_together(self) -> Iterator[None]:
        """Defer all flushes to the end of the context, where the quarantine is flushed first."""
        with self.root.flushed_together(), self.quarantine.flushed_together():
            yield

    def make_parents(self, place: Place) -> None:
        """Create the missing directories above a place, from the top down, as `FileSystem.make_directory` does: each
        new name is flushed to disk, within `flushed_together` at the end of that context. An existing name is kept
        without an error, even if it is a file or a link. Names that this object created or saw are not checked again.

        Raises `StorageError` if a directory cannot be created, and within `remembering` also if a name already exists
        that was not created in that context.
        """
        fs, path = self.at(place)
        missing = []
        while (path := path.rpartition("/")[0]) and path not in self._made:
            missing.append(path)
        for directory in reversed(missing):
            fs.make_directory(directory)
            self._made.add(directory)

    def facts(self, place: Place) -> Facts | None:
        """Facts that a file must still have before it is changed; None if the plan knows none or the execution has
        changed it.
        """
        is_known = not place.in_run and place.path not in self._own
        facts = self.expected.get(place.path) if is_known else None
        return None if facts is None else (facts.size, facts.mtime_ns, facts.inode)

    def check(self, place: Place) -> None:
        """Raise `RecoveryRefused` if a file has changed since the plan was made."""
        if not place.in_run:
            self.root.refuse_other(place.path, self.facts(place))

    def restore(self, saved: Place, place: Place, attributes: Attributes) -> None:
        """Copy the saved file at `saved` to `place` in the log directory, with `attributes`. An existing file is
        replaced; the saved file stays. The copy is written under a temporary name, read back and flushed before it gets
        its name. The owner and group in `attributes` must also own the saved file, the parent directory or the log
        directory. Otherwise the copy gets those of the parent. Raises `StorageError` if reading or writing fails.
        """
        _, source = self.at(saved)
        temporary = self.temporary(place.path)
        self.root.remove(temporary)
        self.root.copy_file(self.quarantine, source, temporary)
        self.root.set_attributes(temporary, self._owned(saved, place, attributes))
        self.root.rename(temporary, place.path)
        self.sync(place)

    def _owned(self, saved: Place, place: Place, attributes: Attributes) -> Attributes:
        """Return `attributes` unchanged if their owner and group also own the saved copy, the parent directory of
        `place`, or the log directory. Otherwise return them with the owner and group of the parent, or of the log
        directory if the parent is missing. Without this, a forged journal could make root create files of any user.
        Raises `StorageError` if one of these cannot be examined.
        """
        fs, path = self.at(saved)
        parent = self.root.status(place.parent.path)
        known = [status for status in (fs.status(path), parent, self.root.owner) if status is not None]
        if (attributes.uid, attributes.gid) in [(status.st_uid, status.st_gid) for status in known]:
            return attributes
        owner = parent or self.root.owner
        return structs.replace(attributes, uid=owner.st_uid, gid=owner.st_gid)


class Operation(Struct, frozen=True):
    """One change of the log directory. Abstract, but not derived from `ABC`: Structs have another metaclass."""

    @abstractmethod
    def describe(self, timeline: Timeline) -> None:
        """Record in `timeline` the states that the operation leaves. Raises `ValueError` if the states before it make
        it impossible.
        """

    @abstractmethod
    def do(self, disks: Disks) -> None:
        """Make the change durably."""

    @abstractmethod
    def take_back(self, disks: Disks) -> None:
        """Undo the change."""

    def places(self) -> tuple[Place, ...]:
        """Return the places that the operation renames, links, reads or changes, in the log directory and in the
        quarantine. These are the values of its fields `source`, `target`, `path`, `saved` and `staged`, in this order.
        Fields that are missing or hold no place are left out.
        """
        return tuple(
            place
            for name in ("source", "target", "path", "saved", "staged")
            if isinstance(place := getattr(self, name, None), Place)
        )

    def partition(self) -> str | None:
        """Name of the one partition directory in which it changes files; None if it changes several, or other files."""
        return None

    def written_beside(self) -> Place | None:
        """File beside which a copy is written first, so that an interruption may leave a temporary file there; None if
        there is none.
        """
        return None


class _OnFiles(Operation, frozen=True):
    """Operation that renames, links or truncates a file, so that its flushes can wait for its end."""

    def partition(self) -> str | None:
        tops = {place.path.partition("/")[:2] for place in self.places() if not place.in_run}
        return next(name if separator else None for name, separator in tops) if len(tops) == 1 else None


def need(holds: bool) -> None:
    """Raise `ValueError` if `holds` is False, which it never is for a journal that kafkalog wrote."""
    if not holds:
        raise ValueError


class Move(_OnFiles, frozen=True):
    """Rename a file, within the log directory or into the quarantine."""

    source: Place
    target: Place

    def describe(self, timeline: Timeline) -> None:
        state = timeline.state(self.source)
        need(isinstance(state, Whole) and timeline.state(self.target) == ABSENT)
        timeline.put(self.source, ABSENT)
        timeline.put(self.target, state)

    def do(self, disks: Disks) -> None:
        disks.check(self.source)
        if self.target.in_run:
            disks.make_parents(self.target)
        _rename(disks, self.source, self.target)

    def take_back(self, disks: Disks) -> None:
        _rename_back(disks, self.target, self.source)


def _rename_back(disks: Disks, source: Place, target: Place) -> None:
    """Rename `source` to its former place `target`, and flush both directories. Raises `RecoveryRefused` if something
    exists at `target`.
    """
    fs, path = disks.at(target)
    if fs.status(path) is not None:
        raise RecoveryRefused(f"{disks.full(target)} is in the way; move it away first", reason="changed")
    _rename(disks, source, target)


def _rename(disks: Disks, source: Place, target: Place) -> None:
    (from_fs, from_path), (to_fs, to_path) = disks.at(source), disks.at(target)
    from_fs.rename(from_path, to_path, to_fs)
    disks.changed(source, target)
    disks.sync(source, target)


class MoveDirectory(Operation, frozen=True):
    """Rename a directory, within the log directory or into the quarantine."""

    source: Place
    target: Place

    def describe(self, timeline: Timeline) -> None:
        need(timeline.state(self.source) != ABSENT and timeline.state(self.target) == ABSENT)
        need(self.target.in_run or not self.target.path.startswith(self.source.path + "/"))
        for place in [self.source, *timeline.below(self.source)]:
            target = Place(self.target.in_run, self.target.path + place.path[len(self.source.path) :])
            timeline.put(target, timeline.state(place))
            timeline.put(place, ABSENT)

    def do(self, disks: Disks) -> None:
        if self.target.in_run:
            disks.make_parents(self.target)
        _rename(disks, self.source, self.target)

    def take_back(self, disks: Disks) -> None:
        _rename_back(disks, self.target, self.source)


class Link(_OnFiles, frozen=True):
    """Give a file that is about to be replaced a second name (hard link) in the quarantine."""

    path: Place
    saved: Place

    def describe(self, timeline: Timeline) -> None:
        state = timeline.state(self.path)
        need(isinstance(state, Whole) and timeline.state(self.saved) == ABSENT)
        timeline.put(self.saved, state)

    def do(self, disks: Disks) -> None:
        disks.check(self.path)
        disks.make_parents(self.saved)
        disks.root.link(self.path.path, disks.at(self.saved)[1], disks.quarantine)
        disks.sync(self.saved)

    def take_back(self, disks: Disks) -> None:
        fs, path = disks.at(self.saved)
        if fs.status(path) is not None:  # taking back the replacement has moved it already
            fs.remove(path)
            disks.sync(self.saved)


class Replace(_OnFiles, frozen=True):
    """Rename new content into place. The former file is linked at `saved`; None if there was none."""

    staged: Place
    path: Place
    saved: Place | None

    def describe(self, timeline: Timeline) -> None:
        _describe_replacement(timeline, self.staged, self.path, self.saved)
        timeline.put(self.staged, ABSENT)

    def do(self, disks: Disks) -> None:
        disks.check(self.path)
        _rename(disks, self.staged, self.path)

    def take_back(self, disks: Disks) -> None:
        if self.saved is not None:
            _rename(disks, self.saved, self.path)
        else:
            disks.make_parents(self.staged)
            _rename(disks, self.path, self.staged)


def _describe_replacement(timeline: Timeline, staged: Place, path: Place, saved: Place | None) -> None:
    before = timeline.state(path)
    need(before == (ABSENT if saved is None else timeline.state(saved)))
    need(saved is None or isinstance(before, Whole))
    timeline.put(path, timeline.state(staged))


class Install(Operation, frozen=True, kw_only=True):
    """Copy new content from another file system into place. A copy of the former file is in `saved`; None if there was
    none.
    """

    staged: Place
    path: Place
    saved: Place | None
    before: FileState | None
    mtime_ns: int = 0
    """modification time of the new file in ns; 0: the time of writing"""

    def written_beside(self) -> Place | None:
        return self.path

    def describe(self, timeline: Timeline) -> None:
        _describe_replacement(timeline, self.staged, self.path, self.saved)

    def do(self, disks: Disks) -> None:
        _, source = disks.at(self.staged)
        temporary = disks.temporary(self.path.path)
        disks.root.remove(temporary)
        owner = owner_of_new(disks.root, self.path.path, self.before)
        disks.root.copy_file(disks.quarantine, source, temporary, owner)
        if self.mtime_ns:
            disks.root.set_mtime(temporary, self.mtime_ns)
        disks.root.replace(temporary, self.path.path, disks.facts(self.path))
        disks.changed(self.path)
        disks.sync(self.path)

    def take_back(self, disks: Disks) -> None:
        if self.saved is None or self.before is None:
            disks.root.remove(self.path.path)
            disks.sync(self.path)
        else:
            disks.restore(self.saved, self.path, self.before.attributes)


class Drop(Operation, frozen=True):
    """Remove a file of which a verified copy is in `saved`, on another file system."""

    path: Place
    saved: Place
    before: FileState

    def written_beside(self) -> Place | None:
        return self.path

    def describe(self, timeline: Timeline) -> None:
        need(timeline.state(self.path) == timeline.state(self.saved) != ABSENT)
        timeline.put(self.path, ABSENT)

    def do(self, disks: Disks) -> None:
        disks.root.remove(self.path.path, disks.facts(self.path))
        disks.changed(self.path)
        disks.sync(self.path)

    def take_back(self, disks: Disks) -> None:
        disks.restore(self.saved, self.path, self.before.attributes)


class DropDirectory(Operation, frozen=True):
    """Remove an empty directory."""

    path: Place
    before: FileState

    def describe(self, timeline: Timeline) -> None:
        need(timeline.state(self.path) == A_DIRECTORY)
        timeline.put(self.path, ABSENT)

    def do(self, disks: Disks) -> None:
        disks.root.remove_directory(self.path.path)
        disks.sync(self.path)

    def take_back(self, disks: Disks) -> None:
        disks.root.make_directory(self.path.path)
        disks.root.set_attributes(self.path.path, self.before.attributes)


class MakeDirectory(Operation, frozen=True):
    """Create a directory. Undoing later operations has emptied it before this one is undone."""

    path: Place

    def describe(self, timeline: Timeline) -> None:
        need(timeline.state(self.path) == ABSENT)
        timeline.put(self.path, A_DIRECTORY)

    def do(self, disks: Disks) -> None:
        disks.root.make_directory(self.path.path, _DIRECTORY_MODE)
        disks.root.give(self.path.path, disks.root.owner.st_uid, disks.root.owner.st_gid)
        disks.sync(self.path)

    def take_back(self, disks: Disks) -> None:
        disks.root.remove_directory(self.path.path)
        disks.sync(self.path)


class CutOff(_OnFiles, frozen=True, kw_only=True):
    """Truncate a file. Its tail is saved in `tail`; None if it is all zeros."""

    path: Place
    tail: Place | None
    kept: int
    before: FileState

    def describe(self, timeline: Timeline) -> None:
        state = timeline.state(self.path)
        need(isinstance(state, Uncut) and (self.tail is None or isinstance(timeline.state(self.tail), Whole)))
        if isinstance(state, Uncut):
            timeline.put(
                self.path, Cut(kept=state.kept, kept_crc32c=state.kept_crc32c, size=state.size, tail=self.tail)
            )

    def do(self, disks: Disks) -> None:
        disks.root.truncate(self.path.path, self.kept, disks.facts(self.path))
        disks.root.set_mtime(self.path.path, self.before.attributes.mtime_ns)

    def take_back(self, disks: Disks) -> None:
        pieces = () if self.tail is None else disks.pieces(self.tail)
        disks.root.write_tail(self.path.path, self.kept, pieces, self.before.size - self.kept)
        disks.root.set_mtime(self.path.path, self.before.attributes.mtime_ns)


def owner_of_new(root: FileSystem, path: str, before: FileState | None) -> Owner:
    """Return mode, user id and group id for new content at `path`. If the content replaces the file `before`, they are
    this file's. Otherwise the mode is 644 and the owner is the directory's, or the log directory's if the directory is
    missing. Raises `StorageError` if the directory cannot be examined.
    """
    if before is not None:
        return before.attributes.mode, before.attributes.uid, before.attributes.gid
    directory = path.rpartition("/")[0]
    owner = (root.status(directory) if directory else None) or root.owner
    return _FILE_MODE, owner.st_uid, owner.st_gid


def tail_of(path: str, kept: int) -> str:
    """Path of the saved tail of a truncated file, in the execution's directory."""
    return f"{FILES}/{path}.tail@{kept}"
