"""The layout of `LocalTieredStorage`, used by Apache's tests: copies of local files in a directory per partition.

`<topic>-<partition>-<topic id>/<base offset, 20 digits>-<segment id>.<kind>` below `kafka-tiered-storage`
(`RemoteTopicPartitionDirectory`, `RemoteLogSegmentFileset`). The ids are URL-safe base64 and may contain hyphens, as
may topics, so names are split by position.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.names import FileKind
from kafkalog.log.disk.files import FileSource, is_directory, scan_directory
from kafkalog.log.disk.remote_file import RemoteFile
from kafkalog.tiers.remote_tier import UUID_IN_A_NAME, ListedSegment, RemoteObject

__all__ = ["LocalTieredStorage"]

_ROOT = "kafka-tiered-storage"
_DIGITS, _ID = 20, 22
_LONGEST_PARTITION = 10
_EPOCHS = ".leader_epoch_checkpoint"
_KINDS = {
    kind.value: kind
    for kind in (
        FileKind.LOG,
        FileKind.OFFSET_INDEX,
        FileKind.TIME_INDEX,
        FileKind.TRANSACTION_INDEX,
        FileKind.PRODUCER_SNAPSHOT,
    )
}


class _Directory(Struct, frozen=True):
    topic: str
    partition: int
    topic_id: str


class LocalTieredStorage:
    """The tier below a directory, or below an object store prefix that the directory was copied to. Raises `UsageError`
    for `keys`, since this layout does not encrypt.
    """

    layout = "local-tiered-storage"

    def __init__(self, place: str, keys: Mapping[str, str] | None = None) -> None:
        if keys:
            raise UsageError(f"{place}: the layout {self.layout} encrypts nothing, and a private key was given")
        inside = f"{place.rstrip('/')}/{_ROOT}"
        self.place = inside if is_directory(inside) else place
        """the parent of the partition directories"""
        self._others: list[str] = []

    @classmethod
    def fits(cls, place: str, names: Iterable[str]) -> bool:
        """Whether `place` is the directory `kafka-tiered-storage` or its parent, or one of `names`, found directly
        below it, is named like a partition directory of this layout.
        """
        found = list(names)
        return _ROOT in found or (
            place.rstrip("/").rpartition("/")[2] == _ROOT or any(_directory(each) is not None for each in found)
        )

    def segments(self) -> list[ListedSegment]:
        """List all segments with a log, index, snapshot or leader epoch file, ordered by topic, partition, topic id,
        base offset and segment id. Other files and directories are remembered for `others`. Raises `StorageError` if a
        directory cannot be listed.
        """
        self._others = []
        segments: list[ListedSegment] = []
        for entry in scan_directory(self.place):
            directory = _directory(entry.name) if entry.is_dir() else None
            if directory is None:
                self._others.append(entry.path)
            else:
                segments += self._of_partition(entry.path, directory)
        return sorted(segments, key=lambda each: (each.topic, each.partition, each.topic_id, each.base_offset, each.id))

    def _of_partition(self, path: str, directory: _Directory) -> Iterable[ListedSegment]:
        objects: dict[tuple[int, str], dict[FileKind, RemoteObject]] = defaultdict(dict)
        epochs: dict[tuple[int, str], RemoteObject] = {}
        for entry in scan_directory(path):
            named = _segment(entry.name) if entry.is_file() else None
            if named is None:
                self._others.append(entry.path)
                continue
            base, segment_id, suffix = named
            status = entry.stat()
            remote_object = RemoteObject(path=entry.path, size=status.st_size, modified_ns=status.st_mtime_ns)
            if suffix == _EPOCHS:
                epochs[base, segment_id] = remote_object
            else:
                objects[base, segment_id][_KINDS[suffix]] = remote_object
        for base, segment_id in {**objects, **dict.fromkeys(epochs)}:
            key = base, segment_id
            yield ListedSegment(
                topic=directory.topic, topic_id=directory.topic_id, partition=directory.partition, id=segment_id,
                base_offset=base, objects=dict(objects.get(key, {})), epochs=epochs.get(key),
            )  # fmt: skip

    def others(self) -> list[str]:
        """Other objects found by the last listing."""
        return list(self._others)

    def open(self, item: RemoteObject) -> RemoteFile:
        """Open the object, which is the file itself."""
        return FileSource(item.path)

    def size(self, item: RemoteObject) -> int:
        """Size of the object, as listed."""
        return item.size

    def described(self, listed: ListedSegment) -> None:
        """Always None: objects are copies of local files and contain no metadata."""


def _directory(name: str) -> _Directory | None:
    """Split the name of a partition's directory, `<topic>-<partition>-<topic id>`, into its parts; None if it has
    another form.
    """
    rest, topic_id = name[: -_ID - 1], name[-_ID:]
    topic, hyphen, number = rest.rpartition("-")
    is_one = name[-_ID - 1 : -_ID] == "-" and hyphen and topic and number.isascii() and number.isdigit()
    if not is_one or len(number) > _LONGEST_PARTITION or UUID_IN_A_NAME.fullmatch(topic_id) is None:
        return None
    return _Directory(topic, int(number), topic_id)


def _segment(name: str) -> tuple[int, str, str] | None:
    """Split the name of a file into base offset, segment id and suffix (such as `.log`). None if it is not named like a
    file of a segment.
    """
    digits, segment_id, suffix = name[:_DIGITS], name[_DIGITS + 1 : _DIGITS + 1 + _ID], name[_DIGITS + 1 + _ID :]
    is_one = digits.isascii() and digits.isdigit() and len(digits) == _DIGITS and name[_DIGITS : _DIGITS + 1] == "-"
    is_one = is_one and UUID_IN_A_NAME.fullmatch(segment_id) is not None
    if not is_one or (suffix not in _KINDS and suffix != _EPOCHS) or int(digits) >= 1 << 63:
        return None
    return int(digits), segment_id, suffix
