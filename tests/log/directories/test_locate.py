"""Searches by time over batches that cannot be read: what damage may hide is never a plain answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.cli.main import run
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Codec, Record, TimestampType
from kafkalog.log.directories.locate import newest
from testkit.made import damage

FIRST_TIME = 1_700_000_000_000
LIMITED = Limits(decompressed_batch_bytes=10_000)
SINCE = FIRST_TIME + 1
"""time of the first record of the second batch"""


def batch(number: int, *, size: int = 50) -> bytes:
    records = [
        Record(number * 10 + n, FIRST_TIME + number, TimestampType.CREATE_TIME, None, b"v" * size) for n in range(10)
    ]
    return build_batch(records, codec=Codec.GZIP)


def unopened(data: bytes) -> bytes:
    return damage.with_crc(data[:61] + bytes(each ^ 0xFF for each in data[61:75]) + data[75:])


KINDS: dict[str, tuple[Callable[[], bytes], FindingCode, Limits]] = {
    "insides": (lambda: unopened(batch(1)), FindingCode.DECOMPRESSION_FAILED, Limits()),
    "checksum": (lambda: batch(1)[:-1] + b"\xff", FindingCode.CRC_MISMATCH, Limits()),
    "large": (lambda: batch(1, size=2_000), FindingCode.LIMIT_EXCEEDED, LIMITED),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def directory(kind: str, tmp_path: Path) -> Path:
    """A partition of three batches, of which the second cannot be read."""
    made = tmp_path / "t-0"
    made.mkdir()
    (made / f"{0:020}.log").write_bytes(batch(0) + KINDS[kind][0]() + batch(2))
    return made


READERS: dict[str, Callable[[Path, Limits, int], int]] = {
    "records": lambda path, limits, since: len(
        list(kafkalog.open_partition(path, limits=limits).records(kafkalog.RecordFilter(start_timestamp=since)))
    ),
    "to_arrow": lambda path, limits, since: int(
        kafkalog.open_partition(path, limits=limits)
        .to_arrow(filter=kafkalog.RecordFilter(start_timestamp=since))
        .read_all()
        .num_rows
    ),
    "KafkaTable": lambda path, limits, since: int(
        kafkalog.KafkaTable(
            kafkalog.TableScan(filter=kafkalog.RecordFilter(start_timestamp=since)), path, limits=limits
        )
        .reader()
        .read_all()
        .num_rows
    ),
    "offset_for_timestamp": lambda path, limits, since: int(
        kafkalog.open_partition(path, limits=limits).offset_for_timestamp(since).offset  # type: ignore[union-attr]
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_time_in_a_batch_that_cannot_be_read_raises(reader: str, kind: str, directory: Path) -> None:
    _, code, limits = KINDS[kind]
    with pytest.raises(FormatError) as raised:
        READERS[reader](directory, limits, SINCE)
    assert raised.value.finding is not None
    assert raised.value.finding.code == code
    assert raised.value.finding.offset in (10, 19)  # of a wrong checksum it is the last one
    assert str(raised.value.finding.file).startswith(str(directory))


def test_a_list_gets_the_finding_and_the_search_goes_on_if_told_to(kind: str, directory: Path) -> None:
    _, code, limits = KINDS[kind]
    partition = kafkalog.open_partition(directory, limits=limits)
    findings: list[Finding] = []
    assert partition.offset_for_timestamp(SINCE, findings=findings) is None
    assert [each.code for each in findings] == [code]
    found = partition.offset_for_timestamp(SINCE, through_damage=True)
    assert found is not None
    assert found.offset == 20


def test_insides_that_cannot_hold_the_time_do_not_matter(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(batch(0) + unopened(batch(1)) + batch(2))
    assert {name: read(directory, Limits(), SINCE + 1) for name, read in READERS.items()} == {
        "records": 10, "to_arrow": 10, "KafkaTable": 10, "offset_for_timestamp": 20,
    }  # fmt: skip


@pytest.mark.parametrize("when", [str(SINCE), "max-timestamp"])
def test_find_reports_a_batch_that_may_hold_the_time(
    when: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(batch(0) + unopened(batch(1)))
    assert run(["find", str(directory), "--time", when]) == 1
    said = capsys.readouterr()
    assert "decompression_failed" in said.err
    found, findings = newest(kafkalog.open_partition(directory))
    assert found is not None
    assert found.offset == 0
    assert [each.code for each in findings] == [FindingCode.DECOMPRESSION_FAILED]


def test_the_newest_record_from_the_log_start_on_may_be_in_a_batch_with_a_newer_one_below_it(tmp_path: Path) -> None:
    def of_times(first: int, *times: int) -> bytes:
        kind = TimestampType.CREATE_TIME
        return build_batch([Record(first + n, time, kind, None, b"") for n, time in enumerate(times)])

    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(of_times(0, 100, 20, 50, 30, 50) + of_times(5, 40))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    found, findings = newest(kafkalog.open_partition(directory))
    assert found is not None
    assert (found.offset, found.timestamp, findings) == (2, 50, [])


def test_limits_of_open_hold_for_searches(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(batch(0) + batch(1, size=2_000))
    found, findings = newest(kafkalog.open_partition(directory, limits=LIMITED))
    assert found is not None
    assert found.offset == 0
    assert [each.code for each in findings] == [FindingCode.LIMIT_EXCEEDED]
