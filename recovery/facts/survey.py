"""The facts a plan is made of and bound to: every file of a log directory, seen once, read-only.

A plan is valid only for what was surveyed: size, inode and modification time of each file it touches are compared
again before anything is changed.  A directory that cannot be read can be left out: nothing in it is then known, and
nothing of it is touched.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from kafkalog.classes import dataclass
from kafkalog.codec.common.quickly import quickly
from kafkalog.codec.errors import StorageError, UsageError
from kafkalog.codec.framing import first_batch_bytes
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.names import LOCK_FILE, FileKind
from kafkalog.codec.source import Source
from kafkalog.log.disk.files import Entry, ListedSource, exists, scan_directory, what_it_is
from kafkalog.log.disk.pointer import POINTER, POINTER_BEFORE
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.facts.scratch import SCRATCH, Scratch

__all__ = ["LINKED_DIRECTORY", "FileFacts", "Survey", "facts_of", "survey"]

LINKED_DIRECTORY = "a symbolic link to a directory"

_OPEN_FILES = 64
_SMALL_BYTES = 1 << 16
_BYTES_OF_A_SOURCE = 300
"""What a file takes in memory besides its content, about."""
_KEPT_BYTES = 16 << 20
"""Of small files, which one examination after the other reads."""
_NS_IN_MS = 1_000_000
_COMES_AND_GOES = frozenset({LOCK_FILE, POINTER, POINTER_BEFORE})


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What identifies a file and its content without reading it."""

    size: int
    mtime_ns: int
    device: int
    inode: int
    links: int
    allocated: int = 0
    """bytes on disk: fewer than `size` where there are holes"""

    @property
    def identity(self) -> tuple[int, int, int, int, int]:
        """What changes when somebody else puts another content, another file or another name in its place."""
        return self.size, self.mtime_ns, self.device, self.inode, self.links


_facts = quickly(FileFacts)
OnRead = Callable[[str, int], None]


@dataclass(slots=True)
class Survey:
    """A log directory as it is; paths are relative to `root`, with `/`."""

    root: str
    files: Mapping[str, FileFacts]
    directories: Mapping[str, int]
    """modification time in ns"""
    special: Mapping[str, str]
    """live symbolic links, FIFOs and the like, and what they are"""
    dangling: frozenset[str] = frozenset()
    """dangling symbolic links"""
    on_read: OnRead | None = None
    """told the path and the end of every read"""
    follows: bool = False
    """live symbolic links count as what they lead to, as for a broker"""
    is_partial: bool = False
    """only some of the partition directories were examined"""
    unreadable: Mapping[str, StorageError] = field(default_factory=dict)
    """directory below the root, or file of its own -> what the operating system said; it is in none of the others"""
    outside: dict[str, FileFacts] = field(default_factory=dict)
    """real path -> file of another directory from which something is to come"""
    tables: HeaderTables | None = None
    """of logs that are read here or were read before; made when the first tree is"""
    scratch: Scratch | None = None
    """where a tree's computed bytes go; None: they stay in memory"""
    _open: OrderedDict[str, ListedSource] = field(default_factory=OrderedDict, repr=False)
    _kept: _SmallFiles = field(default_factory=lambda: _SmallFiles(), repr=False)
    _pristine: Tree | None = field(default=None, init=False, repr=False)
    """the virtual copy that nobody changes"""

    def __reduce__(self) -> tuple[Any, ...]:
        """Files that are open or kept in memory, and who is told of reads, stay in their process."""
        seen = self.root, self.files, self.directories, self.special, self.dangling
        return Survey, (*seen, None, self.follows, self.is_partial, self.unreadable, self.outside)

    def directory_of(self, path: object) -> str | None:
        """The directory below the root, one that was examined, in which a file is, or which is the path itself."""
        if not isinstance(path, str | os.PathLike):
            return None
        relative = os.path.relpath(os.path.realpath(path), self.root)
        name = relative.partition("/")[0]
        return name if name in self.directories else None

    def only(self, directories: Iterable[str]) -> Survey:
        """What was seen of the root's own files and of some of its directories."""
        wanted = frozenset(directories)

        def is_in(path: str) -> bool:
            top = path.partition("/")[0]
            return top in wanted if "/" in path else top in wanted or top not in self.directories

        return replace(
            self,
            files={path: facts for path, facts in self.files.items() if is_in(path)},
            directories={path: at for path, at in self.directories.items() if is_in(path)},
            special={path: what for path, what in self.special.items() if is_in(path)},
            dangling=frozenset(path for path in self.dangling if is_in(path)),
        )

    def without(self, unreadable: Mapping[str, StorageError]) -> Survey:
        """What was seen but for directories, and files of the root's own, that turned out not to be readable."""
        if not unreadable:
            return self
        kept = self.only(path for path in self.directories if "/" not in path and path not in unreadable)
        files = {path: facts for path, facts in kept.files.items() if path not in unreadable}
        return replace(kept, files=files, unreadable={**self.unreadable, **unreadable})

    def tree(self) -> Tree:
        """A virtual copy of all of it."""
        if self._pristine is None:
            self._pristine = self._new_tree()
        return self._pristine.copy()

    def _new_tree(self) -> Tree:
        sizes = {path: facts.size for path, facts in self.files.items()}
        if self.tables is None:
            logs = {path: size for path, size in sizes.items() if path.endswith(FileKind.LOG.value)}
            largest = max(logs, key=logs.__getitem__, default="")
            self.tables = HeaderTables(sum(logs.values()), lambda: first_batch_bytes(lambda: self.source(largest)))
        tables, prefix = self.tables, os.path.join(self.root, "")
        return Tree(
            sizes,
            self.directories,
            self.source,
            (lambda path, size: tables.of(prefix + path, size)) if tables.is_worthwhile else None,
            self.dangling,
            lambda path: self.files[path].mtime_ns // _NS_IN_MS if path in self.files else 0,
            None if self.scratch is None else self.scratch.keep,
        )

    def source(self, path: str) -> Source:
        """The opened file, its bytes where they are few, or the scratch file; a bounded number stay open."""
        kept = self._kept.get(path)
        if kept is not None:
            return kept
        if self.scratch is not None and path == SCRATCH:
            return self.scratch
        source = self._open.get(path)
        if source is not None:
            self._open.move_to_end(path)
            return source
        listed = self.files[path].size if path in self.files else 0
        place = os.path.join(self.root, path)
        source = _CountingSource(os.path.realpath(place) if self.follows else place, path, self.on_read, listed)
        if listed == source.size <= _SMALL_BYTES:
            with source:
                return self._kept.keep(path, source.read(0, listed))
        self._open[path] = source
        if len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return source

    def first_change(self, other: Survey) -> str | None:
        """The first path that a later survey sees otherwise; the broker's lock and a quarantine's pointer apart.

        What is in directories that are left out here is nobody's concern.  Files of other directories are looked at.
        """
        for path, facts in self.outside.items():
            try:
                now = facts_of(os.stat(path))
            except OSError:
                return path
            if facts.identity != now.identity:
                return path
        for path in sorted({*self.files, *other.files, *self.directories, *other.directories}):
            if path in _COMES_AND_GOES or path.partition("/")[0] in self.unreadable:
                continue
            before, after = self.files.get(path), other.files.get(path)
            if (before is None) is not (after is None) or (path in self.directories) is not (path in other.directories):
                return path
            if before is not None and after is not None and before.identity != after.identity:
                return path
        for path in sorted({*self.special, *other.special}):
            if path.partition("/")[0] not in self.unreadable and self.special.get(path) != other.special.get(path):
                return path
        return None

    def close(self) -> None:
        """Close what is open."""
        while self._open:
            self._open.popitem()[1].close()
        if self.scratch is not None:
            self.scratch.close()

    def __enter__(self) -> Survey:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _KeptSource:
    """The bytes of a small file."""

    __slots__ = ("_data", "size")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes from `position`; fewer only where the file ended when it was listed."""
        return self._data[position : position + length]


class _SmallFiles:
    """Small files that were read already: of as many as there is room for, those that were asked for last."""

    def __init__(self) -> None:
        self._sources: OrderedDict[str, _KeptSource] = OrderedDict()
        self._bytes = 0

    def get(self, path: str) -> _KeptSource | None:
        """The file, if it was read already."""
        source = self._sources.get(path)
        if source is not None:
            self._sources.move_to_end(path)
        return source

    def keep(self, path: str, data: bytes) -> _KeptSource:
        """The source from now on of a file."""
        self._bytes += len(data) + _BYTES_OF_A_SOURCE
        while self._bytes > _KEPT_BYTES:
            _path, oldest = self._sources.popitem(last=False)
            self._bytes -= oldest.size + _BYTES_OF_A_SOURCE
        source = self._sources[path] = _KeptSource(data)
        return source


class _CountingSource(ListedSource):
    def __init__(self, path: str, relative: str, on_read: OnRead | None, listed_size: int) -> None:
        super().__init__(path, listed_size)
        self._relative = relative
        self._on_read = on_read

    def read(self, position: int, length: int) -> bytes:
        data = super().read(position, length)
        if self._on_read is not None:
            self._on_read(self._relative, position + len(data))
        return data

    def read_into(self, position: int, target: memoryview) -> int:
        done = super().read_into(position, target)
        if self._on_read is not None:
            self._on_read(self._relative, position + done)
        return done


def facts_of(status: os.stat_result) -> FileFacts:
    """The facts of a regular file."""
    return _facts(
        status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino, status.st_nlink, status.st_blocks * 512
    )


def survey(
    root: str,
    *,
    only: frozenset[str] | None = None,
    on_read: OnRead | None = None,
    tables: HeaderTables | None = None,
    tolerant: bool = False,
    follows: bool = False,
) -> Survey:
    """List a log directory and its partition directories; `only` limits it to some of the latter.

    `tables` are those of logs that were read a moment ago, by their real paths.  With `tolerant` a directory below that
    cannot be listed is left out (`unreadable`).  With `follows` links that are not dangling are what they lead to.
    Raises `UsageError` if `root` is not a directory, `StorageError` if it cannot be read.
    """
    if not exists(root):
        raise UsageError(f"{root} does not exist")
    if not os.path.isdir(root):
        raise UsageError(f"{root} is not a directory")
    found = Survey(os.path.realpath(root), {}, {}, {}, on_read=on_read, follows=follows, is_partial=only is not None,
                   tables=tables)  # fmt: skip
    listing = _Listing(only, follows=follows)
    unreadable: dict[str, StorageError] = {}
    for entry in scan_directory(found.root):
        below = _Listing(None, follows=follows)
        try:
            listing.take(entry, entry.name)
            if entry.name in listing.directories:
                for inside in scan_directory(entry.path):
                    below.take(inside, f"{entry.name}/{inside.name}")
        except StorageError as error:
            if not (tolerant and entry.is_dir(follow_symlinks=False)):
                raise
            unreadable[entry.name] = error
            listing.directories.pop(entry.name, None)
        else:
            listing.add(below)
    return replace(
        found,
        files=listing.files,
        directories=listing.directories,
        special=listing.special,
        dangling=frozenset(listing.dangling),
        unreadable=unreadable,
    )


class _Listing:
    """What is in one directory."""

    def __init__(self, only: frozenset[str] | None, *, follows: bool) -> None:
        self._only = only
        """the directories that are meant, None for all"""
        self._follows = follows
        self.files: dict[str, FileFacts] = {}
        self.directories: dict[str, int] = {}
        self.special: dict[str, str] = {}
        self.dangling: set[str] = set()

    def take(self, entry: Entry, path: str) -> None:
        """One entry; `path` is relative to the log directory."""
        is_meant = self._only is None or entry.name in self._only
        try:
            status = entry.stat(follow_symlinks=False)
            if self._follows and stat.S_ISLNK(status.st_mode) and os.path.exists(entry.path):
                status = os.stat(entry.path)
        except FileNotFoundError:  # gone since it was listed
            return
        except OSError as error:
            raise StorageError.wrap(error, "cannot examine the file") from error
        if stat.S_ISREG(status.st_mode):
            self.files[path] = facts_of(status)
        elif stat.S_ISDIR(status.st_mode):
            if is_meant:
                self.directories[path] = status.st_mtime_ns
        elif not stat.S_ISLNK(status.st_mode):
            self.special[path] = what_it_is(status.st_mode)
        elif os.path.isdir(entry.path):
            if is_meant:
                self.special[path] = LINKED_DIRECTORY
        elif os.path.exists(entry.path):
            self.special[path] = "a symbolic link"
        else:
            self.dangling.add(path)

    def add(self, other: _Listing) -> None:
        """Take in what another directory holds."""
        self.files |= other.files
        self.directories |= other.directories
        self.special |= other.special
        self.dangling |= other.dangling
