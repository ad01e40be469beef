"""The disk that is none: a directory tree that can be changed without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSet
from typing import TYPE_CHECKING, Any

from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.names import TEMPORARY, FileKind, is_seen_by_java, parse_segment_file, segment_file
from kafkalog.codec.source import Source
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
    """Contents by path, with the names of every directory at hand."""

    def __init__(self, directories: dict[str, dict[str, Content]] | None = None) -> None:
        self._directories: dict[str, dict[str, Content]] = {} if directories is None else directories
        self._shared = set(self._directories)
        """directories whose contents are another tree's too, until one of them is changed"""
        self._changes: dict[tuple[str, str], int] = {}
        self._sorted: dict[str, list[str]] = {}
        """names of directories as they were asked for, until one comes or goes"""
        self._seen: dict[str, list[str]] = {}
        """the same, as a JVM sees them"""
        self._logs: dict[str, list[tuple[int, str]]] = {}
        """the same of their logs"""

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
        """As of any mapping: most are asked for files that are not there, for which an exception is slow."""
        directory, _, name = path.rpartition("/")
        held = self._directories.get(directory)
        return default if held is None else held.get(name, default)

    def discard(self, path: str) -> None:
        """Remove a file if it is there."""
        directory, _, name = path.rpartition("/")
        held = self._directories.get(directory)
        if held is not None and name in held:
            del self._own(directory)[name]
            self._came_or_went(directory, name)

    def _own(self, directory: str) -> dict[str, Content]:
        """The contents of a directory, to be changed."""
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
        """Let these, by name, be all that is directly in a directory."""
        held = self._directories.get(directory, {})
        if held.keys() != contents.keys():
            for name in held.keys() ^ contents.keys():
                self._came_or_went(directory, name)
        self._directories[directory] = dict(contents)
        self._shared.discard(directory)

    def names(self, directory: str) -> list[str]:
        """Names directly in a directory, sorted."""
        found = self._sorted.get(directory)
        if found is None:
            found = self._sorted[directory] = sorted(self._directories.get(directory, ()))
        return found.copy()

    def seen(self, directory: str) -> list[str]:
        """Names directly in a directory that a JVM finds, sorted."""
        found = self._seen.get(directory)
        if found is None:
            found = self.names(directory)
            if not "".join(found).isascii():
                found = [name for name in found if is_seen_by_java(name)]
            self._seen[directory] = found
        return found.copy()

    def logs(self, directory: str) -> list[tuple[int, str]]:
        """Base offset and path of the logs under Kafka's own names directly in a directory, by base offset."""
        found = self._logs.get(directory)
        if found is None:
            found = self._logs[directory] = sorted(_logs(directory, self._directories.get(directory, ())))
        return found.copy()

    def changes(self, directory: str, suffix: str) -> int:
        """How often a name with this suffix (without the dot) came or went in a directory."""
        return self._changes.get((directory, suffix), 0)

    def copy(self) -> _Files:
        """A copy of the contents, to be changed apart."""
        other = _Files(dict(self._directories))
        self._shared = set(self._directories)
        other._sorted, other._seen, other._logs = dict(self._sorted), dict(self._seen), dict(self._logs)
        return other

    def of(self, *directories: str) -> _Files:
        """The files directly in some directories, to be changed apart."""
        other = _Files({each: self._directories[each] for each in directories if each in self._directories})
        self._shared |= other._shared
        for each in filter(None, directories):  # whoever takes a part asks for these
            if each not in self._seen or each not in self._logs:
                self.seen(each)
                self.logs(each)
            other._sorted[each], other._seen[each] = self._sorted[each], self._seen[each]
            other._logs[each] = self._logs[each]
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
    """Paths of directories, with those below each of the root's at hand."""

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
        """A copy of the paths, to be changed apart."""
        other = _Directories(())
        other._of_first = {first: set(paths) for first, paths in self._of_first.items()}
        return other

    def of(self, firsts: Iterable[str]) -> _Directories:
        """Some directories of the root, if they are there, and all below them, to be changed apart."""
        other = _Directories(())
        other._of_first = {first: set(self._of_first[first]) for first in firsts if first in self._of_first}
        return other

    def within(self, first: str) -> set[str]:
        """A directory of the root, if it is there, and all below it."""
        return self._of_first.get(first, set())


class Tree:
    """Files and directories below one root, by relative path with `/`.

    Live symbolic links and special files are not files here.  `links` are dangling symbolic links: they do not exist
    for who looks, but are in the way of who creates a file, and a broker that opens one for writing writes through it.
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
        """path -> when the file was changed last (ms), where that was set"""

    def _with(self, files: _Files, directories: Iterable[str]) -> Tree:
        """A tree over the same originals."""
        return Tree(files, directories, self._origin, self._headers, self.links, self._modified_ms, self._spool)

    def part(self, *directories: str) -> Tree:
        """A tree of its own with the root's files, these directories and what is in them."""
        return self._with(self.files.of("", *directories), self.directories.of(directories))

    def copy(self) -> Tree:
        """A copy of the content; changing one does not change the other."""
        other = self._with(self.files.copy(), self.directories.copy())
        other.times = dict(self.times)
        other.renamed_directories = list(self.renamed_directories)
        return other

    def source(self, path: str) -> ContentSource:
        """A reader of the file as it is now."""
        return ContentSource(self.files[path], self._origin)

    def reader(self, content: Content) -> ContentSource:
        """A reader of what a file holds or held."""
        return ContentSource(content, self._origin)

    def headers(self, path: str) -> HeaderTable | None:
        """The sound batches at the start of a log that is an original file or the beginning of one, if that helps."""
        if self._headers is None:
            return None
        match self.files[path].parts:
            case (Slice(origin=origin, start=0, length=size),):
                return self._headers(origin, size)
        return None

    def read(self, path: str, limit: int = DEFAULT_LIMITS.checkpoint_bytes) -> bytes:
        """The whole content of a small file; `TooLargeError` if it has more than `limit` bytes."""
        source = self.source(path)
        if source.size > limit:
            raise TooLargeError(f"{path} has {source.size} bytes; no more than {limit} of such a file are read")
        return bytes(source.read(0, source.size))

    def open_log(self, path: str, *, create: bool | None = None) -> VirtualLog:
        """Open a log file, or make it."""
        return VirtualLog(self, path)

    def slots(self, path: str, entry_size: int, max_size: int) -> VirtualSlots:
        """Open an index as a broker maps it."""
        return VirtualSlots(self, path, entry_size, max_size)

    def open_or_create_later(self, path: str) -> VirtualFile:
        """Open a file that there may not be yet."""
        return VirtualFile(self, path)

    def is_same(self, path: str, other: Tree, its_path: str) -> bool:
        """A file holds the same as one of another tree of the same originals."""
        return self.is_content(path, other.files[its_path])

    def is_content(self, path: str, content: Content) -> bool:
        """A file holds the same as a content made of the same originals."""
        return same_bytes(self.files[path], content, self._origin)

    def exists(self, path: str) -> bool:
        """A file or a directory of this path is there; a dangling symbolic link is not."""
        return path in self.files or path in self.directories

    def names(self, directory: str) -> list[str]:
        """Names of the regular files directly in a directory that a JVM finds, sorted."""
        return self.files.seen(directory)

    def all_names(self, directory: str) -> list[str]:
        """Names of the regular files directly in a directory, sorted: as `Path` lists them, which keeps any bytes."""
        return self.files.names(directory)

    def logs(self, directory: str) -> list[tuple[int, str]]:
        """Base offset and path of the logs under Kafka's own names directly in a directory, by base offset."""
        return self.files.logs(directory)

    def changes(self, directory: str, suffix: str) -> int:
        """How often a name with this suffix (without the dot) came or went in a directory."""
        return self.files.changes(directory, suffix)

    def subdirectories(self) -> list[str]:
        """Names of the directories directly below the root that a JVM finds, sorted."""
        return sorted(path for path in self.directories if "/" not in path and is_seen_by_java(path))

    def written_through(self) -> str | None:
        """A dangling symbolic link in place of which there is a file now."""
        old_name = {new: old for old, new in self.renamed_directories}
        for path in self.links:
            directory, separator, name = path.partition("/")
            now = next((new for new, old in old_name.items() if old == directory), directory)
            if now + separator + name in self.files:
                return path
        return None

    def is_file(self, path: str) -> bool:
        """A regular file of this path is there."""
        return path in self.files

    def is_directory(self, path: str) -> bool:
        """A directory of this path is there."""
        return path in self.directories

    def computed(self, data: bytes) -> Part:
        """A part of a file that holds these bytes; many of them are not kept in memory where they can be spooled."""
        return Literal(data) if self._spool is None else self._spool(data)

    def modified_ms(self, path: str) -> int:
        """What was set for the file, or the time of the original that it is or begins with."""
        if path in self.times:
            return self.times[path]
        match self.files[path].parts:
            case (Slice(origin=origin), *_):
                return self._modified_ms(origin)
        return self._modified_ms(path)

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Say when a file was changed last."""
        self.times[path] = time_ms

    def create(self, path: str) -> None:
        """Make an empty file; where a directory or a dangling link is in the way a broker cannot read it either."""
        if path in self.directories or path in self.links:
            raise JavaIOError(f"{path} (Is a directory)" if path in self.directories else path)
        self.write(path, b"")

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file."""
        self.files[path] = join([Literal(data)])

    def overwrite(self, path: str, data: bytes) -> None:
        """Write over the beginning of a file; what it holds after that stays."""
        if path in self.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        old = self.files.get(path)
        rest = () if old is None or old.size <= len(data) else old.slice(len(data), old.size).parts
        self.files[path] = join([Literal(data), *rest])

    def replace(self, path: str, data: bytes) -> None:
        """Write beside a file and rename: what an earlier write left there is gone then."""
        self.write(path, data)
        if path + TEMPORARY in self.links:  # the link is what is renamed
            self.write(path + TEMPORARY, b"")
        else:
            self.delete(path + TEMPORARY)

    def delete(self, path: str) -> None:
        """Remove a file if it is there."""
        self.files.discard(path)
        self.times.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        """Rename a file over whatever is there."""
        self.times.pop(new, None)
        if old in self.times:
            self.times[new] = self.times.pop(old)
        self.files[new] = self.files.pop(old)

    def put(self, directory: str, contents: Mapping[str, Content]) -> None:
        """Let these, by name, be all the files directly in a directory."""
        self.forget_times(directory)
        self.files.put(directory, contents)

    def forget_times(self, directory: str) -> None:
        """What was set for files directly in a directory counts no more."""
        for path in [path for path in self.times if path.rpartition("/")[0] == directory]:
            del self.times[path]

    def sync_names(self, directory: str) -> None:
        """Nothing is lost here."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        for known in self._below(path):
            self.directories.discard(known)
            for name in self.files.names(known):
                del self.files[f"{known}/{name}"]

    def rename_directory(self, old: str, new: str) -> None:
        """Rename a directory with all that is in it."""
        self.renamed_directories.append((old, new))
        for path in self._below(old):
            target = new + path[len(old) :]
            if path in self.directories:
                self.directories.discard(path)
                self.directories.add(target)
            for name in self.files.names(path):
                self.files[f"{target}/{name}"] = self.files.pop(f"{path}/{name}")

    def _below(self, path: str) -> list[str]:
        """A directory and those inside it."""
        inside = path + "/"
        known = self.directories.within(path.partition("/")[0])
        return [path, *(each for each in known if each.startswith(inside))]
