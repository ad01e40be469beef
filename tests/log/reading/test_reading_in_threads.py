"""Reading in threads gives the rows, the damage and the end that reading in one gives, in the same order."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkalog import RecordFilter
from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.encode import build_batch
from kafkalog.codec.headers import run_scanner
from kafkalog.codec.model import Codec, Record, TimestampType
from kafkalog.log import open_all, open_partition
from kafkalog.log.directories.partition import Partition
from kafkalog.log.reading import to_arrow
from kafkalog.log.reading.in_order import InOrder
from kafkalog.log.walk.spans import likely_spans
from testkit.judging.executions import choose_execution
from testkit.made.arrow_records import expected_rows, rows_of_table
from testkit.made.record_bytes import Fields, batch, payload
from testkit.recorded.broker_dirs import STOPPED, brokers, expected_records
from testkit.recorded.fixture_data import BrokerCase
from testkit.running.shares import EACH

RECORDED = [case for case in STOPPED if case.has("read_uncommitted")]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    choose_execution(monkeypatch, 0)
    monkeypatch.setattr(to_arrow, "_PART_BYTES", 700)


def ident(case: BrokerCase) -> str:
    return case.id


@pytest.mark.parametrize("case", RECORDED, ids=ident)
def test_every_record_of_a_broker(case: BrokerCase) -> None:
    level = "read_committed" if case.has("read_committed") else "read_uncommitted"
    expected = expected_records(case, level)
    partitions = open_all(*brokers(case.id)).readable(replica="longest")
    tables = [
        each.to_arrow(filter=RecordFilter(isolation_level=level), batch_rows=50, threads=3).read_all()
        for each in partitions
    ]
    assert rows_of_table(pa.concat_tables(tables), expected) == expected_rows(expected)


def log_of(directory: Path, segments: dict[int, list[bytes]]) -> Partition:
    directory.mkdir(parents=True)
    for base, batches in segments.items():
        (directory / f"{base:020}.log").write_bytes(b"".join(batches))
    return open_partition(directory)


def some(base: int, count: int = 5) -> bytes:
    records: list[Fields] = [(0, number, number, b"k%d" % (base + number), bytes(40), []) for number in range(count)]
    return batch(payload(records), count, base_offset=base, last_offset_delta=count - 1)


def read(partition: Partition, threads: int, **options: Any) -> tuple[pa.Table, list[Finding]]:
    findings: list[Finding] = []
    reader = partition.to_arrow(
        ["offset", "key"], RecordFilter(**options), threads=threads, findings=findings, on_damage="stop"
    )
    return reader.read_all().combine_chunks(), findings


def test_offsets_that_stand_twice_are_given_once(tmp_path: Path) -> None:
    again = [some(base) for base in (0, 5, 10, 15, 10, 20, 5, 25, 30)]
    partition = log_of(tmp_path / "t-0", {0: again, 28: [some(base) for base in (28, 33, 38)], 43: [some(43)]})
    one, two = read(partition, 1), read(partition, 2)
    assert one == two
    assert one[0]["offset"].to_pylist() == list(range(48))


@EACH
def test_damage_anywhere_is_the_same_damage(each: int, tmp_path: Path) -> None:
    source = random.Random(4)
    for number in range(60 // each):
        parts = {base: [some(base + at) for at in range(0, 100, 5)] for base in (0, 100, 200)}
        partition = log_of(tmp_path / str(number) / "t-0", parts)
        path = Path(source.choice(partition.segments).path)
        data = bytearray(path.read_bytes())
        at = source.randrange(len(data))
        if number % 3:
            data[at] ^= 1 << source.randrange(8)
        else:
            del data[at:]
        path.write_bytes(data)
        partition = open_partition(path.parent)
        low, high = sorted(source.sample(range(310), 2))
        assert read(partition, 1) == read(partition, 3)
        assert read(partition, 1, start_offset=low, end_offset=high) == read(
            partition, 3, start_offset=low, end_offset=high
        )


def index_of(entries: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


@EACH
@pytest.mark.parametrize("layout", ["none", "true", "few", "foreign", "between", "random", "turned"])
def test_what_an_index_says_changes_no_row_and_no_finding(layout: str, each: int, tmp_path: Path) -> None:
    """It only says where to cut: gaps, offsets that go back, damage and torn ends are what they are without it."""
    source = random.Random(layout)
    cut = 0
    for number in range(40 // each):
        bases, offset = [], 0
        for _ in range(40):
            offset += source.choice((0, 0, 0, 0, 3, 70, -5))
            bases.append(max(offset, 0))
            offset = max(offset, 0) + 5
        batches = [some(base) for base in bases]
        positions = [sum(map(len, batches[:at])) for at in range(len(batches))]
        entries = [(base + 4, position) for base, position in zip(bases, positions, strict=True)][1:]
        if layout == "few":
            entries = sorted(source.sample(entries, 9), key=lambda entry: entry[1])[:7]
        elif layout == "foreign":
            entries = [(entry[0], position + 300) for entry, position in zip(entries, positions, strict=False)]
        elif layout == "between":
            entries = [(offset, position + source.choice((0, 0, 9))) for offset, position in entries]
        elif layout == "turned":  # the sign of a position
            at = source.randrange(1, len(entries))
            entries[at] = entries[at][0], entries[at][1] - 2**31
        elif layout == "random":
            entries = [(source.randrange(300), source.randrange(9000)) for _ in entries]
        data = bytearray(b"".join(batches))
        if number % 4 == 1:
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)
        elif number % 4 == 2:
            del data[source.randrange(len(data)) :]
        elif number % 4 == 3:
            at = source.choice(positions)
            data[at + 8 : at + 12] = struct.pack(">i", source.choice((300, 3000, 100_000)))
        partition = log_of(tmp_path / str(number) / "t-0", {0: [bytes(data)]})
        path = Path(partition.path) / f"{0:020}.index"
        if layout != "none":
            path.write_bytes(index_of(entries))
        partition = open_partition(partition.path)
        cut += sum(1 for _ in likely_spans(partition.segments[0].open(), partition.segments[0], 0, len(data), 700, 90))
        low, high = sorted(source.sample(range(350), 2))
        assert read(partition, 1) == read(partition, 3), number
        assert read(partition, 1, start_offset=low, end_offset=high) == read(
            partition, 3, start_offset=low, end_offset=high
        ), number
    assert cut > 300 // each


def test_a_log_inside_of_a_value_that_an_index_points_into_is_no_log(tmp_path: Path) -> None:
    """What stands there is sound, in order, and has the offsets that the index says: only who reads all of it knows."""
    inner = b"".join(some(base) for base in range(500, 800, 5))
    record: list[Fields] = [(0, 0, 0, b"outer", inner, [])]
    before = b"".join(some(base) for base in range(0, 100, 5))
    outer = batch(payload(record), 1, base_offset=100)
    behind = [some(base) for base in range(101, 400, 5)]
    partition = log_of(tmp_path / "t-0", {0: [before, outer, *behind]})
    inside = len(before) + outer.index(inner)
    size = len(some(500))
    entries = [(504 + 5 * at, inside + size * at) for at in range(60)]
    (Path(partition.path) / f"{0:020}.index").write_bytes(index_of(entries))
    partition = open_partition(partition.path)
    one, three = read(partition, 1), read(partition, 3)
    assert one == three
    assert one[0].num_rows == 401
    found = likely_spans(partition.segments[0].open(), partition.segments[0], 0, partition.size, 700, 10_000)
    assert any(inside <= span.start < inside + len(inner) for span in found)


def test_damage_is_raised_where_it_is_reached_and_no_thread_stays(tmp_path: Path) -> None:
    before = threading.active_count()
    partition = log_of(
        tmp_path / "t-0", {0: [some(base) for base in range(0, 200, 5)] + [b"\x01" * 90], 200: [some(200)]}
    )
    reader = partition.to_arrow(["offset"], threads=2, batch_rows=10)
    seen: list[int] = []
    with pytest.raises(FormatError):
        seen.extend(each.num_rows for each in reader)
    assert sum(seen) == 200
    reader = partition.to_arrow(["offset"], threads=2, batch_rows=10)
    reader.read_next_batch()
    del reader  # whoever stops in the middle leaves no thread behind
    assert threading.active_count() == before


@pytest.mark.parametrize("enough", [0, 2**62])
@pytest.mark.parametrize("layout", ["copy", "view"])
def test_offsets_that_go_back_are_told_of_once_and_end_nothing(
    enough: int, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stretch that is there twice, as a retried append leaves it, is information, to a consumer not even that."""
    choose_execution(monkeypatch, enough)
    first = [some(base) for base in range(0, 50, 5)]
    again = [some(base) for base in range(20, 90, 5)]
    partition = log_of(tmp_path / "t-0", {0: [*first, *again], 90: [some(90)]})
    by_one = partition.records(on_damage="stop")
    offsets = [each.offset for each in by_one]
    (told,) = (each for each in by_one.findings if each.code == FindingCode.OFFSET_NOT_INCREASING)
    assert offsets == [*range(95)]
    assert told.severity is Severity.INFO
    for threads in (1, 2, 3):
        found: list[Finding] = []
        rows = partition.to_arrow(
            ["offset"], threads=threads, layout=layout, findings=found, on_damage="stop"
        ).read_all()
        assert rows["offset"].to_pylist() == offsets
        assert [(each.code, each.position, each.offset, each.file) for each in found] == [
            (told.code, told.position, told.offset, told.file)
        ]
        assert partition.to_arrow(["offset"], threads=threads, layout=layout).read_all().num_rows == len(offsets)


@pytest.mark.parametrize("layout", ["copy", "view"])
@pytest.mark.parametrize("enough", [0, 2**62])
@pytest.mark.parametrize("claimed", [3, 10, 54, 56, 88, 10**6, 2**40, -7])
def test_a_displaced_batch_is_damage_however_it_is_read(
    enough: int, layout: str, claimed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No checksum covers a base offset; the next batch begins where this one would have ended."""
    choose_execution(monkeypatch, enough)
    raised = bytearray(some(50))
    raised[:8] = claimed.to_bytes(8, "big", signed=True)
    first = [some(base) for base in range(0, 50, 5)]
    partition = log_of(tmp_path / "t-0", {0: [*first, bytes(raised), *(some(base) for base in range(55, 90, 5))],
                                          90: [some(90)]})  # fmt: skip
    by_one = partition.records(on_damage="stop")
    assert [each.offset for each in by_one] == [*range(50)]
    assert by_one.ended_by is not None
    code = FindingCode.OFFSET_ABOVE_SEGMENT if claimed == 2**40 else FindingCode.OFFSET_DISPLACED
    assert by_one.ended_by.code is code
    for threads in (1, 2, 3):
        found: list[Finding] = []
        rows = partition.to_arrow(
            ["offset"], threads=threads, layout=layout, findings=found, on_damage="stop"
        ).read_all()
        assert rows["offset"].to_pylist() == [*range(50)]
        assert [each.code for each in found] == [each.code for each in by_one.findings]
        assert (found[-1].code, found[-1].position, found[-1].severity) == (
            code, by_one.ended_by.position, Severity.ERROR
        )  # fmt: skip
        with pytest.raises(FormatError, match="offset"):
            partition.to_arrow(["offset"], threads=threads, layout=layout).read_all()
    everything = partition.records(all=True)
    assert len(list(everything)) == 95


def odd(base: int, deltas: list[int], last: int) -> bytes:
    """A batch whose records have other offsets than its header claims; the checksum is right."""
    records: list[Fields] = [(0, 0, delta, b"k%d" % (base + delta), bytes(40), []) for delta in deltas]
    return batch(payload(records), len(deltas), base_offset=base, last_offset_delta=last)


@pytest.mark.parametrize("enough", [0, 2**62])
@pytest.mark.parametrize("columns", [["offset", "key"], ["key"]])
def test_records_beyond_what_their_batch_claims_are_rows_however_they_are_read(
    enough: int, columns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough)
    before = [some(base) for base in range(0, 100, 5)]
    behind = [some(base) for base in range(125, 200, 5)]
    for number, batches in enumerate([
        [odd(100, [0, 1, 2], -1)],  # all of them beyond its end
        [odd(100, [0, 1, 2, 9], 2)],
        [odd(110, [-10, -5, 0, 3], 14)],  # some before its beginning
        [odd(110, [-10, -120], 4), odd(118, [-2, 1], 6)],
        [odd(103, [0, -2], -100), odd(104, [3, -80], -100)],
    ]):  # fmt: skip
        partition = log_of(tmp_path / str(number) / "t-0", {0: before + batches + behind})
        expected = [record.key for record in partition.records(on_damage="stop")]
        assert len(expected) == len(set(expected)) >= 177
        told: list[Finding] = []
        for threads in (1, 2, 3):
            found = partition.to_arrow(columns, threads=threads, findings=told, on_damage="stop").read_all()
            assert found["key"].to_pylist() == expected
        later = [record.key for record in partition.records(RecordFilter(start_offset=50), on_damage="stop")]
        rest = partition.to_arrow(
            ["key"], RecordFilter(start_offset=50), threads=2, findings=told, on_damage="stop"
        ).read_all()
        assert rest["key"].to_pylist() == later


def test_damage_is_met_whatever_offset_its_header_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_arrow, "_PART_BYTES", 10)  # each batch by itself, so that parts begin with the broken one
    for number, claimed in enumerate([0, 7, 195, 400, 2**31 + 5, 2**62, 2**63 - 20, -(2**40)]):
        batches = [some(base) for base in range(0, 200, 5)]
        broken = bytearray(some(100))
        broken[0:8] = claimed.to_bytes(8, "big", signed=True)
        broken[-1] ^= 1
        batches[20] = bytes(broken)
        partition = log_of(tmp_path / str(number) / "t-0", {0: batches, 200: [some(200)]})
        for options in ({}, {"end_offset": 150}, {"start_offset": 50, "end_offset": 150}):
            one, three = read(partition, 1, **options), read(partition, 3, **options)
            assert one == three
            assert [each.code for each in one[1]] == [FindingCode.CRC_MISMATCH]
            assert one[0]["offset"].to_pylist() == list(range(options.get("start_offset", 0), 100))


def unreadable(source: random.Random, base: int) -> bytes:
    """A batch of five with a right checksum, whose records cannot all be read, or that tells a wrong number of them."""
    records: list[Fields] = [(0, number, number, b"k%d" % (base + number), bytes(40), []) for number in range(5)]
    content, codec, count = payload(records), 0, 5
    match source.randrange(4):
        case 0:
            content += b"zz"
        case 1:
            content = content[:-3]
        case 2:
            codec = 6
        case _:
            count = 4
    return batch(content, count, base_offset=base, last_offset_delta=4, attributes=codec)


@EACH
def test_what_cannot_be_read_within_a_sound_batch_is_told_wherever_the_end_is(each: int, tmp_path: Path) -> None:
    told = 0
    for number in range(60 // each):
        source = random.Random(number)
        batches = [some(base) for base in range(0, 300, 5)]
        for at in source.sample(range(60), source.choice([1, 1, 2, 5])):
            far = [0, 1, source.choice([5, 2**31 - 1])]
            batches[at] = odd(5 * at, far, 4) if source.random() < 0.4 else unreadable(source, 5 * at)
        partition = log_of(tmp_path / str(number) / "t-0", {0: batches})
        for _ in range(12):
            low, high = sorted(source.sample(range(310), 2))
            whole: dict[str, int] = source.choice([{}, {"end_offset": high}, {"start_offset": low, "end_offset": high}])
            one = read(partition, 1, **whole)
            assert read(partition, 2, **whole) == one
            assert read(partition, 3, **whole) == one
            told += len(one[1])
    assert told > 200 // each


@pytest.mark.parametrize("kept", [0, 1, 60, 700, 2500])
def test_what_a_file_has_lost_since_it_was_listed_is_missed_in_threads_too(kept: int, tmp_path: Path) -> None:
    for number, victim in enumerate((0, 100, 200)):
        parts = {base: [some(base + at) for at in range(0, 100, 5)] for base in (0, 100, 200)}
        partition = log_of(tmp_path / str(number) / "t-0", parts)
        path = Path(partition.path) / f"{victim:020}.log"
        path.write_bytes(path.read_bytes()[:kept])
        one, three = read(partition, 1), read(partition, 3)
        assert one == three
        assert [(each.code, each.file) for each in one[1]] == [(FindingCode.TORN_TAIL, str(path))]
        assert f"the file has {kept} bytes" in one[1][0].detail


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("enough", [0, 2**62])
@pytest.mark.parametrize("kept", [0, 1, 1000])
def test_what_a_file_loses_while_it_is_read_is_missed(
    kept: int, enough: int, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is the last one nothing follows, and what is left looks like the end of a log."""
    choose_execution(monkeypatch, enough)
    monkeypatch.setattr(to_arrow, "_WAITING_BYTES", 1)
    monkeypatch.setattr(run_scanner, "WINDOW_OF_RECORDS", 4096)
    limits = Limits(read_window_bytes=2000)
    log_of(tmp_path / "t-0", {0: [some(base) for base in range(0, 5000, 5)]})
    partition = open_partition(tmp_path / "t-0", limits=limits)
    (segment,) = partition.segments
    findings: list[Finding] = []
    reader = partition.to_arrow(["offset"], threads=threads, batch_rows=5, findings=findings, on_damage="stop")
    offsets = reader.read_next_batch()["offset"].to_pylist()
    os.truncate(segment.path, kept)
    offsets += [offset for batch in reader for offset in batch["offset"].to_pylist()]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) < 5000
    assert [(each.code, each.severity) for each in findings] == [(FindingCode.TORN_TAIL, Severity.ERROR)]
    assert f"the file has {kept} bytes" in findings[0].detail


def test_a_file_that_is_cut_while_it_is_read_does_not_end_in_zeros(tmp_path: Path) -> None:
    partition = log_of(tmp_path / "t-0", {0: [some(base) for base in range(0, 5000, 5)]})
    reader = partition.records(limits=Limits(read_window_bytes=2000), on_damage="stop")
    records = iter(reader)
    next(records)
    os.truncate(partition.segments[0].path, 1000)
    assert 0 < sum(1 for _ in records) < 4999
    assert [each.code for each in reader.findings] == [FindingCode.TORN_TAIL]


def read_all(under_way: InOrder[int, int], found: list[int]) -> None:
    for _, items in under_way:
        found += items


@pytest.mark.compiled
@pytest.mark.parametrize("possible", [0, 1, 2])
def test_as_many_threads_read_as_the_system_lets_begin(
    possible: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = log_of(tmp_path / "t-0", {0: [some(base) for base in range(0, 500, 5)]})
    start, begun = threading.Thread.start, list[threading.Thread]()

    def scarce(thread: threading.Thread) -> None:
        if len(begun) == possible:
            raise RuntimeError("can't start new thread")
        start(thread)
        begun.append(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    assert partition.to_arrow(["offset"], threads=8).read_all()["offset"].to_pylist() == list(range(500))
    assert len(begun) == possible
    assert not any(thread.is_alive() for thread in begun)


def test_who_only_reads_is_told_where_no_thread_can_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def scarce(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", scarce)
    works: list[tuple[int, Callable[[object], list[int]]]] = [(0, lambda _: [])]
    with pytest.raises(StorageError, match="no thread begin"), InOrder(works, 3, size_of=lambda _: 1, room=1):
        pass


TAKES_PART = pytest.mark.parametrize("takes_part", [False, True])


@TAKES_PART
def test_works_are_given_in_order_and_raise_where_they_stand(takes_part: bool) -> None:
    def work(number: int) -> Iterator[int]:
        yield from range(number, number + 5)
        if number == 20:
            raise ValueError(number)

    found: list[int] = []
    works = [(number, lambda _, number=number: work(number)) for number in range(0, 50, 10)]
    with (
        InOrder(works, 3, size_of=lambda _: 1, room=3, takes_part=takes_part) as under_way,
        pytest.raises(ValueError, match="20"),
    ):
        read_all(under_way, found)
    assert found[:10] == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


@TAKES_PART
def test_what_giving_the_works_raises_comes_after_those_that_were_given(takes_part: bool) -> None:
    def one(number: int, _: object) -> Iterator[int]:
        yield number

    def works() -> Iterator[tuple[int, Callable[[object], Iterator[int]]]]:
        for number in range(5):
            yield number, partial(one, number)
        raise OSError("the next one cannot be opened")

    found: list[int] = []
    with (
        InOrder(works(), 3, size_of=lambda _: 1, room=1, takes_part=takes_part) as under_way,
        pytest.raises(OSError, match="cannot be opened"),
    ):
        read_all(under_way, found)
    assert found == list(range(5))


@TAKES_PART
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_what_waits_is_bounded_and_the_work_that_is_read_never_waits(threads: int, takes_part: bool) -> None:
    """Forty works of three items each, where two items have room: the reader sees all, in order."""
    waiting = most = 0
    lock = threading.Lock()

    class Item:
        def __init__(self, number: int) -> None:
            nonlocal waiting, most
            self.number = number
            with lock:
                waiting += 1
                most = max(most, waiting)

    works = [(number, lambda _, number=number: map(Item, range(number, number + 3))) for number in range(0, 120, 3)]
    seen = []
    with InOrder(works, threads, size_of=lambda _: 1, room=2, takes_part=takes_part) as under_way:
        for _, items in under_way:
            for item in items:
                seen.append(item.number)
                with lock:
                    waiting -= 1
    assert seen == list(range(120))
    assert most <= 2 + 1 + threads, "those that wait, one of the work that is read, and one in the hands of each thread"


@TAKES_PART
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("room", [0, 3])
def test_what_is_large_waits_for_its_turn(room: int, threads: int, takes_part: bool) -> None:
    """At most one work is between its turn and its item, and nobody waits for somebody who waits."""
    under_way_now: list[int] = []
    most = 0

    def work(await_turn: Callable[[], None], number: int) -> Iterator[int]:
        nonlocal most
        yield number
        await_turn()
        under_way_now.append(number)
        most = max(most, len(under_way_now))
        under_way_now.remove(number)
        yield number

    works = [(number, lambda await_turn, number=number: work(await_turn, number)) for number in range(30)]
    with InOrder(works, threads, size_of=lambda _: 1, room=room, takes_part=takes_part) as under_way:
        assert [(number, list(items)) for number, items in under_way] == [(each, [each, each]) for each in range(30)]
    assert most == 1


@TAKES_PART
def test_leaving_in_the_middle_ends_those_who_wait(takes_part: bool) -> None:
    before = threading.active_count()
    works = [(number, lambda await_turn: (await_turn() for _ in range(5))) for number in range(20)]
    with InOrder(works, 4, size_of=lambda _: 1, room=0, takes_part=takes_part) as under_way:
        _, items = next(iter(under_way))
        next(items)
    assert threading.active_count() == before


def test_what_is_begun_too_soon_is_done_again_and_given_once() -> None:
    """The other thread is held back until whoever reads has gone ahead, and has had to leave off."""
    tried, begun = list[int](), threading.Event()

    def work(await_turn: Callable[[], None], number: int) -> Iterator[int]:
        if number == 0:
            begun.wait(10)
        tried.append(number)
        yield number
        begun.set()
        await_turn()
        yield number + 100

    works = [(number, lambda await_turn, number=number: work(await_turn, number)) for number in range(6)]
    with InOrder(works, 2, size_of=lambda _: 1, room=10, takes_part=True) as under_way:
        while not under_way._begun:
            time.sleep(0.001)  # until the first is the other thread's
        found = [item for _, items in under_way for item in items]
    assert found == [each for number in range(6) for each in (number, number + 100)]
    assert len(tried) > 6
    assert under_way._waiting == 0


def test_what_the_reader_is_interrupted_by_goes_through_at_once() -> None:
    def work(number: int) -> Iterator[int]:
        yield number
        if number == 2:
            raise KeyboardInterrupt

    works = [(number, lambda _, number=number: work(number)) for number in range(5)]
    with InOrder(works, 1, size_of=lambda _: 1, room=3, takes_part=True) as under_way, pytest.raises(KeyboardInterrupt):
        read_all(under_way, [])


def test_what_interrupts_the_reader_between_works_goes_through_at_once() -> None:
    interrupted = threading.Event()

    def works() -> Iterator[tuple[int, Callable[[object], Iterator[int]]]]:
        yield 0, lambda _: iter([*range(3), *(0 for _ in range(1) if interrupted.wait(10))])
        interrupted.set()
        raise KeyboardInterrupt

    found: list[int] = []
    with InOrder(works(), 2, size_of=lambda _: 1, room=10, takes_part=True) as under_way:
        while not under_way._begun:
            time.sleep(0.001)  # until the first is the other thread's
        with pytest.raises(KeyboardInterrupt):
            read_all(under_way, found)
    assert len(found) < 4


PEAK = """
import sys
from pathlib import Path
from kafkalog.codec.columnar import batch_decoder, decompressed, run_decoder
from kafkalog.codec.headers import run_scanner
from kafkalog.codec.native.library import library
from kafkalog.log import open_partition

library()

def held(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith(name))

before = held("VmRSS:")
rows = sum(batch.num_rows for batch in open_partition(sys.argv[1]).to_arrow(threads=int(sys.argv[2])))
print(rows, held("VmHWM:"), held("VmHWM:") - before)
"""


def read_elsewhere(directory: Path, threads: int) -> tuple[int, int, int]:
    """Rows, the peak of a process that reads them, and by how much that is above its libraries, MiB."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(directory), str(threads)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, peak, more = map(int, done.stdout.split())
    return rows, peak, more


def write_log(directory: Path, batches: Iterable[tuple[int, bytes]]) -> int:
    """One segment of batches, each with how many records it has, as if they had been appended; how many records."""
    directory.mkdir()
    offset = 0
    with (directory / f"{0:020}.log").open("wb") as file:
        for count, data in batches:
            file.write(offset.to_bytes(8, "big") + data[8:])
            offset += count
    return offset


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("codec", "threads"),
    [
        (Codec.LZ4, 16),
        *(
            pytest.param(codec, threads, marks=pytest.mark.sweep)
            for codec in (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
            for threads in (1, 8, 16)
            if (codec, threads) != (Codec.LZ4, 16)
        ),
    ],
)
def test_large_batches_take_memory_once_however_many_threads(
    codec: Codec, threads: int, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    """256 MiB and twice the largest batch, as everywhere."""
    largest = 96
    value = bytes(largest << 20)
    bomb = build_batch([Record(0, 1, TimestampType.CREATE_TIME, None, value)], base_offset=0, codec=codec)
    filler = build_batch(
        [Record(0, 1, TimestampType.CREATE_TIME, None, random.Random(0).randbytes(900_000))], base_offset=0
    )
    records = write_log(tmp_path / "t-0", [(1, bomb), (1, filler), (1, filler)] * 10)
    rows, peak, _ = read_elsewhere(tmp_path / "t-0", threads)
    assert rows == records
    measured(f"MiB held while {threads} threads read batches of {largest} MiB in {codec.label} to Arrow", peak)
    assert peak < 256 + 2 * largest


@pytest.mark.sweep
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY])
@pytest.mark.parametrize("kib", [16, 1024])
def test_ordinary_logs_take_little_however_many_threads(
    codec: Codec, kib: int, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    """Beyond what the libraries take, whose files the system maps in as it likes, half of the 256 MiB."""
    source = random.Random(kib)

    def batch_of_random_values() -> tuple[int, bytes]:
        values = [source.randbytes(source.randrange(200, 1500)) for _ in range(kib * 1024 // 1000)]
        records = [Record(at, 1, TimestampType.CREATE_TIME, b"k%d" % at, value) for at, value in enumerate(values)]
        return len(records), build_batch(records, base_offset=0, codec=codec)

    some = [batch_of_random_values() for _ in range(8)]
    records = write_log(tmp_path / "t-0", some * (192 * 1024 // kib // len(some)))
    rows, _, more = read_elsewhere(tmp_path / "t-0", 8)
    assert rows == records
    measured(f"MiB beyond the libraries while 8 threads read batches of {kib} KiB in {codec.label} to Arrow", more)
    assert more < 128


def test_what_threads_share_cuts_no_arrow_batch_that_is_within_its_own_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_PART_BYTES", "_SHARED_BYTES", "_LEAST_BYTES"):
        monkeypatch.setattr(to_arrow, name, 4_000)
    partition = log_of(tmp_path / "t-0", {0: [some(5 * number) for number in range(400)]})
    pieces = list(partition.to_arrow(threads=2))
    assert sum(piece.num_rows for piece in pieces) == 2_000
    assert {column.offset for piece in pieces for column in piece.columns} == {0}
