"""What is below a directory, exactly: for saying that a tree is the same, or what is different."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from testkit.made.sparse import copy_folder, data_of

__all__ = ["contents", "copy_tree", "first_difference", "stamps"]

_PIECE = 1 << 16
_ZEROS = bytes(_PIECE)
_STRAY = re.compile(r"\.[0-9a-f]{32}-stray/")


def contents(root: Path) -> dict[str, tuple[int, str]]:
    """Relative path -> (size, SHA-256) of every file but locks; the random part of a stray's name is hidden."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name != ".lock":
            data = path.read_bytes()
            relative = _STRAY.sub(".<uuid>-stray/", str(path.relative_to(root)))
            found[relative] = (len(data), hashlib.sha256(data).hexdigest())
    return found


def stamps(root: Path) -> dict[str, tuple[int, int, str]]:
    """Relative path -> (mtime in ns, mode, what it holds) of the root and all in it but the broker's lock file."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))] if root.exists() else ():
        if path.name == ".lock":
            continue
        status = path.lstat()
        if path.is_symlink():
            held = "link to " + os.readlink(path)
        elif path.is_file():
            held = _held(path)
        else:
            held = "directory"
        found[str(path.relative_to(root))] = (status.st_mtime_ns, status.st_mode, held)
    return found


def _held(path: Path) -> str:
    """The same for two files exactly if they hold the same; what is all zeros counts by its place, and costs nothing.

    A killed broker leaves 10 MiB preallocated indexes for every partition.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        size, seen = os.fstat(file.fileno()).st_size, 0
        for start, end in data_of(file.fileno(), size):
            for position in range(max(seen, start - start % _PIECE), end, _PIECE):
                piece = os.pread(file.fileno(), _PIECE, position)
                seen = position + _PIECE
                if piece != _ZEROS[: len(piece)]:
                    digest.update(b"%d:%d:%b" % (position, len(piece), piece))
    return f"{size} bytes, {digest.hexdigest()}"


def first_difference(got: Mapping[str, object], want: Mapping[str, object]) -> str:
    """The first path that differs, for an assertion's message; empty if none does."""
    for path in sorted({*got, *want}):
        if got.get(path) != want.get(path):
            return f"{path}: got {got.get(path)}, expected {want.get(path)}"
    return ""


def copy_tree(source: Path, target: Path) -> Path:
    """A copy with times, links as links."""
    copy_folder(source, target)
    for path in [source, *source.rglob("*")]:
        status = path.lstat()
        os.utime(target / path.relative_to(source), ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
    return target
