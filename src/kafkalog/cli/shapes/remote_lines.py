"""JSON lines of `kafkalog remote`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.files.text import LeaderEpochJson
from kafkalog.inspect.remote import RemoteView
from kafkalog.inspect.remote_rows import RemoteRow
from kafkalog.tiers.segments import RemoteSegmentEvent

if TYPE_CHECKING:
    from kafkalog.jobs.restore.events import RebuiltEvents

__all__ = ["Line", "SegmentLine", "SummaryLine", "rebuilt_line", "segment_line", "summary_line"]


class EventLine(Struct, frozen=True, kw_only=True):
    """Event of a remote segment: a record of `__remote_log_metadata`."""

    state: str
    """state that the event gives the segment, for example `COPY_SEGMENT_FINISHED`"""
    timestamp: int
    """time at which the broker created the event, in ms since 1970"""
    broker_id: int
    """id of the broker that created the event"""
    metadata_partition: int
    """partition number of `__remote_log_metadata` that holds the event"""
    offset: int
    """offset of the event in that partition"""


class SegmentLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="segment"):
    """Remote segment, known from events in `__remote_log_metadata`, from the listing of the remote tier, or both."""

    topic: str
    """name of the topic"""
    partition: int
    """partition number"""
    topic_id: str
    """topic id, from the events or from the names of the objects"""
    segment_id: str
    """id of the remote segment (`RemoteLogSegmentId`)"""
    base_offset: int
    """first offset of the segment (inclusive)"""
    end_offset: int | None
    """last offset of the segment (inclusive); null if there are no events of the segment"""
    leader_epochs: list[LeaderEpochJson]
    """leader epochs of the segment, with their first offsets; empty if there are no events of the segment"""
    max_timestamp: int | None
    """largest timestamp in the segment, in ms since 1970; null if there are no events of the segment"""
    bytes: int | None
    """size of the segment's `.log` file in bytes according to the events, else size of the listed log object; null if
    neither is known
    """
    state: str | None
    """state of the segment after its last event: `COPY_SEGMENT_STARTED`, `COPY_SEGMENT_FINISHED`,
    `DELETE_SEGMENT_STARTED` or `DELETE_SEGMENT_FINISHED`; null if there are no events of the segment
    """
    events: list[EventLine]
    """events of the segment in order, without events that a broker would ignore"""
    present: bool | None
    """whether any object of the segment is in the listing; null without --remote"""
    objects: dict[str, int]
    """size in bytes of each listed object of the segment, by the suffix of the object's name; empty if none is listed
    """
    local: bool
    """whether a log directory also holds all offsets of the segment; false if there are no events of the segment"""
    belongs: bool | None
    """whether a broker reads any of the segment's records as part of this log, by their leader epochs; false for a
    segment without events if the log has other segments with events; never null
    """


class SummaryLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="summary"):
    """Summary of the remote tier, with all findings."""

    events: tuple[str, ...]
    """paths of the `__remote_log_metadata` partition directories that were read"""
    remote: str | None
    """URI or path of the listed remote tier; null without --remote"""
    partitions: int
    """number of partitions with tiered storage"""
    segments: int
    """number of remote segments, including deleted segments"""
    others: Sequence[str]
    """names of listed objects that belong to no segment"""
    findings: list[FindingJson]
    """all problems found in events, listing and partitions"""


class RebuiltLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="rebuilt"):
    """Result of `rebuild-metadata`: new `__remote_log_metadata` partitions."""

    path: str
    """path of the new directory"""
    segments: int
    """number of remote segments for which events were written"""
    partitions: dict[str, int]
    """number of events in each new partition of `__remote_log_metadata`, by partition number"""
    findings: list[FindingJson]
    """remote segments for which no events were written, with the reason"""


Line = SegmentLine | SummaryLine | RebuiltLine
"""One line per remote segment, then one summary line; for `rebuild-metadata` only the line with its result."""


def segment_line(row: RemoteRow) -> SegmentLine:
    """Return the line of a remote segment that is known from events, from the listing of the tier, or from both.
    Without events, the fields that only they have are None or empty. `objects` is empty if the segment was not listed.
    """
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
    """Return the summary line, with all findings."""
    return SummaryLine(
        events=tuple(view.sources), remote=view.place, partitions=len(view.partitions), segments=len(view.rows),
        others=view.others, findings=shaped(view.findings, list[FindingJson]),
    )  # fmt: skip


def rebuilt_line(done: RebuiltEvents) -> RebuiltLine:
    """Return the line with the result of `remote rebuild-metadata`."""
    partitions = {str(number): count for number, count in sorted(done.by_partition.items())}
    findings = shaped(done.findings, list[FindingJson])
    return RebuiltLine(path=done.path, segments=done.segments, partitions=partitions, findings=findings)
