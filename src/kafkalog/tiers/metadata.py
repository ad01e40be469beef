"""Remote segments according to `__remote_log_metadata` (`RemoteLogMetadataCache`).

The topic has an event for every step in the life of every segment, kept forever by default. Copies of one of its
partitions from several brokers are read together, and each offset counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.names import REMOTE_LOG_METADATA_TOPIC, DirectoryState
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import unreadable
from kafkalog.log.walk.on_damage import STOP
from kafkalog.tiers.segments import RemoteSegment, RemoteSegmentEvent, RemoteSegmentState, may_follow

if TYPE_CHECKING:
    from kafkalog.cluster.records.framed_records import FramedRecord

__all__ = ["RemoteMetadata", "is_remote_metadata", "read_remote_metadata"]

_SEGMENT, _UPDATE = "RemoteLogSegmentMetadataRecord", "RemoteLogSegmentMetadataUpdateRecord"
_PARTITION = "RemotePartitionDeleteMetadataRecord"
_DELETE_PARTITION_FINISHED = 2

TopicIdPartition = tuple[str, int]


class RemoteMetadata(Struct, frozen=True, kw_only=True):
    """All remote segments named in the events of `__remote_log_metadata`, and findings about invalid events."""

    segments: Mapping[TopicIdPartition, tuple[RemoteSegment, ...]] = field(default_factory=dict)
    """by topic id and partition, in the order of their first events"""
    deleted: frozenset[TopicIdPartition] = frozenset()
    """partitions with their topic deleted and all remote segments removed"""
    sources: tuple[str, ...] = ()
    """the directories that were read"""
    findings: tuple[Finding, ...] = ()

    def __bool__(self) -> bool:
        """Whether there was anything to read."""
        return bool(self.sources)

    @property
    def all(self) -> list[RemoteSegment]:
        """The segments of all partitions, by topic, partition and offset."""
        found = [segment for segments in self.segments.values() for segment in segments]
        return sorted(found, key=lambda each: (each.topic, each.partition, each.topic_id, each.start_offset, each.id))

    def of(self, topic: str, partition: int, topic_id: str | None = None) -> list[RemoteSegment]:
        """Return the segments of a partition in any state, ordered by start offset, end offset and id; empty if none is
        known. Topics with different ids may have had this name. If `topic_id` is None, the segments of the id with the
        latest copy are returned.
        """
        if topic_id is None:
            ids = [segment.topic_id for segment in self._latest() if segment.key == (topic, partition)]
            topic_id = ids[-1] if ids else ""
        remote_segments = self.segments.get((topic_id, partition), ())
        return sorted(remote_segments, key=lambda each: (each.start_offset, each.end_offset, each.id))

    def _latest(self) -> list[RemoteSegment]:
        remote_segments = [segments[-1] for segments in self.segments.values() if segments]
        return sorted(remote_segments, key=lambda each: each.events[0].timestamp)


def is_remote_metadata(partition: Partition) -> bool:
    """Return whether it is a live partition of the topic."""
    return partition.topic == REMOTE_LOG_METADATA_TOPIC and partition.state is DirectoryState.LIVE


def read_remote_metadata(
    partitions: Iterable[Partition], limits: Limits = DEFAULT_LIMITS, *, tolerant: bool = False
) -> RemoteMetadata:
    """Read the events in all live partitions of `__remote_log_metadata`. Return the segments that they name, the
    partitions whose deletion is finished, the directories that were read, and findings: damage that ends the reading of
    a copy, and invalid events. If several copies of a partition are passed, each offset counts once. Raises
    `StorageError` if a log cannot be read; with `tolerant`, its events before the error count, with a finding.

    * `partitions`: partitions of the log directories of one broker or of several; other topics are ignored
    * `limits`: upper bounds for a batch or file (`Limits`)
    """
    events = _Events()
    sources = []
    read: dict[int, set[int]] = defaultdict(set)
    for partition in partitions:
        number = partition.partition
        if number is None or not is_remote_metadata(partition):
            continue
        sources.append(partition.path)
        reader = partition.records(on_damage=STOP, limits=limits)
        try:
            for record in reader:
                if record.offset not in read[number]:
                    read[number].add(record.offset)
                    events.take(number, record.offset, record.value, partition.path)
        except StorageError as error:
            if not tolerant:
                raise
            events.findings.append(unreadable(error, partition.path))
        events.findings += [finding for finding in reader.findings if finding.severity is Severity.ERROR]
    return events.read(tuple(sources))


class _Events:
    """The state of segments while events are applied, one partition of the topic after the other."""

    def __init__(self) -> None:
        from kafkalog.cluster.records.framed_records import decode_remote_log_metadata  # Kafka's schemas, for few logs

        self._decode = decode_remote_log_metadata
        self._segments: dict[str, RemoteSegment] = {}
        self._early: dict[str, list[RemoteSegmentEvent]] = defaultdict(list)
        """events of segments whose first event is missing, or comes later in another copy"""
        self._deleted: set[TopicIdPartition] = set()
        self.findings: list[Finding] = []

    def take(self, number: int, offset: int, value: bytes | None, path: str) -> None:
        record = self._decode(value)
        self.findings += [replace(finding, file=path, offset=offset) for finding in record.findings]
        fields = {} if record.decoded is None else record.decoded.fields
        try:
            self._apply(record, fields, number, offset, path)
        except (KeyError, ValueError) as error:
            self._odd(f"an event that makes no sense: {error}", offset, path)

    def _apply(self, record: FramedRecord, fields: Mapping[str, Any], number: int, offset: int, path: str) -> None:
        if record.name == _SEGMENT:
            remote_segment = _segment(fields, number, offset)
            if remote_segment.id not in self._segments:
                self._segments[remote_segment.id] = remote_segment
                for event in self._early.pop(remote_segment.id, ()):
                    self._follow(remote_segment.id, event, path)
            else:
                self._follow(remote_segment.id, remote_segment.events[0], path)
        elif record.name == _UPDATE:
            self._follow(fields["remote_log_segment_id"]["id"], _event(fields, number, offset), path)
        elif record.name == _PARTITION and fields["remote_partition_delete_state"] == _DELETE_PARTITION_FINISHED:
            named = fields["topic_id_partition"]
            self._deleted.add((named["id"], named["partition"]))

    def _follow(self, segment_id: str, event: RemoteSegmentEvent, path: str) -> None:
        known = self._segments.get(segment_id)
        if known is None:
            self._early[segment_id].append(event)
        elif not may_follow(known.state, event.state):
            self._odd(
                f"segment {segment_id} of {known.topic}-{known.partition} is in state {known.state.name}, and "
                f"{event.state.name} cannot follow: a broker passes over it", event.offset, path,
            )  # fmt: skip
        else:
            self._segments[segment_id] = replace(known, events=(*known.events, event))

    def _odd(self, detail: str, offset: int, path: str) -> None:
        self.findings.append(Finding.of(FindingCode.REMOTE_EVENT_INVALID, None, offset, detail, path))

    def read(self, sources: tuple[str, ...]) -> RemoteMetadata:
        for segment_id, events in self._early.items():
            path = next((source for source in sources if source.endswith(f"-{events[0].metadata_partition}")), None)
            detail = f"{events[0].state.name} of segment {segment_id}, of which no event before says what it is"
            self._odd(detail, events[0].offset, path or "")
        found: dict[TopicIdPartition, list[RemoteSegment]] = defaultdict(list)
        for segment in self._segments.values():
            found[segment.topic_id, segment.partition].append(segment)
        segments = {key: tuple(remote_segments) for key, remote_segments in found.items()}
        return RemoteMetadata(
            segments=segments, deleted=frozenset(self._deleted), sources=sources, findings=tuple(self.findings)
        )


def _event(fields: Mapping[str, Any], number: int, offset: int) -> RemoteSegmentEvent:
    state = RemoteSegmentState(fields["remote_log_segment_state"])
    return RemoteSegmentEvent(
        state=state,
        timestamp=fields["event_timestamp_ms"],
        broker_id=fields["broker_id"],
        metadata_partition=number,
        offset=offset,
    )


def _segment(fields: Mapping[str, Any], number: int, offset: int) -> RemoteSegment:
    named = fields["remote_log_segment_id"]
    of = named["topic_id_partition"]
    epochs = tuple(LeaderEpoch(field["leader_epoch"], field["offset"]) for field in fields["segment_leader_epochs"])
    if not epochs or fields["end_offset"] < fields["start_offset"] or fields["start_offset"] < 0:
        raise ValueError(f"offsets {fields['start_offset']} to {fields['end_offset']}, {len(epochs)} epochs")
    return RemoteSegment(
        topic=of["name"],
        topic_id=of["id"],
        partition=of["partition"],
        id=named["id"],
        start_offset=fields["start_offset"],
        end_offset=fields["end_offset"],
        max_timestamp=fields["max_timestamp_ms"],
        size=fields["segment_size_in_bytes"],
        leader_epochs=epochs,
        has_transaction_index=not fields.get("txn_index_empty", False),
        custom_metadata=fields["custom_metadata"],
        events=(_event(fields, number, offset),),
    )
