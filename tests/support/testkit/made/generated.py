"""Batches made up from a seed: everything that a producer, a broker or its cleaner may write, in all three formats.

Each comes with the records that any reader must see in it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkalog.codec import Codec, ControlType, EndTransactionMarker, Header, Record, TimestampType
from kafkalog.codec.compression import compress
from kafkalog.codec.encode import (
    ProducerState,
    build_batch,
    build_end_transaction_marker,
    build_messages,
    empty_batch,
)
from testkit.kafka.peers import NO_PRODUCER, Producer, Seen
from testkit.made import batches

CODECS = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Generated:
    """Bytes of one batch (or of bare messages), what they hold, and in which words a failure names them."""

    kind: str
    data: bytes = field(repr=False)
    records: tuple[Seen, ...]
    producer: Producer = NO_PRODUCER


def _bytes(choose: random.Random) -> bytes | None:
    match choose.randrange(8):
        case 0:
            return None
        case 1:
            return b""
        case 2:
            return bytes(choose.randrange(300))
        case 3:
            return choose.randbytes(choose.choice([1, 63, 64, 127, 128, 8191, 8192]))
        case _:
            return choose.randbytes(choose.randrange(40))


def _headers(choose: random.Random) -> tuple[tuple[str, bytes | None], ...]:
    if choose.random() < 0.7:
        return ()
    keys = ["", "a", "a", "trace", "é", "鍵", "k" * 130]
    return tuple((choose.choice(keys), _bytes(choose)) for _ in range(choose.choice([1, 2, 3, 70])))


def _times(choose: random.Random, count: int) -> list[int]:
    start = choose.choice([0, 1, 1700000000000, 2**62])
    spread = choose.choice([0, 1, 100, 10**9])
    return [max(0, start + choose.randint(-spread, spread)) for _ in range(count)]


def _offsets(choose: random.Random, count: int) -> list[int]:
    offset = choose.choice([0, 5, 2**31 - 3, 2**40, LARGEST - 2**20])
    found = []
    for _ in range(count):
        found.append(offset)
        offset += 1 if choose.random() < 0.8 else choose.choice([2, 70, 9000])
    return found


def some_records(choose: random.Random, *, headers: bool = True) -> list[Seen]:
    """A few records, offsets increasing."""
    count = choose.choice([1, 1, 2, 3, 10, 65])
    offsets, times = _offsets(choose, count), _times(choose, count)
    return [
        Seen(offset, time, 0, _bytes(choose), _bytes(choose), _headers(choose) if headers else ())
        for offset, time in zip(offsets, times, strict=True)
    ]


def as_records(found: list[Seen]) -> list[Record]:
    """As the writers take them."""
    return [
        Record(
            each.offset,
            each.timestamp,
            TimestampType.CREATE_TIME,
            each.key,
            each.value,
            tuple(Header(key, value) for key, value in each.headers),
        )
        for each in found
    ]


def _producer(choose: random.Random) -> Producer:
    if choose.random() < 0.6:
        return NO_PRODUCER
    sequence = choose.choice([0, 7, 2**31 - 2])
    return Producer(choose.choice([0, 42, LARGEST]), choose.choice([0, 2**15 - 1]), sequence, choose.random() < 0.5)


def _batch(choose: random.Random) -> Generated:
    found = some_records(choose)
    codec = choose.choice(CODECS)
    producer = _producer(choose)
    append_time = choose.choice([0, 1700000000123]) if choose.random() < 0.2 else None
    horizon = choose.choice([0, 1700086400000]) if choose.random() < 0.1 else None
    compacted = choose.random() < 0.2
    data = build_batch(
        as_records(found),
        base_offset=max(0, found[0].offset - choose.randrange(5)) if compacted else None,
        last_offset=min(LARGEST, found[-1].offset + choose.randrange(5)) if compacted else None,
        codec=codec,
        timestamp_type=TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME,
        log_append_time=-1 if append_time is None else append_time,
        producer=ProducerState(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            is_transactional=producer.transactional,
        ),
        partition_leader_epoch=choose.choice([-1, 0, 7, 2**31 - 1]),
        delete_horizon_ms=horizon,
    )
    if append_time is not None:
        found = [each._replace(timestamp=append_time, timestamp_type=1) for each in found]
    return Generated(f"batch, {codec.label}", data, tuple(found), producer)


def _odd_batch(choose: random.Random) -> Generated:
    """Legal, but as no builder of Kafka writes it: long varints, other nulls, attributes, any order of offsets."""

    def long(value: int, most: int = 5) -> bytes:
        data = bytearray(batches.varint(value))
        while len(data) < most and choose.random() < 0.3:
            data[-1] |= 0x80
            data.append(0)
        return bytes(data)

    def sized(data: bytes | None) -> bytes:
        return long(choose.choice([-1, -2, -(2**31)])) if data is None else long(len(data)) + data

    found, payload = [], []
    for each in some_records(choose)[:10]:
        delta, elapsed = choose.randint(-5, 100), choose.randint(-1000, 10**12)
        body = (
            bytes([choose.choice([0, 0, 1, 63])])
            + long(elapsed, 10)
            + long(delta)
            + sized(each.key)
            + sized(each.value)
        )
        body += long(len(each.headers))
        for key, value in each.headers:
            body += long(len(key.encode())) + key.encode() + sized(value)
        payload.append(long(len(body)) + body)
        found.append(each._replace(offset=1000 + delta, timestamp=5000 + elapsed))
    codec = choose.choice(CODECS)
    data = batches.batch(
        compress(codec, b"".join(payload)),
        len(found),
        base_offset=1000,
        base_timestamp=5000,
        max_timestamp=choose.choice([0, 10**13]),
        attributes=codec | choose.choice([0, 0x4000]),
        last_offset_delta=choose.choice([len(found) - 1, 200]),
    )
    return Generated(f"odd batch, {codec.label}", data, tuple(found))


def _messages(choose: random.Random) -> Generated:
    magic = choose.choice([0, 1])
    codec = choose.choice([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
    if (magic, codec) == (0, Codec.LZ4):  # a difference of its own: see docs/differences.md
        codec = Codec.GZIP
    found = some_records(choose, headers=False)
    append_time = 1700000000123 if magic and choose.random() < 0.3 else None
    data = build_messages(
        as_records(found),
        magic=magic,
        codec=codec,
        timestamp_type=TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME,
        log_append_time=-1 if append_time is None else append_time,
    )
    if magic == 0:
        found = [each._replace(timestamp=-1, timestamp_type=-1) for each in found]
    elif append_time is not None:
        found = [each._replace(timestamp=append_time, timestamp_type=1) for each in found]
    return Generated(f"magic {magic}, {codec.label}", data, tuple(found))


def _marker(choose: random.Random) -> Generated:
    kind = choose.choice([ControlType.ABORT, ControlType.COMMIT])
    epoch, offset = choose.choice([0, 9, 2**31 - 1]), choose.choice([0, 5, 2**40])
    data = build_end_transaction_marker(
        EndTransactionMarker(kind, epoch), base_offset=offset, timestamp=1000, producer_id=42, producer_epoch=3
    )
    key, value = b"\0\0\0" + bytes([kind]), b"\0\0" + epoch.to_bytes(4, "big")
    return Generated("marker", data, (Seen(offset, 1000, 0, key, value, ()),), Producer(42, 3, -1, True))


def _empty(choose: random.Random) -> Generated:
    base = choose.choice([0, 100, 2**40])
    return Generated("empty batch", empty_batch(base, base + choose.randrange(9), max_timestamp=1000), ())


_MAKERS: tuple[tuple[Callable[[random.Random], Generated], int], ...] = (
    (_batch, 55),
    (_odd_batch, 15),
    (_messages, 25),
    (_marker, 3),
    (_empty, 2),
)


def generate(choose: random.Random) -> Generated:
    """One batch."""
    makers, weights = zip(*_MAKERS, strict=True)
    maker: Callable[[random.Random], Generated] = choose.choices(makers, weights)[0]
    return maker(choose)
