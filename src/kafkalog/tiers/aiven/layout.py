"""Object names of Aiven's plugin (`ObjectKeyFactory`), and access to the objects.

`<key.prefix><topic>-<topic id>/<partition>/<base offset, 20 digits>-<segment id>.log|.indexes|.rsm-manifest`. The
prefix may end within a name, so the topic is taken from a manifest. Topics and ids may contain hyphens, so names are
split by position.
"""

from __future__ import annotations

import errno
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError, KafkaLogError, StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB
from kafkalog.codec.names import FileKind
from kafkalog.log.disk.files import Entry, FileSource, scan_directory
from kafkalog.log.disk.remote_file import RemoteFile
from kafkalog.tiers.aiven.encryption import NONCE, TAG, PrivateKeys, SegmentCipher
from kafkalog.tiers.aiven.files import ChunkedLog, part_of
from kafkalog.tiers.aiven.manifest import LEADER_EPOCHS, TRANSACTIONS, Described, Manifest, read_manifest
from kafkalog.tiers.file_parts import InMemory
from kafkalog.tiers.remote_tier import UUID_IN_A_NAME, ListedSegment, RemoteObject
from kafkalog.tiers.segments import RemoteSegment, RemoteSegmentEvent, RemoteSegmentState

__all__ = ["AivenTier"]

_DIGITS, _ID = 20, 22
_LONGEST_PARTITION = 10
_LOG, _INDEXES, _MANIFEST = ".log", ".indexes", ".rsm-manifest"
_PARTS = {
    FileKind.OFFSET_INDEX: "offset",
    FileKind.TIME_INDEX: "timestamp",
    FileKind.PRODUCER_SNAPSHOT: "producerSnapshot",
    FileKind.TRANSACTION_INDEX: TRANSACTIONS,
}
_KEPT = 256
"""number of manifests and of small index objects kept in memory"""
_MOST_CHUNKS = 16 * KIB
"""maximum number of chunks of a manifest that is kept"""
_SMALL = 64 * KIB


def _entries(place: str, name: str) -> list[Entry]:
    """Return the entries of the directory `name` in `place`; empty if it is a file. Raises `StorageError` if it cannot
    be listed.
    """
    try:
        return scan_directory(f"{place.rstrip('/')}/{name}")
    except StorageError as error:
        if error.errno == errno.ENOTDIR:
            return []
        raise


class AivenTier:
    """A directory or object store prefix written by the plugin. With `keys` encrypted segments can be read."""

    layout = "aiven"

    def __init__(self, place: str, keys: Mapping[str, str] | PrivateKeys | None = None) -> None:
        self.place = place
        """the location given by `key.prefix`"""
        self._keys = keys if isinstance(keys, PrivateKeys) else PrivateKeys(keys or {})
        self._others: list[str] = []
        self._manifests: OrderedDict[str, Manifest] = OrderedDict()
        self._ciphers: OrderedDict[str, SegmentCipher] = OrderedDict()
        self._indexes: OrderedDict[str, bytes] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return AivenTier, (self.place, self._keys)

    @classmethod
    def fits(cls, place: str, names: Iterable[str]) -> bool:
        """Return whether one of `names`, found directly below `place`, is a directory named `<topic>-<topic id>` with a
        subdirectory named like a partition number. Raises `StorageError` if a directory cannot be listed.
        """
        for name in names:
            if _topic(name) is not None and any(
                _partition(entry.name) is not None and entry.is_dir() for entry in _entries(place, name)
            ):
                return True
        return False

    # -- what is there -----------------------------------------------------------------------------------------------

    def segments(self) -> list[ListedSegment]:
        """List all segments with a log, indexes or manifest object, ordered by topic, partition, topic id, base offset
        and segment id.

        Some manifests are read to find the prefix of topic names. Other objects are remembered for `others`. Raises
        `StorageError` if a directory cannot be listed.
        """
        self._others = []
        segments: list[ListedSegment] = []
        for entry in scan_directory(self.place):
            named = _topic(entry.name) if entry.is_dir() else None
            if named is None:
                self._others.append(entry.path)
            else:
                segments += self._of_topic(entry.path, *named)
        return sorted(segments, key=lambda each: (each.topic, each.partition, each.topic_id, each.base_offset, each.id))

    def _of_topic(self, path: str, name: str, topic_id: str) -> Iterable[ListedSegment]:
        listed: dict[tuple[int, int, str], dict[str, RemoteObject]] = defaultdict(dict)
        for directory in scan_directory(path):
            number = _partition(directory.name) if directory.is_dir() else None
            if number is None:
                self._others.append(directory.path)
                continue
            for entry in scan_directory(directory.path):
                named = _segment(entry.name) if entry.is_file() else None
                if named is None:
                    self._others.append(entry.path)
                    continue
                status = entry.stat()
                base, segment_id, suffix = named
                remote_object = RemoteObject(
                    path=entry.path, size=status.st_size, modified_ns=status.st_mtime_ns, is_packed=True
                )
                listed[number, base, segment_id][suffix] = remote_object
        topic = self._without_prefix(name, topic_id, listed)
        for (number, base, segment_id), objects in listed.items():
            yield _listed(topic, topic_id, number, base, segment_id, objects)

    def _without_prefix(
        self, name: str, topic_id: str, listed: Mapping[tuple[int, int, str], Mapping[str, RemoteObject]]
    ) -> str:
        """Return the topic of a directory, whose `name` may begin with the end of the plugin's `key.prefix`. The topic
        is read from a manifest that is readable and fits `name` and `topic_id`: the first such among the first three
        manifests, and, as a second opinion, the last such among the last three. If their topics differ, or there is
        none, return `name` unchanged. `listed` maps (partition, base offset, segment id) to the objects of the segment
        by suffix.
        """
        topics: set[str] = set()
        with_manifest = [objects[_MANIFEST].path for _, objects in sorted(listed.items()) if _MANIFEST in objects]
        for paths in (with_manifest, with_manifest[:0:-1]):
            for path in paths[:3]:
                try:
                    described = self._manifest(path).described
                except KafkaLogError:
                    continue
                if described is not None and described.topic_id == topic_id and name.endswith(described.topic):
                    topics.add(described.topic)
                    break
        return topics.pop() if len(topics) == 1 else name

    def others(self) -> list[str]:
        """Other objects found by the last listing."""
        return list(self._others)

    # -- what objects hold -------------------------------------------------------------------------------------------

    def open(self, item: RemoteObject) -> RemoteFile:
        """Open the log or an index of a segment for reads at positions; its contents are decrypted and decompressed.

        `item` is an object from `segments`. Reads the manifest; manifests, keys and small index objects are kept in
        memory. Raises `StorageError` (`MissingFileError` if an object is gone) if an object or manifest cannot be read,
        sizes differ from the manifest, or no private key fits.
        """
        stem = item.path.rpartition(".")[0]
        path = stem + _MANIFEST
        manifest = self._manifest(path)
        if not item.part:
            return _opened(item.path, lambda file: ChunkedLog(file, manifest, self._cipher(path, manifest), item.path))
        position, size = manifest.indexes.get(item.part, (0, 0))
        cipher = self._cipher(path, manifest) if size else None
        return part_of(self._indexes_object(item, manifest), position, size, cipher, item.path)

    def size(self, item: RemoteObject) -> int:
        """Return the size in bytes of the log or index in an object according to the manifest, before compression and
        encryption. Return 0 for an index that the segment does not have. Raises `StorageError` if the manifest cannot
        be read, or if the object has a different size than the manifest says.
        """
        manifest = self._manifest(item.path.rpartition(".")[0] + _MANIFEST)
        wanted = manifest.indexes_size if item.part else manifest.chunks.packed
        if item.size != wanted:
            raise StorageError(None, f"{item.size} bytes, and the manifest says {wanted}", item.path)
        if not item.part:
            return manifest.chunks.size
        size = manifest.indexes.get(item.part, (0, 0))[1]
        return size - _taken(manifest) if size else 0

    def described(self, listed: ListedSegment) -> RemoteSegment | None:
        """Return the metadata of a segment according to its manifest, with a single event for the finished copy. Return
        None if the segment has no log object or no manifest object, or if an older plugin wrote the manifest without
        metadata. Raises `StorageError` if the manifest cannot be read.
        """
        log = listed.objects.get(FileKind.LOG)
        if log is None or listed.lacking:
            return None
        manifest = self._manifest(log.path.rpartition(".")[0] + _MANIFEST)
        described = manifest.described
        if described is None:
            return None
        return RemoteSegment(
            topic=listed.topic,
            topic_id=listed.topic_id,
            partition=listed.partition,
            id=listed.id,
            start_offset=described.start_offset,
            end_offset=described.end_offset,
            max_timestamp=described.max_timestamp,
            size=manifest.chunks.size,
            leader_epochs=described.leader_epochs,
            has_transaction_index=manifest.indexes.get(TRANSACTIONS, (0, 0))[1] > 0,
            custom_metadata=None,
            events=(
                RemoteSegmentEvent(
                    state=RemoteSegmentState.COPY_SEGMENT_FINISHED,
                    timestamp=described.event_timestamp,
                    broker_id=described.broker_id,
                    metadata_partition=-1,
                    offset=-1,
                ),
            ),
        )

    def _manifest(self, path: str) -> Manifest:
        kept = self._manifests.get(path)
        if kept is None:
            with FileSource(path) as file:
                if file.size > DEFAULT_LIMITS.checkpoint_bytes:
                    raise StorageError(None, f"a manifest of {file.size} bytes is larger than any", path)
                data = file.read(0, file.size)
            try:
                kept = read_manifest(data)
                _check_names(path, kept.described)
            except FormatError as error:
                raise StorageError(None, f"this manifest cannot be read: {error.message}", path) from None
            if kept.chunks.count <= _MOST_CHUNKS:
                _keep(self._manifests, path, kept)
        return kept

    def _cipher(self, path: str, manifest: Manifest) -> SegmentCipher | None:
        if manifest.key is None:
            return None
        kept = self._ciphers.get(path)
        if kept is None:
            kept = self._keys.unwrap(manifest.key, path)
            _keep(self._ciphers, path, kept)
        return kept

    def _indexes_object(self, item: RemoteObject, manifest: Manifest) -> RemoteFile:
        kept = self._indexes.get(item.path)
        if kept is not None:
            return InMemory(kept)
        file = FileSource(item.path)
        try:
            if file.size != manifest.indexes_size:
                detail = f"{file.size} bytes, and the manifest says {manifest.indexes_size}"
                raise StorageError(None, detail, item.path)
            if file.size > _SMALL:
                return file
            data = file.read(0, file.size)
        except BaseException:
            file.close()
            raise
        file.close()
        _keep(self._indexes, item.path, data)
        return InMemory(data)


def _listed(
    topic: str, topic_id: str, number: int, base: int, segment_id: str, objects: Mapping[str, RemoteObject]
) -> ListedSegment:
    found: dict[FileKind, RemoteObject] = {}
    log, indexes = objects.get(_LOG), objects.get(_INDEXES)
    if log is not None:
        found[FileKind.LOG] = log
    if indexes is not None:
        found |= {kind: replace(indexes, part=part) for kind, part in _PARTS.items()}
    epochs = None if indexes is None else replace(indexes, part=LEADER_EPOCHS)
    lacking = () if _MANIFEST in objects else (_MANIFEST,)
    return ListedSegment(
        topic=topic, topic_id=topic_id, partition=number, id=segment_id, base_offset=base, objects=found,
        epochs=epochs, lacking=lacking,
    )  # fmt: skip


def _taken(manifest: Manifest) -> int:
    """Bytes added to an index by encryption."""
    return 0 if manifest.key is None else NONCE + TAG


def _check_names(path: str, described: Described | None) -> None:
    """Raise `FormatError` if the metadata in a manifest contradicts the manifest's path: another topic id, partition,
    base offset or segment id, or a topic name with which the directory's topic does not end. Does nothing without
    metadata.
    """
    topic_name, partition, name = path.split("/")[-3:]
    topic, number, segment = _topic(topic_name), _partition(partition), _segment(name)
    if described is None or topic is None or segment is None:
        return
    own = (topic[1], number, segment[0], segment[1])
    said = (described.topic_id, described.partition, described.start_offset, described.segment_id)
    if own != said or not topic[0].endswith(described.topic):
        told = f"{described.segment_id:.40} of {described.topic:.80}-{described.partition}"
        raise FormatError(f"it is of segment {told}")


def _topic(name: str) -> tuple[str, str] | None:
    """Topic, perhaps with a prefix, and topic id in the name of a directory; None if the name has another form."""
    topic, topic_id = name[: -_ID - 1], name[-_ID:]
    is_one = topic and name[-_ID - 1 : -_ID] == "-" and UUID_IN_A_NAME.fullmatch(topic_id) is not None
    return (topic, topic_id) if is_one else None


def _partition(name: str) -> int | None:
    is_one = name.isascii() and name.isdigit() and len(name) <= _LONGEST_PARTITION and str(int(name)) == name
    return int(name) if is_one else None


def _segment(name: str) -> tuple[int, str, str] | None:
    """Split the name of an object into base offset, segment id and suffix (`.log`, `.indexes` or `.rsm-manifest`). None
    if it is not named like an object of a segment.
    """
    digits, segment_id, suffix = name[:_DIGITS], name[_DIGITS + 1 : _DIGITS + 1 + _ID], name[_DIGITS + 1 + _ID :]
    is_one = digits.isascii() and digits.isdigit() and len(digits) == _DIGITS and name[_DIGITS : _DIGITS + 1] == "-"
    is_one = is_one and UUID_IN_A_NAME.fullmatch(segment_id) is not None
    if not is_one or suffix not in (_LOG, _INDEXES, _MANIFEST) or int(digits) >= 1 << 63:
        return None
    return int(digits), segment_id, suffix


def _opened(path: str, wrap: Callable[[RemoteFile], RemoteFile]) -> RemoteFile:
    """Open the object at `path` and return the result of calling `wrap` with the open file. If `wrap` fails, the file
    is closed and the error raised. Raises `StorageError` if it cannot be opened.
    """
    file = FileSource(path)
    try:
        return wrap(file)
    except BaseException:
        file.close()
        raise


def _keep(kept: OrderedDict[str, Any], path: str, value: object) -> None:
    kept[path] = value
    while len(kept) > _KEPT:
        kept.popitem(last=False)
