"""Position of a table in each partition, and the offsets that are not in the table yet.

A table contains all offsets of a partition below its position. Like a consumer, it also stores the leader epoch of the
last record: if a later epoch of the log begins below the position, the log was truncated and rewritten (KIP-320). A
digest of the last record detects a rewrite within the same epoch.
"""

from __future__ import annotations

import hashlib
from itertools import islice, pairwise

from msgspec import Struct

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.errors import FormatError, RecoveryRefused, StorageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.model import BatchHeader
from kafkalog.log.directories.partition import Partition
from kafkalog.log.reading.consumer_view import consumer_view
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.on_damage import STOP
from kafkalog.log.walk.segment import Segment
from kafkalog.log.walk.summary import summarize
from kafkalog.recovery.checks.missing_segments import missing_at_start, missing_by_summaries

__all__ = ["Position", "Span", "digest_of", "require_same_topic", "span_of"]

UNKNOWN_EPOCH = -1


class Position(Struct, frozen=True):
    """Position of a table in one partition."""

    first_offset: int
    """offset at which the first export began"""
    next_offset: int
    """the table contains all offsets below this one"""
    leader_epoch: int = UNKNOWN_EPOCH
    """leader epoch of the last record that was added"""
    last_record: int = -1
    """offset of the last record that was added; -1 if there is no digest"""
    digest: int = 0
    """digest of that record, 63 bits (`digest_of`)"""


class Span(Struct, frozen=True, kw_only=True):
    """A range of offsets of one partition to be added to the table; `end_offset` is exclusive."""

    partition: Partition
    start_offset: int
    end_offset: int
    """end of the log when it was read, or the requested end"""
    read_to: int | None
    """requested end; None for the end of the log"""
    known: Position | None

    @property
    def number(self) -> int:
        """Number of the partition."""
        return self.partition.partition or 0


def require_same_topic(recorded: str | None, partition: Partition, *, is_new: bool) -> None:
    """Raise `RecoveryRefused` if the partition has another topic id than `recorded`. This is the id of the table or,
    with `is_new`, of another partition of the topic. If either id is unknown, nothing is raised.
    """
    topic_id = None if partition.metadata is None else partition.metadata.topic_id
    if recorded and topic_id and recorded != topic_id:
        other = "another partition has" if is_new else "the table is of one with"
        raise RecoveryRefused(
            f"{partition.path} is of a topic with id {topic_id}, and {other} id {recorded}: "
            "the topic was deleted and recreated, so that its offsets count from 0 again; "
            "export it into another directory",
            reason="another_topic",
        )  # fmt: skip


def span_of(
    partition: Partition,
    known: Position | None,
    bounds: RecordFilter,
    isolation_level: str,
    findings: list[Finding],
    *,
    accept_loss: bool,
    masked: bool = False,
) -> Span | None:
    """Return the offsets of a partition to add to the table; None if there are none. They end at the log end, at the
    upper bound, or with read_committed at the first open transaction, whichever comes first. They begin at `known`, the
    table's position. If the table has no records of the partition (None), the lower bounds apply instead.

    If the reason for None is damage, or a log that ends before the table, a finding is added to `findings`. Damage may
    hide the end of a transaction. With `masked`, the last record in the table is compared by time and sizes only.

    Raises `RecoveryRefused` if records in the table were replaced in the log. Raises it also if records to add were
    deleted since, or a segment of them is missing, even at the beginning of the log. With `accept_loss`, deleted or
    missing records raise nothing: the span begins after the deleted ones, or includes the gap. Raises `StorageError` if
    a file cannot be read.
    """
    log_end = partition.log_end_offset()
    if known is None:
        start = _first(partition, bounds, log_end, findings)
    else:
        _require_not_rewritten(partition, known, masked=masked)
        start = known.next_offset
        if log_end < start:
            detail = f"the table has records up to offset {start - 1}, and this log ends at {log_end}: "
            detail += "it was cut, or is an older copy"
            findings.append(Finding.of(FindingCode.OFFSET_BEYOND_LOG_END, None, start, detail, partition.path))
            return None
        if partition.log_start_offset > start:
            if not accept_loss:
                raise _missing(partition, start)
            start = partition.log_start_offset
    asked = _asked(partition, bounds)
    if known is None and not accept_loss:
        _require_start(partition, bounds.start_offset or 0, start, asked)
    view = consumer_view(partition, start, asked, isolation_level=isolation_level)
    end = min(log_end, view.end_offset)
    if start < end:
        if not accept_loss:
            _require_no_gap(partition, start, end)
        return Span(partition=partition, start_offset=start, end_offset=end, read_to=asked, known=known)
    if view.undecided is not None and (asked is None or start < asked):
        findings.append(view.undecided)  # by damage that may lie before the start
    elif asked is None or start < asked:
        walk = partition.batches(start_offset=start, on_damage=STOP)
        next(iter(walk), None)
        findings += [finding for finding in walk.findings if finding not in findings]
    return None


def _asked(partition: Partition, bounds: RecordFilter) -> int | None:
    asked = bounds.end_offset
    if bounds.end_timestamp is not None:
        timestamp = partition.offset_for_timestamp(bounds.end_timestamp, through_damage=True)
        asked = asked if timestamp is None else min(timestamp.offset, timestamp.offset if asked is None else asked)
    return asked


def _missing(partition: Partition, start: int) -> RecoveryRefused:
    return _refused(
        f"{partition.path} begins at offset {partition.log_start_offset}, and the table has records up to {start - 1}: "
        "what was between them is not in this log any more, and another copy may have it"
    )


def _refused(why: str) -> RecoveryRefused:
    advice = [Advice("with {} the export goes on behind them", Ask.ACCEPT_LOSS)]
    return RecoveryRefused(why, reason="records_missing", advice=advice)


def _require_start(partition: Partition, wanted: int, start: int, asked: int | None) -> None:
    """Raise `RecoveryRefused` if `verify` would find offsets missing below the first segment, and some of them are to
    be exported: those from `wanted` to `asked` (exclusive; None: all). Nothing is raised if `start`, at which the
    export begins, is above the first segment's base offset. Raises `StorageError` if a file cannot be read.
    """
    begins = partition.segments[0].base_offset if partition.segments else 0
    if wanted < begins and start <= begins:
        for finding in missing_at_start(partition):
            if asked is None or asked > (finding.offset or 0):
                raise _refused(f"{finding.file}: {finding.detail}; another copy may have these records")


def _require_no_gap(partition: Partition, start: int, end: int) -> None:
    """Raise `RecoveryRefused` if a segment with offsets from `start` up to `end` (exclusive) is missing, as `verify`
    finds it. The whole log is read only if offsets are missing between two segments, because compaction may be the
    reason. Raises `StorageError` if a file cannot be read.
    """
    pairs = pairwise(partition.segments)
    if not any(_is_gap(*pair) for pair in pairs if pair[0].base_offset < end and pair[1].base_offset > start):
        return
    bases: list[int | None] = [segment.base_offset for segment in partition.segments[1:]]
    summaries = [
        summarize(segment, next_segment=base)
        for segment, base in zip(partition.segments, [*bases, None], strict=True)
    ]
    for finding in missing_by_summaries(partition, summaries):
        gap = finding.unread
        if gap is not None and gap.first_offset < end and (gap.last_offset is None or gap.last_offset >= start):
            raise _refused(f"{finding.file}: {finding.detail}; another copy may have these records")


def _is_gap(segment: Segment, following: Segment) -> bool:
    """Return whether offsets are missing at the base offset of the segment `following`. They are missing if no readable
    batch of `segment` ends just before that offset, or if the first readable batch of `following` begins after it.
    Raises `StorageError` if a file cannot be read.
    """
    last = following.base_offset - 1
    batches = list(islice(BatchReader([segment, following], start_offset=last, hold=False), 2))
    if not batches or batches[0].last_offset > last:
        return True
    return len(batches) > 1 and batches[1].header.first_offset > last + 1


def _first(partition: Partition, bounds: RecordFilter, end: int, findings: list[Finding]) -> int:
    start = max(partition.log_start_offset, bounds.start_offset or 0)
    if bounds.start_timestamp is not None:
        offset_and_timestamp = partition.offset_for_timestamp(bounds.start_timestamp, findings=findings)
        start = end if offset_and_timestamp is None else max(start, offset_and_timestamp.offset)
    return start


def digest_of(partition: Partition, offset: int, *, masked: bool) -> int | None:
    """Return a 63-bit digest that distinguishes a record from other records at its offset; None if there is no record
    at `offset` or it cannot be read.

    With `masked` only its time and the sizes of key, value and headers are used, because a digest of hidden content
    would allow guessing it.
    """
    try:
        record = next(
            iter(partition.records(RecordFilter(start_offset=offset, end_offset=offset + 1), on_damage=STOP)), None
        )
    except (FormatError, StorageError):
        return None
    if record is None or record.offset != offset:
        return None
    parts = [record.key, record.value, *(part for header in record.headers for part in header)]
    digest = hashlib.sha256(repr((record.timestamp, [None if part is None else len(part) for part in parts])).encode())
    if not masked:
        for part in parts:
            digest.update(part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part or b"")
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def _require_not_rewritten(partition: Partition, known: Position, *, masked: bool) -> None:
    begins = known.next_offset if known.leader_epoch == UNKNOWN_EPOCH else _rewritten_from(partition, known)
    if begins >= known.next_offset and known.last_record >= partition.log_start_offset:
        digest = digest_of(partition, known.last_record, masked=masked)
        begins = begins if digest in (None, known.digest) else known.last_record
    if begins < known.next_offset:
        raise RecoveryRefused(
            f"{partition.path} has other records from offset {begins} on, or from before it, than the table, which has "
            f"those up to {known.next_offset - 1} of leader epoch {known.leader_epoch}: the log was cut and rewritten; "
            "export it into another directory",
            reason="records_replaced",
        )


def _rewritten_from(partition: Partition, known: Position) -> int:
    """Return the offset below the table's position at which a later leader epoch than the epoch of the table's last
    record begins; the table's position if there is none. Raises `StorageError` if a file cannot be read.
    """
    later = [leader_epoch for leader_epoch in partition.leader_epochs if leader_epoch.epoch > known.leader_epoch]
    begins = min((leader_epoch.start_offset for leader_epoch in later), default=known.next_offset)
    return begins if begins < known.next_offset else _epoch_in_log(partition, known)


def _epoch_in_log(partition: Partition, known: Position) -> int:
    """Return the offset (exclusive) up to which the leader epochs show no difference between table and log. If the
    batch with the table's last offset has a later leader epoch than the table, the base offset of this batch is
    returned. Otherwise the table's position is returned, also if the batch was deleted, cannot be read or is of an old
    format. Raises `StorageError` if a file cannot be read.
    """
    last = known.next_offset - 1
    if last < partition.log_start_offset:
        return known.next_offset
    for batch in partition.batches(start_offset=last, on_damage=STOP):
        header = batch.header
        if not isinstance(header, BatchHeader):
            break
        if header.base_offset <= last <= header.last_offset and header.partition_leader_epoch > known.leader_epoch:
            return header.base_offset
        break
    return known.next_offset
