"""Exports: every record once, with its values, whatever the format and however often; what does not go together."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafkalog
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.log import open_all
from kafkalog.tables import exporting
from kafkalog.tables.data_files import PartitionFiles
from kafkalog.tables.rows import TopicRows
from testkit.judging.table_rows import (
    DAY,
    FORMATS,
    START,
    add,
    iceberg,
    in_log,
    of_manifest,
    places,
    records,
    table,
    topic,
)
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import expected_values, unpack_values
from testkit.recorded.said_values import pylist, said, same
from testkit.running.command import kafkalog as run

every_format = pytest.mark.parametrize("format", FORMATS)
parquet_first = pytest.mark.parametrize(
    "format", ["parquet", *(pytest.param(each, marks=pytest.mark.sweep) for each in FORMATS if each != "parquet")]
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_values(tmp_path_factory.mktemp("values"))


@parquet_first
def test_every_recorded_value(format: str, recorded: Path, tmp_path: Path) -> None:
    result = kafkalog.export(kafkalog.Export(format=format), recorded, target=tmp_path / "out", jobs=2)
    wanted = {(each["topic"], each["partition"], each["offset"]): each for each in expected_values()}
    assert sum(each.records for each in result.partitions) == len(wanted)
    same_values = 0
    for name in sorted({each.topic for each in result.partitions}):
        found = table(tmp_path / "out", format, name)
        columns = {
            each: pylist(found[each].combine_chunks())
            for each in ("partition", "offset", "key", "value", "key_bytes", "value_bytes", "finding")
        }
        for number in range(len(found)):
            row = {each: values[number] for each, values in columns.items()}
            line = wanted.pop((name, row["partition"], row["offset"]))
            same_values += sum(_is_same(line, row, part, found.schema.field(part).type) for part in ("key", "value"))
    assert not wanted
    assert same_values > 900


def _is_same(line: dict[str, Any], row: dict[str, Any], part: str, type: pa.DataType) -> bool:
    """Whether a value that decodes is the recorded one; others have their bytes and a finding."""
    where = (line["topic"], line["offset"], part)
    if row[f"{part}_bytes"] is not None:
        assert row[part] is None, where
        assert row["finding"], where
        (record,) = _partition_of(line).records(
            kafkalog.RecordFilter(start_offset=line["offset"], end_offset=line["offset"] + 1)
        )
        assert row[f"{part}_bytes"] == getattr(record, part), where
        return False
    if part == "value" and (line.get("any") or line["topic"] == "evolving-onyx"):
        return False
    found = said(row[part], type)
    is_text = pa.types.is_string(type) or pa.types.is_large_string(type)
    if is_text and not isinstance(line[part], str | None):
        found = json.loads(found)
    assert same(line[part], found), (where, line[part], found)
    return True


def _partition_of(line: dict[str, Any]) -> kafkalog.Partition:
    found: kafkalog.Partition = _OPEN["data"][line["topic"], line["partition"]]
    return found


_OPEN: dict[str, Any] = {}


@pytest.fixture(autouse=True, scope="module")
def _opened(recorded: Path) -> None:
    _OPEN["data"] = kafkalog.open(recorded)


@every_format
def test_again_and_again_each_record_once(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [95, 40]), tmp_path / "out"
    first = kafkalog.export(
        kafkalog.Export(format=format, filter=kafkalog.RecordFilter(end_offset=33)), data, target=out, jobs=2
    )
    assert [(each.first_offset, each.next_offset, each.records) for each in first.partitions] == [(0, 33, 33)] * 2
    second = kafkalog.export(kafkalog.Export(format=format), data, target=out, jobs=2)
    assert [(each.first_offset, each.next_offset) for each in second.partitions] == [(33, 95), (33, 40)]
    assert not any(
        each.records for each in kafkalog.export(kafkalog.Export(format=format), data, target=out).partitions
    )
    with kafkalog.Log.open(data / "orders-1") as log:
        add(log, records(20, 40))
    topic(data, [0, 0, 5])
    third = kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert [each.records for each in third.partitions] == [0, 20, 5]
    assert places(out, format) == in_log(data)
    values = sorted(json.loads(each)["n"] for each in table(out, format)["value"].to_pylist())
    assert values == sorted([*range(95), *range(60), *range(5)])


@every_format
def test_where_an_export_begins_and_ends(format: str, tmp_path: Path) -> None:
    """Starts count once; ends always."""
    data, out = topic(tmp_path / "data", [90]), tmp_path / "out"
    bounds = kafkalog.RecordFilter(start_timestamp=START + 20_000, end_timestamp=START + 50_000)
    kafkalog.export(kafkalog.Export(format=format, filter=bounds), data, target=out)
    assert places(out, format) == [(0, n) for n in range(20, 50)]
    kafkalog.export(kafkalog.Export(format=format, filter=kafkalog.RecordFilter(start_offset=80)), data, target=out)
    assert places(out, format) == [(0, n) for n in range(20, 90)]


def test_times_are_those_of_the_first_record_that_reaches_them_and_help_says_so(tmp_path: Path) -> None:
    """Records whose times are not in order: later ones may be older."""
    times = [100, 300, 200, 400, 250]
    made = [Record(number, time, TimestampType.CREATE_TIME, None, b"v") for number, time in enumerate(times)]
    (tmp_path / "data" / "t-0").mkdir(parents=True)
    (tmp_path / "data" / "t-0" / f"{0:020}.log").write_bytes(build_batch(made))
    to = str(tmp_path / "out")
    bounds = ("--start-time", "250", "--end-time", "350")
    run("export", str(tmp_path / "data"), "--format", "parquet", "--to", to, "--values", "bytes", *bounds)
    assert table(tmp_path / "out", "parquet", "t")["offset"].to_pylist() == [1, 2]
    words = " ".join(run("export", "--help").out.split())
    assert "Only from the first record on that is at or after this time" in words
    assert "Only up to the first record (exclusive) that is at or after this time" in words


@every_format
def test_rows_go_to_the_day_that_they_are_of(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [30], every=DAY // 10), tmp_path / "out"
    with kafkalog.Log.open(data / "orders-0") as log:  # as late, as early and as hostile as times can be
        for time in (START, -1, 2**62, 253_402_300_800_000):
            log.append([kafkalog.NewRecord(b"x", b"k", time)])
    kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert places(out, format) == in_log(data)
    if format == "iceberg":
        files = [each.file for each in iceberg(out).scan().plan_files()]
        assert {-1, None} <= {each.partition[1] for each in files}
        later = iceberg(out).scan(row_filter="timestamp >= '2023-11-17T00:00:00+00:00'").plan_files()
        assert len(list(later)) < len(files)
        return
    folder = out / ("orders" if format == "delta" else "topic=orders")
    names = {each.parent.name for each in folder.rglob("*.parquet")}
    assert {"date=1969-12-31", "date=__HIVE_DEFAULT_PARTITION__", "date=2023-11-14"} <= names


@every_format
def test_without_days(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [30], every=DAY), tmp_path / "out"
    result = kafkalog.export(kafkalog.Export(format=format, by_day=False), data, target=out)
    assert [each.files for each in result.partitions] == [1]
    assert places(out, format) == in_log(data)
    with pytest.raises(kafkalog.RecoveryRefused, match="division by day"):
        kafkalog.export(kafkalog.Export(format=format), data, target=out)


def test_times_from_day_to_day_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkalog.tables import data_files

    monkeypatch.setattr(data_files, "_MOST_OPEN", 3)
    data = topic(tmp_path / "data", [0])
    with kafkalog.Log.open(data / "orders-0") as log:
        for n in range(40):
            log.append([kafkalog.NewRecord(b"x", b"k", START + n % 8 * DAY)])
    assert [
        each.files
        for each in kafkalog.export(kafkalog.Export(format="parquet"), data, target=tmp_path / "out").partitions
    ] == [8]
    monkeypatch.setattr(data_files, "_MOST_FILES", 4)
    with pytest.raises(kafkalog.UsageError, match="without dates"):
        kafkalog.export(kafkalog.Export(format="parquet"), data, target=tmp_path / "other")
    assert not list((tmp_path / "other").rglob("*.parquet*"))


@every_format
def test_only_what_was_committed(format: str, tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/txn")[:1]
    names = {each.topic for each in kafkalog.open_all(broker).partitions if each.topic and each.topic[0] != "_"}
    for level in ("read_committed", "read_uncommitted"):
        out = tmp_path / level
        kafkalog.export(
            kafkalog.Export(format=format, values="bytes", filter=kafkalog.RecordFilter(isolation_level=level)),
            broker,
            target=out,
        )
        for name in sorted(names):
            wanted = in_log(broker, name, level)
            assert (places(out, format, name) if wanted else []) == wanted
    with pytest.raises(kafkalog.RecoveryRefused, match="isolation level read_uncommitted"):
        kafkalog.export(kafkalog.Export(format=format, values="bytes"), broker, target=tmp_path / "read_uncommitted")


def test_an_open_transaction_is_told_and_exported_when_it_is_decided(tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    producer = kafkalog.ProducerState(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    with kafkalog.Log.open(data / "orders-0") as log:
        log.append(records(3, 5), producer=producer)
        log.append(records(2, 8))
    (first,) = kafkalog.export(kafkalog.Export(format="parquet"), data, target=out).partitions
    assert (first.next_offset, first.records) == (5, 5)
    assert "offset 5" in (first.open_transaction or "")
    shown = run("export", data, "--to", out, "--format", "parquet")
    assert (shown.code, "orders-0: " in shown.err) == (0, True)
    with kafkalog.Log.open(data / "orders-0") as log:
        log.end_transaction(7, 0, commit=True)
    (second,) = kafkalog.export(kafkalog.Export(format="parquet"), data, target=out).partitions
    assert (second.records, second.open_transaction) == (5, None)
    assert places(out, "parquet") == in_log(data)


@every_format
def test_an_export_ends_at_damage_and_goes_on_when_it_is_repaired(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [60]), tmp_path / "out"
    (path,) = sorted((data / "orders-0").glob("*.log"))[:1]
    whole = path.read_bytes()
    torn = bytearray(whole)
    torn[torn.index(b'{"n": 15}')] ^= 1
    path.write_bytes(bytes(torn))
    result = kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert [each.code for each in result.findings] == [FindingCode.CRC_MISMATCH]
    assert 0 < len(places(out, format)) < 60
    again = kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert [each.code for each in again.findings] == [FindingCode.CRC_MISMATCH]
    path.write_bytes(whole)
    assert kafkalog.export(kafkalog.Export(format=format), data, target=out).findings == []
    assert places(out, format) == in_log(data)


def test_damage_is_told_if_a_round_is_full_just_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_ROWS_OF_A_ROUND", 2)
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "t-0") as log:
        for number in range(4):
            log.append([b"%d" % number])
    path = tmp_path / "data" / "t-0" / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[list(kafkalog.open_partition(path.parent).batches())[2].position + 65] ^= 1
    path.write_bytes(content)
    wanted = kafkalog.Export(format="parquet", select=kafkalog.Selection.of(["t"]))
    result = kafkalog.export(wanted, tmp_path / "data", target=tmp_path / "table")
    assert [(each.records, each.next_offset) for each in result.partitions] == [(2, 2)]
    assert {each.code for each in result.findings} == {FindingCode.CRC_MISMATCH}


@pytest.mark.parametrize("damage", ["cut", "inside a batch", "size"])
def test_what_is_cut_while_an_export_runs_is_not_taken_for_exported(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the log was planned before that."""
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "t-0") as log:
        for number in range(4):
            log.append([b"%d" % number * 50])
    path = tmp_path / "data" / "t-0" / f"{0:020}.log"
    content = path.read_bytes()
    last = list(kafkalog.open_partition(path.parent).batches())[-1].position
    reading = TopicRows.read

    def read_after_damage(*arguments: Any) -> Any:
        changed = content[:last] if damage == "cut" else content[:-1]
        path.write_bytes(changed if damage != "size" else content[: last + 8] + b"\x7f" + content[last + 9 :])
        return reading(*arguments)

    monkeypatch.setattr(TopicRows, "read", read_after_damage)
    wanted = kafkalog.Export(format="parquet", select=kafkalog.Selection.of(["t"]))
    result = kafkalog.export(wanted, tmp_path / "data", target=tmp_path / "table")
    assert [each.next_offset for each in result.partitions] == [3]
    assert result.findings
    monkeypatch.undo()
    path.write_bytes(content)
    result = kafkalog.export(wanted, tmp_path / "data", target=tmp_path / "table")
    assert [(each.records, each.next_offset) for each in result.partitions] == [(1, 4)]


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_what_is_appended_after_the_log_was_listed_is_exported_once(
    isolation_level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, appended = topic(tmp_path / "data", [20]), [(7, 20), (3, 27)]

    def append_after_listing(*paths: Any) -> Any:
        listed = open_all(*paths)
        with kafkalog.Log.open(data / "orders-0") as log:
            add(log, records(*appended.pop(0)))
        return listed

    monkeypatch.setattr(exporting, "open_all", append_after_listing)
    wanted = kafkalog.Export(format="parquet", filter=kafkalog.RecordFilter(isolation_level=isolation_level))
    ends = [kafkalog.export(wanted, data, target=tmp_path / "out").partitions[0].next_offset for _ in range(2)]
    monkeypatch.undo()
    assert ends == [27, 30]
    assert places(tmp_path / "out", "parquet") == in_log(data)


def test_damage_is_told_where_it_leaves_undecided_what_the_table_has_the_beginning_of(tmp_path: Path) -> None:
    """An export reads on from its table's end, and nobody can tell whether what comes there was committed."""
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    producer = kafkalog.ProducerState(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    with kafkalog.Log.open(data / "orders-0") as log:
        log.append(records(3, 5), producer=producer)
        log.end_transaction(7, 0, commit=True)
        log.append(records(4, 9))
    (first,) = kafkalog.export(
        kafkalog.Export(format="parquet", filter=kafkalog.RecordFilter(end_offset=7)), data, target=out
    ).partitions
    assert (first.records, first.next_offset) == (7, 7)
    path = max(each for each in (data / "orders-0").glob("*.log") if int(each.stem) <= 8)
    whole = path.read_bytes()
    (marker,) = [each for each in kafkalog.open_segment(path).batches() if each.header.first_offset == 8]
    path.write_bytes(whole[: marker.position + 30] + b"!" + whole[marker.position + 31 :])
    result = kafkalog.export(kafkalog.Export(format="parquet"), data, target=out)
    assert [(each.code, each.offset) for each in result.findings] == [(FindingCode.TRANSACTION_UNDECIDED, 5)]
    assert [each.records for each in result.partitions] == [0]
    assert run("export", data, "--to", out, "--format", "parquet").code == 1
    assert (
        kafkalog.export(
            kafkalog.Export(format="parquet", filter=kafkalog.RecordFilter(end_offset=7)), data, target=out
        ).findings
        == []
    )
    path.write_bytes(whole)
    assert kafkalog.export(kafkalog.Export(format="parquet"), data, target=out).findings == []
    assert places(out, "parquet") == in_log(data)


def test_an_export_whose_table_reaches_behind_damage_goes_on(tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    with kafkalog.Log.open(data / "orders-0") as log:
        for number, commit in ((7, True), (8, False), (9, True)):
            log.append(
                records(3, log.end_offset),
                producer=kafkalog.ProducerState(
                    producer_id=number, producer_epoch=0, base_sequence=0, is_transactional=True
                ),
            )
            log.end_transaction(number, 0, commit=commit)
            log.roll()
        log.append(records(4, log.end_offset))
    kafkalog.export(kafkalog.Export(format="parquet", filter=kafkalog.RecordFilter(end_offset=9)), data, target=out)
    path = max(each for each in (data / "orders-0").glob("*.log") if int(each.stem) <= 8)
    whole = path.read_bytes()
    (marker,) = [each for each in kafkalog.open_segment(path).batches() if each.header.first_offset == 8]
    path.write_bytes(whole[: marker.position + 30] + b"!" + whole[marker.position + 31 :])
    assert kafkalog.export(kafkalog.Export(format="parquet"), data, target=out).findings == []
    path.write_bytes(whole)
    assert places(out, "parquet") == in_log(data)


@every_format
def test_a_log_that_has_lost_records_the_table_has_not(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [60]), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format=format, filter=kafkalog.RecordFilter(end_offset=20)), data, target=out)
    with kafkalog.Log.open(data / "orders-0") as log:
        log.delete_records_before(30)
    with pytest.raises(kafkalog.RecoveryRefused, match="begins at offset 30, and the table has records up to 19"):
        kafkalog.export(kafkalog.Export(format=format), data, target=out)
    kafkalog.export(kafkalog.Export(format=format, accept_loss=True), data, target=out)
    assert places(out, format) == [(0, n) for n in (*range(20), *range(30, 60))]


@every_format
def test_a_log_that_was_cut(format: str, tmp_path: Path) -> None:
    """A shorter one is told of; one that was written anew by a later leader is refused, as a consumer would."""
    data, out = topic(tmp_path / "data", [60]), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format=format), data, target=out)
    before = tmp_path / "before"
    shutil.copytree(data, before)
    with kafkalog.Log.open(data / "orders-0") as log:
        log.truncate_to(40)
    result = kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert [each.code for each in result.findings] == [FindingCode.OFFSET_BEYOND_LOG_END]
    with kafkalog.Log.open(data / "orders-0") as log:
        log.append(records(50, 1000), leader_epoch=5)
    with pytest.raises(kafkalog.RecoveryRefused, match="other records from offset 40 on"):
        kafkalog.export(kafkalog.Export(format=format), data, target=out)
    (data / "orders-0" / "leader-epoch-checkpoint").unlink()
    with pytest.raises(kafkalog.RecoveryRefused, match="other records from offset 40 on"):
        kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert places(out, format) == in_log(before)


@every_format
def test_a_topic_that_was_made_anew(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [20]), tmp_path / "out"
    for id in ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"):
        (data / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {id}\n")
        if id.endswith("Q"):
            kafkalog.export(
                kafkalog.Export(format=format, filter=kafkalog.RecordFilter(end_offset=10)), data, target=out
            )
    with pytest.raises(kafkalog.RecoveryRefused, match="deleted and recreated"):
        kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert len(places(out, format)) == 10


def test_partitions_of_two_topics_of_one_name_are_refused_at_first(tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [20, 20]), tmp_path / "out"
    metadata = data / "orders-1" / "partition.metadata"
    same = metadata.read_text()
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")
    with pytest.raises(kafkalog.RecoveryRefused, match=r"orders-1 is of a topic with id .* another partition has id"):
        kafkalog.export(kafkalog.Export(format="parquet"), data, target=out)
    metadata.write_text(same)
    kafkalog.export(kafkalog.Export(format="parquet"), data, target=out)
    assert places(out, "parquet") == in_log(data)


@every_format
def test_copies_of_a_topic_are_one(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [60]), tmp_path / "out"
    shutil.copytree(data, tmp_path / "copy")
    with pytest.raises(kafkalog.UsageError, match="two directories"):
        kafkalog.export(kafkalog.Export(format=format), data, tmp_path / "copy", target=out)
    kafkalog.export(kafkalog.Export(format=format, filter=kafkalog.RecordFilter(end_offset=30)), data, target=out)
    kafkalog.export(kafkalog.Export(format=format), tmp_path / "copy", target=out)
    assert places(out, format) == in_log(data)


@every_format
def test_compaction_between_two_exports(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [200], in_a_batch=5), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format=format, filter=kafkalog.RecordFilter(end_offset=100)), data, target=out)
    with kafkalog.Log.open(data / "orders-0", kafkalog.LogConfig(segment_bytes=4000)) as log:
        log.roll()
        log.compact()
    left = in_log(data)
    assert len(left) < 100
    kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert places(out, format) == sorted({*((0, n) for n in range(100)), *(each for each in left if each[1] >= 100)})


SCHEMAS: list[dict[str, Any]] = [
    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, {"name": "who", "type": "string"}]},
    {"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "int"}, {"name": "who", "type": "string"},
        {"name": "amount", "type": ["null", "double"], "default": None},
        {"name": "at", "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "long"}]},
         "default": {"x": 0}},
    ]},
    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}]},
    {"type": "record", "name": "Order", "fields": [{"name": n, "type": "string"} for n in ("id", "who")]},
]  # fmt: skip


def _registry(*versions: int) -> kafkalog.SchemaRegistry:
    return kafkalog.SchemaRegistry(schemas={
        ("orders-value", each + 1): kafkalog.Schema(
            subject="orders-value", version=each + 1, id=each + 1, type="AVRO", text=json.dumps(SCHEMAS[each])
        )
        for each in versions
    })  # fmt: skip


def _append_avro(data: Path, version: int, values: list[dict[str, Any]]) -> None:
    import io

    import fastavro

    data.mkdir(exist_ok=True)
    with kafkalog.Log.open(data / "orders-0") as log:
        for each in values:
            out = io.BytesIO(b"\0" + (version + 1).to_bytes(4, "big"))
            out.seek(5)
            fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMAS[version]), each)
            log.append([out.getvalue()])


@every_format
def test_columns_grow_with_the_schema(format: str, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    _append_avro(data, 0, [{"id": n, "who": f"w{n}"} for n in range(20)])
    kafkalog.export(kafkalog.Export(format=format, schemas=_registry(0)), data, target=out)
    _append_avro(data, 1, [{"id": n, "who": "x", "amount": n / 2, "at": {"x": n}} for n in range(20, 40)])
    kafkalog.export(kafkalog.Export(format=format, schemas=_registry(0, 1)), data, target=out)
    found = table(out, format)
    values = dict(zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert {name: value for name, value in values[3].items() if value is not None} == {"id": 3, "who": "w3"}
    assert values[30] == {"id": 30, "who": "x", "amount": 15.0, "at": {"x": 30}}
    _append_avro(data, 2, [{"id": 2**40, "who": "y"}])
    if format == "delta":  # whose columns keep their types
        with pytest.raises(kafkalog.UsageError, match="would have to become"):
            kafkalog.export(kafkalog.Export(format=format, schemas=_registry(0, 1, 2)), data, target=out)
        return
    kafkalog.export(kafkalog.Export(format=format, schemas=_registry(0, 1, 2)), data, target=out)
    assert places(out, format) == in_log(data)
    (last,) = [each for each in table(out, format)["value"].to_pylist() if each["id"] == 2**40]
    assert last["who"] == "y"
    _append_avro(data, 3, [{"id": "a", "who": "y"}])
    with pytest.raises(kafkalog.UsageError, match="would have to become"):
        kafkalog.export(kafkalog.Export(format=format, schemas=_registry(0, 1, 2, 3)), data, target=out)


@every_format
def test_masked_fields_are_in_no_file(format: str, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    _append_avro(data, 1, [{"id": 7, "who": "secret name", "amount": 1.5, "at": {"x": 77}}])
    with kafkalog.Log.open(data / "orders-0") as log:
        log.append([b"\0\0\0\0\x02secret bytes"])
    kafkalog.export(kafkalog.Export(format=format, schemas=_registry(0, 1), masks=["who", "x"]), data, target=out)
    first, second = table(out, format).sort_by("offset").to_pylist()
    assert first["value"] == {"id": 7, "who": "[masked]", "amount": 1.5, "at": {"x": None}}
    assert second["value"] is None
    assert second["value_bytes"] is None
    assert second["finding"]
    for path in out.rglob("*"):
        assert not path.is_file() or b"secret" not in path.read_bytes()
    with pytest.raises(kafkalog.RecoveryRefused, match="masked fields"):
        kafkalog.export(kafkalog.Export(format=format, schemas=_registry(0, 1)), data, target=out)


@pytest.mark.parametrize(
    "value",
    [
        b'\xef\xbb\xbf{"email":"SECRET"}', b'"{\\"email\\":\\"SECRET\\"}"', b'{"email":"SECRET"', b'{"email":"SECRET"}',
        b'{"inner":"{\\"email\\":\\"SECRET\\"}"}', b'\0\0\0\0\x01\x02a\x24{"email":"SECRET"}',
    ],
)  # fmt: skip
def test_masks_hide_the_same_in_dump_and_export(value: bytes, tmp_path: Path) -> None:
    schemas, out = tmp_path / "s", tmp_path / "out"
    schemas.mkdir()
    (tmp_path / "data").mkdir()
    text = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": "string"}]}
    (schemas / "orders-value@1.avsc").write_text(json.dumps(text))
    with kafkalog.Log.open(tmp_path / "data" / "orders-0") as log:
        log.append([value])
    options = ("--schemas", schemas, "--mask", "email")
    dumped = run("dump", tmp_path / "data", "--json", "--values", "auto", *options)
    exported = run("export", tmp_path / "data", "-t", "orders", "--format", "parquet", "--to", out, *options)
    assert "SECRET" not in dumped.out
    assert dumped.code == exported.code
    (row,) = table(out, "parquet").to_pylist()
    assert "SECRET" not in str(row)
    shown = dumped.objects[0]["value"]
    assert row["value"] == (json.dumps(shown, separators=(",", ":")) if value.startswith(b"{") and shown else shown)


RENAMED = {
    "avsc": (
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "email", "type": "string"}]}),
        json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "mail", "type": "string", "aliases": ["email"]}, {"name": "n", "type": "int", "default": 0},
        ]}),
        b"\x0cSECRET",
    ),
    "proto": (
        'syntax="proto3"; message A { B b = 1; message B { string email = 1; repeated bytes n = 2; } }',
        'syntax="proto3"; message A { B b = 1; message B { string mail = 1; repeated bytes n = 2; } }',
        b"\0\x0a\x08\x0a\x06SECRET",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", RENAMED)
@pytest.mark.parametrize("mask", ["email", "mail"])
def test_a_mask_counts_by_the_name_of_either_schema(kind: str, mask: str, tmp_path: Path) -> None:
    written, wanted, payload = RENAMED[kind]
    schemas, out = tmp_path / "s", tmp_path / "out"
    schemas.mkdir()
    (tmp_path / "data").mkdir()
    (schemas / f"orders-value@1.{kind}").write_text(written)
    (schemas / f"other@2.{kind}").write_text(wanted)
    with kafkalog.Log.open(tmp_path / "data" / "orders-0") as log:
        log.append([b"\0\0\0\0\x01" + payload])
    options = ("--format", "parquet", "--to", out, "--schemas", schemas, "--values-schema", "other", "--mask", mask)
    assert run("export", tmp_path / "data", "-t", "orders", *options).code == 0
    (value,) = table(out, "parquet")["value"].to_pylist()
    assert value == ({"mail": "[masked]", "n": 0} if kind == "avsc" else {"b": {"mail": "[masked]", "n": []}})


def _segments(path: Path, *segments: tuple[int, ...]) -> Path:
    """A log with one batch of one record for each offset, in these segments."""
    (path / "orders-0").mkdir(parents=True)
    for offsets in segments:
        batches = [build_batch([Record(each, START, TimestampType.CREATE_TIME, None, b"x")]) for each in offsets]
        (path / "orders-0" / f"{offsets[0]:020}.log").write_bytes(b"".join(batches))
    return path


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("gone", [(3,), (4, 5), (7,), (18,)])
def test_a_missing_segment_is_refused_where_verify_tells_of_it(
    gone: tuple[int, ...], isolation: str, tmp_path: Path
) -> None:
    data, out = _segments(tmp_path / "data", *((each,) for each in range(20))), tmp_path / "out"
    options = ("-t", "orders", "--format", "parquet", "--to", out, "--isolation-level", isolation)
    assert run("export", data, *options, "--end-offset", "3").code == 0
    for each in gone:
        (data / "orders-0" / f"{each:020}.log").unlink()
    assert "segment_missing" in run("verify", data).out
    assert run("export", data, *options, "--end-offset", gone[0]).code == 0
    refused = run("export", data, *options)
    assert refused.code == 3
    assert f"offsets {gone[0]} to {gone[-1]} are missing" in refused.err
    assert "--accept-loss" in refused.err
    assert places(out, "parquet") == [(0, n) for n in range(gone[0])]
    assert run("export", data, *options, "--accept-loss").code == 0
    assert places(out, "parquet") == [(0, n) for n in range(20) if n not in gone]
    assert run("export", data, *options).code == 0


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_missing_first_segment_is_refused_where_verify_tells_of_it(isolation: str, tmp_path: Path) -> None:
    """Leader epochs that begin before the first segment tell of it, as do indexes without their log."""
    data, out = _segments(tmp_path / "data", *((each,) for each in range(9))), tmp_path / "out"
    (data / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    options = ("-t", "orders", "--format", "parquet", "--to", out, "--isolation-level", isolation)
    for each in (0, 1):
        (data / "orders-0" / f"{each:020}.log").unlink()
    assert "segment_missing" in run("verify", data).out
    refused = run("export", data, *options)
    assert refused.code == 3
    assert "offsets 0 to 1 are missing" in refused.err
    assert run("export", data, *options, "--end-offset", "1").code == 3
    assert run("export", data, *options, "--start-offset", "2", "--end-offset", "4").code == 0
    assert run("export", data, *options).code == 0, "what is missing is not from where the table begins"
    assert places(out, "parquet") == [(0, n) for n in range(2, 9)]
    other = ("-t", "orders", "--format", "parquet", "--to", tmp_path / "other", "--isolation-level", isolation)
    assert run("export", data, *other, "--accept-loss").code == 0
    assert places(tmp_path / "other", "parquet") == [(0, n) for n in range(2, 9)]


def test_a_gap_that_compaction_may_have_made_is_exported(tmp_path: Path) -> None:
    data = _segments(tmp_path / "data", (0, 1, 4), (8, 9), (10,))
    assert "segment_missing" not in run("verify", data).out
    finished = run("export", data, "-t", "orders", "--format", "parquet", "--to", tmp_path / "out")
    assert (finished.code, places(tmp_path / "out", "parquet")) == (0, [(0, n) for n in (0, 1, 4, 8, 9, 10)])


def test_a_missing_segment_below_the_table_is_no_concern(tmp_path: Path) -> None:
    data, out = _segments(tmp_path / "data", *((each,) for each in range(9))), tmp_path / "out"
    options = ("-t", "orders", "--format", "parquet", "--to", out)
    assert run("export", data, *options, "--end-offset", "6").code == 0
    (data / "orders-0" / f"{3:020}.log").unlink()
    assert run("export", data, *options).code == 0
    assert places(out, "parquet") == [(0, n) for n in range(9)]


def test_masked_columns_of_every_kind() -> None:
    from kafkalog.values.masked_columns import masked_column, masked_texts

    column = pa.array(
        [
            {"a": [{"b": 1, "c": "x"}, None], "m": [("b", "y"), ("z", "w")]}, None,
            {"a": None, "m": None}, {"a": [], "m": []},
        ],
        pa.struct([
            ("a", pa.list_(pa.struct([("b", pa.int32()), ("c", pa.string())]))),
            ("m", pa.map_(pa.string(), pa.string())),
        ]),
    )  # fmt: skip
    wanted: list[Any] = [
        {"a": [{"b": None, "c": "[masked]"}, None], "m": [("b", "[masked]"), ("z", "w")]}, None,
        {"a": None, "m": None}, {"a": [], "m": []},
    ]  # fmt: skip
    names = frozenset({"b", "c"})
    assert masked_column(column, names).to_pylist() == wanted
    assert masked_column(column.slice(1), names).to_pylist() == wanted[1:]
    texts, lost = masked_texts(pa.array(['{"b":1,"d":[{"c":2}]}', "plain", "{broken", None]), names)
    assert texts.to_pylist() == ['{"b":"[masked]","d":[{"c":"[masked]"}]}', "plain", None, None]
    assert lost == [2]


@every_format
def test_a_table_of_somebody_else_is_left_alone(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    if format == "parquet":
        (out / "topic=orders").mkdir(parents=True)
        (out / "topic=orders" / "mine.txt").write_text("x")
    elif format == "delta":
        from deltalake import write_deltalake

        write_deltalake(str(out / "orders"), pa.table({"a": [1]}))
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        out.mkdir()
        catalog = SqlCatalog("kafkalog", uri=f"sqlite:///{out}/catalog.db", warehouse=f"file://{out}")
        catalog.create_namespace("kafka")
        catalog.create_table(("kafka", "orders"), pa.schema([("a", pa.int64())]))
        catalog.engine.dispose()
    with pytest.raises(kafkalog.UsageError, match=r"is (not empty and is )?not a table"):
        kafkalog.export(kafkalog.Export(format=format), data, target=out)


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    data = topic(tmp_path / "data", [5])
    wrong: list[dict[str, Any]] = [
        {"format": "csv"}, {"values": "all"}, {"values": "bytes", "masks": ["a"]},
        {"filter": kafkalog.RecordFilter(transactional=True)}, {"select": kafkalog.Selection.of(["nothing"])},
    ]  # fmt: skip
    for given in wrong:
        with pytest.raises(kafkalog.UsageError):
            kafkalog.export(kafkalog.Export(**{"format": "parquet", **given}), data, target=tmp_path / "out")
    with pytest.raises(kafkalog.UsageError):
        kafkalog.RecordFilter(isolation_level="x")
    with pytest.raises(kafkalog.UsageError):
        kafkalog.export(kafkalog.Export(format="parquet"), data, target=data / "out")
    assert not (data / "out").exists()


@parquet_first
def test_a_directory_with_a_commit_that_has_not_ended_is_not_exported(format: str, tmp_path: Path) -> None:
    """The rows of it may be taken back, and a table would keep them."""
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    journal = tmp_path / "data.writing" / "commit.json"
    journal.parent.mkdir()
    journal.write_text("{}")
    with pytest.raises(kafkalog.RecoveryRefused, match="has not ended") as raised:
        kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert raised.value.reason == "unfinished"
    assert not out.exists()
    journal.unlink()
    assert kafkalog.export(kafkalog.Export(format=format), data, target=out).partitions[0].records == 5


def test_a_manifest_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format="parquet"), data, target=out)
    path = out / "topic=orders" / "_kafkalog.json"
    whole = path.read_text()
    fields = json.loads(whole)
    no_schema = json.dumps({**fields, "schema": fields["schema"][:16] + "ff" * 40 + fields["schema"][96:]})
    for text in ("", "[]", "{", whole[:-40], whole.replace('"files"', '"fies"'), "1", "[" * 100_000, no_schema):
        path.write_text(text)
        with pytest.raises(kafkalog.KafkaLogError, match="not the manifest"):
            kafkalog.export(kafkalog.Export(format="parquet"), data, target=out)


@pytest.mark.parametrize(
    ("format", "file"),
    [
        ("delta", "_delta_log/*0.json"), ("iceberg", "catalog.db"), ("iceberg", "metadata/00001-*.json"),
    ],
)  # fmt: skip
def test_metadata_of_a_table_that_is_none_is_one_sentence(format: str, file: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format=format), data, target=out)
    (path,) = out.rglob(file)
    for content in (b"\xff\0", b"{}"):
        path.write_bytes(content)  # of a Delta table the version that created it
        with pytest.raises(kafkalog.FormatError, match="this table cannot be loaded: ") as refused:
            kafkalog.export(kafkalog.Export(format=format), data, target=out)
        assert "\n" not in str(refused.value)


def test_positions_of_a_delta_table_that_are_none_are_one_sentence(tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format="delta"), data, target=out)
    (path,) = out.rglob("_delta_log/*1.json")
    path.write_text(path.read_text().replace('"version"', '"vision"'))
    with pytest.raises(kafkalog.FormatError, match="this table cannot be loaded: "):
        kafkalog.export(kafkalog.Export(format="delta"), data, target=out)


def test_a_delta_table_whose_log_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    log = out / "orders" / "_delta_log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"")
    with pytest.raises(kafkalog.StorageError, match="Not a directory") as no_log:
        kafkalog.export(kafkalog.Export(format="delta"), data, target=out)
    log.unlink()
    kafkalog.export(kafkalog.Export(format="delta"), data, target=out)
    (version,) = log.glob("*1.json")
    version.unlink()
    version.symlink_to(version.name)
    with pytest.raises(kafkalog.StorageError, match="Too many levels of symbolic links") as no_version:
        kafkalog.export(kafkalog.Export(format="delta"), data, target=out)
    for refused in (no_log, no_version):
        assert not {"\n", "\x1b"} & set(str(refused.value))


def test_an_iceberg_table_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    out.mkdir()
    (out / "kafka").write_bytes(b"")
    with pytest.raises(kafkalog.StorageError, match="Not a directory"):
        kafkalog.export(kafkalog.Export(format="iceberg"), data, target=out)


@pytest.mark.parametrize(
    ("format", "file", "error"),
    [
        ("delta", "orders/_delta_log", kafkalog.StorageError), ("iceberg", "catalog.db", kafkalog.FormatError),
    ],
)  # fmt: skip
def test_a_table_that_is_lost_before_its_commit_is_one_sentence(
    format: str, file: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = topic(tmp_path / "data", [5]), tmp_path / "out"
    add = PartitionFiles.add

    def losing(self: PartitionFiles, batch: pa.RecordBatch) -> None:
        add(self, batch)
        if (out / file).is_dir():
            shutil.rmtree(out / file)
        else:
            (out / file).write_bytes(b"no catalog" * 100)

    monkeypatch.setattr(PartitionFiles, "add", losing)
    with pytest.raises(error) as refused:
        kafkalog.export(kafkalog.Export(format=format), data, target=out)
    assert not {"\n", "\x1b"} & set(str(refused.value))


@every_format
def test_statistics_and_order_let_filters_prune(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [300], every=DAY // 20), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format=format), data, target=out)
    for path in out.rglob("*.parquet"):
        found = pq.ParquetFile(path)
        offsets = found.read(["offset"])["offset"].to_pylist()
        assert offsets == sorted(offsets)
        assert all(found.metadata.row_group(n).column(0).is_stats_set for n in range(found.metadata.num_row_groups))
    if format == "delta":
        from deltalake import DeltaTable

        actions = pa.table(DeltaTable(str(out / "orders")).get_add_actions(flatten=True))
        assert min(actions["min.offset"].to_pylist()) == 0
        assert max(actions["max.offset"].to_pylist()) == 299
        lows, highs = actions["min.timestamp"].to_pylist(), actions["max.timestamp"].to_pylist()
        assert all(low <= high for low, high in zip(lows, highs, strict=True))
        assert len(set(lows)) == len(lows) > 10
    elif format == "iceberg":
        files = list(iceberg(out).scan(row_filter="offset >= 290").plan_files())
        assert 0 < len(files) < 3


@every_format
def test_a_hostile_topic_ends(format: str, tmp_path: Path) -> None:
    """Keys that are no text, large values, names of fields that differ in case alone, records of no fields."""
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)
    odd = [b"", b"\0", b"\xff\xfe", None, b"{" * 5000, b"x" * 100_000, b'{"a":1}', b"\0\0\0\0\x09abc"]
    some = [Record(n, START + n, TimestampType.CREATE_TIME, each, each) for n, each in enumerate(odd)]
    (folder / f"{0:020}.log").write_bytes(build_batch(some))
    odd_schema = {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "int"}, {"name": "A", "type": "int"},
        {"name": "e", "type": {"type": "record", "name": "E", "fields": []}},
    ]}  # fmt: skip
    registry = kafkalog.SchemaRegistry(schemas={
        ("orders-value", 1): kafkalog.Schema(
            subject="orders-value", version=1, id=9, type="AVRO", text=json.dumps(odd_schema)
        )
    })  # fmt: skip
    with kafkalog.Log.open(folder) as log:
        log.append([b"\0\0\0\0\x09\x02\x04"])
    kafkalog.export(kafkalog.Export(format=format, schemas=registry), tmp_path / "data", target=tmp_path / "out")
    rows = table(tmp_path / "out", format).sort_by("offset").to_pylist()
    assert len(rows) == len(odd) + 1
    assert json.loads(rows[-1]["value"]) == {"a": 1, "A": 2, "e": {}}
    assert rows[2]["value_bytes"] == b"\xff\xfe"


def test_the_manifest_has_every_file(tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [50, 30]), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format="parquet", filter=kafkalog.RecordFilter(end_offset=20)), data, target=out)
    left = out / "topic=orders" / "partition=0" / "date=2023-11-14"
    unnamed = left / "kafkalog-0123456789abcdef-0.parquet"
    unnamed.write_bytes(b"of another manifest")
    (left / "of-others.parquet").write_bytes(b"x")
    with pytest.raises(kafkalog.RecoveryRefused, match="does not name"):
        kafkalog.export(kafkalog.Export(format="parquet"), data, target=out)
    unnamed.unlink()
    kafkalog.export(kafkalog.Export(format="parquet"), data, target=out)
    assert (left / "of-others.parquet").exists()
    (left / "of-others.parquet").unlink()
    assert len(of_manifest(out)) == len(table(out, "parquet")) == 80


@pytest.mark.parametrize(("package", "format", "extra"), [
    ("pyiceberg", "iceberg", "iceberg"), ("deltalake", "delta", "delta"), ("fastavro", "parquet", "values"),
    ("google.protobuf", "parquet", "values"), ("pyarrow", "parquet", "fast"),
])  # fmt: skip
def test_what_is_not_installed_is_named_with_its_extra(package: str, format: str, extra: str, recorded: Path) -> None:
    program = f"""
import sys
sys.modules[{package!r}] = None
from kafkalog.__main__ import main
sys.argv[1:] = ["export", {str(recorded)!r}, "--to", {str(recorded.parent / "none")!r}, "--format", {format!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 64, done.stderr
    assert f"kafkalog[{extra}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_says_what_it_added(tmp_path: Path) -> None:
    data = topic(tmp_path / "data", [12, 3])
    first = run("export", data, "--format", "parquet", "--to", tmp_path / "out", "--json")
    assert first.code == 0
    added = [(each["partition"], each["records"], each["next_offset"]) for each in first.objects]
    assert added == [(0, 12, 12), (1, 3, 3)]
    with kafkalog.Log.open(data / "orders-0") as log:
        log.delete_records_before(12)
        add(log, records(5, 12))
        log.delete_records_before(15)
    refused = run("export", data, "--format", "parquet", "--to", tmp_path / "out")
    assert refused.code == 3
    assert "--accept-loss" in refused.err
    again = run("export", data, "--format", "parquet", "--to", tmp_path / "out", "--accept-loss")
    assert again.code == 0
    assert "17" in again.out
    assert run("export", data, "--format", "parquet", "--to", data / "orders-0" / "x").code == 64
    assert run("export", data, "--format", "parquet", "--to", tmp_path / "out", "-t", "nothing").code == 1


@every_format
@pytest.mark.parametrize("name", ["..", ".", "a b"])
def test_a_topic_that_no_kafka_has_leads_nowhere(format: str, name: str, tmp_path: Path) -> None:
    data = topic(tmp_path / "data", [3])
    (data / "orders-0").rename(data / f"{name}-0")
    with pytest.raises(kafkalog.UsageError, match=r"no table can have|no records|not a Kafka log directory"):
        kafkalog.export(kafkalog.Export(format=format), data, target=tmp_path / "out")
    assert not list(tmp_path.rglob("*.parquet"))


# --- what a table has lost, and what a log has -----------------------------------------------------------------------


@pytest.mark.parametrize("what", ["lost", "older"])
def test_a_table_that_has_lost_its_manifest_keeps_its_rows(what: str, tmp_path: Path) -> None:
    """As a copy by tools that take no names with an underscore has; or an older manifest was put back."""
    data, out = topic(tmp_path / "data", [20]), tmp_path / "out"
    kafkalog.export(
        kafkalog.Export(format="parquet", values="bytes", filter=kafkalog.RecordFilter(end_offset=8)), data, target=out
    )
    (manifest,) = out.rglob("_kafkalog.json")
    older = manifest.read_bytes()
    kafkalog.export(
        kafkalog.Export(format="parquet", values="bytes", filter=kafkalog.RecordFilter(end_offset=15)), data, target=out
    )
    files = sorted(out.rglob("*.parquet"))
    if what == "lost":
        manifest.unlink()
    else:
        manifest.write_bytes(older)
    with pytest.raises(kafkalog.RecoveryRefused, match="does not name"):
        kafkalog.export(kafkalog.Export(format="parquet", values="bytes"), data, target=out)
    assert sorted(out.rglob("*.parquet")) == files


@every_format
@pytest.mark.parametrize("same_end", [False, True])
def test_a_log_that_was_written_on_in_the_same_epoch_is_not_taken_for_the_same(
    format: str, same_end: bool, tmp_path: Path
) -> None:
    data, out = topic(tmp_path / "data", [20]), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format=format), data, target=out)
    with kafkalog.Log.open(data / "orders-0") as log:
        epoch = log.leader_epoch
        log.truncate_to(10)
        log.append([(None, b"{}")] * (10 if same_end else 15), leader_epoch=epoch)
    with pytest.raises(kafkalog.RecoveryRefused, match="cut and rewritten"):
        kafkalog.export(kafkalog.Export(format=format), data, target=out)
