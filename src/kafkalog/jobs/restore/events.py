"""Rebuild the events of `__remote_log_metadata` from the objects in the tier, for a broker that has lost them.

Each segment that is complete in the listing gets the two events of a finished copy (`COPY_SEGMENT_STARTED`, then
`COPY_SEGMENT_FINISHED`), in the partition of the topic in which a broker looks for them
(`RemoteLogMetadataTopicPartitioner`). Offsets, epochs, times and sizes come from the objects.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Struct

from kafkalog.cluster.records.framed_records import encode_remote_log_metadata
from kafkalog.cluster.rules.java import signed
from kafkalog.codec.common.arguments import TIMES, Bounds, Count, check_fields
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.files.index_files import TIME_ENTRY, TimeEntry
from kafkalog.codec.files.text import LeaderEpoch, decode_uuid
from kafkalog.codec.names import REMOTE_LOG_METADATA_TOPIC, FileKind
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.directory import new_directory
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import PathLike
from kafkalog.log.writing.partitioners import partition_for_key
from kafkalog.log.writing.writer import Log
from kafkalog.recovery.facts.topic_ids import check_topic_id
from kafkalog.tiers.both_tiers import BothTiers
from kafkalog.tiers.bucket import epochs_of, last_offset_of
from kafkalog.tiers.remote_tier import ListedSegment, RemoteTier
from kafkalog.tiers.segments import RemoteSegmentState

__all__ = ["RebuiltEvents", "RemoteMetadataRebuild", "metadata_partition", "rebuild_remote_metadata"]

_MASK = 0xFFFFFFFF
_NEEDED = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)


class RemoteMetadataRebuild(Struct, frozen=True, kw_only=True):
    """Request to `rebuild_remote_metadata`."""

    partitions: Count
    """number of partitions of the topic; a broker looks for the events of a log in only one of them, chosen by hash"""
    topic_id: str | None = None
    """id of `__remote_log_metadata`, according to the cluster's metadata; None: a new one"""
    broker_id: int = -1
    """the broker that the events name as their writer"""
    at: Annotated[int | None, Bounds(TIMES)] = None
    """time of the events, ms since 1970; None: now"""

    def __post_init__(self) -> None:
        check_fields(self)


class RebuiltEvents(Struct, kw_only=True):
    """Result of rebuilding the events; `path` is the new directory."""

    path: str
    segments: int = 0
    by_partition: dict[int, int] = {}
    """partition of the topic -> number of its events"""
    findings: list[Finding] = []
    """findings about segments without events"""


def metadata_partition(topic_id: str, partition: int, count: int) -> int:
    """Return the number of the partition of `__remote_log_metadata` in which a broker looks for the events of this
    topic-partition (`RemoteLogMetadataTopicPartitioner`). `count` is the number of partitions of
    `__remote_log_metadata`. Raises `FormatError` for an invalid topic id, `UsageError` if `count` is not positive.
    """
    raw = decode_uuid(topic_id)
    most, least = int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")
    code = 1
    for value in (least ^ least >> 32, most ^ most >> 32, partition):
        code = (31 * code + (value & _MASK)) & _MASK
    return partition_for_key(signed(code).to_bytes(4, "big", signed=True), count)


def rebuild_remote_metadata(
    request: RemoteMetadataRebuild,
    tier: RemoteTier,
    *,
    target: PathLike,
    on_segment: Callable[[ListedSegment], None] | None = None,
) -> RebuiltEvents:
    """Write new `__remote_log_metadata-*` partitions with two events (copy started, copy finished) for every segment in
    the tier. All `partitions` are created, also those without events. Return the number of segments with events, the
    number of events by partition, and findings. A segment that lacks an object or leader epochs, or of which an object
    cannot be read, gets a finding instead of events.

    Only parts of a segment's objects are read: epochs, index entries and a few batch headers. If the tier's layout does
    not describe the segment and an index has no usable last entry, all batch headers of its log are read. Raises
    `UsageError` if the request's topic id is invalid, or if `target` is not new or empty, or is in the tier or a log
    directory. Raises `StorageError` if the tier cannot be listed or `target` cannot be written, and what was written so
    far stays.

    * `request`: the topic's partitions and id, and what the events say of their writer and time
    * `tier`: see `open_tier`
    * `target`: a directory that does not exist yet, or is empty
    * `on_segment`: called with each segment that is about to be read
    """
    check_topic_id(request.topic_id)
    now = time.time_ns() // 1_000_000 if request.at is None else request.at
    partitions = request.partitions
    root = new_directory(target, beside=os.path.join(tier.place, ""))
    both = BothTiers(None, tier)
    done = RebuiltEvents(path=root)
    events: dict[int, list[bytes]] = defaultdict(list)
    for listed in tier.segments():
        if on_segment is not None:
            on_segment(listed)
        fields = _fields(both, listed, request.broker_id, now, done.findings)
        if fields is None:
            continue
        number = metadata_partition(listed.topic_id, listed.partition, partitions)
        update = {name: fields[name] for name in ("remote_log_segment_id", "broker_id", "event_timestamp_ms")}
        finished = int(RemoteSegmentState.COPY_SEGMENT_FINISHED)
        events[number] += [
            encode_remote_log_metadata("RemoteLogSegmentMetadataRecord", fields),
            encode_remote_log_metadata(
                "RemoteLogSegmentMetadataUpdateRecord",
                {**update, "custom_metadata": None, "remote_log_segment_state": finished},
            ),
        ]
        done.segments += 1
    fs.make_directory(root)
    for number in range(partitions):
        directory = os.path.join(root, f"{REMOTE_LOG_METADATA_TOPIC}-{number}")
        with Log.open(directory, topic_id=request.topic_id) as log:
            if events[number]:
                log.append([(None, event) for event in events[number]])
        done.by_partition[number] = len(events[number])
    return done


def _fields(
    both: BothTiers, listed: ListedSegment, broker_id: int, now: int, findings: list[Finding]
) -> dict[str, Any] | None:
    """Return the fields of a segment's first event, from its objects. None if they cannot be determined; a warning is
    then added to `findings`. `broker_id` and `now` (ms since 1970) are the event's writer and time.
    """
    tier = both.tier
    gone = [*listed.lacking, *(kind.value for kind in _NEEDED if kind not in listed.objects)]
    epochs = epochs_of(tier, listed)
    why = f"lacks {', '.join(gone)}" if gone else "" if epochs else "has no leader epochs that can be read"
    if not why:
        try:
            both.identify(listed)
            described = tier.described(listed)
            end = last_offset_of(tier, listed) if described is None else described.end_offset
            newest = _newest(tier, listed) if described is None else described.max_timestamp
            size = tier.size(listed.objects[FileKind.LOG])
        except StorageError as error:
            why = f"cannot be read: {error.strerror or error}"
    if why:
        detail = f"segment {listed.id} of {listed.topic}-{listed.partition} {why}: it gets no events"
        code = FindingCode.REMOTE_OBJECT_MISSING
        findings.append(Finding(code, Severity.WARNING, None, listed.base_offset, detail))
        return None
    return {
        "remote_log_segment_id": {
            "topic_id_partition": {"name": listed.topic, "id": listed.topic_id, "partition": listed.partition},
            "id": listed.id,
        },
        "start_offset": listed.base_offset,
        "end_offset": end,
        "broker_id": broker_id,
        "max_timestamp_ms": newest,
        "event_timestamp_ms": now,
        "segment_leader_epochs": [
            {"leader_epoch": epoch.epoch, "offset": epoch.start_offset}
            for epoch in _own(epochs, listed.base_offset, end)
        ],
        "segment_size_in_bytes": size,
        "custom_metadata": None,
        "remote_log_segment_state": int(RemoteSegmentState.COPY_SEGMENT_STARTED),
        "txn_index_empty": FileKind.TRANSACTION_INDEX not in listed.objects
        if described is None
        else not described.has_transaction_index,
    }


def _own(epochs: tuple[LeaderEpoch, ...], base: int, end: int) -> list[LeaderEpoch]:
    """Return the leader epochs of the segment with offsets `base` to `end`; as in a broker's event, the first one
    begins at `base`.
    """
    own = [epoch for epoch in epochs if epoch.start_offset <= end]
    while len(own) > 1 and own[1].start_offset <= base:
        own.pop(0)
    return [LeaderEpoch(epoch.epoch, max(epoch.start_offset, base)) for epoch in own]


def _newest(tier: RemoteTier, listed: ListedSegment) -> int:
    """Return the largest timestamp of a segment in ms since 1970, from the last entry of its time index. If this entry
    is missing or not positive, the batches of the log up to the first damage are read instead; return -1 if there are
    none. Raises `StorageError` if an object cannot be read.
    """
    item = listed.objects[FileKind.TIME_INDEX]
    index = tier.open(item)
    try:
        slot = index.size // TIME_ENTRY.size - 1
        data = index.read(slot * TIME_ENTRY.size, TIME_ENTRY.size) if slot >= 0 else b""
    finally:
        index.close()
    if len(data) == TIME_ENTRY.size:
        newest = TimeEntry(*TIME_ENTRY.struct.unpack(data)).timestamp
        if newest > 0:
            return newest
    log = tier.open(listed.objects[FileKind.LOG])
    try:
        return max((batch.header.max_timestamp for batch in Scanner(log, check_crc=False)), default=-1)
    finally:
        log.close()
