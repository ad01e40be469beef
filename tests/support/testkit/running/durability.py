"""Which files and directories hold changes that a power cut could still take: watches the system calls themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Call", "Watch", "watching"]


@dataclass(frozen=True)
class Call:
    """One change, just before it is made: its name, the path it changes, and another path where there are two."""

    name: str
    path: Path
    other: Path | None = None


class Watch:
    """What is not yet durable, and every call so far; `before` is called ahead of each."""

    def __init__(self, before: Callable[[Watch, Call], None], ignored: frozenset[str]) -> None:
        self.files: set[Path] = set()
        self.directories: set[Path] = set()
        self.calls: list[Call] = []
        self._before = before
        self._ignored = ignored

    def pending(self, below: Path) -> list[Path]:
        """Files and directories below a path that a power cut could still lose changes of."""
        return sorted(path for path in self.files | self.directories if path.is_relative_to(below))

    def see(self, call: Call) -> bool:
        """Note a call that is about to be made; False if it is none that matters."""
        if call.path.name in self._ignored:
            return False
        self._before(self, call)
        self.calls.append(call)
        return True

    # each stands for the function of `os` of that name, which it is given first

    def open(self, real: Any, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        where = _path(path, dir_fd)
        is_new = bool(flags & os.O_CREAT) and not os.path.lexists(where)
        if is_new and self.see(Call("create", where)):
            self.directories.add(where.parent)
            self.files.add(where)
        return real(path, flags, mode, dir_fd=dir_fd)

    def content(self, real: Any, descriptor: int, *given: Any) -> Any:
        where = _opened(descriptor)
        if self.see(Call(real.__name__, where)):
            self.files.add(where)
        return real(descriptor, *given)

    def fsync(self, real: Any, descriptor: int) -> Any:
        where = _opened(descriptor)
        self.see(Call("fsync", where))
        real(descriptor)
        self.files.discard(where)
        self.directories.discard(where)

    def two(self, real: Any, source: Any, target: Any, **given: Any) -> Any:
        old, new = _path(source, given.get("src_dir_fd")), _path(target, given.get("dst_dir_fd"))
        self.see(Call(real.__name__, old, new))
        real(source, target, **given)
        self.directories.update((old.parent, new.parent) if real.__name__ == "rename" else (new.parent,))
        if old in self.files:
            self.files.add(new)
            self.files.discard(old)

    def name(self, real: Any, path: Any, *given: Any, dir_fd: int | None = None) -> Any:
        where = _path(path, dir_fd)
        is_there = os.path.lexists(where)
        matters = is_there is not (real.__name__ == "mkdir") and self.see(Call(real.__name__, where))
        real(path, *given, dir_fd=dir_fd)
        if matters:
            self.directories.add(where.parent)
        if real.__name__ != "mkdir":
            self.files.discard(where)
            self.directories.discard(where)


_WATCHED = {
    "open": Watch.open,
    "pwrite": Watch.content,
    "ftruncate": Watch.content,
    "fsync": Watch.fsync,
    "rename": Watch.two,
    "link": Watch.two,
    "unlink": Watch.name,
    "mkdir": Watch.name,
    "rmdir": Watch.name,
}


def _opened(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _path(name: Any, directory: int | None) -> Path:
    base = _opened(directory) if directory is not None else Path.cwd()
    return base.joinpath(str(os.fspath(name)))


@contextmanager
def watching(
    patch: pytest.MonkeyPatch, before: Callable[[Watch, Call], None], ignored: frozenset[str] = frozenset()
) -> Iterator[Watch]:
    """Call `before` ahead of every change that this process makes through `os`, but to files of `ignored` names."""
    watch = Watch(before, ignored)
    with patch.context() as patched:
        for name, method in _WATCHED.items():
            real = getattr(os, name)

            def call(*given: Any, _method: Any = method, _real: Any = real, **named: Any) -> Any:
                return _method(watch, _real, *given, **named)

            patched.setattr(os, name, call)
        yield watch
