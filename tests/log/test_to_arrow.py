"""``Partition.to_arrow`` gives what Kafka's consumer read, by value, with whichever execution does the work."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from arrow_records import expected_rows, rows_of_table
from broker_dirs import STOPPED, brokers, expected_records, own_copy
from fixture_data import BrokerCase
from kafkalog.codec import thresholds
from kafkalog.codec.errors import FormatError, UsageError
from kafkalog.codec.findings import Finding, FindingCode
from kafkalog.log import open_all, open_partition
from kafkalog.log.partition import Partition

RECORDED = [case for case in STOPPED if case.has("read_uncommitted")]


def ident(case: BrokerCase) -> str:
    return case.id


def partitions(case: BrokerCase) -> tuple[Partition, ...]:
    return open_all(*brokers(case.id)).readable(replica="longest")


@pytest.mark.parametrize("case", RECORDED, ids=ident)
def test_every_record_of_a_broker_by_value(case: BrokerCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "ENOUGH_BYTES", 0)  # everything through the kernel that can be
    for level in ("read_uncommitted", "read_committed"):
        if not case.has(level):
            continue
        expected = expected_records(case, level)
        tables = [each.to_arrow(isolation_level=level, batch_rows=50).read_all() for each in partitions(case)]
        assert rows_of_table(pa.concat_tables(tables), expected) == expected_rows(expected)


def segments_partition(case_id: str = "4.1.1/segments") -> Partition:
    (broker,) = brokers(case_id)
    return max(open_all(broker).readable(), key=lambda each: len(each.segments))


def test_small_work_is_done_in_plain_python_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = segments_partition()
    plain = partition.to_arrow().read_all()
    monkeypatch.setattr(thresholds, "ENOUGH_BYTES", 0)
    assert plain.equals(partition.to_arrow().read_all())
    assert plain.num_rows == sum(1 for _ in partition.records()) > 0


def test_columns_and_ranges_of_offsets() -> None:
    partition = segments_partition()
    offsets = [record.offset for record in partition.records()]
    low, high = offsets[len(offsets) // 3], offsets[2 * len(offsets) // 3]
    table = partition.to_arrow(["offset", "value"], start_offset=low, end_offset=high).read_all()
    assert table.schema.names == ["offset", "value"]
    assert table["offset"].to_pylist() == [offset for offset in offsets if low <= offset < high]
    with pytest.raises(UsageError):
        partition.to_arrow(["offset", "nothing"])
    with pytest.raises(UsageError):
        partition.to_arrow(isolation_level="serializable")


def test_ranges_of_time_begin_and_end_where_a_consumers_lookup_would() -> None:
    partition = segments_partition()
    records = list(partition.records())
    times = sorted({record.timestamp for record in records})
    start, end = times[len(times) // 4], times[len(times) // 2]
    first = next(record.offset for record in records if record.timestamp >= start)
    last = next(record.offset for record in records if record.timestamp >= end)
    table = partition.to_arrow(["offset"], start_timestamp=start, end_timestamp=end).read_all()
    assert table["offset"].to_pylist() == [each.offset for each in records if first <= each.offset < last]
    assert partition.to_arrow(["offset"], start_timestamp=times[-1] + 1).read_all().num_rows == 0


def test_damage_raises_or_is_a_finding_and_ends_the_stream(tmp_path: Path) -> None:
    healthy = segments_partition()
    partition = open_partition(own_copy(Path(healthy.path), tmp_path / Path(healthy.path).name))
    victim = partition.segments[1]
    content = bytearray(Path(victim.path).read_bytes())
    content[len(content) // 2] ^= 4
    Path(victim.path).write_bytes(content)
    before = [record.offset for record in partition.records()]
    assert 0 < len(before) < sum(1 for _ in healthy.records())
    with pytest.raises(FormatError) as raised:
        partition.to_arrow().read_all()
    assert raised.value.code == FindingCode.CRC_MISMATCH
    assert raised.value.source == victim.path
    findings: list[Finding] = []
    assert partition.to_arrow(["offset"], findings=findings).read_all()["offset"].to_pylist() == before
    assert [finding.code for finding in findings] == [FindingCode.CRC_MISMATCH]


def test_a_torn_tail_is_the_end_of_the_log(tmp_path: Path) -> None:
    healthy = segments_partition()
    partition = open_partition(own_copy(Path(healthy.path), tmp_path / Path(healthy.path).name))
    last = Path(partition.segments[-1].path)
    last.write_bytes(last.read_bytes()[:-3])
    table = open_partition(partition.path).to_arrow(["offset"]).read_all()
    assert table["offset"].to_pylist() == [record.offset for record in open_partition(partition.path).records()]
