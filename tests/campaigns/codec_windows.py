"""Families of `windows.py` about functions of the codec: what compiled code gives, and what plain Python does."""

from __future__ import annotations

import random
import struct
import zlib
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from kafkalog.codec.columnar.batch_decoder import BatchDecoder
from kafkalog.codec.columnar.decompressed import decompress_together
from kafkalog.codec.columnar.message_decoder import MessageDecoder
from kafkalog.codec.columnar.pieces import Fault, Part, Piece
from kafkalog.codec.columnar.plain_decoder import PlainDecoder
from kafkalog.codec.columnar.run_decoder import Order
from kafkalog.codec.columnar.runs_to_arrow import RunsToArrow
from kafkalog.codec.columnar.schema import COPY, TYPES, VIEW, record_schema
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.compression import compress, decompress
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.encode.columns import build_batches
from kafkalog.codec.headers.message_runs import message_run
from kafkalog.codec.headers.rebuild_segment import ProducersOfRun
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.headers.table import HeaderRun
from kafkalog.codec.model import BATCH, BatchHeader, Codec, Header, LegacyHeader, Record, RecordBatch, TimestampType
from kafkalog.codec.native import functions
from kafkalog.codec.native.tables import HeaderColumn, MessageColumn, empty_table
from kafkalog.codec.native.thresholds import ENOUGH_BYTES
from kafkalog.codec.plain import scanner
from kafkalog.codec.plain.crc32c import crc32c as plain_crc
from kafkalog.codec.rules.framing import BATCH_MAGIC
from testkit.made.batches import fix_crc, message

SCHEMAS = [record_schema(TYPES, layout) for layout in (COPY, VIEW)]
BUILT = {name: TYPES[name] for name in ("key", "value", "headers")} | {"timestamp": pa.int64(), "offset": pa.int64()}
NO_END = 2**63 - 1


def field(rng: random.Random) -> bytes | None:
    """A key or value: null, empty, short or longer."""
    size = rng.choice([None, 0, 1, 3, 4, 8, 12, 13, 17, 40, 200])
    return None if size is None else rng.randbytes(size)


def records(rng: random.Random, count: int, base: int = 0) -> list[Record]:
    """Records with rising offsets, some with gaps, odd times and headers."""
    made = []
    for _ in range(count):
        pairs = tuple(Header("h" * rng.randrange(3), field(rng)) for _ in range(rng.choice([0, 0, 0, 1, 3])))
        moment = rng.choice([0, 1, 1_700_000_000_000, -1, 2**40])
        made.append(Record(base, moment, TimestampType.CREATE_TIME, field(rng), field(rng), pairs))
        base += rng.choice([1, 1, 1, 1, 5])
    return made


def changed(rng: random.Random, data: bytes, *, from_byte: int = 0) -> bytes:
    """Flip, overwrite, cut, repeat or insert bytes; sometimes none."""
    found = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        if len(found) <= from_byte:
            break
        at = rng.randrange(from_byte, len(found))
        match rng.randrange(6):
            case 0 | 1:
                found[at] ^= 1 << rng.randrange(8)
            case 2:
                found[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 3:
                del found[at:]
            case 4:
                found[at:at] = rng.randbytes(rng.randrange(1, 12))
            case _:
                found[at : at + 4] = struct.pack(">i", rng.choice([-1, 0, 1, 2**31 - 1, -(2**31), len(found)]))
    return bytes(found)


@cache
def _built(seed: int, codec: Codec) -> bytes:
    """A v2 batch. It is kept, because building one takes as long as everything else that is done with it."""
    rng = random.Random(seed)
    return bytes(build_batch(records(rng, rng.choice([1, 2, 4, 9, 20])), codec=codec))


def batch(rng: random.Random, base: int, codec: Codec = Codec.NONE) -> bytes:
    """A v2 batch, mostly changed in its header or records, with a right checksum and mostly a right size."""
    data = base.to_bytes(8) + _built(rng.randrange(2000), codec)[8:]
    if rng.randrange(4) == 0:
        return data
    whole = bytearray(changed(rng, data, from_byte=rng.choice([21, 61])))
    if len(whole) < BATCH.size:
        return bytes(whole)
    if rng.randrange(8):
        whole[8:12] = struct.pack(">i", len(whole) - 12)
    return fix_crc(bytes(whole))


def first_batches(data: bytes) -> list[RecordBatch]:
    """What the readable walk finds."""
    return list(scanner.Scanner(BufferSource(data)))


# --- families -------------------------------------------------------------------------------------------------------


def headers(rng: random.Random) -> tuple[object, object]:
    """Sizes, checksums and fields of v2 batches."""
    data = changed(rng, b"".join(batch(rng, 10 * number) for number in range(rng.randrange(1, 4))))
    table = empty_table(HeaderColumn, 8)
    found = functions.scan_batches(np.frombuffer(data, np.uint8).ctypes.data, len(data), MIB, True, table)
    expected = []
    for each in first_batches(data):
        if not isinstance(each.header, BatchHeader) or each.magic != BATCH_MAGIC:
            break
        expected.append([*(getattr(each.header, name) for name in BATCH.names), each.position])
    return table[:, :found].T.tolist(), expected


def entries(rng: random.Random) -> tuple[object, object]:
    """Sizes, checksums and fields of entries of magic 0 and 1."""
    data = changed(rng, b"".join(old_entry(rng, number) for number in range(rng.randrange(1, 5))))
    table = empty_table(MessageColumn, 8)
    found = functions.scan_messages(np.frombuffer(data, np.uint8).ctypes.data, len(data), MIB, True, table)
    expected = []
    for each in first_batches(data):
        header = each.header
        if not isinstance(header, LegacyHeader):
            break
        fields = header.offset, header.batch_length, header.crc, header.magic, header.attributes
        expected.append([*fields, -1 if header.timestamp is None else header.timestamp, each.position])
    return table[:, :found].T.tolist(), expected


def checksums(rng: random.Random) -> tuple[object, object]:
    """Both checksums of memory at any address, with and without instructions of the processor."""
    data = rng.randbytes(rng.choice([0, 1, 7, 8, 63, 64, 300, 1200, 5000]) + rng.randrange(40))
    start = rng.randrange(min(len(data), 16) + 1)
    address, size = functions.address_of(data) + start, len(data) - start
    found = [
        functions.crc_of(address, size, ieee=ieee, by_tables=by_tables)
        for ieee in (False, True) for by_tables in (False, True)
    ]  # fmt: skip
    covered = data[start:]
    return found, [plain_crc(covered)] * 2 + [zlib.crc32(covered)] * 2


def rows_of(pieces: list[Piece]) -> list[object]:
    """Rows, and the code and detail of a fault, in order."""
    rows: list[object] = []
    for piece in pieces:
        if isinstance(piece, Fault):
            rows.append((piece.finding.code, piece.finding.detail))
        else:
            columns = [each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in piece.columns]
            rows += list(zip(*(each.to_pylist() for each in columns), strict=True))
    return rows


def one_batch(rng: random.Random) -> tuple[object, object]:
    """Records of one batch with any damage, as columns, in copies and views."""
    data = batch(rng, 7)
    found = first_batches(data)
    if not found or not isinstance(found[0].header, BatchHeader):
        return None, None
    low, high = rng.choice([(0, NO_END), (9, NO_END), (0, 9)])
    part = Part(found[0], low, high, found[0].data[BATCH.size :])
    schema = rng.choice(SCHEMAS)
    rows = rng.choice([3, 1000])
    compiled = BatchDecoder(schema, "t", 1, DEFAULT_LIMITS, rows, MIB).decode(part)
    return rows_of(list(compiled)), rows_of(list(PlainDecoder(schema, "t", 1, DEFAULT_LIMITS).decode([part])))


def window(rng: random.Random) -> tuple[object, object]:
    """The records of whole batches of every compression, up to the first that compiled code leaves."""
    codecs = [Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
    data = b"".join(batch(rng, 100 * number, rng.choice(codecs)) for number in range(rng.randrange(1, 4)))
    schema = rng.choice(SCHEMAS)
    decoder = RunsToArrow(schema, "t", 1, DEFAULT_LIMITS, 10_000, MIB)
    taken, _ = decoder.decode_window(data, 0, Order(next_offset=0, highest=2**31 - 1, end=NO_END, flags=32))
    if taken == 0:
        return None, None
    found = [each for each in first_batches(data) if each.position < taken]
    expected, low = [], 0
    for each in found:
        payload = decompress(each.header.codec, each.data[BATCH.size :], DEFAULT_LIMITS)
        expected.append(Part(each, low, NO_END, payload))
        low = each.last_offset + 1  # as a consumer, which does not go back
    plain = PlainDecoder(schema, "t", 1, DEFAULT_LIMITS).decode(expected)
    return rows_of([decoder.build()]), rows_of(list(plain))


def run(rng: random.Random) -> tuple[object, object]:
    """The records of a run of sound headers, without the batches that compiled code hands back."""
    codecs = rng.choice([[Codec.NONE], list(Codec)])
    data = b"".join(batch(rng, 100 * number, rng.choice(codecs)) for number in range(rng.randrange(1, 7)))
    table = empty_table(HeaderColumn, 8)
    count = functions.scan_batches(functions.address_of(data), len(data), MIB, True, table)
    headers, (low, high) = BatchRun(table[:, :count], data, 0), rng.choice([(0, NO_END), (105, NO_END), (0, 105)])
    schema, rows = rng.choice(SCHEMAS), rng.choice([3, 1000])
    decoder = RunsToArrow(schema, "t", 1, DEFAULT_LIMITS, rows, MIB)
    pieces, left = [], set[int]()
    for handed in decoder.decode_run(headers, np.full(count, low), high):
        if handed is None:
            pieces.append(decoder.build())
        else:
            left |= set(handed)
    if len(left) == count:
        return None, None
    parts = []
    for number, each in enumerate(headers):
        if number not in left and each.header.records_count:
            payload = decompress(each.header.codec, each.data[BATCH.size :], DEFAULT_LIMITS)
            parts.append(Part(each, low, high, payload))
    plain = PlainDecoder(schema, "t", 1, DEFAULT_LIMITS).decode(parts)
    if not decoder.is_empty:
        pieces.append(decoder.build())
    return rows_of(pieces), rows_of(list(plain))


def old_entry(rng: random.Random, offset: int) -> bytes:
    """An entry of magic 0 or 1, bare or a wrapper, mostly changed, with a right checksum."""
    magic = rng.randrange(2)
    codec = rng.choice([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY] + [Codec.LZ4] * magic)
    if codec is Codec.NONE:
        data = message(offset, field(rng), field(rng), magic=magic)
    else:
        inner = b"".join(message(number, field(rng), field(rng), magic=magic) for number in range(rng.randrange(1, 4)))
        data = message(offset + 3, None, compress(codec, changed(rng, inner)), magic=magic, attributes=codec)
    if rng.randrange(3) == 0:
        return data
    whole = bytearray(changed(rng, data, from_byte=16))
    if len(whole) < 26:
        return data
    whole[8:12] = struct.pack(">i", len(whole) - 12)
    whole[12:16] = struct.pack(">I", zlib.crc32(whole[16:]))
    return bytes(whole)


def old_records(rng: random.Random) -> tuple[object, object]:
    """Records of magic 0 and 1, of the entries that compiled code takes."""
    data = b"".join(old_entry(rng, 10 * number) for number in range(1, rng.randrange(2, 5)))
    run = message_run(data, 0, largest=MIB, check=True)
    if run is None:
        return None, None
    decoder = MessageDecoder(SCHEMAS[0], "t", 1, DEFAULT_LIMITS, 10_000, MIB)
    left: set[int] = set()
    for handed in decoder.decode_run(run, np.zeros(len(run), np.int64), NO_END):
        if handed is not None:
            left |= set(range(handed.start, handed.stop))
    if len(left) == len(run):
        return None, None
    plain = PlainDecoder(SCHEMAS[0], "t", 1, DEFAULT_LIMITS)
    parts = [Part(run.batch(number), 0, NO_END) for number in range(len(run)) if number not in left]
    return rows_of([decoder.build()]), rows_of(list(plain.decode(parts)))


def stream(rng: random.Random) -> tuple[object, object]:
    """Compressed streams: what compiled code takes is what the readable way gives."""
    codec = rng.choice([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    words = [rng.randbytes(rng.randrange(1, 9)) for _ in range(6)]
    content = b"".join(rng.choices(words, k=rng.choice([0, 1, 20, 200])))
    data = changed(rng, bytes(compress(codec, content)))
    sources, sizes = np.array([np.frombuffer(data or b"-", np.uint8).ctypes.data]), np.array([len(data)])
    taken = decompress_together(codec, sources, sizes, DEFAULT_LIMITS, MIB)
    if len(taken.addresses) == 0:
        return None, None
    start = int(taken.addresses[0]) - np.frombuffer(taken.memory[0], np.uint8).ctypes.data
    try:
        expected = bytes(decompress(codec, data, DEFAULT_LIMITS))
    except FormatError as error:
        return "taken", str(error)
    return bytes(memoryview(taken.memory[0])[start : start + int(taken.sizes[0])]), expected


def built(rng: random.Random) -> tuple[object, object]:
    """Batches built from columns: byte for byte those of the readable builder."""
    made = records(rng, rng.choice([1, 5, 40]), 5)
    rows = {
        "key": [each.key for each in made], "value": [each.value for each in made],
        "headers": [[{"key": pair.key, "value": pair.value} for pair in each.headers] for each in made],
        "timestamp": [each.timestamp for each in made], "offset": [each.offset for each in made],
    }  # fmt: skip
    columns = pa.RecordBatch.from_pydict({name: pa.array(rows[name], kind) for name, kind in BUILT.items()})
    size = rng.choice([300, 2000, 16_384])
    both = [
        [bytes(each) for each in build_batches(columns, keep_offsets=True, batch_bytes=size, work_bytes=work)]
        for work in (ENOUGH_BYTES, 0)
    ]
    return both[0], both[1]


def producers(rng: random.Random) -> tuple[object, object]:
    """Whose batches they are, between control batches (`ProducerAppendInfo`)."""
    count = rng.randrange(1, 30)
    table = np.zeros((len(HeaderColumn), count), np.int64)
    table[HeaderColumn.PRODUCER_ID] = [rng.choice([-1, 1, 2, 2**40, 2**63 - 1]) for _ in range(count)]
    table[HeaderColumn.ATTRIBUTES] = [rng.choice([0, 0, 16, 16, 48]) for _ in range(count)]
    of_run = ProducersOfRun(HeaderRun(table))
    found, first = [], 0
    while first < count:
        stopped, those = of_run.next(first, count)
        found.append((stopped, [tuple(each) for each in those]))
        first = stopped + 1
    return found, _producers_plainly(table, count)


def _producers_plainly(table: Any, count: int) -> list[object]:
    expected: list[object] = []
    known: dict[int, list[int]] = {}
    ids, flags = table[HeaderColumn.PRODUCER_ID].tolist(), table[HeaderColumn.ATTRIBUTES].tolist()
    for number in range(count + 1):
        if number == count or (ids[number] >= 0 and flags[number] & 32):
            expected.append((number, [tuple(each) for each in known.values()]))
            known = {}
        elif ids[number] >= 0:
            each = known.setdefault(ids[number], [ids[number], number, number, -1, -1, -1])
            each[2] = number
            place = 3 if flags[number] & 16 else 4
            each[place] = number if each[place] < 0 else each[place]
            if place == 4 and each[3] >= 0 and each[5] < 0:
                each[5] = number
    if expected and expected[-1] == (count, []) and len(expected) > 1 and expected[-2][0] == count - 1:  # type: ignore[index]
        expected.pop()
    return expected


def summary(rng: random.Random) -> tuple[object, object]:
    """Codecs and times of a run of headers, as each header by itself tells them."""
    count = rng.randrange(1, 9)
    table = np.zeros((len(HeaderColumn), count), np.int64)
    table[HeaderColumn.MAGIC] = BATCH_MAGIC
    times = [-1, -(2**63), 0, 5, 9, 2**40, 2**63 - 1]
    table[HeaderColumn.ATTRIBUTES] = [rng.choice([0, 1, 2, 3, 4, 8, 64, 72]) for _ in range(count)]
    table[HeaderColumn.BASE_TIMESTAMP] = [rng.choice(times) for _ in range(count)]
    table[HeaderColumn.MAX_TIMESTAMP] = [rng.choice(times) for _ in range(count)]
    headers = HeaderRun(table)
    codecs: dict[str, int] = {}
    for each in headers:
        label = Codec(each.header.codec).label
        codecs[label] = codecs.get(label, 0) + 1
    timed = [each.header for each in headers if each.header.max_timestamp >= 0]
    firsts, largest = [each.first_timestamp for each in timed], [each.max_timestamp for each in timed]
    return headers.codecs_and_times(), (codecs, (min(firsts), max(largest)) if timed else None)
