"""Read the entries of the files beside the log, under Kafka's names: indexes, producer snapshots, checkpoints,
metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.common.source import Source, used_end
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.files.index_files import (
    ABORTED_TRANSACTION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    each_slot,
    offset_entry_increases,
    read_producer_snapshot,
    time_entry_increases,
)
from kafkalog.codec.files.quorum_state import decode_quorum_state, encode_quorum_state
from kafkalog.codec.files.text import (
    decode_clean_shutdown,
    decode_leader_epochs,
    decode_meta_properties,
    decode_offset_checkpoint,
    decode_partition_metadata,
)
from kafkalog.codec.model import MAX_SEQUENCE, AbortedTransaction, ProducerEntry
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    DELETED,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    QUORUM_STATE,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FileKind,
    parse_segment_file,
)
from kafkalog.log.directories.side_file_lines import (
    CheckpointLine,
    CleanShutdownLine,
    LeaderEpochLine,
    OffsetIndexLine,
    PartitionMetadataLine,
    ProducerLine,
    TimeIndexLine,
    TransactionIndexLine,
)
from kafkalog.log.disk.files import FileSource, read_small

__all__ = ["SideFile", "is_side_file", "read_side_file"]

Entry = (
    OffsetIndexLine
    | TimeIndexLine
    | TransactionIndexLine
    | ProducerLine
    | CheckpointLine
    | LeaderEpochLine
    | PartitionMetadataLine
    | CleanShutdownLine
    | dict[str, Any]
)
"""An entry; a dict for a file with any names and values (`meta.properties`, `quorum-state`)."""
Fields = tuple[Any, ...]


class SideFile(Struct, frozen=True):
    """The entries of a file beside the log, in file order, and the findings about it. The findings are complete once
    all entries were read.
    """

    entries: Iterator[Entry]
    findings: list[Finding]


def _found(code: FindingCode, path: str, detail: str, position: int | None = None) -> Finding:
    return Finding(code, Severity.ERROR, position, None, detail, path)


def _index(
    source: Source,
    path: str,
    layout: FixedLayout,
    increases: Callable[[Fields | None, Fields], bool],
    entry: Callable[[Fields], Entry],
    findings: list[Finding],
) -> Iterator[Entry]:
    """Yield the entries of an index file in order, each converted by `entry`. Zeros at the end, which a broker
    allocated in advance, are ignored. The first entry that does not increase adds a finding to `findings`; it and the
    entries after it are not yielded. A file size that is not a multiple of the entry size adds a finding too.

    `increases` is called with the fields of the previous entry (None at first) and of the next one, and returns whether
    the next one increases. Raises `StorageError` if the file cannot be read.
    """
    if source.size % layout.size:
        detail = f"{source.size} bytes are not a multiple of {layout.size}"
        findings.append(_found(FindingCode.INDEX_SIZE_INVALID, path, detail))
    used = -(-used_end(source, source.size) // layout.size)
    before: Fields | None = None
    for count, fields in each_slot(source, layout, end=used * layout.size):
        if not increases(before, fields):
            detail = f"entry {count} does not increase; it and what follows are left out"
            findings.append(_found(FindingCode.INDEX_NOT_INCREASING, path, detail, count * layout.size))
            return
        before = fields
        yield entry(fields)


def _offset_index(source: Source, path: str, base_offset: int, findings: list[Finding]) -> Iterator[Entry]:
    return _index(
        source,
        path,
        OFFSET_ENTRY,
        offset_entry_increases,
        lambda fields: OffsetIndexLine(offset=base_offset + fields[0], position=fields[1]),
        findings,
    )


def _time_index(source: Source, path: str, base_offset: int, findings: list[Finding]) -> Iterator[Entry]:
    return _index(
        source,
        path,
        TIME_ENTRY,
        time_entry_increases,
        lambda fields: TimeIndexLine(timestamp=fields[0], offset=base_offset + fields[1]),
        findings,
    )


def _transaction_index(source: Source, path: str, _base_offset: int, findings: list[Finding]) -> Iterator[Entry]:
    if source.size % ABORTED_TRANSACTION.size:
        detail = f"{source.size} bytes are not a multiple of {ABORTED_TRANSACTION.size}"
        findings.append(_found(FindingCode.INDEX_SIZE_INVALID, path, detail))
    for _slot, fields in each_slot(source, ABORTED_TRANSACTION):
        yield shaped(AbortedTransaction(*fields), TransactionIndexLine)


def _producer(entry: ProducerEntry) -> Entry:
    open_at = entry.current_txn_first_offset
    line = ProducerLine(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_first_offset=None if open_at < 0 else open_at,
        last_timestamp=entry.timestamp,
    )
    if entry.last_offset < 0:
        return line
    first = entry.last_sequence - entry.offset_delta
    return replace(
        line,
        first_sequence=first if first >= 0 else first + MAX_SEQUENCE + 1,
        last_sequence=entry.last_sequence,
        last_offset=entry.last_offset,
        offset_delta=entry.offset_delta,
        timestamp=entry.timestamp,
    )


def _snapshot(source: Source, path: str, _base_offset: int, _findings: list[Finding]) -> Iterator[Entry]:
    return map(_producer, read_producer_snapshot(source, source=path))


def _offsets(data: bytes, path: str) -> Iterable[Entry]:
    return [CheckpointLine(**entry._asdict()) for entry in decode_offset_checkpoint(data, source=path)]


def _epochs(data: bytes, path: str) -> Iterable[Entry]:
    return [LeaderEpochLine(**entry._asdict()) for entry in decode_leader_epochs(data, source=path)]


def _metadata(data: bytes, path: str) -> Iterable[Entry]:
    return [shaped(decode_partition_metadata(data, source=path), PartitionMetadataLine)]


def _meta_properties(data: bytes, path: str) -> Iterable[Entry]:
    return [dict(decode_meta_properties(data, source=path).properties)]


def _clean_shutdown(data: bytes, _path: str) -> Iterable[Entry]:
    return [shaped(decode_clean_shutdown(data), CleanShutdownLine)]


def _quorum_state(data: bytes, path: str) -> Iterable[Entry]:
    return [json.loads(encode_quorum_state(decode_quorum_state(data, source=path)))]


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
    QUORUM_STATE: _quorum_state,
}


def _name(path: str) -> str:
    return os.path.basename(path).removesuffix(DELETED)


def is_side_file(path: str) -> bool:
    """Whether `path` has the name of an index, producer snapshot, checkpoint or metadata file, also with the suffix
    `.deleted`.
    """
    parsed = parse_segment_file(_name(path))
    return _name(path) in _BY_NAME or (parsed is not None and parsed.kind in _BY_KIND)


def read_side_file(path: str) -> SideFile:
    """Return the entries of a file beside the log, and the findings about it. The file is read piece by piece while the
    entries are iterated, which raises `StorageError` if it cannot be read. Content that cannot be decoded ends the
    entries with a finding.
    """
    findings: list[Finding] = []
    return SideFile(_read(path, findings), findings)


def _read(path: str, findings: list[Finding]) -> Iterator[Entry]:
    name = _name(path)
    parsed = parse_segment_file(name)
    try:
        if parsed is not None and parsed.kind in _BY_KIND:
            with FileSource(path) as source:
                yield from _BY_KIND[parsed.kind](source, path, parsed.base_offset, findings)
        else:
            yield from _BY_NAME[name](read_small(path, DEFAULT_LIMITS.checkpoint_bytes), path)
    except FormatError as error:
        code = FindingCode(error.code) if error.code else FindingCode.CHECKPOINT_INVALID
        findings.append(_found(code, path, error.message, error.position))
