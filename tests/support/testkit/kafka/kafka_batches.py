"""Batches as Kafka's own classes read them and as we do, in the same words; damage after a repaired checksum."""

from __future__ import annotations

import base64
import hashlib
import random
import struct
from collections.abc import Callable
from typing import Any

from kafkalog.codec import BatchHeader, Codec, FormatError, Record, RecordBatch, decode_batch, scan
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.compression import compress, decompress
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.legacy import first_offset
from kafkalog.codec.rules.execution import Execution
from testkit.made.batches import BATCH, fix_crc, patch
from testkit.made.generated import Generated

Json = dict[str, Any]
SHOWN = 24
# Kafka throws here: the class of what it throws is not compared with a code of ours, that it throws is.
THROWS = "!"
PAYLOAD_FROM = BATCH.size


def signed(value: int, bits: int) -> int:
    """The value as Java's arithmetic leaves it."""
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def shown(data: bytes | None) -> str | None:
    """As the harness shows keys and values."""
    if data is None:
        return None
    if len(data) <= SHOWN:
        return base64.b64encode(data).decode()
    return f"{len(data)}:{base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()}"


def _record(record: Record) -> list[Any]:
    headers = [
        [each.key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), shown(each.value)]
        for each in record.headers
    ]
    key, value = shown(record.key), shown(record.value)
    return [signed(record.offset, 64), signed(record.timestamp, 64), signed(record.sequence, 32), key, value, headers]


def _base_offset(found: RecordBatch, execution: Execution) -> int | str:
    if isinstance(found.header, BatchHeader):
        return found.header.base_offset
    try:
        return signed(first_offset(found, DEFAULT_LIMITS, execution), 64)
    except FormatError:
        return THROWS


def ours(data: bytes, execution: Execution = PLAIN) -> Json:
    """What we read in a buffer, in the words of the harness; ``failure`` is the code of a finding."""
    result = scan(data, execution=execution)
    batches = []
    for found in result.batches:
        header = found.header
        decoded = decode_batch(found, execution=execution)
        batches.append({
            "valid": True, "ensure_valid": "", "magic": header.magic, "size": found.size, "checksum": header.crc,
            "base_offset": _base_offset(found, execution), "last_offset": signed(header.last_offset, 64),
            "next_offset": signed(header.next_offset, 64),
            "count": header.records_count if isinstance(header, BatchHeader) else None,
            "codec": header.codec if header.codec in set(Codec) else THROWS,
            "timestamp_type": int(header.timestamp_type), "max_timestamp": header.max_timestamp,
            "producer_id": header.producer_id, "producer_epoch": header.producer_epoch,
            "has_producer_id": header.has_producer_id, "base_sequence": header.base_sequence,
            "last_sequence": signed(header.last_sequence, 32), "leader_epoch": header.partition_leader_epoch,
            "transactional": header.is_transactional, "control": header.is_control,
            "delete_horizon": header.delete_horizon_ms,
            "records": [_record(record) for record in decoded.records],
            "failure": "" if decoded.finding is None else str(decoded.finding.code),
        })  # fmt: skip
    return {"batches": batches, "failure": str(result.findings[-1].code) if result.stop.value != "end" else ""}


# --- damage ---------------------------------------------------------------------------------------------------------


def scribble(choose: random.Random, data: bytes, first: int = 0) -> bytes:
    """A few bytes at or after ``first`` changed, inserted, removed, or cut off."""
    out = bytearray(data)
    for _ in range(choose.choice([1, 1, 1, 2, 4])):
        if len(out) <= first:
            break
        place = choose.randrange(first, len(out))
        match choose.randrange(8):
            case 0:
                out[place] = choose.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF])
            case 1:
                out.insert(place, choose.randrange(256))
            case 2:
                del out[place : place + choose.choice([1, 1, 2, 9])]
            case 3:
                del out[place:]
            case 4:
                out += choose.randbytes(choose.choice([1, 2, 12, 40]))
            case _:
                out[place] ^= 1 << choose.randrange(8)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    """The batch or message with the size field and the checksum that fit."""
    return fix_crc(patch(data, 8, struct.pack(">i", len(data) - 12)))


def _flipped(choose: random.Random, data: bytes) -> bytes:
    """After the checksum, nothing longer or shorter."""
    out = bytearray(data)
    first = 21 if data[16] == 2 else 17
    for _ in range(choose.choice([1, 1, 2])):
        place = choose.randrange(first, len(out) if choose.random() < 0.6 else min(len(out), 61))
        out[place] ^= 1 << choose.randrange(8)
    return fix_crc(bytes(out))


def _resized(choose: random.Random, data: bytes) -> bytes:
    """What comes after the header scribbled over, the size field following."""
    return _sized(scribble(choose, data, PAYLOAD_FROM if data[16] == 2 else 18 if data[16] == 0 else 26))


FIELDS: tuple[tuple[int, str, tuple[int, ...]], ...] = (
    (21, ">h", (0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 48, 64, 72, 128, 0x4000, -1)),
    (23, ">i", (0, 1, 5, 2**31 - 1, -1, -(2**31))),
    (27, ">q", (0, 1, -1, -2, 2**63 - 1, -(2**63))),
    (35, ">q", (0, 1, -1, -2, 2**63 - 1, -(2**63))),
    (43, ">q", (0, -1, -2, 2**63 - 1)),
    (51, ">h", (0, -1, 2**15 - 1)),
    (53, ">i", (0, -1, -2, 2**31 - 1, -(2**31))),
    (57, ">i", (0, 1, 2, 66, 1000, -1, -(2**31))),
)
OLD_FIELDS: tuple[tuple[int, str, tuple[int, ...]], ...] = (
    (0, ">q", (0, 1, 2, -1, 2**63 - 1)),
    (17, ">b", (0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 16, 32, 64, -1)),
    (18, ">q", (0, -1, -2, 2**63 - 1, 1700000000000)),
    (18, ">i", (0, -1, -2, 2**31 - 1, 4)),
    (26, ">i", (0, -1, -2, 2**31 - 1, 4)),
)


def _field(choose: random.Random, data: bytes) -> bytes:
    """A header field of another value."""
    position, kind, values = choose.choice(FIELDS if data[16] == 2 else OLD_FIELDS)
    return fix_crc(patch(data, position, struct.pack(kind, choose.choice(values)))[: len(data)])


def _inside(choose: random.Random, data: bytes) -> bytes:
    """What a compressed batch or wrapper holds scribbled over, and compressed again."""
    (found, *_) = scan(data).batches
    codec = found.header.codec
    if codec == Codec.NONE:
        return _resized(choose, data)
    if isinstance(found.header, BatchHeader):
        plain = scribble(choose, bytes(decompress(codec, found.payload, DEFAULT_LIMITS)))
        return _sized(data[:PAYLOAD_FROM] + compress(codec, plain))
    magic = found.header.magic
    head = 22 if magic == 0 else 30
    plain = bytes(decompress(codec, data[head + 4 :], DEFAULT_LIMITS, magic=magic))
    value = compress(codec, scribble(choose, plain), magic=magic)
    return _sized(data[:head] + struct.pack(">i", len(value)) + value)


def _unrepaired(choose: random.Random, data: bytes) -> bytes:
    """Any byte, the checksum left as it was."""
    return scribble(choose, data)


DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _flipped, _resized, _field, _inside, _inside, _unrepaired,
)  # fmt: skip


def damaged(choose: random.Random, made: Generated) -> tuple[str, bytes]:
    """A name for the damage, and the damaged bytes: of a set of bare messages one is damaged and stands alone."""
    found = choose.choice(scan(made.data).batches)
    data = made.data[found.position : found.position + found.size]
    damage = choose.choice(DAMAGES)
    return f"{made.kind}, {damage.__name__[1:]}", damage(choose, data)
