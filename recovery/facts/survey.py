"""List every file of a log directory once, read-only (a survey); plans are made from a survey and bound to it.

A plan is valid only for its survey: size, inode and modification time of each file are compared again before anything
is changed. A directory that cannot be read can be left out: then nothing in it is known, and nothing in it is changed.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.source import Source
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.names import LOCK_FILE
from kafkalog.log.disk.files import Entry, ListedSource, exists, scan_directory, what_it_is
from kafkalog.log.disk.pointer import POINTER, POINTER_BEFORE
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.facts.scratch import SCRATCH, Scratch

__all__ = ["LINKED_DIRECTORY", "FileFacts", "Survey", "facts_of", "survey"]

LINKED_DIRECTORY = "a symbolic link to a directory"

_OPEN_FILES = 64
_SMALL_BYTES = 1 << 16
_BYTES_OF_A_SOURCE = 300
"""Approximate memory of a kept file besides its content, in bytes."""
_KEPT_BYTES = 16 << 20
"""Most bytes of small files that are kept in memory, because several examinations read them."""
_NS_IN_MS = 1_000_000
_COMES_AND_GOES = frozenset({LOCK_FILE, POINTER, POINTER_BEFORE})


class FileFacts(Struct, frozen=True, kw_only=True):
    """Facts that identify a file and its content without reading it."""

    size: int
    mtime_ns: int
    device: int
    inode: int
    links: int
    allocated: int = 0
    """bytes on disk: fewer than `size` if the file has holes"""

    @property
    def identity(self) -> tuple[int, int, int, int, int]:
        """Values that change if the file, its content or its number of names changes."""
        return self.size, self.mtime_ns, self.device, self.inode, self.links


OnRead = Callable[[str, int], None]


@dataclass(slots=True)
class Survey:
    """Files of a log directory at one moment. Paths are relative to `root`, with `/`. Contents are read later, by
    `source`.
    """

    root: str
    files: Mapping[str, FileFacts]
    directories: Mapping[str, int]
    """modification time in ns by directory"""
    special: Mapping[str, str]
    """description of live symbolic links, FIFOs and the like, by path"""
    dangling: frozenset[str] = frozenset()
    """dangling symbolic links"""
    on_read: OnRead | None = None
    """called after every read with the path and the end of the bytes read"""
    follows: bool = False
    """live symbolic links count as their targets, as for a broker"""
    is_partial: bool = False
    """only some of the partition directories were examined"""
    unreadable: Mapping[str, StorageError] = field(default_factory=dict)
    """directory below the root, or file of the root -> error; it is in none of the other fields"""
    outside: dict[str, FileFacts] = field(default_factory=dict)
    """real path -> facts of a file of another directory from which bytes are taken"""
    tables: HeaderTables | None = None
    """header tables of logs; made with the first tree if none are given"""
    scratch: Scratch | None = None
    """file for a tree's computed bytes; None: they stay in memory"""
    _open: OrderedDict[str, ListedSource] = field(default_factory=OrderedDict, repr=False)
    _kept: _SmallFiles = field(default_factory=lambda: _SmallFiles(), repr=False)
    _pristine: Tree | None = field(default=None, init=False, repr=False)
    """tree that is copied and never changed"""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without open files, kept content and `on_read`, which stay in their process."""
        seen = self.root, self.files, self.directories, self.special, self.dangling
        return Survey, (*seen, None, self.follows, self.is_partial, self.unreadable, self.outside)

    def directory_of(self, path: object) -> str | None:
        """Return the name of the surveyed directory below the root that is `path` or contains it; `path` is absolute or
        relative to the working directory. None if there is none, or `path` is not a string or path object.
        """
        if not isinstance(path, str | os.PathLike):
            return None
        relative = os.path.relpath(os.path.realpath(path), self.root)
        name = relative.partition("/")[0]
        return name if name in self.directories else None

    def only(self, directories: Iterable[str]) -> Survey:
        """Return a new survey with the root's own files and, among its directories, only those named in `directories`.
        `unreadable` and `is_partial` stay as they are. Open files are shared with the original.
        """
        wanted = frozenset(directories)

        def is_in(path: str) -> bool:
            top = path.partition("/")[0]
            return top in wanted if "/" in path else top in wanted or top not in self.directories

        return replace(
            self,
            files={path: facts for path, facts in self.files.items() if is_in(path)},
            directories={path: mtime_ns for path, mtime_ns in self.directories.items() if is_in(path)},
            special={path: what for path, what in self.special.items() if is_in(path)},
            dangling=frozenset(path for path in self.dangling if is_in(path)),
        )

    def without(self, unreadable: Mapping[str, StorageError]) -> Survey:
        """Return the survey without the directories and root files in `unreadable` (name -> error). They are added to
        the `unreadable` of the result. If there are none, the survey itself is returned.
        """
        if not unreadable:
            return self
        kept = self.only(path for path in self.directories if "/" not in path and path not in unreadable)
        files = {path: facts for path, facts in kept.files.items() if path not in unreadable}
        return replace(kept, files=files, unreadable={**self.unreadable, **unreadable})

    def tree(self) -> Tree:
        """Return a new tree in memory with all surveyed files; changing it does not change the survey."""
        if self._pristine is None:
            self._pristine = self._new_tree()
        return self._pristine.copy()

    def _new_tree(self) -> Tree:
        sizes = {path: facts.size for path, facts in self.files.items()}
        if self.tables is None:
            self.tables = HeaderTables()
        tables, prefix = self.tables, os.path.join(self.root, "")
        return Tree(
            sizes,
            self.directories,
            self.source,
            lambda path, size: tables.of(prefix + path, size),
            self.dangling,
            lambda path: self.files[path].mtime_ns // _NS_IN_MS if path in self.files else 0,
            None if self.scratch is None else self.scratch.keep,
        )

    def source(self, path: str) -> Source:
        """Return the source of a file's bytes; `path` is relative to the root. A file of up to 64 KiB that has its
        surveyed size is read at once, and kept in memory as long as there is room. Other files are opened. At most 64
        stay open: the one unused longest is closed. The path of the scratch file gives that file. Raises `StorageError`
        if the file cannot be opened or read.
        """
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

    @property
    def partition_directories(self) -> frozenset[str]:
        """Names of the surveyed directories directly below the root, and of everything there that cannot be read."""
        return frozenset(path for path in (*self.directories, *self.unreadable) if "/" not in path)

    def first_change(self, other: Survey) -> str | None:
        """Return the first path that differs in the later survey `other`; None if nothing has changed. A file differs
        if it has another size, modification time, device, inode or number of hard links. An entry differs if it is new,
        gone or of another kind.

        Files of other directories from which bytes are taken are examined again on disk, first. Then come files and
        directories by path, then special entries by path. The broker's lock, the pointer file, dangling links, and
        directories and root files that are unreadable here are ignored.
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
        """Close all open files."""
        while self._open:
            self._open.popitem()[1].close()
        if self.scratch is not None:
            self.scratch.close()

    def __enter__(self) -> Survey:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _KeptSource:
    """Content of a small file in memory."""

    __slots__ = ("_data", "size")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`; fewer at the end of the file."""
        return self._data[position : position + length]


class _SmallFiles:
    """Content of small files that were read, kept in memory up to 16 MiB."""

    def __init__(self) -> None:
        self._sources: OrderedDict[str, _KeptSource] = OrderedDict()
        self._bytes = 0

    def get(self, path: str) -> _KeptSource | None:
        """Return a kept file; None if it is not kept."""
        source = self._sources.get(path)
        if source is not None:
            self._sources.move_to_end(path)
        return source

    def keep(self, path: str, data: bytes) -> _KeptSource:
        """Keep the content `data` of the file `path`; return a source that reads it. If the limit is exceeded, the
        files that were unused longest are dropped.
        """
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
    """Return the facts of a regular file from its stat: size and allocated bytes, modification time (ns), device, inode
    and number of links.
    """
    return FileFacts(
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        device=status.st_dev,
        inode=status.st_ino,
        links=status.st_nlink,
        allocated=status.st_blocks * 512,
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
    """List a log directory and the directories in it, but nothing deeper; no file is opened. Symbolic links are listed
    as such. An entry that is gone when it is examined is left out.

    Raises `UsageError` if `root` is missing or not a directory. Raises `StorageError` if it cannot be listed or has an
    entry that cannot be examined; without `tolerant` also for a directory in it.

    * `only`: names of the directories to list; None: all. The root's own files are always listed
    * `on_read`: called after each later read of a file with its path and the end of the bytes read
    * `tables`: header tables of logs that were just read, by real path
    * `tolerant`: leave out a directory that cannot be listed or examined, and put its error into `unreadable`
    * `follows`: list live symbolic links as their targets, as a broker sees them
    """
    if not exists(root):
        raise UsageError(f"{root} does not exist")
    if not os.path.isdir(root):
        raise UsageError(f"{root} is not a directory")
    result = Survey(os.path.realpath(root), {}, {}, {}, on_read=on_read, follows=follows, is_partial=only is not None,
                   tables=tables)  # fmt: skip
    listing = _Listing(only, follows=follows)
    unreadable: dict[str, StorageError] = {}
    for entry in scan_directory(result.root):
        below = _Listing(None, follows=follows)
        try:
            listing.take(entry, entry.name)
            if entry.name in listing.directories:
                for inside in scan_directory(entry.path):
                    below.take(inside, f"{entry.name}/{inside.name}")
        except StorageError as error:
            is_directory = entry.is_dir(follow_symlinks=False) or (follows and os.path.isdir(entry.path))
            if not (tolerant and is_directory):
                raise
            unreadable[entry.name] = error
            listing.directories.pop(entry.name, None)
        else:
            listing.add(below)
    return replace(
        result,
        files=listing.files,
        directories=listing.directories,
        special=listing.special,
        dangling=frozenset(listing.dangling),
        unreadable=unreadable,
    )


class _Listing:
    """Collects the entries of a directory by kind: files, directories, special entries, dangling links."""

    def __init__(self, only: frozenset[str] | None, *, follows: bool) -> None:
        self._only = only
        """names of the directories to list; None: all"""
        self._follows = follows
        self.files: dict[str, FileFacts] = {}
        self.directories: dict[str, int] = {}
        self.special: dict[str, str] = {}
        self.dangling: set[str] = set()

    def take(self, entry: Entry, path: str) -> None:
        """Add one entry to the collection of its kind; `path` is relative to the log directory. A live symbolic link
        counts as its target if links are followed, else as special. Three kinds of entries are skipped: directories
        that are not selected, links to directories that are not selected under the link's name, and entries that no
        longer exist. Raises `StorageError` if an entry cannot be examined.
        """
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
        """Add the entries of another directory."""
        self.files |= other.files
        self.directories |= other.directories
        self.special |= other.special
        self.dangling |= other.dangling
