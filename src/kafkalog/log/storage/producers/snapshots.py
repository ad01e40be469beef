"""Producer snapshots of a partition directory by offset (`ProducerStateManager.loadSnapshots`, `SnapshotFile`)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.source import Source
from kafkalog.codec.files.index_files import decode_producer_snapshot
from kafkalog.codec.model import ProducerEntry
from kafkalog.codec.names import DELETED, FileKind, parse_segment_file, segment_file
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.java import TooLargeError, offset_of
from kafkalog.log.storage.tree import Tree

__all__ = ["Snapshots", "newest_entries", "snapshot_entries", "snapshot_offsets", "within_reach"]

_SUFFIX = FileKind.PRODUCER_SNAPSHOT.value
_ENDING = _SUFFIX.removeprefix(".")


def snapshot_offsets(names: Iterable[str]) -> Iterator[int]:
    """Yield the offsets of the producer snapshots among file names, in the order of the names. The log ended at that
    offset when the snapshot was written.
    """
    for name in names:
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.kind is FileKind.PRODUCER_SNAPSHOT and not parsed.pending:
            yield parsed.base_offset


def snapshot_entries(tree: Tree, path: str) -> list[ProducerEntry] | None:
    """Return the entries of the producer snapshot at `path`, in file order; None if it is missing, is not a file, is
    too large, or cannot be parsed. Raises `StorageError` if it cannot be read.
    """
    if path not in tree.files:
        return None
    try:
        return decode_producer_snapshot(tree.read(path))
    except (FormatError, TooLargeError):
        return None


def newest_entries(tree: Tree, directory: str) -> list[ProducerEntry] | None:
    """Return the entries of the newest producer snapshot of a partition directory, as `snapshot_entries` does; an empty
    list if there is no snapshot.
    """
    newest = max(snapshot_offsets(tree.names(directory)), default=None)
    if newest is None:
        return []
    return snapshot_entries(tree, f"{directory}/{segment_file(newest, FileKind.PRODUCER_SNAPSHOT)}")


def within_reach(last_base: int, offsets: Iterable[int]) -> list[int]:
    """Return the offsets, in the order of `offsets`, at which a log can end whose last segment begins at `last_base`.
    Offsets below `last_base`, or above what a segment can contain, are left out; the latter show that their source is
    damaged.
    """
    return [offset for offset in offsets if last_base <= offset <= last_base + MAX_RELATIVE_OFFSET + 1]


class Snapshots:
    """Snapshot files of one directory by offset. They are listed once; changes through this object update the list. If
    two file names have the same offset, one of them is ignored; a broker uses the one listed last, in no defined order.
    Creating this object, and all methods that use a file, raise `StorageError` if that fails. Creating it raises
    `NumberFormatError` if the name of a snapshot file does not begin with a number.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._paths = {
            offset_of(name): f"{directory}/{name}" for name in disk.all_names(directory) if name.endswith(_SUFFIX)
        }
        self._offsets = sorted(self._paths)
        self._is_plain = all(path == self._path(offset) for offset, path in self._paths.items())
        self._seen = self._changes()

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{segment_file(offset, FileKind.PRODUCER_SNAPSHOT)}"

    def _changes(self) -> int:
        return self._disk.changes(self._directory, _ENDING)

    @property
    def is_current(self) -> bool:
        """Whether a new listing would give the same result: every name is Kafka's usual name, and the files were
        changed only through this object.
        """
        return self._is_plain and self._seen == self._changes()

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, offset: int) -> bool:
        return offset in self._paths

    def offsets(self) -> list[int]:
        """Return the offsets of all snapshots, ascending."""
        return list(self._offsets)

    @property
    def newest(self) -> int | None:
        """Largest offset; None if there is none."""
        return self._offsets[-1] if self._offsets else None

    def source(self, offset: int) -> Source:
        """Return a reader of the file of an offset. Raises `KeyError` if the offset is not listed."""
        return self._disk.source(self._paths[offset])

    def outside(self, low: int, high: int) -> list[int]:
        """Return the offsets at or below `low`, and those above `high`."""
        first, behind = bisect_right(self._offsets, low), bisect_right(self._offsets, high)
        return self._offsets[:first] + self._offsets[max(first, behind) :]

    def put(self, offset: int, data: bytes) -> None:
        """Write the snapshot file for an offset, under Kafka's name for it, and add it to the list. On a real disk an
        existing file is replaced. In a virtual directory (`Tree`) it is overwritten from its start, as by a broker, so
        bytes after `data` remain; there a directory of this name raises `JavaIOError` instead of `StorageError`.
        """
        path = self._path(offset)
        before = self._changes()
        self._disk.overwrite(path, data)
        self._seen += self._changes() - before
        if offset not in self._paths:
            insort(self._offsets, offset)
        self._paths[offset] = path

    def delete(self, offset: int) -> None:
        """Remove the file of an offset, and drop it from the list, even if removing fails. Raises `KeyError` if the
        offset is not listed.
        """
        before = self._changes()
        self._disk.delete(self._forget(offset))
        self._seen += self._changes() - before

    def mark_deleted(self, offset: int) -> str:
        """Rename the snapshot file of an offset with the suffix `.deleted`, for removal later, and drop it from the
        list, even if renaming fails; return the new path. Raises `KeyError` if the offset is not listed.
        """
        path = self._forget(offset)
        before = self._changes()
        self._disk.rename(path, path + DELETED)
        self._seen += self._changes() - before
        return path + DELETED

    def _forget(self, offset: int) -> str:
        path = self._paths.pop(offset)
        self._offsets.remove(offset)
        return path
