"""Walking the records of an internal topic's partition as its coordinator does when it loads it.

From the log start offset to the end of the log, aborted transactions included: what a marker means is the reader's
business.  Decided by `CoordinatorLoaderImpl` and, before it, by `GroupMetadataManager.doLoadGroupsAndOffsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kafkalog.cluster.coordinator_records import CoordinatorRecord, decode_record
from kafkalog.codec.control import end_transaction_marker
from kafkalog.codec.errors import FormatError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import NO_PRODUCER_ID, ControlType
from kafkalog.log.partition import Partition

__all__ = ["Entry", "Marker", "Until", "partitions_of", "replay"]


@dataclass(frozen=True, slots=True)
class Until:
    """Where to end: before the first record at this offset, or with a later timestamp (ms)."""

    offset: int | None = None
    timestamp: int | None = None

    def excludes(self, offset: int, timestamp: int) -> bool:
        """Whether a record comes too late."""
        return (self.offset is not None and offset >= self.offset) or (
            self.timestamp is not None and timestamp > self.timestamp
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One record, decoded; `producer_id` is that of its transaction, or -1."""

    record: CoordinatorRecord
    offset: int
    timestamp: int
    producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction."""

    producer_id: int
    committed: bool
    offset: int


def partitions_of(partitions: Iterable[Partition], topic: str) -> list[Partition]:
    """The partitions of a topic, by number."""
    return sorted((each for each in partitions if each.topic == topic), key=lambda each: each.partition or 0)


def replay(
    partition: Partition, findings: list[Finding], *, until: Until | None = None, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Entry | Marker]:
    """Records and markers in offset order; what is wrong goes to `findings`.  Raises `StorageError` only."""
    until = until or Until()
    topic = partition.topic or ""
    reader = partition.records(include_control=True, limits=limits)
    done = False
    for batch, records in reader.by_batch():
        header = batch.header
        for record in records:
            if until.excludes(record.offset, record.timestamp):
                done = True
                break
            if header.is_control:
                try:
                    marker = end_transaction_marker(record)
                except FormatError as error:
                    code = FindingCode.CONTROL_RECORD_INVALID
                    findings.append(_finding(code, batch.position, record.offset, error.message, reader.segment))
                    break
                if marker is not None:
                    yield Marker(header.producer_id, marker.type is ControlType.COMMIT, record.offset)
                break  # a coordinator examines the first record of a control batch only
            decoded = decode_record(topic, record.key, record.value)
            if decoded.findings:
                file = reader.segment.path if reader.segment is not None else partition.path
                findings.extend(
                    replace(found, file=file, offset=record.offset, position=batch.position)
                    for found in decoded.findings
                )
            producer = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            yield Entry(decoded, record.offset, record.timestamp, producer)
        if done:
            break
    findings.extend(reader.findings)


def _finding(code: FindingCode, position: int, offset: int, detail: str, segment: object) -> Finding:
    return Finding(code, Severity.ERROR, position, offset, detail, getattr(segment, "path", None))
