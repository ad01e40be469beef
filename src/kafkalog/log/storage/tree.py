"""The `Disk` in memory: a virtual directory tree whose files can be changed without changing the real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSet
from typing import TYPE_CHECKING, Any

from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.common.source import Source
from kafkalog.codec.names import TEMPORARY, FileKind, is_seen_by_java, parse_segment_file, segment_file
from kafkalog.log.storage.content import (
    Content,
    ContentSource,
    Literal,
    Part,
    Slice,
    join,
    same_bytes,
)
from kafkalog.log.storage.java import JavaIOError, TooLargeError
from kafkalog.log.storage.virtual_files import VirtualFile, VirtualLog, VirtualSlots

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["Tree"]

_LOG = FileKind.LOG.value
_EMPTY = Content()


class _Files(MutableMapping[str, Content]):
    """Mutable map from file path to content, grouped by directory. A copy shares the directories until one of the two
    maps changes them.
    """

    def __init__(self, directories: dict[str, dict[str, Content]] | None = None) -> None:
        self._directories: dict[str, dict[str, Content]] = {} if directories is None else directories
        self._shared = set(self._directories)
        """directories whose dictionaries are shared with another map; they are copied before a change"""
        self._changes: dict[tuple[str, str], int] = {}
        self._sorted: dict[str, list[str]] = {}
        """cached sorted file names by directory, until a file is created or removed"""
        self._seen: dict[str, list[str]] = {}
        """cached names that a JVM can open"""
        self._logs: dict[str, list[tuple[int, str]]] = {}
        """cached logs of directories"""

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        directory, _, name = path.rpartition("/")
        return name in self._directories.get(directory, ())

    def __getitem__(self, path: str) -> Content:
        directory, _, name = path.rpartition("/")
        try:
            return self._directories[directory][name]
        except KeyError:
            raise KeyError(path) from None

    def __setitem__(self, path: str, content: Content) -> None:
        directory, _, name = path.rpartition("/")
        held = self._own(directory)
        if name not in held:
            self._came_or_went(directory, name)
        held[name] = content

    def __delitem__(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        try:
            del self._own(directory)[name]
        except KeyError:
            raise KeyError(path) from None
        self._came_or_went(directory, name)

    def get(self, path: str, default: Any = None) -> Any:
        """Return a file's content, or `default` if the file does not exist. Unlike the inherited method it raises no
        exception inside, which would be slow: most calls are about files that do not exist.
        """
        directory, _, name = path.rpartition("/")
        held = self._directories.get(directory)
        return default if held is None else held.get(name, default)

    def discard(self, path: str) -> None:
        """Remove a file from the map; do nothing if it does not exist."""
        directory, _, name = path.rpartition("/")
        held = self._directories.get(directory)
        if held is not None and name in held:
            del self._own(directory)[name]
            self._came_or_went(directory, name)

    def _own(self, directory: str) -> dict[str, Content]:
        """Return the dict of file names and contents of a directory, for the caller to change. It is created if
        missing, and copied first if it is shared with another map.
        """
        held = self._directories.get(directory)
        if held is None:
            held = self._directories[directory] = {}
        elif directory in self._shared:
            held = self._directories[directory] = dict(held)
            self._shared.discard(directory)
        return held

    def _came_or_went(self, directory: str, name: str) -> None:
        key = directory, name.rpartition(".")[2]
        self._changes[key] = self._changes.get(key, 0) + 1
        self._sorted.pop(directory, None)
        self._seen.pop(directory, None)
        if name.endswith(_LOG):
            self._logs.pop(directory, None)

    def __iter__(self) -> Iterator[str]:
        for directory, names in self._directories.items():
            for name in names:
                yield f"{directory}/{name}" if directory else name

    def __len__(self) -> int:
        return sum(len(names) for names in self._directories.values())

    def put(self, directory: str, contents: Mapping[str, Content]) -> None:
        """Replace all files directly in a directory by `contents` (file name to content). Files that are not in
        `contents` are removed.
        """
        held = self._directories.get(directory, {})
        if held.keys() != contents.keys():
            for name in held.keys() ^ contents.keys():
                self._came_or_went(directory, name)
        self._directories[directory] = dict(contents)
        self._shared.discard(directory)

    def names(self, directory: str) -> list[str]:
        """Return the names of the files directly in a directory, sorted."""
        names = self._sorted.get(directory)
        if names is None:
            names = self._sorted[directory] = sorted(self._directories.get(directory, ()))
        return names.copy()

    def seen(self, directory: str) -> list[str]:
        """Return the names of the files directly in a directory that a JVM can open (others have undecodable names),
        sorted. Empty for an unknown directory. The result is cached until a name changes.
        """
        names = self._seen.get(directory)
        if names is None:
            names = self.names(directory)
            if not "".join(names).isascii():
                names = [name for name in names if is_seen_by_java(name)]
            self._seen[directory] = names
        return names.copy()

    def logs(self, directory: str) -> list[tuple[int, str]]:
        """Return base offset and path of the logs directly in a directory whose names are Kafka's own, by base
        offset.
        """
        logs = self._logs.get(directory)
        if logs is None:
            logs = self._logs[directory] = sorted(_logs(directory, self._directories.get(directory, ())))
        return logs.copy()

    def changes(self, directory: str, suffix: str) -> int:
        """Return how often a file with this suffix (without the dot) was created or removed in a directory."""
        return self._changes.get((directory, suffix), 0)

    def copy(self) -> _Files:
        """Return an independent copy."""
        other = _Files(dict(self._directories))
        self._shared = set(self._directories)
        other._sorted, other._seen, other._logs = dict(self._sorted), dict(self._seen), dict(self._logs)
        return other

    def of(self, *directories: str) -> _Files:
        """Return an independent map with only the files directly in these directories; unknown directories are skipped.
        Both maps share the dictionaries until one of the maps changes them.
        """
        other = _Files({
            directory: self._directories[directory] for directory in directories if directory in self._directories
        })  # fmt: skip
        self._shared |= other._shared
        for directory in filter(None, directories):  # callers request these lists next
            if directory not in self._seen or directory not in self._logs:
                self.seen(directory)
                self.logs(directory)
            other._sorted[directory], other._seen[directory] = self._sorted[directory], self._seen[directory]
            other._logs[directory] = self._logs[directory]
        return other


def _of_originals(sizes: Mapping[str, int]) -> _Files:
    directories: dict[str, dict[str, Content]] = {}
    for path, size in sizes.items():
        directory, _, name = path.rpartition("/")
        content = Content((Slice(path, 0, size),)) if size else _EMPTY
        directories.setdefault(directory, {})[name] = content
    return _Files(directories)


def _logs(directory: str, names: Iterable[str]) -> Iterator[tuple[int, str]]:
    for name in names:
        parsed = parse_segment_file(name) if name.endswith(_LOG) else None
        if parsed is not None and segment_file(parsed.base_offset, FileKind.LOG) == name:
            yield parsed.base_offset, f"{directory}/{name}"


class _Directories(MutableSet[str]):
    """Set of directory paths, grouped by their first name."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._of_first: dict[str, set[str]] = {}
        for path in paths:
            self.add(path)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and path in self._of_first.get(path.partition("/")[0], ())

    def __iter__(self) -> Iterator[str]:
        for paths in self._of_first.values():
            yield from paths

    def __len__(self) -> int:
        return sum(len(paths) for paths in self._of_first.values())

    def add(self, value: str) -> None:
        self._of_first.setdefault(value.partition("/")[0], set()).add(value)

    def discard(self, value: str) -> None:
        self._of_first.get(value.partition("/")[0], set()).discard(value)

    def copy(self) -> _Directories:
        """Return an independent copy."""
        other = _Directories(())
        other._of_first = {first: set(paths) for first, paths in self._of_first.items()}
        return other

    def of(self, firsts: Iterable[str]) -> _Directories:
        """Return an independent copy with only those directories of the root that are in `firsts`, if they exist, and
        everything below them.
        """
        other = _Directories(())
        other._of_first = {first: set(self._of_first[first]) for first in firsts if first in self._of_first}
        return other

    def within(self, first: str) -> set[str]:
        """Return a directory of the root, if it exists, and all directories below it."""
        return self._of_first.get(first, set())


class Tree:
    """Files and directories below one root, by relative path with `/`. Symbolic links to existing files and special
    files are not included. `links` are dangling symbolic links. They cannot be read, and `create` refuses their paths.
    A file that is written in place of one is in the tree, and `written_through` returns the link: a broker would write
    to its target. `origin` opens an original file by its path.
    """

    def __init__(
        self,
        files: Mapping[str, int] | _Files,
        directories: Iterable[str],
        origin: Callable[[str], Source],
        headers: Callable[[str, int], HeaderTable | None] | None = None,
        links: Iterable[str] = (),
        modified_ms: Callable[[str], int] = lambda path: 0,
        spool: Callable[[bytes], Slice] | None = None,
    ) -> None:
        self.files = files if isinstance(files, _Files) else _of_originals(files)
        self.directories = directories if isinstance(directories, _Directories) else _Directories(directories)
        self.links = frozenset(links)
        self.renamed_directories: list[tuple[str, str]] = []
        self._origin = origin
        self._headers = headers
        self._modified_ms = modified_ms
        self._spool = spool
        self.times: dict[str, int] = {}
        """modification times in ms by path, for files whose time was set"""

    def _with(self, files: _Files, directories: Iterable[str]) -> Tree:
        """Return a tree with these files and directories and the same original files."""
        return Tree(files, directories, self._origin, self._headers, self.links, self._modified_ms, self._spool)

    def part(self, *directories: str) -> Tree:
        """Return an independent tree with the root's files and these directories with their files."""
        return self._with(self.files.of("", *directories), self.directories.of(directories))

    def copy(self) -> Tree:
        """Return an independent copy."""
        other = self._with(self.files.copy(), self.directories.copy())
        other.times = dict(self.times)
        other.renamed_directories = list(self.renamed_directories)
        return other

    def source(self, path: str) -> ContentSource:
        """Return a reader of a file's current content."""
        return ContentSource(self.files[path], self._origin)

    def reader(self, content: Content) -> ContentSource:
        """Return a reader of a content that a file has or had."""
        return ContentSource(content, self._origin)

    def headers(self, path: str) -> HeaderTable | None:
        """Return the header table of a log (headers of its valid batches) if its content is the beginning of an
        original file, or all of it. Return None for other or empty content, and without compiled code. Raises
        `KeyError` if the file does not exist; a tree that was made without `headers` returns None instead.
        """
        if self._headers is None:
            return None
        match self.files[path].parts:
            case (Slice(origin=origin, start=0, length=size),):
                return self._headers(origin, size)
        return None

    def read(self, path: str, limit: int = DEFAULT_LIMITS.checkpoint_bytes) -> bytes:
        """Return the whole content of a small file. Raises `TooLargeError` if it has more than `limit` bytes. Raises
        `StorageError` if the original file cannot be read.
        """
        source = self.source(path)
        if source.size > limit:
            raise TooLargeError(f"{path} has {source.size} bytes; no more than {limit} of such a file are read")
        return bytes(source.read(0, source.size))

    def open_log(self, path: str, *, create: bool | None = None) -> VirtualLog:
        """Open a log file, and create it if it does not exist. `create` is ignored."""
        return VirtualLog(self, path)

    def slots(self, path: str, entry_size: int, max_size: int) -> VirtualSlots:
        """Open an index as a broker maps it."""
        return VirtualSlots(self, path, entry_size, max_size)

    def open_or_create_later(self, path: str) -> VirtualFile:
        """Return a file that is created when it is first needed."""
        return VirtualFile(self, path)

    def is_same(self, path: str, other: Tree, its_path: str) -> bool:
        """Whether a file has the same bytes as the file `its_path` of another tree with the same original files. Raises
        `KeyError` if one does not exist, `StorageError` if an original file cannot be read.
        """
        return self.is_content(path, other.files[its_path])

    def is_content(self, path: str, content: Content) -> bool:
        """Whether a file has the same bytes as a content with the same original files. Raises `KeyError` if the file
        does not exist, `StorageError` if an original file cannot be read.
        """
        return same_bytes(self.files[path], content, self._origin)

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this path. A dangling symbolic link does not count."""
        return path in self.files or path in self.directories

    def names(self, directory: str) -> list[str]:
        """Return the names of the regular files directly in a directory that a JVM can open, sorted."""
        return self.files.seen(directory)

    def all_names(self, directory: str) -> list[str]:
        """Return the names of the regular files directly in a directory, sorted, also those that are not UTF-8."""
        return self.files.names(directory)

    def logs(self, directory: str) -> list[tuple[int, str]]:
        """Return base offset and path of the logs directly in a directory whose names are Kafka's own, by base
        offset.
        """
        return self.files.logs(directory)

    def changes(self, directory: str, suffix: str) -> int:
        """Return how often a file with this suffix (without the dot) was created or removed in a directory."""
        return self.files.changes(directory, suffix)

    def subdirectories(self) -> list[str]:
        """Return the names of the directories directly below the root that a JVM can open, sorted."""
        return sorted(path for path in self.directories if "/" not in path and is_seen_by_java(path))

    def written_through(self) -> str | None:
        """Return the original path of the first dangling symbolic link in whose place a file was written; None if there
        is none. If a directory was renamed, the file is looked for under its new name.
        """
        old_name = {new: old for old, new in self.renamed_directories}
        for path in self.links:
            directory, separator, name = path.partition("/")
            now = next((new for new, old in old_name.items() if old == directory), directory)
            if now + separator + name in self.files:
                return path
        return None

    def is_file(self, path: str) -> bool:
        """Whether a regular file has this path."""
        return path in self.files

    def is_directory(self, path: str) -> bool:
        """Whether a directory has this path."""
        return path in self.directories

    def computed(self, data: bytes) -> Part:
        """Return a part of a file with these bytes. If the tree has a spool, they are written to its temporary file
        instead of being kept in memory.
        """
        return Literal(data) if self._spool is None else self._spool(data)

    def modified_ms(self, path: str) -> int:
        """Return the modification time of a file in ms since 1970. A time that was set with `set_modified_ms` comes
        first. Otherwise, if the content begins with bytes of an original file, it is the time of this file. Otherwise
        it is the time of the original file at `path`, or 0 if there was none. Raises `KeyError` if no time was set and
        the file does not exist.
        """
        if path in self.times:
            return self.times[path]
        match self.files[path].parts:
            case (Slice(origin=origin), *_):
                return self._modified_ms(origin)
        return self._modified_ms(path)

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set the modification time of a file, in ms since 1970."""
        self.times[path] = time_ms

    def create(self, path: str) -> None:
        """Create an empty file. Raises `JavaIOError` if a directory or a dangling link has the path, which a broker
        cannot read either.
        """
        if path in self.directories or path in self.links:
            raise JavaIOError(f"{path} (Is a directory)" if path in self.directories else path)
        self.write(path, b"")

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file, also in place of a dangling link."""
        self.files[path] = join([Literal(data)])

    def overwrite(self, path: str, data: bytes) -> None:
        """Write `data` over the start of a file, or create it, also in place of a dangling link. Old bytes after `data`
        remain. Raises `JavaIOError` if the path is a directory.
        """
        if path in self.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        old = self.files.get(path)
        rest = () if old is None or old.size <= len(data) else old.slice(len(data), old.size).parts
        self.files[path] = join([Literal(data), *rest])

    def replace(self, path: str, data: bytes) -> None:
        """Create a file or replace its content, and remove the file `path` + `.tmp`, as a write to that temporary file
        and a rename would. If the temporary name is a dangling symbolic link, an empty file takes its place.
        """
        self.write(path, data)
        if path + TEMPORARY in self.links:  # the rename moves the link itself
            self.write(path + TEMPORARY, b"")
        else:
            self.delete(path + TEMPORARY)

    def delete(self, path: str) -> None:
        """Remove a file if it exists."""
        self.files.discard(path)
        self.times.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing an existing one."""
        self.times.pop(new, None)
        if old in self.times:
            self.times[new] = self.times.pop(old)
        self.files[new] = self.files.pop(old)

    def put(self, directory: str, contents: Mapping[str, Content]) -> None:
        """Replace all files directly in a directory by `contents`, and forget their modification times."""
        self.forget_times(directory)
        self.files.put(directory, contents)

    def forget_times(self, directory: str) -> None:
        """Forget the modification times that were set for files directly in a directory."""
        for path in [path for path in self.times if path.rpartition("/")[0] == directory]:
            del self.times[path]

    def sync_names(self, directory: str) -> None:
        """Do nothing, because there is no disk to flush to."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with everything in it."""
        for known in self._below(path):
            self.directories.discard(known)
            for name in self.files.names(known):
                del self.files[f"{known}/{name}"]

    def rename_directory(self, old: str, new: str) -> None:
        """Rename a directory with all directories and files below it. Appends (old, new) to `renamed_directories`."""
        self.renamed_directories.append((old, new))
        for path in self._below(old):
            target = new + path[len(old) :]
            if path in self.directories:
                self.directories.discard(path)
                self.directories.add(target)
            for name in self.files.names(path):
                self.rename(f"{path}/{name}", f"{target}/{name}")

    def _below(self, path: str) -> list[str]:
        """Return a directory and all directories below it."""
        inside = path + "/"
        known = self.directories.within(path.partition("/")[0])
        return [path, *(directory for directory in known if directory.startswith(inside))]
