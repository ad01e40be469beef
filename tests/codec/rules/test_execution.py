"""All executions of the declarations agree: on every record, on the first fault and on its position.

The reference runs the Construct trees and is the truth; the plain execution runs what is derived, and what kernels
make columns of is held against that.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkalog.codec.columnar.assembler import NO_END, ArrowAssembler, Bounds, Fault
from kafkalog.codec.columnar.batch_decoder import BatchDecoder
from kafkalog.codec.columnar.pieces import Part, Piece
from kafkalog.codec.columnar.plain_decoder import PlainDecoder
from kafkalog.codec.columnar.schema import DEFAULT_COLUMNS, TYPES, record_schema
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.plain.decoding import PLAIN, record_at
from kafkalog.codec.plain.records import open_payload
from kafkalog.codec.plain.scanner import scan
from kafkalog.codec.rules.execution import RawRecord, RecordFault
from testkit.judging.reference_execution import REFERENCE
from testkit.made.record_bytes import RECORDS, batch, damaged, payload, record
from testkit.recorded.fixture_data import broker_case
from testkit.running.examples import examples

Fields = tuple[int, int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]

FEW_HEADERS = replace(DEFAULT_LIMITS, headers_per_record=2)
SCHEMA = record_schema(TYPES)
SIMPLE: Fields = (0, 0, 0, b"k", b"v", [(b"h", b"x")])


@examples(600)
@given(damaged(), st.sampled_from([DEFAULT_LIMITS, FEW_HEADERS]))
def test_executions_agree(data: tuple[bytes, int], limits: Limits) -> None:
    content, count = data
    expected = REFERENCE.records(content, count, limits)
    assert PLAIN.records(content, count, limits) == expected


@examples(600)
@given(st.binary(max_size=24), st.lists(st.sampled_from([-1, 0, 1, 3, 2**31 - 1]), max_size=2), st.integers(0, 3))
def test_executions_agree_on_keys_and_values_of_messages(tail: bytes, lengths: list[int], start: int) -> None:
    data = b"h" * start + b"".join(length.to_bytes(4, "big", signed=True) + b"kv" for length in lengths) + tail
    assert PLAIN.message_content(data, start) == REFERENCE.message_content(data, start)


@examples(600)
@given(damaged(), st.sampled_from([DEFAULT_LIMITS, FEW_HEADERS]))
def test_records_are_read_one_by_one_too(data: tuple[bytes, int], limits: Limits) -> None:
    """As the kernels' caller reads what they leave: from a position on, without a copy."""
    content, count = data
    found: list[RawRecord] = []
    position = 0
    fault: RecordFault | None = None
    while len(found) < count and fault is None:
        one = record_at(memoryview(content), position, limits)
        if isinstance(one, RecordFault):
            fault = one
        else:
            found.append(one[0])
            position = one[1]
    if fault is None and position != len(content):
        fault = RecordFault(FindingCode.RECORDS_TRAILING_BYTES, position)
    assert (found, fault) == REFERENCE.records(content, count, limits)


@examples(100)
@given(RECORDS)
def test_records_that_were_built_are_read_back_without_a_fault(records: list[Fields]) -> None:
    found, fault = PLAIN.records(payload(records), len(records), DEFAULT_LIMITS)
    assert fault is None
    assert [(*each[:5], list(each.headers)) for each in found] == records


# what the damage is, and what every execution has to say about it
FAULTS = [
    (b"", 1, FindingCode.RECORD_TRUNCATED, 0),
    (record(SIMPLE)[:-1], 1, FindingCode.RECORD_TRUNCATED, 0),
    (record(SIMPLE) + b"x", 1, FindingCode.RECORDS_TRAILING_BYTES, len(record(SIMPLE))),
    (b"\xff\xff\xff\xff\xff\xff", 1, FindingCode.VARINT_TOO_LONG, 0),
    (b"\x01" + bytes(6), 1, FindingCode.RECORD_LENGTH_MISMATCH, 0),
    (b"\x0e" + bytes([0, 0, 0, 1, 1, 0, 0]), 1, FindingCode.RECORD_LENGTH_MISMATCH, 7),
    (b"\x0c" + bytes([0, 0, 0, 1, 1, 1]), 1, FindingCode.HEADER_COUNT_INVALID, 6),
    (b"\x10" + bytes([0, 0, 0, 1, 1, 2, 1, 0]), 1, FindingCode.HEADER_KEY_INVALID, 7),
    (record((0, 0, 0, None, None, [(b"", None)] * 3)), 1, FindingCode.LIMIT_EXCEEDED, 6),
]


@pytest.mark.parametrize(("content", "count", "code", "position"), FAULTS, ids=lambda value: str(value)[:24])
def test_each_fault_is_found_where_it_is(content: bytes, count: int, code: FindingCode, position: int) -> None:
    for execution in (REFERENCE, PLAIN):
        _, fault = execution.records(content, count, FEW_HEADERS)
        assert fault is not None
        assert (fault.code, fault.position) == (code, position), execution.name


def parts_of(data: bytes, low: int, high: int, limits: Limits) -> list[Part]:
    parts = []
    for found in scan(data).batches:
        content, finding = open_payload(found, limits)
        if content is not None:
            assert finding is None
            parts.append(Part(found, low, high, content))
    return parts


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The same with all rows between two faults in one piece, and none that is empty."""
    found: list[Piece] = []
    rows: list[pa.RecordBatch] = []
    for piece in [*pieces, None]:
        if isinstance(piece, pa.RecordBatch):
            piece.validate(full=True)
            rows.append(piece)
            continue
        (together,) = pa.Table.from_batches(rows, SCHEMA).combine_chunks().to_batches() or [None]
        found += [together] if together is not None and together.num_rows else []
        found += [piece] if piece is not None else []
        rows = []
    return found


def plain_pieces(data: bytes, low: int, high: int, limits: Limits = FEW_HEADERS) -> list[Piece]:
    return joined(PlainDecoder(SCHEMA, "t", 3, limits).decode(parts_of(data, low, high, limits)))


def compiled_pieces(
    data: bytes, low: int, high: int, limits: Limits = FEW_HEADERS, rows: int = 1000, most_bytes: int = MIB
) -> list[Piece]:
    """What kernels make of each batch, so many rows and bytes at a time; none is larger."""
    decoder = BatchDecoder(SCHEMA, "t", 3, limits, rows, most_bytes)
    pieces = [piece for part in parts_of(data, low, high, limits) for piece in decoder.decode(part)]
    assert all(piece.num_rows <= rows for piece in pieces if isinstance(piece, pa.RecordBatch))
    return joined(pieces)


BATCH_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "attributes": st.sampled_from([0, 8, 16, 24]),
        "base_timestamp": st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**42),
        "max_timestamp": st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 2**42),
        "base_sequence": st.integers(-(2**31), 2**31 - 1),
        "producer_id": st.integers(-1, 2**63 - 1),
        "producer_epoch": st.integers(-1, 2**15 - 1),
        "partition_leader_epoch": st.integers(-1, 9),
    },
)


@pytest.mark.compiled
@examples(300)
# offsets that wrap around
@example([((b"\x0c\0\0\0\1\1\0" * 2 + b"\x0c\0\0\x12\1\1\0\x18", 4), {}, 2**63 - 9)], 0, NO_END, 1, 1)
@given(
    st.lists(st.tuples(damaged(), BATCH_FIELDS, st.integers(0, 20) | st.integers(2**63 - 9, 2**63 - 1)), max_size=4),
    st.integers(-3, 12),
    st.integers(0, 30) | st.just(NO_END),
    st.integers(1, 5),
    st.sampled_from([1, 20, 60, 1000]),
)
def test_columns_agree(
    batches: list[tuple[tuple[bytes, int], dict[str, int], int]], low: int, high: int, rows: int, most_bytes: int
) -> None:
    data = b"".join(
        batch(content, count, base_offset=offset, **fields) for (content, count), fields, offset in batches if content
    )
    plain = plain_pieces(data, low, high)
    compiled = compiled_pieces(data, low, high, rows=rows, most_bytes=most_bytes)
    for one, other in zip(plain, compiled, strict=True):
        if isinstance(one, Fault):
            assert one == other
        else:
            assert not isinstance(other, Fault)
            assert one.equals(other), (one.to_pylist(), other.to_pylist())


@pytest.mark.compiled
def test_columns_of_recorded_batches_agree(tmp_path: Path) -> None:
    rows = 0
    for path in sorted(broker_case("4.3.0", "codecs").unpack(tmp_path).rglob("*.log")):
        content = path.read_bytes()
        (plain,) = plain_pieces(content, 0, NO_END, DEFAULT_LIMITS)
        (compiled,) = compiled_pieces(content, 0, NO_END, DEFAULT_LIMITS)
        assert isinstance(plain, pa.RecordBatch)
        assert plain.equals(compiled)
        rows += plain.num_rows
    assert rows > 600


@pytest.mark.compiled
def test_absurd_timestamps_are_null_and_header_keys_that_are_no_text_are_replaced() -> None:
    data = batch(
        payload([(0, 2**62, 0, None, None, [(b"\xff", b"")]), (0, 1, 1, None, None, [])]), 2, base_timestamp=2**50
    )
    for (piece,) in (plain_pieces(data, 0, NO_END), compiled_pieces(data, 0, NO_END)):
        assert isinstance(piece, pa.RecordBatch)
        assert piece["timestamp"].cast(pa.int64()).to_pylist() == [None, (2**50 + 1) * 1000]
        assert piece["headers"].to_pylist() == [[{"key": "\ufffd", "value": b""}], None]


def assembled(data: bytes, bounds: Bounds, columns: tuple[str, ...] = ("offset", "value")) -> list[pa.RecordBatch]:
    assembler = ArrowAssembler(record_schema(columns), topic="t", partition=0, bounds=bounds)
    found = [piece for each in scan(data).batches for piece in assembler.add(each, 0)]
    found += assembler.flush()
    assert all(isinstance(piece, pa.RecordBatch) for piece in found)
    return found


def many(batches: int, records: int, size: int = 10) -> bytes:
    content = payload([(0, 0, number, b"", bytes(size), []) for number in range(records)])
    return b"".join(batch(content, records, base_offset=number * records) for number in range(batches))


def test_arrow_batches_start_small_and_keep_to_the_bound_of_rows() -> None:
    found = assembled(many(30, 7), Bounds(rows=40, first_rows=10))
    sizes = [piece.num_rows for piece in found]
    assert sizes[0] <= 10
    assert max(sizes) <= 40
    assert sizes[-2] > 30
    assert [offset for piece in found for offset in piece["offset"].to_pylist()] == list(range(210))


def test_one_batch_of_many_records_is_cut() -> None:
    found = assembled(many(1, 100), Bounds(rows=30, first_rows=30))
    assert [piece.num_rows for piece in found] == [30, 30, 30, 10]


def test_arrow_batches_keep_to_the_bound_of_bytes() -> None:
    found = assembled(many(3, 50, size=1000), Bounds(bytes=10_000))
    assert sum(piece.num_rows for piece in found) == 150
    assert 8 <= max(piece.num_rows for piece in found) <= 10
    (alone, *_) = assembled(many(1, 2, size=20_000), Bounds(bytes=10_000))
    assert alone.num_rows == 1


def test_columns_are_those_of_spark_unless_others_are_asked_for() -> None:
    assert record_schema().names == list(DEFAULT_COLUMNS)
    assert record_schema(["offset", "key"]).names == ["offset", "key"]
    for wrong in (["offset", "offset"], [], ["Offset"]):
        with pytest.raises(UsageError):
            record_schema(wrong)


_SMALL_WORK = """
import sys
from kafkalog.codec.native import thresholds
from kafkalog.codec.columnar.assembler import ArrowAssembler, Bounds
from kafkalog.codec.columnar.schema import record_schema
for work, enough in ((thresholds.ENOUGH_BYTES - 1, False), (thresholds.ENOUGH_BYTES, True)):
    made = ArrowAssembler(record_schema(), topic="t", partition=0, bounds=Bounds(), work_bytes=work)
    assert made.takes_runs == enough, work
"""

# Each payload ends where a page begins that must not be touched, and then begins where such a page ends.
_GUARDED = """
import ctypes, mmap, sys
from kafkalog.codec.columnar.pieces import Part
from kafkalog.codec.columnar.batch_decoder import BatchDecoder
from kafkalog.codec.columnar.schema import TYPES, record_schema
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.plain.scanner import scan
PAGE = mmap.PAGESIZE
memory = mmap.mmap(-1, 3 * PAGE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
for guard in (0, 2 * PAGE):
    assert libc.mprotect(ctypes.c_void_p(address + guard), PAGE, 0) == 0
decoder = BatchDecoder(record_schema(TYPES), "t", 0, DEFAULT_LIMITS, 100, 1 << 20)
done = 0
for line in open(sys.argv[1]):
    found = scan(bytes.fromhex(line)).batches[0]
    size = len(found.payload)
    for start in (PAGE, 2 * PAGE - size):
        memory[start:start + size] = bytes(found.payload)
        for piece in decoder.decode(Part(found, -2**63, 2**63 - 1, memoryview(memory)[start:start + size])):
            done += 1
print(done)
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.compiled
def test_columns_are_taken_for_enough_work_only() -> None:
    result = run(_SMALL_WORK)
    assert result.returncode == 0, result.stderr


@pytest.mark.compiled
def test_the_kernel_never_leaves_its_buffer() -> None:
    lines: list[str] = []
    content = payload([(0, 5, number, bytes(number), b"v" * (40 - number), [(b"k", b"")]) for number in range(40)])
    for size in range(1, len(content)):
        lines.append(batch(content[:size], 40).hex())
    for position in range(200):
        flipped = bytearray(content)
        flipped[position] ^= 0xC1
        lines.append(batch(bytes(flipped), 40).hex())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batches"
        path.write_text("\n".join(lines), encoding="ascii")
        result = run(_GUARDED, str(path))
    assert result.returncode == 0, (result.returncode, result.stderr)
    assert int(result.stdout) >= 2 * len(lines)


def test_a_batch_of_another_magic_is_no_work_for_the_kernel() -> None:
    legacy = RecordBatch(PLAIN.legacy_header(bytes(26), 0), 0, bytes(26))
    with pytest.raises(TypeError):
        list(BatchDecoder(SCHEMA, "t", 0, DEFAULT_LIMITS, 10, MIB).decode(Part(legacy, 0, 1)))


@pytest.mark.compiled
def test_a_record_larger_than_the_bound_is_not_copied() -> None:
    value = bytes(range(256)) * 40
    content = payload([(0, 0, 0, b"k", b"small", []), (0, 5, 1, None, value, [(b"h", b"x")]), (0, 9, 2, b"k", b"", [])])
    data = batch(content, 3)
    (part,) = parts_of(data, 0, NO_END, DEFAULT_LIMITS)
    decoder = BatchDecoder(SCHEMA, "t", 3, DEFAULT_LIMITS, 10, 1000)
    found = list(decoder.decode(part))
    assert joined(found) == plain_pieces(data, 0, NO_END, DEFAULT_LIMITS)
    (large,) = (piece for piece in found if isinstance(piece, pa.RecordBatch) and piece["offset"].to_pylist() == [1])
    begin = pa.py_buffer(part.payload).address
    assert begin < large["value"].buffers()[2].address < begin + len(content)


@pytest.mark.compiled
def test_much_small_work_together_is_worth_columns() -> None:
    from kafkalog.codec.native import thresholds

    assert not thresholds.kernel_is_worth_it(1000)
    with thresholds.together(thresholds.ENOUGH_BYTES):
        assert thresholds.kernel_is_worth_it(1000)
    assert not thresholds.kernel_is_worth_it(1000)
