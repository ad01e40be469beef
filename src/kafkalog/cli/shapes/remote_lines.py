"""Lines of `kafkalog remote`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.findings import FindingJson
from kafkalog.codec.text import LeaderEpochJson
from kafkalog.inspect.remote import RemoteView
from kafkalog.inspect.remote_rows import RemoteRow
from kafkalog.tiers.segments import RemoteSegmentEvent

if TYPE_CHECKING:
    from kafkalog.jobs.restore.events import RebuiltEvents

__all__ = ["Line", "SegmentLine", "SummaryLine", "rebuilt_line", "segment_line", "summary_line"]


class EventLine(Struct, frozen=True, kw_only=True):
    """One record of `__remote_log_metadata` about a segment."""

    state: str
    """the state that it tells"""
    timestamp: int
    """when the broker made it, in ms since 1970"""
    broker_id: int
    """which broker"""
    metadata_partition: int
    """of `__remote_log_metadata`"""
    offset: int
    """in that partition"""


class SegmentLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="segment"):
    """One remote segment, by the events, by the listing, or by both."""

    topic: str
    """its topic"""
    partition: int
    """its number"""
    topic_id: str
    """of the topic, as the objects and the events have it"""
    segment_id: str
    """of the remote segment"""
    base_offset: int
    """its first offset"""
    end_offset: int | None
    """its last offset; null if no event names the segment"""
    leader_epochs: list[LeaderEpochJson]
    """in the segment; empty if no event names it"""
    max_timestamp: int | None
    """the largest, in ms since 1970; null if no event names the segment"""
    bytes: int | None
    """of its log; null if nothing tells"""
    state: str | None
    """`COPY_SEGMENT_STARTED`, `COPY_SEGMENT_FINISHED`, `DELETE_SEGMENT_STARTED` or `DELETE_SEGMENT_FINISHED`, after the
    last event; null if no event names the segment"""
    events: list[EventLine]
    """in their order"""
    present: bool | None
    """whether any of its objects is in the listing; null without a listing"""
    objects: dict[str, int]
    """suffix and bytes of each object that is there"""
    local: bool
    """all of its offsets are in a log directory too"""
    belongs: bool | None
    """a broker reads some of it for this log; null if no event names the segment"""


class SummaryLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="summary"):
    """What was read, and everything that was found."""

    events: tuple[str, ...]
    """the directories of `__remote_log_metadata` that were read"""
    remote: str | None
    """the place that was listed; null without `--remote`"""
    partitions: int
    """how many logs are tiered"""
    segments: int
    """how many there are"""
    others: Sequence[str]
    """what the listing has that the layout does not know"""
    findings: list[FindingJson]
    """all of them"""


class RebuiltLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="rebuilt"):
    """With rebuild-metadata: what was written."""

    path: str
    """the new directory"""
    segments: int
    """how many got events"""
    partitions: dict[str, int]
    """partition of the topic and the events in it"""
    findings: list[FindingJson]
    """segments without events"""


Line = SegmentLine | SummaryLine | RebuiltLine
"""One line for each remote segment, then one for all."""


def segment_line(row: RemoteRow) -> SegmentLine:
    """Line of a remote segment."""
    segment = row.segment
    objects = {} if row.listed is None else row.listed.objects
    return SegmentLine(
        topic=row.topic,
        partition=row.partition,
        topic_id=row.topic_id,
        segment_id=row.id,
        base_offset=row.base_offset,
        end_offset=None if segment is None else segment.end_offset,
        leader_epochs=[] if segment is None else [LeaderEpochJson(*epoch) for epoch in segment.leader_epochs],
        max_timestamp=None if segment is None else segment.max_timestamp,
        bytes=row.log_bytes,
        state=None if segment is None else segment.state.name,
        events=[] if segment is None else [_event_line(event) for event in segment.events],
        present=row.is_listed,
        objects={
            (f".{item.path.rpartition('.')[2]}" if item.is_packed else kind.value): item.size
            for kind, item in sorted(objects.items())
        },
        local=row.is_local,
        belongs=row.belongs,
    )


def _event_line(event: RemoteSegmentEvent) -> EventLine:
    return EventLine(
        state=event.state.name, timestamp=event.timestamp, broker_id=event.broker_id,
        metadata_partition=event.metadata_partition, offset=event.offset,
    )  # fmt: skip


def summary_line(view: RemoteView) -> SummaryLine:
    """Line of what was read, with everything that was found."""
    return SummaryLine(
        events=tuple(view.sources), remote=view.place, partitions=len(view.partitions), segments=len(view.rows),
        others=view.others, findings=shaped(view.findings, list[FindingJson]),
    )  # fmt: skip


def rebuilt_line(done: RebuiltEvents) -> RebuiltLine:
    """Line of what `remote rebuild-metadata` has written."""
    partitions = {str(number): count for number, count in sorted(done.by_partition.items())}
    findings = shaped(done.findings, list[FindingJson])
    return RebuiltLine(path=done.path, segments=done.segments, partitions=partitions, findings=findings)
