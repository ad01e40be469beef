"""Record bytes for tests: built from the declarations, and damaged on purpose."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from kafkalog.codec.layout.record_batch import RECORD
from kafkalog.codec.model import BATCH, LOG_OVERHEAD
from kafkalog.codec.plain.crc32c import crc32c

Fields = tuple[int, int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]

_INT32 = st.integers(-(2**31), 2**31 - 1)
_BYTES = st.none() | st.binary(max_size=70)
_HEADERS = st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
RECORDS: st.SearchStrategy[list[Fields]] = st.lists(
    st.tuples(
        st.integers(-128, 127),
        st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300),
        _INT32 | st.integers(0, 5),
        _BYTES,
        _BYTES,
        _HEADERS,
    ),
    max_size=9,
)


def record(fields: Fields) -> bytes:
    """One record, its length in front."""
    attributes, timestamp_delta, offset_delta, key, value, headers = fields
    values = {
        "length": 0,
        "attributes": attributes,
        "timestamp_delta": timestamp_delta,
        "offset_delta": offset_delta,
        "key": key,
        "value": value,
        "headers": [{"key": name, "value": content} for name, content in headers],
    }
    whole: bytes = RECORD.build(values)
    measured: bytes = RECORD.build(values | {"length": len(whole) - 1})
    return measured


def payload(records: Sequence[Fields]) -> bytes:
    """The record bytes of a batch."""
    return b"".join(record(fields) for fields in records)


def batch(records: bytes, count: int, *, base_offset: int = 0, **fields: int) -> bytes:
    """A v2 batch with a valid checksum around uncompressed record bytes, whatever they are."""
    values = dict.fromkeys(BATCH.names, 0) | {
        "base_offset": base_offset,
        "batch_length": BATCH.size - LOG_OVERHEAD.size + len(records),
        "magic": 2,
        "last_offset_delta": max(count - 1, 0),
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "records_count": count,
        **fields,
    }
    unchecked = BATCH.struct.pack(*values.values()) + records
    values["crc"] = crc32c(unchecked[BATCH.end("crc") :])
    return BATCH.struct.pack(*values.values()) + records


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    """Record bytes and a count: as they should be, or with flipped bits, cut, lengthened, miscounted, or random."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60)), draw(st.integers(0, 5))
    records = draw(RECORDS)
    data = bytearray(payload(records))
    count = len(records)
    for _ in range(draw(st.integers(0, 3)) if data else 0):
        data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    match draw(st.sampled_from(["whole", "whole", "cut", "longer", "count"])):
        case "cut":
            del data[draw(st.integers(0, len(data))) :]
        case "longer":
            data += draw(st.binary(min_size=1, max_size=12))
        case "count":
            count = draw(st.integers(-1, 6))
    return bytes(data), count
