"""Whole structures: every sound byte is declared and comes back, faults have a place, two readings agree."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from construct import ConstructError, Container, Struct
from hypothesis import given
from hypothesis import strategies as st

from every_byte_declared import Counts, count_file, files, uncovered
from kafkalog.codec import LAYOUTS, FormatError, UsageError, build, parse
from kafkalog.codec.common.limits import UNPACKED_BYTES
from kafkalog.codec.compression import compress
from kafkalog.codec.layout.primitives import LayoutError
from kafkalog.codec.model import BATCH
from kafkalog.codec.parsing.trace import FieldSpan, Traced, read_spans
from kafkalog.codec.parsing.whole import ENTRIES, ENTRY, RECORD_BATCH, TIME_INDEX
from testkit.made.batches import GZIP, LZ4, SNAPPY, ZSTD, batch, fix_crc, message, patch, record, simple
from testkit.running.examples import examples

PLAIN = record(0, b"k", b"v", [(b"h", None)]) + record(1, None, b"")


def compressed_batch(codec: int) -> bytes:
    return batch(compress(codec, PLAIN), 2, attributes=codec)


def wrapper(codec: int, magic: int) -> bytes:
    inner = b"".join(message(offset, magic=magic, timestamp=100) for offset in range(3))
    return message(2, None, compress(codec, inner, magic=magic), magic=magic, attributes=codec, timestamp=100)


SOUND = {
    "batch": simple(3),
    "empty batch": batch(b"", 0, attributes=GZIP),
    "empty stream": batch(compress(GZIP, b"", level=1), 0, attributes=GZIP),
    **{f"batch {codec}": compressed_batch(codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)},
    **{f"message {magic}": message(7, b"k", None, magic=magic) for magic in (0, 1)},
    **{f"wrapper {magic} {codec}": wrapper(codec, magic) for magic in (0, 1) for codec in (GZIP, SNAPPY, LZ4)},
    "raw snappy block": batch(compress(SNAPPY, PLAIN)[20:], 2, attributes=SNAPPY),
    "two snappy streams": batch(compress(SNAPPY, PLAIN[:9]) + compress(SNAPPY, PLAIN[9:]), 2, attributes=SNAPPY),
    "snappy and two bytes more": batch(compress(SNAPPY, PLAIN) + b"xx", 2, attributes=SNAPPY),
    "lz4 and two bytes more": batch(compress(LZ4, PLAIN) + b"xx", 2, attributes=LZ4),
    "attributes without a name": batch(PLAIN, 2, attributes=0x300),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_entries_come_back_and_every_byte_is_declared(name: str) -> None:
    data = SOUND[name]
    value = parse(data)
    assert build(value) == data
    assert ENTRY.build(ENTRY.parse(data)) == data
    span = read_spans(ENTRY, data)
    assert [each.problem for each in span.problems()] == []
    assert span.value == value
    assert uncovered(span) == 0


def test_an_unchanged_inside_keeps_bytes_that_no_writer_here_makes() -> None:
    data = batch(compress(GZIP, PLAIN, level=1), 2, attributes=GZIP)
    assert data != batch(compress(GZIP, PLAIN, level=9), 2, attributes=GZIP) or len(data) < 100
    value = parse(data)
    value.max_timestamp = 5
    assert parse(build(value)).compressed == value.compressed
    value.records[0]["value"] = b"changed"
    changed = parse(build(value))
    assert changed.compressed != value.compressed
    assert changed.records[0]["value"] == b"changed"
    value.attributes.codec = ZSTD
    assert parse(build(value)).records == changed.records
    value.records.clear()
    assert len(build(value)) == BATCH.size


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_an_inside_above_the_process_limit_keeps_its_bytes_too(codec: int) -> None:
    """The caller has read it with a higher limit than the one of the environment."""
    inside = compress(codec, b"".join(record(number, b"", b"v" * 99) for number in range(99)), level=1)
    data = batch(inside + b"x" * (codec in (SNAPPY, LZ4)), 99, attributes=codec)  # which a new stream does not have
    program = (
        "import sys; from kafkalog.codec import Limits, build, parse; "
        "data = sys.stdin.buffer.read(); "
        "sys.stdout.buffer.write(build(parse(data, limits=Limits(decompressed_batch_bytes=10**6))))"
    )
    command, environment = [sys.executable, "-c", program], os.environ | {UNPACKED_BYTES: "1000"}
    again = subprocess.run(command, input=data, env=environment, capture_output=True, check=True)
    assert again.stdout == data


def test_lengths_counts_and_checksums_follow_and_what_compaction_needs_stays() -> None:
    value = parse(batch(PLAIN, 2, base_offset=10, last_offset_delta=9, max_timestamp=77))
    del value.records[0]
    value.records[0]["key"] = b"x" * 200
    again = parse(build(value))
    assert (again.records_count, again.base_offset, again.last_offset_delta, again.max_timestamp) == (1, 10, 9, 77)
    assert again.batch_length == len(build(value)) - 12
    assert again.records[0].length > 200


FAULTS: dict[str, tuple[bytes, str, int]] = {
    "a wrong checksum": (patch(simple(1), 17, b"\0\0\0\0"), "crc", 17),
    "a wrong checksum of a message": (patch(message(), 12, b"\0\0\0\0"), "crc", 12),
    "a length past the end": (patch(simple(1), 8, b"\0\0\1\0"), "batch_length", 8),
    "a negative length": (patch(simple(1), 8, b"\xff\xff\xff\xff"), "batch_length", 8),
    "a length that ends in the header": (patch(message(), 8, b"\0\0\0\x05"), "size", 8),
    "an unknown magic": (patch(simple(1), 16, b"\x07"), "magic", 16),
    "a count above the records": (fix_crc(patch(simple(1), 57, b"\0\0\0\2")), "records[1].length", 70),
    "a count below the records": (fix_crc(patch(simple(2), 57, b"\0\0\0\1")), "records_count", 57),
    "a negative count": (fix_crc(patch(simple(1), 57, b"\xff\xff\xff\xff")), "records_count", 57),
    "a key past the end": (fix_crc(patch(simple(1), 65, b"\x7e")), "records[0].key", 65),
    "a key of a message past the end": (fix_crc(patch(message(), 26, b"\0\0\1\0")), "key", 26),
    "no stream": (batch(b"\xff" * 9, 1, attributes=ZSTD), "compressed", 61),
    "an lz4 block past the end": (batch(compress(LZ4, PLAIN)[:12], 1, attributes=LZ4), "compressed.size", 68),
    "a wrapper without a value": (message(3, None, None, attributes=GZIP), "value.length", 30),
    "ten bytes": (simple(1)[:10], "size", 8),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_its_field_and_its_place(name: str) -> None:
    data, field, position = FAULTS[name]
    with pytest.raises(FormatError) as caught:
        parse(data, source="00000000000000000000.log")
    assert (caught.value.field, caught.value.position) == (field, position)
    assert str(caught.value).startswith("00000000000000000000.log: ")
    blamed = next(read_spans(ENTRY, data).problems())
    assert (blamed.name, blamed.position) == (field.rpartition(".")[2], position)


def test_bytes_after_a_structure_are_a_fault_of_the_caller() -> None:
    with pytest.raises(FormatError, match="3 bytes after the end of a entry"):
        parse(simple(1) + b"xyz")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"magic": 9}, "entry"),
        ({"magic": None}, "entry"),
        (None, "log"),
        ([{"relative_offset": 2**40, "position": 0}], "offset_index"),
        (Container(parse(simple(1)), attributes={"codec": 8}), "entry"),
        (Container(parse(simple(1)), attributes={"codec": float("inf")}), "entry"),
    ],
)
def test_values_that_are_none_are_one_clear_error(value: object, what: str) -> None:
    with pytest.raises(FormatError):
        build(value, what)


@pytest.mark.parametrize(
    ("value", "field"),
    [({}, "magic"), ({"magic": 2}, "records"), (Container(parse(simple(1)), records=[{"length": 1}]), "attributes")],
)
def test_a_missing_field_is_named(value: object, field: str) -> None:
    with pytest.raises(UsageError, match=f"^the field '{field}' of entry is missing$"):
        build(value)


def first_problem(span: FieldSpan) -> str | None:
    return next((each.problem for each in span.problems()), None)


def strict(tree: Traced, data: bytes) -> tuple[object, str | None]:
    try:
        return tree.parse_whole(data)[0], None
    except LayoutError as error:
        return None, error.detail


@st.composite
def damaged_entries(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(list(SOUND.values()))))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.integers(0, len(data)))
    damaged = bytes(data[:cut]) if draw(st.booleans()) else bytes(data)
    return fix_crc(damaged) if len(damaged) > 61 and draw(st.booleans()) else damaged


def test_an_unknown_structure_is_a_fault_of_the_caller() -> None:
    for call in (lambda: parse(b"", "nope"), lambda: build({}, "nope")):
        with pytest.raises(UsageError, match="nope"):
            call()


@examples(800)
@given(damaged_entries())
def test_strict_and_tolerant_readings_agree_on_everything(data: bytes) -> None:
    """The same value where there is no fault, a fault in both where there is one; and no byte is left out."""
    value, detail = strict(ENTRY, data)
    span = read_spans(ENTRY, data)
    assert (first_problem(span) is None) == (detail is None)
    if detail is None:
        assert span.value == value
        assert build(ENTRY.parse(build(value))) == build(value)
    assert {each.problem for each in span.problems()} >= ({detail} if detail and span.children else set())
    covered = sum(child.end - child.position for child in span.children if not child.is_unpacked)
    assert covered == span.end <= len(data)


@examples(300)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_to_their_end_or_refused(data: bytes) -> None:
    for what, tree in LAYOUTS.items():
        with contextlib.suppress(FormatError):
            parse(data, what)
        if isinstance(tree, Traced | Struct):
            read_spans(tree, data)


def test_a_tolerant_reading_stops_where_it_is_told() -> None:
    span = read_spans(ENTRIES, simple(50) * 50, most=40)
    assert sum(1 for _ in span.walk()) <= 41 + 5  # the bits of one field come with it
    assert span.note is not None


def test_a_tolerant_reading_that_stops_behind_a_fault_says_so() -> None:
    cut = simple(1)[:14]  # two fields, then the fault, and two bytes that are not read
    assert read_spans(ENTRY, cut, most=3).note is None
    assert read_spans(ENTRY, cut, most=2).note == "only the first 2 fields"


def test_a_wrong_checksum_is_passed_and_the_records_are_read() -> None:
    span = read_spans(ENTRY, patch(simple(2), 17, b"\0\0\0\0"))
    assert [each.name for each in span.problems()] == ["crc"]
    assert [each.name for each in span.children][-2:] == ["records[0]", "records[1]"]


def test_reading_goes_on_behind_a_broken_record_and_a_broken_batch() -> None:
    broken = fix_crc(patch(simple(2), 65, b"\x7e"))
    span = read_spans(ENTRIES, broken + simple(1, base_offset=2))
    assert [(each.name, each.position) for each in span.problems()] == [("key", 65)]
    assert [child.name for child in span.children] == ["[0]", "[1]"]
    assert span.children[1].value.base_offset == 2


def test_construct_runs_the_declarations_inside_other_structures() -> None:
    two = Struct("first" / RECORD_BATCH, "second" / ENTRY)
    data = simple(1) + message(4)
    value = two.parse(data)
    assert (value.first.records_count, value.second.offset) == (1, 4)
    assert two.build(value) == data
    with pytest.raises(ConstructError):
        TIME_INDEX.parse(b"\0" * 13)


def sample() -> list[Path]:
    kinds = {".log", ".snapshot", ".txnindex", ".checkpoint", ".metadata", ".properties", ""}
    return [path for path in files(every=3) if path.suffix in kinds][::9]


def test_recorded_structures_are_declared_to_the_last_byte(compared: Callable[[str, int], None]) -> None:
    counts = Counts()
    for path in sample():
        count_file(path, counts)
    assert counts.different == []
    assert counts.uncovered == 0
    assert counts.same.total() > 500
    compared("whole declarations: structures", counts.same.total())
    compared("whole declarations: bytes not covered", counts.uncovered)


@pytest.mark.sweep
def test_every_recorded_structure_is_declared_to_the_last_byte(compared: Callable[[str, int], None]) -> None:
    counts = Counts()
    for path in files():
        count_file(path, counts)
    assert (counts.different, counts.uncovered) == ([], 0)
    for magic, codecs in {0: "none gzip snappy lz4", 1: "none gzip snappy lz4", 2: "none gzip snappy lz4 zstd"}.items():
        assert all(counts.same[f"magic {magic}, {codec}"] for codec in codecs.split())
    for kind, number in counts.same.items():
        compared(f"whole declarations: {kind}", number)
