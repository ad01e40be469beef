"""`records()` of large logs makes its records from columns: the same records, findings and ends as one by one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecordFilter
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import Header, Record, TimestampType
from kafkalog.codec.names import parse_partition_directory
from kafkalog.log import open_all, open_partition
from kafkalog.log.directories.partition import Partition
from kafkalog.log.reading import records as reading
from testkit.judging.executions import choose_execution
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import broker_cases, recovery_cases, recovery_families

FAMILIES = [name for name in recovery_families() if name != "checkpoints"]


def read(partition: Partition, **bounds: Any) -> tuple[list[Record], list[Any], Any, Any]:
    reader = partition.records(RecordFilter(**bounds), on_damage="stop")
    return list(reader), reader.findings, reader.stop, reader.damaged_at


def compare(partition: Partition, monkeypatch: pytest.MonkeyPatch, **bounds: Any) -> int:
    """Records that were compared."""
    answers = []
    for enough, after in ((2**62, 0), (0, 0), (0, 300)):
        choose_execution(monkeypatch, enough)
        monkeypatch.setattr(reading, "_ONE_BY_ONE_BYTES", after)
        try:
            answers.append(read(partition, **bounds))
        except FormatError as error:
            answers.append(([], [str(error)], None, None))
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]
    return len(answers[0][0])


@pytest.mark.parametrize("case", broker_cases(), ids=lambda case: case.id)
def test_every_record_of_a_broker(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = open_all(*brokers(case.id)).readable(replica="longest")
    for partition in partitions:
        compare(partition, monkeypatch)
        end = partition.log_end_offset()
        compare(partition, monkeypatch, start_offset=end // 3, end_offset=end // 3 * 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_damaged_directories(family: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compared = 0
    for case in itertools.islice(recovery_cases([family]), 0, None, 9):
        root = case.unpack_before(tmp_path / case.id.replace("/", "_"))
        for directory in sorted(each for each in root.iterdir() if any(each.glob("*.log"))):
            if parse_partition_directory(directory.name) is not None:
                compared += compare(open_partition(directory), monkeypatch)
    assert compared > 0


def test_fields_of_all_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    kinds = [
        (None, None, ()), (b"", b"", ()), (b"k", None, (Header("a", None), Header("a", b""))),
        (None, b"v" * 300, (Header("caf\u00e9", b"1"),)), (b"k", b"v", (Header("\udcff", b"not UTF-8"),)),
    ]  # fmt: skip
    data = b""
    for base, kind in enumerate((TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME, TimestampType.CREATE_TIME)):
        records = [
            Record(base * 10 + number, 10**12 + number, kind, *fields) for number, fields in enumerate(kinds)
        ]  # fmt: skip
        data += build_batch(
            records, timestamp_type=kind, log_append_time=5 if kind is TimestampType.LOG_APPEND_TIME else -1,
            partition_leader_epoch=base,
        )  # fmt: skip
    (directory / f"{0:020}.log").write_bytes(data)
    assert compare(open_partition(directory), monkeypatch) == 3 * len(kinds)
