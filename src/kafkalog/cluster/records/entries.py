"""Records and markers of an internal topic's partition, in the order in which its coordinator loads them.

They reach from the log start offset to the end of the log and include aborted transactions; the caller interprets the
markers. Follows `CoordinatorLoaderImpl` and the older `GroupMetadataManager.doLoadGroupsAndOffsets`.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.records.checkpoints import cleaned_until
from kafkalog.cluster.records.coordinator_records import CoordinatorRecord, decode_record
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, ControlType
from kafkalog.codec.plain.control import end_transaction_marker
from kafkalog.log.directories.missing_segments import missing_segments
from kafkalog.log.directories.partition import Partition
from kafkalog.log.walk.missing import MissingOffsets
from kafkalog.log.walk.on_damage import STOP

__all__ = ["Entry", "Marker", "entries"]


class Entry(Struct, frozen=True):
    """A decoded record. `producer_id` is -1 if it is not part of a transaction."""

    record: CoordinatorRecord
    offset: int
    timestamp: int
    producer_id: int = NO_PRODUCER_ID
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH


class Marker(Struct, frozen=True):
    """The marker that ends a producer's transaction."""

    producer_id: int
    committed: bool
    offset: int
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH


def entries(partition: Partition, findings: list[Finding], limits: Limits) -> Iterator[Entry | Marker]:
    """Yield records and transaction markers in offset order, as a coordinator loads them; stops at damage.

    Findings about damage, undecodable records and missing segments are appended to `findings`, some only when the
    iterator ends. Missing segments are only found if the cleaner's checkpoint can be read. Of a control batch only the
    first record is used. Raises `StorageError` if files cannot be read, and no other errors.
    """
    topic = partition.topic or ""
    reader = partition.records(include_control=True, on_damage=STOP, limits=limits)
    cleaned = None if partition.name is None else cleaned_until(partition.path, partition.name)
    missing, base = MissingOffsets(cleaned or 0), -1
    for batch, records in reader.by_batch():
        header = batch.header
        if reader.segment is not None and reader.segment.base_offset != base:
            base = reader.segment.base_offset
            missing.segment(base, None)
        missing.run(OneBatch(batch))
        epoch = header.partition_leader_epoch
        for record in records:
            if header.is_control:
                try:
                    marker = end_transaction_marker(record)
                except FormatError as error:
                    code, file = FindingCode.CONTROL_RECORD_INVALID, getattr(reader.segment, "path", None)
                    finding = Finding(code, Severity.ERROR, batch.position, record.offset, error.message, file)
                    findings.append(finding)
                    break
                if marker is not None:
                    committed = marker.type is ControlType.COMMIT
                    yield Marker(header.producer_id, committed, record.offset, record.timestamp, epoch)
                break  # a coordinator examines the first record of a control batch only
            decoded = decode_record(topic, record.key, record.value)
            if decoded.findings:
                file = reader.segment.path if reader.segment is not None else partition.path
                findings.extend(
                    replace(found, file=file, offset=record.offset, position=batch.position)
                    for found in decoded.findings
                )
            producer = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            yield Entry(decoded, record.offset, record.timestamp, producer, epoch)
    findings.extend(reader.findings)
    if cleaned is not None:
        bases = (segment.base_offset for segment in partition.segments)
        start = partition.log_start_offset
        findings.extend(missing_segments(partition.path, missing.found, start, bases, is_compacted=True))
