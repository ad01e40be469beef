"""Every file of every recorded broker directory: decoded, and written again to the same bytes.

Batches are read by the plain execution; by the reference the first and two more of each file, because it is some
fifty times slower.  Compressed bytes are kept, and what was decompressed is written again to the same bytes too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec import DEFAULT_LIMITS, BatchHeader, Codec, RecordBatch, decode_batch, names, scan
from kafkalog.codec.compression import decompress
from kafkalog.codec.encode import encode_raw_batch, encode_raw_message, read_raw_batch, read_raw_message
from kafkalog.codec.encode.batch import control_key
from kafkalog.codec.encode.records import write_records
from kafkalog.codec.files import index_files as binary
from kafkalog.codec.files import text
from kafkalog.codec.files.kraft import encode_kraft_value, kraft_record
from kafkalog.codec.files.kraft_snapshot import read_kraft_snapshot
from kafkalog.codec.files.quorum_state import decode_quorum_state, encode_quorum_state
from kafkalog.codec.model import ControlType
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.control import end_transaction_marker, parse_control_key
from testkit.judging.reference_execution import REFERENCE
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import BrokerCase, broker_cases

Count = Counter[str]


def without_zeros(data: bytes, size: int) -> bytes:
    """A preallocated index without the zero slots at its end."""
    used = len(data.rstrip(b"\0"))
    return data[: used + -used % size]


def whole_slots(data: bytes, size: int, again: Callable[[bytes], bytes]) -> None:
    used = without_zeros(data, size)
    assert again(used) == used[: len(used) - len(used) % size]


def segment(data: bytes, count: Count, seed: str) -> None:
    result = scan(data)
    batches = result.batches
    sample = {0, *random.Random(seed).sample(range(len(batches)), min(2, len(batches)))}
    again = []
    for number, batch in enumerate(batches):
        decoded = decode_batch(batch)
        assert decoded.finding is None
        count["batches"] += 1
        count["records"] += len(decoded.records)
        if number in sample:
            assert decode_batch(batch, execution=REFERENCE) == decoded
            count["batches read by the reference too"] += 1
        if isinstance(batch.header, BatchHeader):
            again.append(batch_again(batch))
            if batch.header.is_control:
                for record in decoded.records:
                    control(record.key, record.value, record)
                    count["control records"] += 1
        else:
            again.append(message_again(batch))
    assert b"".join(again) == data[: result.valid_bytes]


def batch_again(batch: RecordBatch) -> bytes:
    raw = read_raw_batch(batch)
    if raw.compressed is not None and raw.records:
        assert write_records(raw.records) == decompress(batch.header.codec, raw.compressed)
    return encode_raw_batch(raw)


def message_again(batch: RecordBatch) -> bytes:
    raw = read_raw_message(batch)
    if batch.header.codec != Codec.NONE:
        assert raw.value is not None
        plain = decompress(batch.header.codec, raw.value, DEFAULT_LIMITS, magic=batch.header.magic)
        assert b"".join(encode_raw_message(inner) for inner in raw.inner) == plain
    return encode_raw_message(raw)


def control(key: bytes | None, value: bytes | None, record: object) -> None:
    kind = parse_control_key(key)
    assert control_key(kind.type, kind.version) == key
    marker = end_transaction_marker(record)  # type: ignore[arg-type]
    if marker is not None:
        assert value == b"\0\0" + marker.coordinator_epoch.to_bytes(4, "big", signed=True)
    else:
        said = kraft_record(record)  # type: ignore[arg-type]
        assert said is not None
        assert encode_kraft_value(said) == (ControlType(kind.type), value)


def snapshot(data: bytes) -> None:
    assert binary.encode_producer_snapshot(binary.decode_producer_snapshot(data)) == data


def log(data: bytes, count: Count, name: str) -> None:
    segment(data, count, name)


def checkpoint(data: bytes, count: Count, name: str) -> None:
    segment(data, count, name)
    found = read_kraft_snapshot(data)
    assert found.findings == ()
    assert found.header is not None
    assert found.footer is not None
    count["KRaft snapshots"] += 1


TEXTS: dict[str, Callable[[bytes], bytes]] = {
    names.META_PROPERTIES: lambda data: text.encode_meta_properties(text.decode_meta_properties(data)),
    names.CLEAN_SHUTDOWN_FILE: lambda data: text.encode_clean_shutdown(text.decode_clean_shutdown(data)),
    names.PARTITION_METADATA: lambda data: text.encode_partition_metadata(text.decode_partition_metadata(data)),
    names.LEADER_EPOCH_CHECKPOINT: lambda data: text.encode_leader_epochs(text.decode_leader_epochs(data)),
    names.QUORUM_STATE: lambda data: encode_quorum_state(decode_quorum_state(data)),
    names.LOCK_FILE: lambda data: b"",
    **dict.fromkeys(
        (
            names.RECOVERY_POINT_CHECKPOINT,
            names.LOG_START_OFFSET_CHECKPOINT,
            names.REPLICATION_OFFSET_CHECKPOINT,
            names.CLEANER_OFFSET_CHECKPOINT,
        ),
        lambda data: text.encode_offset_checkpoint(text.decode_offset_checkpoint(data)),
    ),
}
BINARIES: dict[FileKind, Callable[[bytes, Count, str], None]] = {
    FileKind.LOG: log,
    FileKind.OFFSET_INDEX: lambda data, count, name: whole_slots(
        data, 8, lambda used: binary.encode_offset_index(binary.decode_offset_index(used))
    ),
    FileKind.TIME_INDEX: lambda data, count, name: whole_slots(
        data, 12, lambda used: binary.encode_time_index(binary.decode_time_index(used))
    ),
    FileKind.TRANSACTION_INDEX: lambda data, count, name: whole_slots(
        data, 34, lambda used: binary.encode_transaction_index(binary.decode_transaction_index(used))
    ),
    FileKind.PRODUCER_SNAPSHOT: lambda data, count, name: snapshot(data),
}


def kind_of(path: Path) -> str:
    """What a file is, by its name alone; an unknown one fails the test."""
    if path.name in TEXTS:
        return path.name
    if path.name == names.BOOTSTRAP_CHECKPOINT or names.parse_kraft_snapshot_file(path.name) is not None:
        return FileKind.KRAFT_SNAPSHOT.value
    found = names.parse_segment_file(path.name)
    assert found is not None, f"no name of Kafka's: {path}"
    return found.kind.value


def check(path: Path, count: Count) -> None:
    kind = kind_of(path)
    data = path.read_bytes()
    count["files"] += 1
    if kind in TEXTS:
        again = TEXTS[kind](data)
        if kind.endswith("checkpoint") and not data:  # created and never written; reads as no entry
            assert again == b"0\n0\n"
            return
        assert again == data, path
        count["text files written again"] += 1
    elif kind == FileKind.KRAFT_SNAPSHOT.value:
        checkpoint(data, count, str(path))
    else:
        BINARIES[FileKind(kind)](data, count, str(path))


@pytest.mark.parametrize("case", broker_cases(), ids=lambda case: case.id)
def test_every_file_is_read_and_written_again(case: BrokerCase, compared: Callable[[str, int], None]) -> None:
    count: Count = Counter()
    for broker in brokers(case.id):
        for path in sorted(broker.rglob("*")):
            if path.is_dir():
                assert path.parent != broker or names.parse_partition_directory(path.name) is not None
            else:
                check(path, count)
    assert count["files"] > 20
    assert count["batches"] > 0
    for what, number in count.items():
        compared(f"broker files: {what}", number)
    compared("broker files: mismatches", 0)
