"""Both tiers as one log: a log directory that shows remote segments beside local ones, under Kafka's names.

It is mounted (`log.disk.remote`), so everything that lists and reads log directories can use it. Local files are read
as such, remote objects by ranges. The remote part consists of the offsets below the first local segment, from segments
that belong to the log by its leader epochs. Without a local log it is all of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.limits import KIB
from kafkalog.codec.files.text import LeaderEpoch, PartitionMetadata, encode_partition_metadata
from kafkalog.codec.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    DirectoryState,
    FileKind,
    PartitionName,
    parse_partition_directory,
    segment_file,
)
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.partition import Partition, read_partition
from kafkalog.log.disk.files import FileSource, absolute, is_directory, scan_directory, status_of
from kafkalog.log.disk.remote_file import MissingFileError, RemoteEntry, RemoteFile, mount
from kafkalog.tiers.bucket import epochs_of, newest_topic_ids, segments_of
from kafkalog.tiers.file_parts import FirstBytes, InMemory
from kafkalog.tiers.identity import Identity
from kafkalog.tiers.lineage import RemoteStretch, lineage
from kafkalog.tiers.metadata import RemoteMetadata
from kafkalog.tiers.remote_tier import ListedSegment, RemoteObject, RemoteTier
from kafkalog.tiers.segments import RemoteSegment

__all__ = ["BothTiers"]

_SCHEME = "tiered"
_DIGEST = 12
_SMALL = 64 * KIB
_KEPT = 256
"""number of files up to `_SMALL` that are kept"""
_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
"""files of a remote segment that a broker reads; its producer snapshot is for rebuilding a log"""

Key = tuple[str, int]


class _Held(Struct, frozen=True, kw_only=True):
    """One file in the mount: its size, and the place of its bytes (a local file, a remote object, or memory)."""

    size: int
    modified_ns: int
    local: str | None = None
    item: RemoteObject | None = None
    is_missing: bool = False
    """whether the object should exist but does not"""
    data: bytes | None = None
    until: int | None = None
    """for a log, the last offset to read"""
    copied: int | None = None
    """for a log, the number of bytes copied according to the events"""
    newest: int | None = None
    """for a log, the largest timestamp according to the events"""
    untold: tuple[Key, RemoteSegment] | None = None
    """for a log without events, its partition and segment"""
    identity: Identity | None = None
    """for a log without events, the check of its identity when it is opened"""


@dataclass
class BothTiers:
    """A log directory `local` and a remote tier, mounted as the log directory `path` (a `tiered://` URI).

    If `local` is None, everything is remote; else partitions that are only remote are not listed. `metadata` has the
    events of `__remote_log_metadata`. If a partition has no events, its segments are derived from the listing of the
    tier. Listings are kept. Methods and properties raise `StorageError` if the local directory or the tier cannot be
    read.
    """

    local: str | None
    tier: RemoteTier
    metadata: RemoteMetadata = field(default_factory=RemoteMetadata)
    known: Sequence[ListedSegment] | None = None
    """the tier's listing; None to ask the tier"""
    path: str = field(init=False)

    def __post_init__(self) -> None:
        told = "\0".join([absolute(self.local) if self.local else "", self.tier.layout, self.tier.place])
        self.path = f"{_SCHEME}://{hashlib.sha256(told.encode()).hexdigest()[:_DIGEST]}"
        self._listed: dict[str, dict[str, _Held]] = {}
        self._segments: dict[Key, list[RemoteSegment]] = {}
        self._epochs: dict[Key, tuple[LeaderEpoch, ...]] = {}
        self._small: dict[tuple[str, str], InMemory] = {}
        self._identified: dict[str, tuple[str | None, int | None]] = {}
        mount(self.path, self)

    def __reduce__(self) -> tuple[Any, ...]:
        listed = tuple(segment for segments in self.listed.values() for segment in segments)
        return BothTiers, (self.local, self.tier, self.metadata, listed)

    def origin(self, path: str) -> str:
        """Return the path of the local file or remote object from which a path in the mount is read; `path` itself if
        there is none.
        """
        held = self._held(path)
        if held is None or held.data is not None:
            return path
        return held.local or (path if held.item is None else held.item.path)

    # -- what is where -----------------------------------------------------------------------------------------------

    @cached_property
    def listed(self) -> dict[Key, list[ListedSegment]]:
        """Return the tier's listed segments by (topic, partition), in the order of the listing. The result is kept.
        Topics with different ids may have had the same name; only the segments of one id are included. This is the id
        of the local partition, or without one, the id with the newest objects. Raises `StorageError` if the tier cannot
        be listed.
        """
        found: dict[Key, list[ListedSegment]] = {}
        listed = self.tier.segments() if self.known is None else self.known
        ids = {**newest_topic_ids(listed), **self._local_ids}
        for listed_segment in listed:
            if ids[listed_segment.key] == listed_segment.topic_id:
                found.setdefault(listed_segment.key, []).append(listed_segment)
        return found

    @cached_property
    def _local_ids(self) -> dict[Key, str]:
        found = {}
        for name, partition in self._local_partitions.items():
            if partition.metadata is not None:
                found[name.topic, name.partition] = partition.metadata.topic_id
        return found

    @cached_property
    def _local_partitions(self) -> dict[PartitionName, Partition]:
        found: dict[PartitionName, Partition] = {}
        for entry in scan_directory(self.local) if self.local is not None else ():
            name = parse_partition_directory(entry.name) if entry.is_dir() else None
            if name is not None and name.state is DirectoryState.LIVE:
                found[name] = read_partition(entry.path, name, None)
        return found

    def _keys(self) -> Iterator[Key]:
        """Partitions with a remote part: those that are also local, or all if nothing is local."""
        local = {(name.topic, name.partition) for name in self._local_partitions}
        for key in self.listed:
            if self.local is None or key in local:
                yield key

    @property
    def has_both(self) -> bool:
        """Whether any partition is both local and in the listing."""
        return self.local is not None and next(self._keys(), None) is not None

    def segments(self, key: Key) -> list[RemoteSegment]:
        """Return the segments of a partition, from the events or else from the listing; empty if there are none."""
        if key not in self._segments:
            self._segments[key] = self._by_events(key) or segments_of(self.tier, self.listed.get(key, []))
        return self._segments[key]

    def has_events(self, key: Key) -> bool:
        """Return whether an event names a segment of the partition."""
        return bool(self._by_events(key))

    def _by_events(self, key: Key) -> list[RemoteSegment]:
        listed = self.listed.get(key, [])
        return self.metadata.of(*key, listed[0].topic_id if listed else self._local_ids.get(key))

    def copied(self, key: Key) -> list[RemoteStretch]:
        """Return the remote part of a log in offset order, including offsets that are local too; empty if there is
        none.
        """
        local = self._local_partitions.get(PartitionName(*key))
        return lineage(self.segments(key), () if local is None else local.leader_epochs)

    def stretches(self, key: Key) -> list[RemoteStretch]:
        """Return the remote part of a log below its first local segment, in offset order without overlaps. Return all
        of it if nothing is local, and an empty list if nothing is remote. Each stretch has its first and last offset
        (both included) and its segment.

        A remote segment that begins at or above the first local one is left out; one that overlaps it is cut there.
        Raises `StorageError` if the tier cannot be read.
        """
        local = self._local_partitions.get(PartitionName(*key))
        end = local.segments[0].base_offset if local is not None and local.segments else None
        remote_stretches = self.copied(key)
        if end is None:
            return remote_stretches
        return [
            RemoteStretch(remote_stretch.first, min(remote_stretch.last, end - 1), remote_stretch.segment)
            for remote_stretch in remote_stretches
            if remote_stretch.first < end and remote_stretch.segment.start_offset < end
        ]

    def bounds(self, directory: str) -> tuple[int | None, int] | None:
        """Return two offsets. The first is the base offset of the first local segment, or None if there is none. The
        second is the last offset copied to the tier, or -1 if no remote segment belongs to the log. `directory` is the
        name of a partition directory. Return None if it is not such a name, or if the partition has no remote segments.
        Raises `StorageError` if the tier cannot be read.
        """
        name = parse_partition_directory(directory)
        key = ("", -1) if name is None else (name.topic, name.partition)
        if not self.segments(key):
            return None
        local = self._local_partitions.get(PartitionName(*key))
        copied = self.copied(key)
        begins = local.segments[0].base_offset if local is not None and local.segments else None
        return begins, copied[-1].last if copied else -1

    def _files(self, directory: str) -> dict[str, _Held]:
        """Return the files of a partition directory by name."""
        if directory not in self._listed:
            self._listed[directory] = dict(self._files_of(directory))
        return self._listed[directory]

    def _files_of(self, directory: str) -> Iterator[tuple[str, _Held]]:
        name = parse_partition_directory(directory)
        place = None if self.local is None else os.path.join(self.local, directory)
        if place is not None and is_directory(place):
            for entry in scan_directory(place):
                status = entry.stat(follow_symlinks=False)
                yield entry.name, _Held(size=status.st_size, modified_ns=status.st_mtime_ns, local=entry.path)
        if name is None or name.state is not DirectoryState.LIVE:
            return
        key = name.topic, name.partition
        yield from self._remote_files(key)
        if PartitionName(*key) not in self._local_partitions and key in self.listed:
            yield from self._side_files(key)

    def _remote_files(self, key: Key) -> Iterator[tuple[str, _Held]]:
        objects = {listed_segment.id: listed_segment for listed_segment in self.listed.get(key, ())}
        is_untold = not self._by_events(key)
        for stretch in self.stretches(key):
            segment = stretch.segment
            there = objects.get(segment.id)
            newest = segment.max_timestamp if segment.max_timestamp >= 0 else None
            for kind in _KINDS if self.local is not None else (*_KINDS, FileKind.PRODUCER_SNAPSHOT):
                is_log = kind is FileKind.LOG
                item = None if there is None or there.lacking else there.objects.get(kind)
                is_missing = item is None and is_log
                if item is None and is_log:
                    lacking = "" if there is None else "".join(there.lacking)
                    item = RemoteObject(
                        path=f"{self.tier.place}: segment {segment.id}{lacking}", size=segment.size, modified_ns=0
                    )
                if item is not None:
                    untold = (key, segment) if is_log and is_untold else None
                    size = segment.size if is_log and item.is_packed else item.size
                    held = _Held(size=size, modified_ns=item.modified_ns, item=item, is_missing=is_missing,
                                 until=stretch.until if is_log else None, copied=segment.size if is_log else None,
                                 newest=newest if is_log else None, untold=untold)  # fmt: skip
                    is_snapshot = kind is FileKind.PRODUCER_SNAPSHOT  # of the producers at the segment's end
                    base = segment.end_offset + 1 if is_snapshot else segment.start_offset
                    yield segment_file(base, kind), held

    def _identity(self, key: Key, segment: RemoteSegment) -> Identity:
        """Return a check whether the log object of `segment` really contains this segment's log. It is used for a
        partition without events in `__remote_log_metadata`. The check compares the object with the neighboring segments
        and with leader epochs. These are the epochs of the local log, or of the last remote segment if the local log
        has none. Raises `StorageError` if the tier cannot be read.
        """
        segments = self.segments(key)
        number = segments.index(segment)
        objects = {listed_segment.id: listed_segment for listed_segment in self.listed[key]}
        local = self._local_partitions.get(PartitionName(*key))
        epochs = local.leader_epochs if local is not None and local.leader_epochs else self.epochs(key)
        return self._identity_of(
            objects[segment.id], segment if segment.events[0].timestamp >= 0 else None,
            segment.end_offset if number + 1 < len(segments) else None, epochs,
            objects[segments[number - 1].id] if number else None,
        )  # fmt: skip

    def _identity_of(
        self,
        listed: ListedSegment,
        described: RemoteSegment | None,
        last_offset: int | None,
        epochs: Sequence[LeaderEpoch],
        before: ListedSegment | None = None,
    ) -> Identity:
        opened: dict[RemoteObject, RemoteFile] = {}

        def beside(kind: FileKind, of: ListedSegment | None = listed) -> RemoteFile | None:
            item = None if of is None else of.objects.get(kind)
            if item is None:
                return None
            if item not in opened:
                opened[item] = self._opened(_Held(size=item.size, modified_ns=item.modified_ns, item=item), item)
            return opened[item]

        snapshot = FileKind.PRODUCER_SNAPSHOT
        return Identity(listed.base_offset, last_offset, epochs, beside, lambda: beside(snapshot, before), described)

    def identify(self, listed: ListedSegment) -> None:
        """Check that a segment's log object contains this segment's log. The listed segment must have a log object.
        Parts of its objects are read. Raises `StorageError` if the log begins with no valid batch, differs in size from
        its metadata, or contradicts its name, leader epochs or end offset. Raises it also if the log may belong to
        another segment according to its time index and producer snapshot, or if the segment has neither of them.
        """
        item = listed.objects[FileKind.LOG]
        identity = self._identity_of(listed, self.tier.described(listed), None, epochs_of(self.tier, listed))
        size = self.tier.size(item)
        self._opened(
            _Held(size=size, modified_ns=item.modified_ns, item=item, identity=identity, copied=size), item
        ).close()

    def others_in_place(self, key: Key) -> Iterator[tuple[RemoteObject, RemoteSegment]]:
        """Yield the log objects of a partition that contain another log although their size is right, each with its
        segment according to the events in `__remote_log_metadata`. Yields nothing if the partition has no events.

        An object contains another log if its timestamps contradict its time index, or if the time index contradicts the
        events. Only readable segments with a listed log are checked, by reading the time index and a few batches.
        Raises `StorageError` if an object cannot be read.
        """
        listed = {listed_segment.id: listed_segment for listed_segment in self.listed.get(key, ())}
        for segment in self._by_events(key):
            there = listed.get(segment.id)
            if there is None or not there.has_log or not segment.is_readable:
                continue
            item = there.objects[FileKind.LOG]
            identity = self._identity_of(there, segment, None, ())
            log = self.tier.open(item)
            try:
                if log.size == segment.size and identity.is_of_other_times(log):
                    yield item, segment
            finally:
                log.close()

    def _side_files(self, key: Key) -> Iterator[tuple[str, _Held]]:
        """Yield (name, file) for the files beside the segments of a partition that is only remote.
        `leader-epoch-checkpoint` comes from the last segment and is omitted if the segment has none or it cannot be
        opened. `partition.metadata` is made from the topic id. Raises `KeyError` if the partition has no last segment
        and is not in the tier's listing. Raises `StorageError` if the tier cannot be read.
        """
        last = self._last(key) or self.listed[key][-1]
        item = last.epochs
        if item is not None and self._can_be_opened(item):
            yield LEADER_EPOCH_CHECKPOINT, _Held(size=item.size, modified_ns=item.modified_ns, item=item)
        data = encode_partition_metadata(PartitionMetadata(0, last.topic_id))
        yield PARTITION_METADATA, _Held(size=len(data), modified_ns=0, data=data)

    def _can_be_opened(self, item: RemoteObject) -> bool:
        """Return whether an object can be opened without `StorageError`; it is closed again. If the object with the
        leader epochs cannot be opened, the caller lists the partition without them, and reading the log reports the
        error.
        """
        try:
            self._opened(_Held(size=item.size, modified_ns=item.modified_ns, item=item), item).close()
        except StorageError:
            return False
        return True

    # -- what `log.disk.remote.Storage` asks for ------------------------------------------------------------------

    def _parts(self, path: str) -> list[str]:
        below = path[len(self.path) :].strip("/")
        return below.split("/") if below else []

    def _held(self, path: str) -> _Held | None:
        match self._parts(path):
            case [directory, name]:
                return self._files(directory).get(name)
            case [name] if self.local is not None:
                status = status_of(os.path.join(self.local, name))
                if status is None:
                    return None
                return _Held(size=status.st_size, modified_ns=status.st_mtime_ns, local=os.path.join(self.local, name))
            case _:
                return None

    def entry(self, path: str) -> RemoteEntry | None:
        """Return the directory entry at a path in the mount; None if `entries` does not list it. The root is a
        directory named like the mount. To find sizes, objects of the whole directory may be read. Raises `StorageError`
        if the tier cannot be read.
        """
        parts = self._parts(path)
        if not parts:
            return RemoteEntry(name=os.path.basename(self.path), path=self.path, directory=True, size=0, modified_ns=0)
        around = "/".join([self.path, *parts[:-1]])
        return next((entry for entry in self.entries(around) if entry.name == parts[-1]), None)

    def entries(self, path: str) -> list[RemoteEntry]:
        """Return the entries of a directory in the mount, not sorted. The root has the local files and directories;
        without a local log directory, it has the directories of the remote partitions. A partition has its local and
        remote files, another local directory its local files. For other paths the list is empty.

        A remote log that is read only up to an offset has a smaller size here than in the tier. To find this size, the
        object may be read. Raises `StorageError` if the tier cannot be read.
        """
        match self._parts(path):
            case []:
                return self._of_root()
            case [directory]:
                found = self._files(directory)
                return [
                    RemoteEntry(
                        name=name,
                        path=f"{self.path}/{directory}/{name}",
                        directory=False,
                        size=self._size(held, directory, name),
                        modified_ns=held.modified_ns,
                        newest=held.newest,
                        is_untold=held.untold is not None and held.newest is None,
                    )
                    for name, held in found.items()
                ]
            case _:
                return []

    def _of_root(self) -> list[RemoteEntry]:
        found: dict[str, RemoteEntry] = {}
        for entry in scan_directory(self.local) if self.local is not None else ():
            status = entry.stat(follow_symlinks=False)
            is_dir = entry.is_dir(follow_symlinks=False)
            size = 0 if is_dir else status.st_size
            path = f"{self.path}/{entry.name}"
            found[entry.name] = RemoteEntry(
                name=entry.name, path=path, directory=is_dir, size=size, modified_ns=status.st_mtime_ns
            )
        for topic, number in self._keys():
            name = f"{topic}-{number}"
            found.setdefault(
                name, RemoteEntry(name=name, path=f"{self.path}/{name}", directory=True, size=0, modified_ns=0)
            )
        return list(found.values())

    def _size(self, held: _Held, directory: str, name: str) -> int:
        """Return the size in bytes of the file `held`, which is `name` in partition directory `directory`. If a log is
        read only up to an offset, its size is the position of the first batch after that offset. This position is found
        by reading batch headers, and is then kept in the listing of the directory.

        If the object is missing, or its listed size differs from the copied size, return the size in `held`; opening
        the log reports the error. Raises `StorageError` if the object cannot be read.
        """
        if held.until is None or held.item is None or held.is_missing:
            return held.size
        cut = _size_until(self.tier, held.item, held.until) if held.copied == held.size else held.size
        self._listed[directory][name] = replace(held, size=cut, until=None)
        return cut

    def log_of(self, key: Key, stretch: RemoteStretch) -> tuple[RemoteFile, RemoteObject]:
        """Open the log object of a remote stretch, cut after the last offset of the stretch; return the open file and
        the object.

        Raises `MissingFileError` if the tier has no log object of the segment, or lacks the manifest without which the
        log cannot be read. Raises `StorageError` if it cannot be read, has another size than was copied, or may belong
        to another segment.
        """
        there = next((segment for segment in self.listed.get(key, ()) if segment.id == stretch.segment.id), None)
        item = None if there is None or there.lacking else there.objects.get(FileKind.LOG)
        if item is None:
            place = f"{self.tier.place}: segment {stretch.segment.id}"
            raise MissingFileError(2, "the remote segment has no log object", place)
        size = stretch.segment.size if item.is_packed else item.size
        held = _Held(size=size, modified_ns=item.modified_ns, item=item, copied=stretch.segment.size,
                     untold=None if self._by_events(key) else (key, stretch.segment))  # fmt: skip
        file = self._opened(held, item)
        if stretch.until is None:
            return file, item
        file.close()
        return self._opened(replace(held, size=_size_until(self.tier, item, stretch.until)), item), item

    def epochs(self, key: Key) -> tuple[LeaderEpoch, ...]:
        """Return the leader epochs stored with the last remote segment, for a log that is not local; empty if there are
        none.
        """
        if key not in self._epochs:
            last = self._last(key)
            self._epochs[key] = () if last is None else epochs_of(self.tier, last)
        return self._epochs[key]

    def _last(self, key: Key) -> ListedSegment | None:
        """Return the last listed segment from which the log is read; None if there is none."""
        listed = {listed_segment.id: listed_segment for listed_segment in self.listed.get(key, ())}
        return next((listed[each.segment.id] for each in reversed(self.copied(key)) if each.segment.id in listed), None)

    def open(self, path: str) -> RemoteFile:
        """Open a file in the mount for reads at positions, from the tier that has it. A remote log is cut after its
        last offset to read.

        Raises `MissingFileError` if neither tier has it. Raises `StorageError` if it cannot be read, or a remote log
        has another size than was copied or may belong to another segment.
        """
        held = self._held(path)
        if held is None:
            raise MissingFileError(2, "there is no such file", path)
        if held.data is not None:
            return InMemory(held.data)
        if held.local is not None:
            return FileSource(held.local)
        item = held.item
        if item is None:
            raise AssertionError(path)
        if held.until is not None:
            held = replace(held, size=self._size(held, *self._parts(path)))
        return self._opened(held, item)

    def _opened(self, held: _Held, item: RemoteObject) -> RemoteFile:
        if held.is_missing:
            raise MissingFileError(2, "there is no such file", item.path)
        if held.copied is None and (item.is_packed or item.size <= _SMALL):
            return self._whole(item)
        file = self.tier.open(item)
        size = held.size
        try:
            if held.copied is not None and file.size != held.copied:
                raise StorageError(None, f"{file.size} bytes, and {held.copied} were copied", item.path)
            identity = held.identity if held.untold is None else self._identity(*held.untold)
            if identity is not None:
                size = min(size, self._proven(identity, file, item))
        except BaseException:
            file.close()
            raise
        return file if size >= file.size else FirstBytes(file, size)

    def _proven(self, identity: Identity, log: RemoteFile, item: RemoteObject) -> int:
        """Return the number of bytes at the start of a log object that belong to its segment: up to the first batch of
        the next segment, or all of it.

        Raises `StorageError` if the object may be the log of another segment. Each object is checked once; the result
        is kept by its path.
        """
        if item.path not in self._identified:
            self._identified[item.path] = identity.doubt(log), identity.until
        doubt, until = self._identified[item.path]
        if doubt is not None:
            raise StorageError(None, f"this may be the log of another segment: {doubt}", item.path)
        return log.size if until is None else until

    def _whole(self, item: RemoteObject) -> RemoteFile:
        """Open an object other than a log. If it has at most 64 KiB, it is read into memory, and the 256 most recently
        used ones are kept. A larger one is returned as an open file. Raises `StorageError` if it cannot be opened or
        read.
        """
        kept = self._small.pop((item.path, item.part), None)
        if kept is None:
            file = self.tier.open(item)
            if file.size > _SMALL:
                return file
            try:
                kept = InMemory(file.read(0, file.size))
            finally:
                file.close()
        self._small[item.path, item.part] = kept
        if len(self._small) > _KEPT:
            del self._small[next(iter(self._small))]
        return kept


def _size_until(tier: RemoteTier, item: RemoteObject, last: int) -> int:
    """Return the position in bytes of the first batch that begins after offset `last` in a log object; its whole size
    if there is none. Batch headers are read from the start. Raises `StorageError` if the object cannot be read.
    """
    file = tier.open(item)
    try:
        for batch in Scanner(file, check_crc=False):
            if batch.header.first_offset > last:
                return batch.position
        return file.size
    finally:
        file.close()
