"""Acting on a plan, and taking it back: every step can be done, done again after a crash, and undone.

Order: quarantine directory, saved tails and staged new content (each written, flushed, read back and compared), the
journal, then the steps, then the journal's new name.  What was moved or replaced is in the quarantine with its hash;
nothing is destroyed.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence

from kafkalog.codec.errors import RecoveryRefused, StorageError
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE
from kafkalog.codec.source import Source
from kafkalog.recovery.actions import Action, ActionKind
from kafkalog.recovery.broker.tree import Content, ContentSource
from kafkalog.recovery.fs import PIECE, FileSystem
from kafkalog.recovery.journal import JOURNAL, MANIFEST, UNDOING, UNDONE, FileState, Journal, Step

__all__ = ["prepare", "roll_back", "roll_forward"]

_TEMPORARY = ".kafkalog-tmp"
"""A suffix that means nothing to a broker."""
_FILES, _STAGED = "files", "staged"
_FILE_MODE = 0o644


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _make_parents(fs: FileSystem, path: str) -> None:
    parts = path.split("/")[:-1]
    for depth in range(len(parts)):
        fs.make_directory("/".join(parts[: depth + 1]))


class _Run:
    """One run: the log directory, and the run's directory in the quarantine."""

    def __init__(self, root: FileSystem, quarantine: FileSystem, run_id: str, steps: Sequence[Step] = ()) -> None:
        self.root = root
        self.quarantine = quarantine
        self.run_id = run_id
        self.steps = steps

    def inside(self, *parts: str) -> str:
        return "/".join((self.run_id, *parts))

    # -- before the journal ------------------------------------------------------------------------------------------

    def stage(self, name: str, pieces: Iterable[bytes]) -> FileState:
        """Write a file into the quarantine, flush it, read it back."""
        path = self.inside(name)
        _make_parents(self.quarantine, path)
        self.quarantine.remove(path)
        digest = _Digest(pieces)
        self.quarantine.write_new(path, digest)
        self.quarantine.sync_directory(_parent(path))
        if self.quarantine.sha256(path) != digest.hexdigest:
            raise StorageError(5, "what was written to quarantine reads back differently", path)
        return FileState(digest.size, digest.hexdigest)

    def step(self, number: int, action: Action, origin: Callable[[str], Source]) -> Step:
        """The step of an action; saves tails and stages content."""
        path = action.path
        if action.kind is ActionKind.RENAME_DIRECTORY:
            return Step(action.kind, path, action.target)
        saved = f"{_FILES}/{path}"
        if action.kind is ActionKind.REMOVE_DIRECTORY:
            return Step(action.kind, path, saved=saved)
        if action.kind is ActionKind.TRUNCATE:
            return self._truncation(path, action.size or 0)
        before = self.state(path)
        if action.kind is ActionKind.RENAME and before is None:  # a name that an earlier step gives
            before = FileState(action.size or 0, "")
        match action.kind:
            case ActionKind.REMOVE:
                return Step(action.kind, path, None, before, None, saved)
            case ActionKind.RENAME:
                return Step(action.kind, path, action.target, before, before)
            case ActionKind.WRITE:
                staged = f"{_STAGED}/{number}"
                after = self.stage(staged, _pieces(action.content or Content(), origin))
                return Step(action.kind, path, None, before, after, saved if before else None, staged)
        raise AssertionError(action.kind)

    def _truncation(self, path: str, size: int) -> Step:
        """For a truncation only the tail is hashed: `before.sha256` is the tail's."""
        status = self.root.status(path)
        if status is None or status.st_size < size:
            raise RecoveryRefused(f"{path} changed since the plan was made", reason="changed")
        saved = f"{_FILES}/{path}.tail@{size}"
        tail = self.stage(saved, self.root.read(path, size, status.st_size))
        before = FileState(status.st_size, tail.sha256, status.st_mtime_ns)
        return Step(ActionKind.TRUNCATE, path, None, before, FileState(size, "", status.st_mtime_ns), saved)

    def state(self, path: str) -> FileState | None:
        """Content and time of a file of the log directory; None if there is none (or a directory, which goes first)."""
        status = self.root.status(path)
        if status is None or stat.S_ISDIR(status.st_mode):
            return None
        return FileState(status.st_size, self.root.sha256(path), status.st_mtime_ns)

    # -- forward -----------------------------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        {
            ActionKind.REMOVE: self._remove,
            ActionKind.REMOVE_DIRECTORY: self._remove_directory,
            ActionKind.TRUNCATE: self._truncate,
            ActionKind.RENAME: self._rename,
            ActionKind.RENAME_DIRECTORY: self._rename,
            ActionKind.WRITE: self._write,
        }[step.kind](step)

    def _saved(self, step: Step) -> str:
        if step.saved is None:
            raise AssertionError(step)
        return self.inside(step.saved)

    def _is(self, path: str, state: FileState | None) -> bool:
        """The file of the log directory has this content."""
        status = self.root.status(path)
        if status is None or state is None:
            return status is None and state is None
        if status.st_size != state.size:
            return False
        return status.st_mtime_ns == state.mtime_ns or self.root.sha256(path) == state.sha256

    def _has_tail(self, step: Step) -> bool:
        """The file of a truncation still ends as it did."""
        if step.before is None or step.after is None:
            raise AssertionError(step)
        status = self.root.status(step.path)
        if status is None or status.st_size != step.before.size:
            return False
        return self.root.sha256(step.path, step.after.size, step.before.size) == step.before.sha256

    def _in_quarantine(self, path: str, state: FileState | None) -> bool:
        status = self.quarantine.status(path)
        if status is None or state is None or status.st_size != state.size:
            return False
        return self.quarantine.sha256(path) == state.sha256

    def _changed(self, path: str) -> RecoveryRefused:
        return RecoveryRefused(
            f"{self.root.root}/{path} is neither as it was before the run nor as the run left it; "
            f"what the run saved is in {self.quarantine.root}/{self.run_id}",
            reason="changed",
        )

    def _remove(self, step: Step) -> None:
        saved = self._saved(step)
        if self._in_quarantine(saved, step.before):
            if self._is(step.path, step.before) and not self._is_taken(step.path):
                self.root.remove(step.path)
                self.root.sync_directory(_parent(step.path))
            return
        if not self._is(step.path, step.before):
            raise self._changed(step.path)
        _make_parents(self.quarantine, saved)
        if not self.root.rename(step.path, saved, self.quarantine):
            self._copy_out(step.path, saved, step.before)
            self.root.remove(step.path)
        self.quarantine.sync_directory(_parent(saved))
        self.root.sync_directory(_parent(step.path))

    def _remove_directory(self, step: Step) -> None:
        saved = self._saved(step)
        if self.root.status(step.path) is None:
            if self.quarantine.status(saved) is None:
                raise self._changed(step.path)
            return
        _make_parents(self.quarantine, saved)
        _move_directory(self.root, step.path, self.quarantine, saved)

    def _undo_remove_directory(self, step: Step) -> None:
        saved = self._saved(step)
        if self.quarantine.status(saved) is None:
            if self.root.status(step.path) is None:
                raise self._changed(step.path)
            return
        _move_directory(self.quarantine, saved, self.root, step.path)

    def _is_taken(self, path: str) -> bool:
        """A file was already renamed to this path."""
        return any(step.target == path and self.root.status(step.path) is None for step in self.steps)

    def _copy_out(self, path: str, saved: str, state: FileState | None) -> None:
        """Copy a file to a quarantine on another file system, and compare."""
        self.quarantine.remove(saved)
        self.quarantine.write_new(saved, self.root.read(path))
        if state is not None and state.mtime_ns is not None:
            self.quarantine.set_mtime(saved, state.mtime_ns)
        self.quarantine.sync_directory(_parent(saved))
        if not self._in_quarantine(saved, state):
            raise StorageError(5, "what was written to quarantine reads back differently", saved)

    def _truncate(self, step: Step) -> None:
        if step.before is None or step.after is None:
            raise AssertionError(step)
        if self._has_tail(step):
            self.root.truncate(step.path, step.after.size)
        else:
            status = self.root.status(step.path)
            if status is None or status.st_size != step.after.size:
                raise self._changed(step.path)
        if step.after.mtime_ns is not None:
            self.root.set_mtime(step.path, step.after.mtime_ns)

    def _rename(self, step: Step) -> None:
        if step.target is None:
            raise AssertionError(step)
        if self.root.status(step.path) is None:
            if self.root.status(step.target) is None:
                raise self._changed(step.path)
            return
        if self.root.status(step.target) is not None:
            raise self._changed(step.target)
        self.root.rename(step.path, step.target)
        self.root.sync_directory(_parent(step.target))

    def _write(self, step: Step) -> None:
        if step.after is None or step.staged is None:
            raise AssertionError(step)
        if self._is(step.path, step.after) and (
            step.saved is None or self._in_quarantine(self._saved(step), step.before)
        ):
            return
        if not self._is(step.path, step.before):
            raise self._changed(step.path)
        if step.saved is not None:
            saved = self._saved(step)
            _make_parents(self.quarantine, saved)
            if not self.root.link(step.path, saved, self.quarantine):
                self._copy_out(step.path, saved, step.before)
            self.quarantine.sync_directory(_parent(saved))
        temporary = step.path + _TEMPORARY
        self.root.remove(temporary)
        self.root.write_new(temporary, self.quarantine.read(self.inside(step.staged)))
        directory = self.root.status(_parent(step.path)) if "/" in step.path else self.root.owner
        owner = directory or self.root.owner
        self.root.own(temporary, _FILE_MODE, owner.st_uid, owner.st_gid)
        self.root.rename(temporary, step.path)
        self.root.sync_directory(_parent(step.path))

    # -- back --------------------------------------------------------------------------------------------------------

    def undo(self, step: Step) -> None:
        {
            ActionKind.REMOVE: self._undo_remove,
            ActionKind.REMOVE_DIRECTORY: self._undo_remove_directory,
            ActionKind.TRUNCATE: self._undo_truncate,
            ActionKind.RENAME: self._undo_rename,
            ActionKind.RENAME_DIRECTORY: self._undo_rename,
            ActionKind.WRITE: self._undo_write,
        }[step.kind](step)

    def _put_back(self, saved: str, path: str, state: FileState | None) -> None:
        if not self.quarantine.rename(saved, path, self.root):
            temporary = path + _TEMPORARY
            self.root.remove(temporary)
            self.root.write_new(temporary, self.quarantine.read(saved))
            owner = self.root.owner
            self.root.own(temporary, _FILE_MODE, owner.st_uid, owner.st_gid)
            self.root.rename(temporary, path)
        if state is not None and state.mtime_ns is not None:
            self.root.set_mtime(path, state.mtime_ns)
        self.root.sync_directory(_parent(path))
        self._forget_saved(saved)  # a rename between two names of one file leaves both

    def _forget_saved(self, saved: str) -> None:
        self.quarantine.remove(saved)
        self.quarantine.sync_directory(_parent(saved))

    def _undo_remove(self, step: Step) -> None:
        if self.root.status(step.path) is not None:
            if not self._is(step.path, step.before):
                raise self._changed(step.path)
            if self.quarantine.status(self._saved(step)) is not None:
                self._forget_saved(self._saved(step))
            return
        if not self._in_quarantine(self._saved(step), step.before):
            raise self._changed(step.path)
        self._put_back(self._saved(step), step.path, step.before)

    def _undo_truncate(self, step: Step) -> None:
        if step.before is None or step.after is None:
            raise AssertionError(step)
        status = self.root.status(step.path)
        size = -1 if status is None else status.st_size
        if not step.after.size <= size <= step.before.size:
            raise self._changed(step.path)
        if size < step.before.size:
            begun = size - step.after.size  # an undo that was cut short; anything else was appended by somebody
            if self.root.sha256(step.path, step.after.size, size) != self.quarantine.sha256(
                self._saved(step), 0, begun
            ):
                raise self._changed(step.path)
            self.root.truncate(step.path, step.after.size)
            self.root.append(step.path, self.quarantine.read(self._saved(step)))
        if not self._has_tail(step):
            raise self._changed(step.path)
        if step.before.mtime_ns is not None:
            self.root.set_mtime(step.path, step.before.mtime_ns)

    def _undo_rename(self, step: Step) -> None:
        if step.target is None:
            raise AssertionError(step)
        if self.root.status(step.path) is not None:
            return
        if self.root.status(step.target) is None:
            raise self._changed(step.target)
        self.root.rename(step.target, step.path)
        self.root.sync_directory(_parent(step.path))

    def _undo_write(self, step: Step) -> None:
        self.root.remove(step.path + _TEMPORARY)
        if step.saved is not None and self._in_quarantine(self._saved(step), step.before):
            if not self._is(step.path, step.after) and not self._is(step.path, step.before):
                raise self._changed(step.path)
            self._put_back(self._saved(step), step.path, step.before)
            return
        if self._is(step.path, step.before):
            return
        if step.before is not None or not self._is(step.path, step.after):
            raise self._changed(step.path)
        self.root.remove(step.path)
        self.root.sync_directory(_parent(step.path))

    # -- the journal -------------------------------------------------------------------------------------------------

    def finish(self, old: str, new: str) -> None:
        self.quarantine.rename(self.inside(old), self.inside(new))
        self.quarantine.sync_directory(self.run_id)

    def discard(self, name: str) -> None:
        """Remove what a directory of the run still holds."""
        path = self.inside(name)
        status = self.quarantine.status(path)
        if status is None:
            return
        for entry in self.quarantine.names(path):
            self.quarantine.remove(f"{path}/{entry}")
        self.quarantine.remove_directory(path)
        self.quarantine.sync_directory(self.run_id)


def _move_directory(source: FileSystem, path: str, target: FileSystem, new: str) -> None:
    """Move a directory to another root; between file systems file by file, so that it can be gone on with."""
    mtime_ns = source.mtime(path)
    if target.status(new) is None and source.rename(path, new, target):
        target.sync_directory(_parent(new))
        source.sync_directory(_parent(path))
        return
    target.make_directory(new)
    for name in source.names(path):
        status = source.status(f"{path}/{name}")
        if status is None:
            continue
        if stat.S_ISDIR(status.st_mode):
            _move_directory(source, f"{path}/{name}", target, f"{new}/{name}")
        elif stat.S_ISREG(status.st_mode):
            target.remove(f"{new}/{name}")
            target.write_new(f"{new}/{name}", source.read(f"{path}/{name}"))
            target.set_mtime(f"{new}/{name}", status.st_mtime_ns)
            if target.sha256(f"{new}/{name}") != source.sha256(f"{path}/{name}"):
                raise StorageError(5, "what was copied reads back differently", f"{new}/{name}")
            source.remove(f"{path}/{name}")
        else:
            raise RecoveryRefused(
                f"{source.root}/{path}/{name} is no regular file, and the quarantine is on another file system: "
                "move it away yourself, or name a quarantine on the same file system",
                reason="quarantine",
            )
    target.sync_directory(new)
    target.set_mtime(new, mtime_ns)
    source.remove_directory(path)


class _Digest:
    """Hashes pieces as they pass by."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self._hash = hashlib.sha256()
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._hash.update(piece)
            self.size += len(piece)
            yield piece

    @property
    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _pieces(content: Content, origin: Callable[[str], Source]) -> Iterator[bytes]:
    source = ContentSource(content, origin)
    for position in range(0, source.size, PIECE):
        yield bytes(source.read(position, PIECE))


def _touched(steps: Sequence[Step]) -> list[str]:
    paths = [step.path for step in steps] + [step.target for step in steps if step.target is not None]
    directories = {_parent(path) for path in paths}
    whole = (ActionKind.RENAME_DIRECTORY, ActionKind.REMOVE_DIRECTORY)
    directories |= {step.path for step in steps if step.kind in whole}
    return sorted(directories)


def prepare(
    root: FileSystem,
    quarantine: FileSystem,
    *,
    run_id: str,
    tool_version: str,
    mode: str,
    actions: Sequence[Action],
    origin: Callable[[str], Source],
) -> Journal:
    """Save tails, stage new content and write the journal: after this the run can be completed or taken back."""
    run = _Run(root, quarantine, run_id)
    quarantine.make_directory(run_id)
    steps = [run.step(number, action, origin) for number, action in enumerate(actions)]
    directories = {}
    for path in _touched(steps):
        status = root.status(path) if path else root.owner
        if status is not None:
            directories[path] = status.st_mtime_ns
    journal = Journal(run_id, tool_version, root.root, mode, steps, directories)
    run.stage("journal.new", [journal.encode()])
    run.finish("journal.new", JOURNAL)
    return journal


def roll_forward(
    root: FileSystem, quarantine: FileSystem, journal: Journal, before_marker: Callable[[], None] = lambda: None
) -> None:
    """Do every step that is not done yet, check the result from disk, and close the journal.

    `before_marker` is called before a clean-shutdown marker is written; it raises if that would not be true.
    """
    run = _Run(root, quarantine, journal.run_id, journal.steps)
    for step in journal.steps:
        if step.path == CLEAN_SHUTDOWN_FILE and step.kind is ActionKind.WRITE:
            before_marker()
        run.do(step)
    for step in journal.steps:
        _verify(run, step, journal)
    run.finish(JOURNAL, MANIFEST)
    run.discard(_STAGED)


def _verify(run: _Run, step: Step, journal: Journal) -> None:
    """The file is on disk what the step says, unless a later step moves it on."""
    if step.target is not None and any(other.path == step.target for other in journal.steps):
        return
    renamed = {each.path: each.target for each in journal.steps if each.kind is ActionKind.RENAME_DIRECTORY}
    path = step.target if step.kind is ActionKind.RENAME else step.path
    if step.kind in (ActionKind.RENAME_DIRECTORY, ActionKind.REMOVE_DIRECTORY) or path is None:
        return
    directory, separator, name = path.partition("/")
    path = (renamed.get(directory) or directory) + separator + name
    status = run.root.status(path)
    expected = None if step.after is None else step.after.size
    if (None if status is None else status.st_size) != expected and not _written_later(step, journal):
        raise StorageError(5, "the file is not on disk what was just written", f"{run.root.root}/{path}")


def _written_later(step: Step, journal: Journal) -> bool:
    """A removed file's place was taken by a later rename or write."""
    return any(
        other is not step and (other.target == step.path or (other.path == step.path and other.after is not None))
        for other in journal.steps
    )


def roll_back(root: FileSystem, quarantine: FileSystem, journal: Journal, name: str) -> None:
    """Undo every step that was done, last first, put back all times, and close the journal as undone.

    `name` is the journal's file: `journal.json` of a run that was cut short, `manifest.json`, or `undoing.json` of an
    undo that was.
    """
    run = _Run(root, quarantine, journal.run_id, journal.steps)
    if name != UNDOING:
        run.finish(name, UNDOING)
    for step in reversed(journal.steps):
        run.undo(step)
    for path, mtime_ns in sorted(journal.directories.items(), reverse=True):
        root.set_mtime(path, mtime_ns)
    run.finish(UNDOING, UNDONE)
    run.discard(_STAGED)
