"""What a power cut may leave: changes that no flush has made durable are lost or kept one by one, in any combination.

Watches the system calls of this process, and replays on a copy what a cut would have left of them.  A rename, a link
and a removal happen whole or not at all; a change of names is durable once its directories were flushed, a change of
content or size once its file was.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kafkalog.recovery.act import descriptors

__all__ = ["Recorded", "recording"]

Replay = Callable[["_Disk"], None]
_CONTENT, _NAMES = "content", "names"


@dataclass(eq=False)
class _Change:
    """One change; `waits` is what has still to be flushed until it is durable."""

    replay: Replay
    waits: set[tuple[str, int]]
    index: int = 0


@dataclass
class Recorded:
    """Every change below a directory, and after each call those that a cut could lose."""

    base: Path
    original: Path
    changes: list[_Change] = field(default_factory=list)
    moments: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    """(changes made, those of them that are not durable)"""
    flushes: int = 0
    _pending: list[_Change] = field(default_factory=list)

    def add(self, replay: Replay, *waits: tuple[str, int]) -> None:
        change = _Change(replay, set(waits), len(self.changes))
        self.changes.append(change)
        if waits:
            self._pending.append(change)
        self._moment()

    def flushed(self, inode: int | None) -> None:
        """A file or directory was flushed; None: the whole file system."""
        self.flushes += 1
        for change in self._pending:
            change.waits -= change.waits if inode is None else {(_CONTENT, inode), (_NAMES, inode)}
        self._pending = [change for change in self._pending if change.waits]
        self._moment()

    def _moment(self) -> None:
        self.moments.append((len(self.changes), frozenset(change.index for change in self._pending)))

    def cut(self, moment: int, chosen: random.Random | None, target: Path) -> None:
        """Make in `target` what a cut at a moment may leave; without `chosen` all is lost that can be."""
        made, pending = self.moments[moment]
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.original, target, symlinks=True)
        disk = _Disk.of(self.original, target)
        for change in self.changes[:made]:
            if change.index not in pending or (chosen is not None and chosen.random() < 0.5):
                change.replay(disk)


class _Disk:
    """The replayed tree: where each inode of the recorded one is in it."""

    def __init__(self) -> None:
        self.directories: dict[int, Path] = {}
        self.files: dict[int, set[Path]] = {}

    @classmethod
    def of(cls, original: Path, target: Path) -> _Disk:
        disk = cls()
        for path in [original, *sorted(original.rglob("*"))]:
            status, new = path.lstat(), target / path.relative_to(original)
            kept = _INODES[original, path]
            if stat.S_ISDIR(status.st_mode):
                disk.directories[kept] = new
            else:
                disk.files.setdefault(kept, set()).add(new)
            os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
        return disk

    def at(self, directory: int, name: str) -> Path | None:
        held = self.directories.get(directory)
        return None if held is None or not held.is_dir() else held / name

    def file(self, inode: int) -> Path | None:
        return next(iter(self.files.get(inode, ())), None)

    def moved(self, old: Path, new: Path) -> None:
        """Everything at or below a path has another one."""
        for paths in self.files.values():
            paths.discard(new)
        for inode, paths in self.files.items():
            self.files[inode] = {_moved(path, old, new) for path in paths}
        self.directories = {inode: _moved(path, old, new) for inode, path in self.directories.items()}

    def gone(self, path: Path) -> None:
        for paths in self.files.values():
            paths.discard(path)


_INODES: dict[tuple[Path, Path], int] = {}
"""(copy of the tree as it was, path in it) -> the inode of the recorded one"""


def _moved(path: Path, old: Path, new: Path) -> Path:
    return new / path.relative_to(old) if path == old or old in path.parents else path


class _Calls:
    """Each stands for the function of `os` of that name, which it is given first."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded

    def _place(self, path: Any, directory: int | None) -> tuple[int, str] | None:
        """Inode of the directory, and the name in it; None for what is elsewhere."""
        base = Path.cwd() if directory is None else Path(f"/proc/self/fd/{directory}").readlink()
        where = base / os.fspath(path)
        return (where.parent.stat().st_ino, where.name) if where.is_relative_to(self.recorded.base) else None

    def _is_inside(self, descriptor: int) -> bool:
        return Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(self.recorded.base)

    def open(self, real: Any, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        place = self._place(path, dir_fd) if flags & os.O_CREAT else None
        is_new = place is not None and not _is_there(path, dir_fd)
        descriptor = real(path, flags, mode, dir_fd=dir_fd)
        if is_new and place is not None:
            inode, (directory, name) = os.fstat(descriptor).st_ino, place

            def replay(disk: _Disk) -> None:
                new = disk.at(directory, name)
                if new is not None:
                    new.touch(0o600)
                    disk.files[inode] = {new}

            self.recorded.add(replay, (_NAMES, directory))
        return descriptor

    def _content(self, descriptor: int, change: Callable[[Path], None]) -> None:
        if not self._is_inside(descriptor):
            return
        inode = os.fstat(descriptor).st_ino

        def replay(disk: _Disk) -> None:
            path = disk.file(inode)
            if path is not None:
                change(path)

        self.recorded.add(replay, (_CONTENT, inode))

    def pwrite(self, real: Any, descriptor: int, data: Any, position: int) -> Any:
        kept = bytes(data)

        def change(path: Path) -> None:
            with path.open("r+b") as file:
                os.lseek(file.fileno(), position, os.SEEK_SET)
                file.write(kept)

        count = real(descriptor, data, position)
        self._content(descriptor, change)
        return count

    def ftruncate(self, real: Any, descriptor: int, size: int) -> Any:
        real(descriptor, size)
        self._content(descriptor, lambda path: os.truncate(path, size))

    def utime(self, real: Any, path: Any, **given: Any) -> Any:
        """The time of a file is durable at once: it comes after a flush of the file, and nothing relies on it."""
        real(path, **given)
        where = Path(f"/proc/self/fd/{path}").readlink() if isinstance(path, int) else None
        place = None if where is not None else self._place(path, given.get("dir_fd"))
        if place is None and (where is None or not where.is_relative_to(self.recorded.base)):
            return
        status = os.fstat(path) if isinstance(path, int) else os.stat(
            path, dir_fd=given.get("dir_fd"), follow_symlinks=False
        )  # fmt: skip
        inode = status.st_ino

        def replay(disk: _Disk) -> None:
            found = disk.directories.get(inode) or disk.file(inode)
            if found is not None and found.exists():
                os.utime(found, ns=given["ns"])

        is_directory = stat.S_ISDIR(status.st_mode)
        self.recorded.add(replay, *([(_CONTENT, inode)] if is_directory else []))

    def fchmod(self, real: Any, descriptor: int, mode: int) -> Any:
        real(descriptor, mode)
        self._content(descriptor, lambda path: path.chmod(mode))

    def fsync(self, real: Any, descriptor: int) -> Any:
        real(descriptor)
        if self._is_inside(descriptor):
            self.recorded.flushed(os.fstat(descriptor).st_ino)

    def rename(self, real: Any, source: Any, target: Any, **given: Any) -> Any:
        old, new = self._place(source, given.get("src_dir_fd")), self._place(target, given.get("dst_dir_fd"))
        real(source, target, **given)
        if old is None or new is None:
            return

        def replay(disk: _Disk) -> None:
            before, after = disk.at(*old), disk.at(*new)
            if before is not None and after is not None and os.path.lexists(before):
                before.rename(after)
                disk.moved(before, after)

        self.recorded.add(replay, (_NAMES, old[0]), (_NAMES, new[0]))

    def link(self, real: Any, source: Any, target: Any, **given: Any) -> Any:
        old, new = self._place(source, given.get("src_dir_fd")), self._place(target, given.get("dst_dir_fd"))
        real(source, target, **given)
        if old is None or new is None:
            return

        def replay(disk: _Disk) -> None:
            before, after = disk.at(*old), disk.at(*new)
            if before is not None and after is not None and before.exists() and not after.exists():
                os.link(before, after)
                next(paths for paths in disk.files.values() if before in paths).add(after)

        self.recorded.add(replay, (_NAMES, new[0]))

    def unlink(self, real: Any, path: Any, *, dir_fd: int | None = None) -> Any:
        place = self._place(path, dir_fd)
        real(path, dir_fd=dir_fd)
        if place is None:
            return

        def replay(disk: _Disk) -> None:
            found = disk.at(*place)
            if found is not None and os.path.lexists(found):
                found.unlink()
                disk.gone(found)

        self.recorded.add(replay, (_NAMES, place[0]))

    def mkdir(self, real: Any, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        place = self._place(path, dir_fd)
        real(path, mode, dir_fd=dir_fd)
        if place is None:
            return
        inode = os.stat(path, dir_fd=dir_fd).st_ino

        def replay(disk: _Disk) -> None:
            new = disk.at(*place)
            if new is not None and not new.exists():
                new.mkdir(mode)
                disk.directories[inode] = new

        self.recorded.add(replay, (_NAMES, place[0]))

    def rmdir(self, real: Any, path: Any, *, dir_fd: int | None = None) -> Any:
        place = self._place(path, dir_fd)
        real(path, dir_fd=dir_fd)
        if place is None:
            return

        def replay(disk: _Disk) -> None:
            found = disk.at(*place)
            if found is not None and found.is_dir() and not list(found.iterdir()):
                found.rmdir()

        self.recorded.add(replay, (_NAMES, place[0]))


def _is_there(path: Any, directory: int | None) -> bool:
    try:
        os.stat(path, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


_RECORDED = "open", "pwrite", "ftruncate", "utime", "fchmod", "fsync", "rename", "link", "unlink", "mkdir", "rmdir"


@contextmanager
def recording(base: Path, copy: Path, patch: pytest.MonkeyPatch, *, deaf: bool = False) -> Iterator[Recorded]:
    """Record what this process changes below `base`, of which a copy is made first.

    `deaf`: as if flushing a whole file system did nothing.
    """
    shutil.copytree(base, copy, symlinks=True)
    for path in [base, *base.rglob("*")]:
        _INODES[copy, copy / path.relative_to(base)] = path.lstat().st_ino
    recorded = Recorded(base, copy)
    calls = _Calls(recorded)
    with patch.context() as patched:
        for name in _RECORDED:
            real, method = getattr(os, name), getattr(calls, name)

            def call(*given: Any, _method: Any = method, _real: Any = real, **named: Any) -> Any:
                return _method(_real, *given, **named)

            patched.setattr(os, name, call)

        def whole(descriptor: int) -> bool:
            if not deaf:
                recorded.flushed(None)
            return True

        patched.setattr(descriptors, "flush_file_system", whole)
        yield recorded
