"""``Partition.to_arrow`` gives what Kafka's consumer read, by value, with whichever execution does the work."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kafkalog import RecordFilter
from kafkalog.codec import Codec
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.encode.columns import build_batches
from kafkalog.log import open_all, open_partition
from kafkalog.log.directories.partition import Partition
from testkit.judging.executions import choose_execution
from testkit.made.arrow_records import expected_rows, rows_of_table
from testkit.recorded.broker_dirs import STOPPED, brokers, expected_records, own_copy
from testkit.recorded.fixture_data import BrokerCase

RECORDED = [case for case in STOPPED if case.has("read_uncommitted")]


def ident(case: BrokerCase) -> str:
    return case.id


def partitions(case: BrokerCase) -> tuple[Partition, ...]:
    return open_all(*brokers(case.id)).readable(replica="longest")


@pytest.mark.parametrize("case", RECORDED, ids=ident)
def test_every_record_of_a_broker_by_value(case: BrokerCase, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_execution(monkeypatch, 0)  # everything through the kernel that can be
    for level in ("read_uncommitted", "read_committed"):
        if not case.has(level):
            continue
        expected = expected_records(case, level)
        tables = [
            each.to_arrow(filter=RecordFilter(isolation_level=level), batch_rows=50).read_all()
            for each in partitions(case)
        ]
        assert rows_of_table(pa.concat_tables(tables), expected) == expected_rows(expected)
        for threads in (1, 2):
            views = [
                each.to_arrow(
                    filter=RecordFilter(isolation_level=level), batch_rows=50, layout="view", threads=threads
                ).read_all()
                for each in partitions(case)
            ]
            assert [view.cast(table.schema) for view, table in zip(views, tables, strict=True)] == tables


def segments_partition(case_id: str = "4.1.1/segments") -> Partition:
    (broker,) = brokers(case_id)
    return max(open_all(broker).readable(), key=lambda each: len(each.segments))


def test_small_work_is_done_in_plain_python_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = segments_partition()
    plain = partition.to_arrow().read_all()
    choose_execution(monkeypatch, 0)
    assert plain.equals(partition.to_arrow().read_all())
    assert plain.num_rows == sum(1 for _ in partition.records(on_damage="stop")) > 0


def test_views_stay_what_they_were_when_the_file_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They point into memory of their own, never into a file, which would end the process once it is cut."""
    choose_execution(monkeypatch, 0)
    for codec in Codec:
        directory = tmp_path / f"{codec.label}-0"
        directory.mkdir()
        values = [b"%05d" % number * (1 + number % 30) for number in range(3000)]
        columns = pa.record_batch({"key": pa.array([None] * 3000, pa.binary()), "value": pa.array(values, pa.binary())})
        log = directory / f"{0:020}.log"
        log.write_bytes(b"".join(build_batches(columns, codec=codec)))
        found = list(open_partition(directory).to_arrow(["key", "value"], layout="view", batch_rows=1000))
        log.write_bytes(b"")
        assert sum(batch.num_rows for batch in found) == 3000
        assert max(batch.num_rows for batch in found) <= 1000
        assert found[0].schema == pa.schema({"key": pa.binary_view(), "value": pa.binary_view()})
        last = found.pop()["value"]
        del found
        log.write_bytes(b"".join(build_batches(columns)))
        assert open_partition(directory).to_arrow(["value"], layout="view").read_all()["value"].to_pylist() == values
        assert last.to_pylist() == values[-len(last) :]


@pytest.mark.compiled
def test_keys_that_are_in_the_views_keep_nothing_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    choose_execution(monkeypatch, 0)
    keys = segments_partition().to_arrow(["key"], layout="view").read_all()["key"]
    assert max(len(key or b"") for key in keys.to_pylist()) <= 12
    assert [len(chunk.buffers()) for chunk in keys.chunks] == [2] * keys.num_chunks  # validity, and the views


@pytest.mark.parametrize("enough", [0, 2**62])
@pytest.mark.parametrize("layout", ["copy", "view"])
def test_batches_as_large_as_can_be_asked_for(enough: int, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants one batch asks for more rows than there are; room for so many would be all memory there is."""
    choose_execution(monkeypatch, enough)
    partition = segments_partition()
    expected = partition.to_arrow(layout=layout).read_all()
    for rows, size in ((2**40, 2**20), (2**63 - 1, 2**62), (2**63 - 1, 1)):
        for threads in (1, 2):
            found = partition.to_arrow(batch_rows=rows, batch_bytes=size, layout=layout, threads=threads).read_all()
            assert found == expected


def test_columns_and_ranges_of_offsets() -> None:
    partition = segments_partition()
    offsets = [record.offset for record in partition.records(on_damage="stop")]
    low, high = offsets[len(offsets) // 3], offsets[2 * len(offsets) // 3]
    table = partition.to_arrow(["offset", "value"], RecordFilter(start_offset=low, end_offset=high)).read_all()
    assert table.schema.names == ["offset", "value"]
    assert table["offset"].to_pylist() == [offset for offset in offsets if low <= offset < high]
    with pytest.raises(UsageError):
        partition.to_arrow(["offset", "nothing"])
    with pytest.raises(UsageError):
        partition.to_arrow(filter=RecordFilter(isolation_level="serializable"))
    with pytest.raises(UsageError):
        partition.to_arrow(layout="views")


def test_ranges_of_time_begin_and_end_where_a_consumers_lookup_would() -> None:
    partition = segments_partition()
    records = list(partition.records(on_damage="stop"))
    times = sorted({record.timestamp for record in records})
    start, end = times[len(times) // 4], times[len(times) // 2]
    first = next(record.offset for record in records if record.timestamp >= start)
    last = next(record.offset for record in records if record.timestamp >= end)
    table = partition.to_arrow(["offset"], RecordFilter(start_timestamp=start, end_timestamp=end)).read_all()
    assert table["offset"].to_pylist() == [each.offset for each in records if first <= each.offset < last]
    assert partition.to_arrow(["offset"], RecordFilter(start_timestamp=times[-1] + 1)).read_all().num_rows == 0


def test_damage_raises_or_is_a_finding_and_ends_the_stream(tmp_path: Path) -> None:
    healthy = segments_partition()
    partition = open_partition(own_copy(Path(healthy.path), tmp_path / Path(healthy.path).name))
    victim = partition.segments[1]
    content = bytearray(Path(victim.path).read_bytes())
    content[len(content) // 2] ^= 4
    Path(victim.path).write_bytes(content)
    before = [record.offset for record in partition.records(on_damage="stop")]
    assert 0 < len(before) < sum(1 for _ in healthy.records(on_damage="stop"))
    with pytest.raises(FormatError) as raised:
        partition.to_arrow().read_all()
    assert raised.value.code == FindingCode.CRC_MISMATCH
    assert raised.value.source == victim.path
    findings: list[Finding] = []
    with pytest.raises(FormatError):
        partition.to_arrow(findings=findings).read_all()
    assert [finding.code for finding in findings] == [FindingCode.CRC_MISMATCH]
    findings = []
    stopped = partition.to_arrow(["offset"], findings=findings, on_damage="stop").read_all()
    assert stopped["offset"].to_pylist() == before
    assert [finding.code for finding in findings] == [FindingCode.CRC_MISMATCH]


def test_a_torn_tail_is_the_end_of_the_log(tmp_path: Path) -> None:
    healthy = segments_partition()
    partition = open_partition(own_copy(Path(healthy.path), tmp_path / Path(healthy.path).name))
    last = Path(partition.segments[-1].path)
    last.write_bytes(last.read_bytes()[:-3])
    table = open_partition(partition.path).to_arrow(["offset"]).read_all()
    records = open_partition(partition.path).records(on_damage="stop")
    assert table["offset"].to_pylist() == [record.offset for record in records]
