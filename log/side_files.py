"""The entries of files that are not logs: indexes, producer snapshots, checkpoints, metadata; in Kafka's words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kafkalog.codec.errors import FormatError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.index_files import (
    ABORTED_TRANSACTION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    decode_offset_index,
    decode_producer_snapshot,
    decode_time_index,
    decode_transaction_index,
    used_offset_entries,
    used_time_entries,
)
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.model import MAX_SEQUENCE, ProducerEntry
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FileKind,
    parse_segment_file,
)
from kafkalog.codec.text import (
    decode_clean_shutdown,
    decode_leader_epochs,
    decode_meta_properties,
    decode_offset_checkpoint,
    decode_partition_metadata,
)
from kafkalog.log.files import read_small

__all__ = ["SideFile", "is_side_file", "read_side_file"]

Entry = dict[str, object]


@dataclass(frozen=True, slots=True)
class SideFile:
    """Entries in file order, under Kafka's names, and what was wrong."""

    entries: list[Entry]
    findings: list[Finding]


def _found(code: FindingCode, path: str, detail: str, position: int | None = None) -> Finding:
    return Finding(code, Severity.ERROR, position, None, detail, path)


def _slots(data: bytes, size: int) -> bytes:
    """The index without the zeros that a broker has allocated behind the entries."""
    used = len(data.rstrip(b"\0"))
    return data[: min(len(data), -(-used // size) * size)]


def _index(data: bytes, path: str, size: int, used: Callable[[bytes], tuple[int, list[Entry]]]) -> SideFile:
    findings = []
    if len(data) % size:
        detail = f"{len(data)} bytes are no multiple of {size}"
        findings.append(_found(FindingCode.INDEX_SIZE_INVALID, path, detail))
    slots = _slots(data, size)
    count, entries = used(slots)
    if count < len(slots) // size:
        detail = f"entry {count} does not increase; it and what follows are left out"
        findings.append(_found(FindingCode.INDEX_NOT_INCREASING, path, detail, count * size))
    return SideFile(entries[:count], findings)


def _offset_index(data: bytes, path: str, base_offset: int) -> SideFile:
    def used(slots: bytes) -> tuple[int, list[Entry]]:
        found = decode_offset_index(slots)
        entries: list[Entry] = [
            {"offset": base_offset + each.relative_offset, "position": each.position} for each in found
        ]
        return used_offset_entries(found), entries

    return _index(data, path, OFFSET_ENTRY.size, used)


def _time_index(data: bytes, path: str, base_offset: int) -> SideFile:
    def used(slots: bytes) -> tuple[int, list[Entry]]:
        found = decode_time_index(slots)
        entries: list[Entry] = [
            {"timestamp": each.timestamp, "offset": base_offset + each.relative_offset} for each in found
        ]
        return used_time_entries(found), entries

    return _index(data, path, TIME_ENTRY.size, used)


def _transaction_index(data: bytes, path: str, _base_offset: int) -> SideFile:
    findings = []
    if len(data) % ABORTED_TRANSACTION.size:
        detail = f"{len(data)} bytes are no multiple of {ABORTED_TRANSACTION.size}"
        findings.append(_found(FindingCode.INDEX_SIZE_INVALID, path, detail))
    entries: list[Entry] = [
        {
            "version": each.version,
            "producerId": each.producer_id,
            "firstOffset": each.first_offset,
            "lastOffset": each.last_offset,
            "lastStableOffset": each.last_stable_offset,
        }
        for each in decode_transaction_index(data)
    ]
    return SideFile(entries, findings)


def _producer(entry: ProducerEntry) -> Entry:
    open_at = entry.current_txn_first_offset
    found: Entry = {
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": None if open_at < 0 else open_at,
        "lastTimestamp": entry.timestamp,
    }
    if entry.last_offset >= 0:
        first = entry.last_sequence - entry.offset_delta
        found |= {
            "firstSequence": first if first >= 0 else first + MAX_SEQUENCE + 1,
            "lastSequence": entry.last_sequence,
            "lastOffset": entry.last_offset,
            "offsetDelta": entry.offset_delta,
            "timestamp": entry.timestamp,
        }
    return found


def _snapshot(data: bytes, path: str, _base_offset: int) -> SideFile:
    return SideFile([_producer(entry) for entry in decode_producer_snapshot(data, source=path)], [])


def _offsets(data: bytes, path: str) -> Iterable[Entry]:
    return [each._asdict() for each in decode_offset_checkpoint(data, source=path)]


def _epochs(data: bytes, path: str) -> Iterable[Entry]:
    return [{"epoch": each.epoch, "startOffset": each.start_offset} for each in decode_leader_epochs(data, source=path)]


def _metadata(data: bytes, path: str) -> Iterable[Entry]:
    found = decode_partition_metadata(data, source=path)
    return [{"version": found.version, "topic_id": found.topic_id}]


def _meta_properties(data: bytes, path: str) -> Iterable[Entry]:
    return [dict(decode_meta_properties(data, source=path).properties)]


def _clean_shutdown(data: bytes, _path: str) -> Iterable[Entry]:
    found = decode_clean_shutdown(data)
    return [{"version": found.version, "brokerEpoch": found.broker_epoch}]


_BY_KIND = {
    FileKind.OFFSET_INDEX: _offset_index,
    FileKind.TIME_INDEX: _time_index,
    FileKind.TRANSACTION_INDEX: _transaction_index,
    FileKind.PRODUCER_SNAPSHOT: _snapshot,
}
_BY_NAME = {
    RECOVERY_POINT_CHECKPOINT: _offsets,
    LOG_START_OFFSET_CHECKPOINT: _offsets,
    REPLICATION_OFFSET_CHECKPOINT: _offsets,
    CLEANER_OFFSET_CHECKPOINT: _offsets,
    LEADER_EPOCH_CHECKPOINT: _epochs,
    PARTITION_METADATA: _metadata,
    META_PROPERTIES: _meta_properties,
    CLEAN_SHUTDOWN_FILE: _clean_shutdown,
}


def _name(path: str) -> str:
    return os.path.basename(path).removesuffix(".deleted")


def is_side_file(path: str) -> bool:
    """Whether the name is that of such a file."""
    parsed = parse_segment_file(_name(path))
    return _name(path) in _BY_NAME or (parsed is not None and parsed.kind in _BY_KIND)


def read_side_file(path: str) -> SideFile:
    """All entries; what cannot be read is a finding.  Raises `StorageError`."""
    name = _name(path)
    parsed = parse_segment_file(name)
    try:
        if parsed is not None and parsed.kind in _BY_KIND:
            return _BY_KIND[parsed.kind](read_small(path, DEFAULT_LIMITS.snapshot_bytes), path, parsed.base_offset)
        data = read_small(path, DEFAULT_LIMITS.checkpoint_bytes)
        return SideFile(list(_BY_NAME[name](data, path)), [])
    except FormatError as error:
        code = FindingCode(error.code) if error.code else FindingCode.CHECKPOINT_INVALID
        return SideFile([], [_found(code, path, error.message, error.position)])
