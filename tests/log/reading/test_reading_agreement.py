"""The same rows and the same complaint of any bytes, whoever reads; a small part of the sweep's pairs each time."""

from __future__ import annotations

import gzip
import random
import struct
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafkalog
import reading_pairs
from kafkalog.codec import scan
from kafkalog.codec.columnar.batch_decoder import BatchDecoder
from kafkalog.codec.columnar.pieces import Part
from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.native import thresholds
from kafkalog.log import open_partition
from kafkalog.log.reading import to_arrow
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import Layout
from testkit.judging.executions import choose_execution
from testkit.judging.second_opinion import NO_END
from testkit.made import damage
from testkit.made.batches import message
from testkit.running.command import kafkalog as command
from testkit.running.shares import EACH


@EACH
@pytest.mark.parametrize("first", [0, 1000])
def test_pairs_of_a_damaged_log_and_a_reader(first: int, each: int) -> None:
    wrong: list[str] = []
    counts = reading_pairs.run(range(first, first + 60, each), wrong.append)
    assert wrong == []
    assert counts["pairs"] >= 200 // each


DATA = damage.Header(attributes=0x10, producer_id=7, producer_epoch=0, base_sequence=0)


def transaction(first: int, *, commit: bool) -> list[bytes]:
    batches = [damage.batch(first + number, [damage.record(0)], DATA) for number in range(4)]
    return [*batches, damage.marker(first + 4, 7, 0, commit=commit)]


def partition_of(path: Path, batches: list[bytes], listed: tuple[int, int, int] | None = None) -> Path:
    directory = path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    if listed is not None:
        entry = struct.pack(">hqqqq", 0, *listed, listed[2] + 1)
        (directory / f"{0:020}.txnindex").write_bytes(entry)
    return directory


def broken(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("damaged", [4, 6])
def test_a_transaction_whose_end_lies_behind_damage_is_undecided(commit: bool, damaged: int, tmp_path: Path) -> None:
    """As one that is open it would be held back without a word, and all that was committed after it with it."""
    plain = [damage.batch(number, [damage.record(0)]) for number in range(10, 20)]
    batches = [*transaction(0, commit=commit), *transaction(5, commit=True), *plain]
    batches[damaged] = broken(batches[damaged])
    reader = open_partition(partition_of(tmp_path, batches)).records(
        kafkalog.RecordFilter(isolation_level="read_committed"), on_damage="stop"
    )
    first = 0 if damaged == 4 else 5
    assert [each.offset for each in reader] == ([*range(4)] if damaged == 6 and commit else [])
    assert reader.ended_by is not None
    assert (reader.ended_by.code, reader.ended_by.offset) == (FindingCode.TRANSACTION_UNDECIDED, first)
    assert reader.ended_by.severity is Severity.ERROR


def test_an_undecided_transaction_is_not_forgotten_for_an_open_one_of_the_same_producer(tmp_path: Path) -> None:
    batches = [*transaction(0, commit=True), damage.batch(5, [damage.record(0)], DATA)]
    marker = batches[4][:-1] + b"\x10"  # headers that are not there
    batches[4] = damage.with_crc(marker)
    reader = open_partition(partition_of(tmp_path, batches)).records(
        kafkalog.RecordFilter(isolation_level="read_committed"), on_damage="stop"
    )
    assert [each.offset for each in reader] == []
    assert reader.ended_by is not None
    assert (reader.ended_by.code, reader.ended_by.offset) == (FindingCode.TRANSACTION_UNDECIDED, 0)


def test_one_that_is_open_without_damage_is_held_back_as_by_a_broker(tmp_path: Path) -> None:
    batches = [damage.batch(0, [damage.record(0)]), damage.batch(1, [damage.record(0)], DATA)]
    reader = open_partition(partition_of(tmp_path, batches)).records(
        kafkalog.RecordFilter(isolation_level="read_committed"), on_damage="stop"
    )
    assert [each.offset for each in reader] == [0]
    assert reader.findings == []
    assert reader.ended_by is None


@pytest.mark.parametrize(
    ("listed", "is_decided"),
    [((7, 0, 4), True), ((8, 0, 4), False), ((7, 1, 4), False), ((7, 0, 5), False), (None, False)],
)
def test_an_index_decides_a_damaged_marker_where_all_of_it_fits(
    listed: tuple[int, int, int] | None, is_decided: bool, tmp_path: Path
) -> None:
    batches = transaction(0, commit=False)
    batches[4] = broken(batches[4])
    batches += [damage.batch(number, [damage.record(0)]) for number in range(5, 9)]
    directory = partition_of(tmp_path, batches, listed)
    reader = open_partition(directory).records(
        kafkalog.RecordFilter(isolation_level="read_committed"), on_damage="stop"
    )
    assert [each.offset for each in reader] == []
    assert reader.ended_by is not None
    wanted = FindingCode.CRC_MISMATCH if is_decided else FindingCode.TRANSACTION_UNDECIDED
    assert reader.ended_by.code is wanted


MODES = {
    "`Partition.records()`": "stops", "`Partition.to_arrow()`": "stops",
    "`Consumer` and `follow`": "stops", "`dump`": "stops", "`dump --all`": "goes on", "Spark, `FAILFAST`": "stops",
    "Spark, `PERMISSIVE`": "goes on", "Spark, `DROPMALFORMED`": "goes on", "`serve`": "",
    '`Partition.records(on_damage="skip")`': "goes on", '`Partition.to_arrow(on_damage="skip")`': "goes on",
}  # fmt: skip


def skipping(mode: str, directory: Path, level: str) -> tuple[list[int], bool]:
    findings: list[Finding] = []
    if "to_arrow" in mode:
        partition = open_partition(directory)
        table = partition.to_arrow(
            ["offset"], kafkalog.RecordFilter(isolation_level=level), on_damage="skip", findings=findings
        ).read_all()
        offsets = table["offset"].to_pylist()
    else:
        reader = open_partition(directory).records(kafkalog.RecordFilter(isolation_level=level), on_damage="skip")
        offsets = [each.offset for each in reader]
        findings = reader.findings
    return offsets, any(each.severity is not Severity.INFO for each in findings)


def given_by(mode: str, directory: Path) -> tuple[list[int], bool]:
    """The offsets that a reader of the table gives, and whether it says in its way that those are not all."""
    choose = random.Random(1)
    by = {
        "`Partition.records()`": reading_pairs.by_records, "`Consumer` and `follow`": reading_pairs.by_consumer,
        "`Partition.to_arrow()`": reading_pairs.by_arrow,
        "`dump`": reading_pairs.by_dump, "Spark, `FAILFAST`": reading_pairs.by_spark,
    }  # fmt: skip
    if mode == "`dump --all`":
        done = command("dump", directory, "--all", "--json")
        return [each["offset"] for each in done.objects], done.code == 1 and bool(done.err)
    level, end = "read_committed", NO_END
    if "skip" in mode:
        return skipping(mode, directory, level)
    if mode in by:
        rows, told = by[mode](directory, level, 0, end, choose)
    else:
        rows, told = reading_pairs.spark_tasks(directory, level, 0, end, choose, mode.split("`")[1])
    return [row[0] for row in rows], told


def test_the_table_names_every_reader() -> None:
    text = (Path(__file__).parents[3] / "docs" / "findings.md").read_text(encoding="utf-8")
    table = text.split("| reader | after damage |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()[2:]]
    assert dict(rows) == MODES


def damaged_logs() -> dict[str, tuple[list[bytes], list[int], list[int]]]:
    """Kind of damage -> batches, the offsets up to it, and those that a reader gives that goes on."""
    plain = [damage.batch(number, [damage.record(0, value=b"v" * 9)]) for number in range(10)]
    inside = damage.with_crc(plain[4][:61] + b"\x7f" + plain[4][62:])
    rest = [number for number in range(10) if number != 4]
    around = {
        "bytes": broken(plain[4]), "magic": damage.with_crc(damage.put(plain[4], "magic", 3)),
        "displaced": damage.put(plain[4], "base_offset", 99), "inside": inside,
    }  # fmt: skip
    found = {kind: ([*plain[:4], each, *plain[5:]], [*range(4)], rest) for kind, each in around.items()}
    at = [0, 1, 2, 3, 5, 7, 9, 10]  # as compaction leaves them
    cleaned = [damage.batch(offset, [damage.record(0, value=b"v")]) for offset in at]
    cleaned[4] = damage.put(cleaned[4], "base_offset", 99)
    found["displaced between gaps"] = cleaned, [*range(4)], [0, 1, 2, 3, 7, 9, 10]
    undecided = [plain[0], *transaction(1, commit=True), *plain[6:]]
    undecided[5] = broken(undecided[5])
    return found | {"undecided": (undecided, [0], [0, 6, 7, 8, 9])}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "`serve`"])
@pytest.mark.parametrize("kind", ["bytes", "magic", "displaced", "displaced between gaps", "inside", "undecided"])
def test_each_reader_says_it_in_its_way(mode: str, kind: str, tmp_path: Path) -> None:
    batches, before, rest = damaged_logs()[kind]
    offsets, told = given_by(mode, partition_of(tmp_path, batches))
    assert told
    if mode == "`dump --all`":  # whatever is in the files
        assert set(offsets) >= set(rest)
    elif "FAILFAST" not in mode:
        assert offsets == (before if MODES[mode] == "stops" else rest)


def code_of(error: FormatError) -> FindingCode:
    assert error.finding is not None
    return error.finding.code


@pytest.mark.parametrize("kind", ["bytes", "magic", "displaced", "inside", "undecided"])
def test_damage_raises_with_its_finding_unless_a_caller_says_otherwise(kind: str, tmp_path: Path) -> None:
    """However it is read from Python: record by record, in columns, as a table of several partitions."""
    batches, before, _rest = damaged_logs()[kind]
    directory = partition_of(tmp_path, batches)
    partition, level = open_partition(directory), "read_committed"
    codes = set()
    offsets: list[int] = []
    with pytest.raises(FormatError) as raised:
        offsets += (each.offset for each in partition.records(kafkalog.RecordFilter(isolation_level=level)))
    codes.add(code_of(raised.value))
    for reader in (
        partition.to_arrow(["offset"], kafkalog.RecordFilter(isolation_level=level)),
        kafkalog.KafkaTable(
            kafkalog.TableScan(columns=["offset"], filter=kafkalog.RecordFilter(isolation_level=level)), str(directory)
        ).reader(),
    ):
        found: list[int] = []
        with pytest.raises((FormatError, pa.ArrowException)) as failed:
            found.extend(each for batch in reader for each in batch["offset"].to_pylist())
        assert found == before
        if isinstance(failed.value, FormatError):
            codes.add(code_of(failed.value))
    stopped = partition.records(kafkalog.RecordFilter(isolation_level=level), on_damage="stop")
    assert [each.offset for each in stopped] == before
    assert stopped.ended_by is not None
    assert codes == {stopped.ended_by.code}
    if kind not in ("inside", "undecided"):  # a walk opens no batch
        with pytest.raises(FormatError) as raised:
            list(partition.batches())
        assert code_of(raised.value) in codes
    with pytest.raises(UsageError, match="on_damage"):
        partition.records(on_damage="ignore")


@pytest.mark.parametrize("enough", [0, thresholds.ENOUGH_BYTES])
@pytest.mark.parametrize("kind", ["count", "swapped"])
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "`serve`"])
def test_what_a_consumer_reads_past_is_told_all_the_same(
    mode: str, kind: str, enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More records than the header has offsets for, or two batches swapped: Kafka's consumer reads on.

    So no reader ends there; by a finding where there is a list, else by a warning, each says so.
    """
    choose_execution(monkeypatch, enough)
    batches = [damage.batch(number, [damage.record(0)]) for number in range(6)]
    if kind == "count":
        two = damage.batch(2, [damage.record(0), damage.record(1)])
        batches[2:4] = [damage.with_crc(damage.put(two, "last_offset_delta", 0))]
    else:
        batches[2], batches[3] = batches[3], batches[2]
    directory = partition_of(tmp_path, batches)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        offsets, told = given_by(mode, directory)
    kept = [0, 1, 3, 4, 5] if kind == "swapped" else [*range(6)]
    if mode == "`dump --all`":  # whatever is in the files
        assert (sorted(set(offsets)), told) == ([*range(6)], True)
        return
    assert offsets == kept
    code = FindingCode.OFFSET_DISPLACED if kind == "swapped" else FindingCode.RECORDS_COUNT_INVALID
    reader = open_partition(directory).records(on_damage="stop")
    assert [each.offset for each in reader] == kept
    assert [each.code for each in reader.findings if each.severity is not Severity.INFO] == [code]
    if mode in ("`Consumer` and `follow`", "Spark, `FAILFAST`", "Spark, `PERMISSIVE`", "Spark, `DROPMALFORMED`"):
        assert [str(code) in str(each.message) for each in warned] == [True]
        assert not told
    elif mode == "`dump`":
        assert told


@pytest.mark.parametrize("every", [None, 1])
def test_a_raised_offset_where_compaction_left_gaps(every: int | None, tmp_path: Path) -> None:
    """However it is split, along the offset index too, which knows better than the header."""
    batches, before, _rest = damaged_logs()["displaced between gaps"]
    directory = partition_of(tmp_path, batches)
    at = [sum(map(len, batches[:number])) for number in range(len(batches))]
    entries = [(number, at[place]) for place, number in ((2, 2), (5, 7), (6, 9), (7, 10))]
    (directory / f"{0:020}.index").write_bytes(b"".join(struct.pack(">ii", *each) for each in entries))
    reader = open_partition(directory).records(on_damage="stop")
    assert [each.offset for each in reader] == before
    options = {"path": str(directory)} | ({} if every is None else {"maxPartitionBytes": str(every)})
    source = LogReader(parse_options(options), Layout(names=("offset",), corrupt=None))
    with pytest.raises(FormatError, match="offset 99 where 4 should come, and 7 follows"):
        _ = [batch for task in source.partitions() for batch in source.read(task)]


@pytest.mark.parametrize("enough", [0, thresholds.ENOUGH_BYTES])
def test_batches_that_come_too_late_are_told_and_not_given(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's consumer drops what lies below the offset that it wants next: `CompletedFetch`."""
    choose_execution(monkeypatch, enough)
    plain = [damage.batch(number, [damage.record(0)]) for number in range(5)]
    directory = partition_of(tmp_path, [plain[0], plain[2], plain[1], *plain[3:]])
    reader = open_partition(directory).records(on_damage="stop")
    assert [each.offset for each in reader] == [0, 2, 3, 4]
    listed: list[Finding] = []
    table = open_partition(directory).to_arrow(["offset"], findings=listed, on_damage="stop").read_all()
    assert table["offset"].to_pylist() == [0, 2, 3, 4]
    for findings in (reader.findings, listed, kafkalog.verify(directory).findings):
        told = [each for each in findings if each.code is FindingCode.OFFSET_DISPLACED]
        assert [(each.severity, each.position, each.offset) for each in told] == [(Severity.WARNING, len(plain[0]), 2)]
    assert command("verify", directory).code == 1


@pytest.mark.parametrize("enough", [0, thresholds.ENOUGH_BYTES])
def test_nothing_is_told_of_batches_after_the_damage_that_ends_reading(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch whose record is damaged, and after it two swapped ones."""
    choose_execution(monkeypatch, enough)
    plain = [damage.batch(number, [damage.record(0)]) for number in range(6)]
    plain[1] = damage.with_crc(plain[1][:-1] + b"\x10")
    directory = partition_of(tmp_path, [plain[0], plain[1], plain[3], plain[2], *plain[4:]])
    listed: list[Finding] = []
    table = open_partition(directory).to_arrow(["offset"], findings=listed, on_damage="stop").read_all()
    reader = open_partition(directory).records(on_damage="stop")
    assert table["offset"].to_pylist() == [each.offset for each in reader] == [0]
    assert len(listed) == 1
    assert [each.code for each in listed] == [each.code for each in reader.findings]


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
@pytest.mark.parametrize(
    "wrong",
    [
        *([(2, claimed), (4, claimed)] for claimed in (2**31 + 7, 2**62, 2**63 - 1)),
        [(2, 2**31 + 7), (4, 2**31 + 9)],  # the third is not between these: the first proves nothing
    ],
)
@pytest.mark.parametrize("end", [None, 9, 20])
def test_offsets_that_no_segment_has_end_no_reading_through_damage(
    end: int | None, wrong: list[tuple[int, int]], enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches whose base offsets were changed, and a segment after them."""
    choose_execution(monkeypatch, enough)
    plain = [damage.batch(number, [damage.record(0)]) for number in range(12)]
    for number, offset in wrong:
        plain[number] = damage.put(plain[number], "base_offset", offset)
    directory = partition_of(tmp_path, plain[:6])
    (directory / f"{6:020}.log").write_bytes(b"".join(plain[6:]))
    wanted = kafkalog.RecordFilter(end_offset=end)
    given = [each.offset for each in open_partition(directory).records(wanted, on_damage="skip")]
    listed: list[Finding] = []
    table = open_partition(directory).to_arrow(["offset"], wanted, findings=listed, on_damage="skip").read_all()
    assert table["offset"].to_pylist() == given
    assert given == [0, 1, 3, *range(5, 9 if end == 9 else 12)]
    assert len([each for each in listed if each.code is not FindingCode.SEGMENT_OVERLAP]) == 2


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_a_record_with_the_offset_of_a_batch_that_was_passed_is_read_by_all_readers(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second batch has a wrong base offset, but takes offset 1; the third holds a record that claims it too."""
    choose_execution(monkeypatch, enough)
    plain = [damage.batch(number, [damage.record(0)]) for number in range(4)]
    plain[1] = damage.put(plain[1], "base_offset", 9)
    plain[2] = damage.batch(2, [damage.record(-1), damage.record(0)])
    directory = partition_of(tmp_path, plain)
    table = open_partition(directory).to_arrow(["offset"], findings=[], on_damage="skip").read_all()
    given = [each.offset for each in open_partition(directory).records(on_damage="skip")]
    assert table["offset"].to_pylist() == given == [0, 1, 2]  # the third batch takes 2 and 3


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_a_range_below_the_log_start_meets_no_damage(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough)
    directory = partition_of(tmp_path, [broken(damage.batch(0, [damage.record(0)]))])
    (directory / f"{0:020}.log").rename(directory / f"{20:020}.log")
    below = kafkalog.RecordFilter(start_offset=2, end_offset=11)
    assert list(open_partition(directory).records(below)) == []
    assert open_partition(directory).to_arrow(["offset"], below).read_all().num_rows == 0
    assert list(kafkalog.KafkaTable(kafkalog.TableScan(filter=below), tmp_path).read()) == []


@pytest.mark.filterwarnings("ignore:.*9 records")
@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_a_log_start_above_the_log_end_is_told_beside_a_header_that_ends_no_reading(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough)
    plain = [damage.batch(number, [damage.record(0)]) for number in range(4)]
    plain[2] = damage.with_crc(damage.put(plain[2], "records_count", 9))
    directory = partition_of(tmp_path, plain)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    for reader in (open_partition(directory).records(), open_partition(directory).to_arrow()):
        with pytest.raises(FormatError, match="the log start offset 7 lies above the log end offset 4"):
            list(reader)


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_a_copy_of_a_segment_under_an_earlier_name_hides_no_record_of_it(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy's batches seem to lie before the segment, where they would reach far into its offsets."""
    choose_execution(monkeypatch, enough)
    batches = [damage.batch(number, [damage.record(0)]) for number in range(6, 12)]
    directory = partition_of(tmp_path, [damage.batch(number, [damage.record(0)]) for number in range(4)])
    for base in (4, 6):
        (directory / f"{base:020}.log").write_bytes(b"".join(batches))
    listed: list[Finding] = []
    table = open_partition(directory).to_arrow(["offset"], findings=listed, on_damage="skip").read_all()
    given = [each.offset for each in open_partition(directory).records(on_damage="skip")]
    assert table["offset"].to_pylist() == given == [0, 1, 2, 3, *range(6, 12)]
    assert {each.code for each in listed} == {FindingCode.OFFSET_DISPLACED}


@pytest.mark.parametrize("claimed", [2**31 + 7, 2**62])
def test_a_time_is_found_behind_a_batch_with_an_offset_that_no_segment_has(claimed: int, tmp_path: Path) -> None:
    """A bound of time gives the records that the same bound gives after reading everything."""
    plain = [damage.batch(each, [damage.record(0)], damage.Header(timestamp=1000 + each)) for each in range(8)]
    plain[3] = damage.put(plain[3], "base_offset", claimed)
    directory = partition_of(tmp_path, plain)
    times = [(each.offset, each.timestamp) for each in open_partition(directory).records(on_damage="skip")]
    assert [offset for offset, _ in times] == [0, 1, 2, 4, 5, 6, 7]
    for start in sorted({time for _, time in times}):
        wanted = kafkalog.RecordFilter(start_timestamp=start)
        given = [each.offset for each in open_partition(directory).records(wanted, on_damage="skip")]
        assert given == [offset for offset, time in times if time >= start]
        with pytest.raises(FormatError):
            list(open_partition(directory).records(wanted))


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_batches_below_the_name_of_their_segment_are_told_by_all_readers(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first segment has too high a name: the log begins there, and its first records are below."""
    choose_execution(monkeypatch, enough)
    directory = partition_of(tmp_path, [damage.batch(number, [damage.record(0)]) for number in range(6)])
    (directory / f"{0:020}.log").rename(directory / f"{2:020}.log")
    listed: list[Finding] = []
    table = open_partition(directory).to_arrow(["offset"], findings=listed).read_all()
    reader = open_partition(directory).records()
    assert table["offset"].to_pylist() == [each.offset for each in reader] == [2, 3, 4, 5]
    below = {FindingCode.OFFSET_BELOW_SEGMENT}
    assert {each.code for each in listed} == {each.code for each in reader.findings} == below


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("base", [2, 4, 7])
def test_a_wrapper_that_begins_below_the_name_of_its_segment_is_told_by_all_readers(
    base: int, magic: int, enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its header has its last offset alone, which is not below."""
    choose_execution(monkeypatch, enough)
    wrappers = []
    for first in range(0, 15, 3):
        inner = [message(first + at if magic == 0 else at, magic=magic) for at in range(3)]
        packed = gzip.compress(b"".join(inner))
        wrappers.append(message(first + 2, None, packed, magic=magic, attributes=1))
    directory = partition_of(tmp_path, wrappers)
    (directory / f"{0:020}.log").rename(directory / f"{base:020}.log")
    listed: list[Finding] = []
    table = open_partition(directory).to_arrow(["offset"], findings=listed).read_all()
    reader = open_partition(directory).records()
    assert table["offset"].to_pylist() == [each.offset for each in reader] == [*range(base, 15)]
    below = [(FindingCode.OFFSET_BELOW_SEGMENT, first) for first in (2, 5) if first < base]
    below.append((FindingCode.OFFSET_BELOW_SEGMENT, base // 3 * 3))
    assert [(each.code, each.offset) for each in listed] == below
    assert [(each.code, each.offset) for each in reader.findings] == below


def _marker_of_no_version() -> bytes:
    marker = damage.record(0, key=b"\xff\xff\0\x01", value=bytes(6))
    return damage.batch(3, [marker], damage.Header(attributes=0x30, producer_id=7, producer_epoch=0))


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
@pytest.mark.parametrize("on_damage", ["stop", "skip"])
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("partition_leader_epoch", 9, FindingCode.LEADER_EPOCH_DECREASES),
        ("last_offset_delta", 30, FindingCode.SEGMENT_OVERLAP),
        ("last_offset_delta", -2, FindingCode.LAST_OFFSET_DELTA_INVALID),
        ("attributes", 5, FindingCode.CODEC_UNKNOWN),
        ("records_count", -1, FindingCode.RECORDS_COUNT_INVALID),
        ("magic", 7, FindingCode.MAGIC_UNKNOWN),
        (None, 0, FindingCode.CONTROL_RECORD_INVALID),
    ],
)
def test_records_and_columns_have_the_same_findings_about_a_header(
    field: str | None, value: int, code: FindingCode, on_damage: str, enough: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    choose_execution(monkeypatch, enough)
    batches = [damage.batch(number, [damage.record(0)], damage.Header(leader_epoch=1)) for number in range(12)]
    batches[3] = _marker_of_no_version() if field is None else damage.with_crc(damage.put(batches[3], field, value))
    directory = partition_of(tmp_path, batches[:8])
    (directory / f"{8:020}.log").write_bytes(b"".join(batches[8:]))
    filter = kafkalog.RecordFilter(isolation_level="read_committed")
    reader = open_partition(directory).records(filter, on_damage=on_damage)
    offsets = [each.offset for each in reader]
    for threads in (1, 2):
        listed: list[Finding] = []
        columns = open_partition(directory).to_arrow(
            ["offset"], filter, on_damage=on_damage, findings=listed, threads=threads
        )
        assert columns.read_all()["offset"].to_pylist() == offsets
        told = [(each.code, each.file, each.position) for each in listed]
        assert sorted(told) == sorted((each.code, each.file, each.position) for each in reader.findings)
        assert code in {each.code for each in listed}


@pytest.mark.parametrize(
    ("field", "value", "wanted", "first"),
    [
        ("max_timestamp", 1001, kafkalog.RecordFilter(start_timestamp=1001), 1),
        ("max_timestamp", 1001, kafkalog.RecordFilter(start_timestamp=1002), 3),
        ("last_offset_delta", 1, kafkalog.RecordFilter(start_offset=1), 1),
        ("last_offset_delta", 1, kafkalog.RecordFilter(start_offset=2), 3),
    ],
)
def test_a_bound_goes_by_what_headers_claim_as_in_a_broker(
    field: str, value: int, wanted: kafkalog.RecordFilter, first: int, tmp_path: Path
) -> None:
    """What Kafka 4.1 has for `FileRecords.searchForTimestamp` and `searchForOffsetFromPosition` of the same bytes."""
    records = [damage.record(delta, ts=delta) for delta in range(3)]
    batches = [damage.batch(3 * number, records, damage.Header(timestamp=1000 + 10 * number)) for number in range(3)]
    batches = [damage.with_crc(damage.put(each, "max_timestamp", 1002 + 10 * n)) for n, each in enumerate(batches)]
    batches[0] = damage.with_crc(damage.put(batches[0], field, value))
    directory = partition_of(tmp_path, batches)
    offsets = [each.offset for each in open_partition(directory).records(wanted)]
    assert offsets == [*range(first, 9)]
    table = open_partition(directory).to_arrow(["offset"], wanted, findings=[]).read_all()
    assert table["offset"].to_pylist() == offsets


def test_a_fault_that_a_consumer_reads_past_hides_no_record_of_a_time(tmp_path: Path) -> None:
    batches = [
        damage.batch(number, [damage.record(0)], damage.Header(timestamp=1000 + number, leader_epoch=1))
        for number in range(6)
    ]
    batches[3] = damage.put(batches[3], "partition_leader_epoch", 9)
    reader = open_partition(partition_of(tmp_path, batches)).records(kafkalog.RecordFilter(start_timestamp=1004))
    assert [each.offset for each in reader] == [4, 5]


@pytest.mark.compiled
def test_threads_tell_a_leader_epoch_that_decreases_between_their_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, 0)
    monkeypatch.setattr(to_arrow, "_LEAST_BYTES", 1000)
    monkeypatch.setattr(to_arrow, "_SHARED_BYTES", 2000)
    values = [[damage.record(0, value=bytes(300))] for _ in range(60)]
    batches = [
        damage.batch(number, each, damage.Header(leader_epoch=2 if number < 30 else 1))
        for number, each in enumerate(values)
    ]
    directory = partition_of(tmp_path, batches)
    found = []
    for threads in (1, 2):
        listed: list[Finding] = []
        open_partition(directory).to_arrow(["offset"], findings=listed, threads=threads).read_all()
        found.append([(each.code, each.position, each.detail) for each in listed])
    assert len(found[0]) == 30
    assert found[0] == found[1]


def test_a_batch_of_wrong_length_is_no_torn_tail_before_one_of_impossible_count(tmp_path: Path) -> None:
    """It is whole with one bit of its length turned over, and what was written after it has a right checksum."""
    plain = [damage.batch(number, [damage.record(0)]) for number in range(4)]
    plain[2] = damage.put(plain[2], "batch_length", damage.get(plain[2], "batch_length") ^ 1 << 27)
    plain[3] = damage.with_crc(damage.put(plain[3], "records_count", 5))
    reader = open_partition(partition_of(tmp_path, plain)).records(on_damage="stop")
    assert [each.offset for each in reader] == [0, 1]
    assert reader.ended_by is not None
    assert reader.ended_by.code is FindingCode.BATCH_SIZE_INVALID


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
def test_a_transaction_that_is_open_behind_damage_hides_no_damage(mode: str, tmp_path: Path) -> None:
    """It begins with the very offset that should come where the damage is."""
    batches = [damage.batch(number, [damage.record(0)]) for number in range(3)]
    late = damage.batch(3, [damage.record(0)], DATA)
    directory = partition_of(tmp_path, [*batches, bytes(len(late)), late])
    rows, told = reading_pairs.spark_tasks(directory, "read_committed", 0, NO_END, random.Random(1), mode)
    assert [row[0] for row in rows] == [0, 1, 2]
    assert told or mode != "FAILFAST"


def test_a_record_beyond_what_its_batch_claims_is_given_however_it_is_split(tmp_path: Path) -> None:
    """A cut between two batches is one of bytes; Kafka's consumer gets such a record too."""
    batches = [damage.batch(number, [damage.record(0)]) for number in range(9)]
    batches[2] = damage.batch(2, [damage.record(4)])
    batches[2] = damage.with_crc(damage.put(batches[2], "last_offset_delta", 0))
    directory = partition_of(tmp_path, batches)
    for most in ("1", "3"):
        source = LogReader(parse_options({"path": str(directory), "maxRecordsPerPartition": most}),
                           Layout(names=("offset",), corrupt=None))  # fmt: skip
        tables = [batch["offset"].to_pylist() for task in source.partitions() for batch in source.read(task)]
        assert [each for some in tables for each in some] == [0, 1, 6, 3, 4, 5, 6, 7, 8]


@pytest.mark.compiled
def test_records_larger_than_a_part_are_not_held_until_the_end() -> None:
    schema = record_schema(["offset", "value"], "view")
    decoder = BatchDecoder(schema, "t", 0, DEFAULT_LIMITS, 10, 1 << 10)
    held = []
    for number in range(5):
        (batch,) = scan(damage.batch(number, [damage.record(0, value=bytes(1 << 20))])).batches
        (made,) = decoder.decode(Part(batch, 0, 100, batch.payload))
        assert isinstance(made, pa.RecordBatch)
        assert made.num_rows == 1
        held.append(len(decoder._builder.buffers._viewed))
    assert max(held) <= 1


def test_looking_up_every_partition_goes_through_them_once(tmp_path: Path) -> None:
    class Counted(tuple[Any, ...]):
        walks = 0

        def __iter__(self) -> Iterator[Any]:
            Counted.walks += 1
            return super().__iter__()

    for number in range(20):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / f"{0:020}.log").write_bytes(b"")
    opened = kafkalog.open(tmp_path)
    log_dir = replace(opened, partitions=Counted(opened.partitions))
    assert [log_dir[key].partition for key in log_dir] == [key[1] for key in log_dir]
    assert Counted.walks <= 4
