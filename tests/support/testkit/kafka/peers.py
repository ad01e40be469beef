"""What kafka-python and aiokafka make of the same bytes, and the bytes they write of the same records."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

with warnings.catch_warnings():  # what they do while they are imported is not ours to mend
    warnings.simplefilter("ignore")
    import aiokafka.record.default_records as _aio_default
    import aiokafka.record.legacy_records as _aio_legacy
    import aiokafka.record.memory_records as _aio_memory
    import kafka.record.default_records as _kp_default
    import kafka.record.legacy_records as _kp_legacy
    import kafka.record.memory_records as _kp_memory


class Seen(NamedTuple):
    """One record as any of the three sees it; no timestamp and no timestamp type are -1."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def _seen(record: Any) -> Seen:
    return Seen(
        record.offset,
        -1 if record.timestamp is None else record.timestamp,
        -1 if record.timestamp_type is None else record.timestamp_type,
        record.key,
        record.value,
        tuple((key, value) for key, value in record.headers),
    )


def _batches(records: Any) -> Iterator[Any]:
    while records.has_next():
        yield records.next_batch()


def kafka_python_reads(data: bytes) -> list[Seen]:
    """All records of a sequence of batches, checksums compared."""
    found = []
    for batch in _batches(_kp_memory.MemoryRecords(data)):
        assert batch.validate_crc()
        found += [_seen(record) for record in batch]
    return found


def aiokafka_reads(data: bytes) -> list[Seen]:
    """All records of a sequence of batches, checksums compared."""
    found = []
    for batch in _batches(_aio_memory.MemoryRecords(data)):
        assert batch.validate_crc()
        found += [_seen(record) for record in batch]
    return found


READERS = {"kafka-python": kafka_python_reads, "aiokafka": aiokafka_reads}


class Producer(NamedTuple):
    """Producer fields of a batch."""

    id: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False


NO_PRODUCER = Producer()


def builds(peer: str, records: Sequence[Seen], codec: int, producer: Producer = NO_PRODUCER) -> bytes:
    """A v2 batch of records whose offsets are deltas; base offset and leader epoch are left 0 for the broker."""
    module = {"kafka-python": _kp_default, "aiokafka": _aio_default}[peer]
    builder = module.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=producer.transactional,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        batch_size=1 << 30,
    )
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def builds_messages(peer: str, records: Sequence[Seen], codec: int, magic: int) -> bytes:
    """A v0 or v1 message set, or one wrapper."""
    module = {"kafka-python": _kp_legacy, "aiokafka": _aio_legacy}[peer]
    builder = module.LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 30)
    for record in records:
        timestamp = record.timestamp if magic else None
        if peer == "kafka-python":
            builder.append(record.offset, timestamp, record.key, record.value, ())
        else:
            builder.append(record.offset, timestamp, record.key, record.value)
    return bytes(builder.build())
