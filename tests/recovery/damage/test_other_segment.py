"""A sound segment of another day, in the place of the one that the files beside it were made of."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkalog.codec.files.index_files import TimeEntry, decode_time_index, encode_time_index
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.scanner import scan
from kafkalog.recovery import plan
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.damage.other_segment import OTHER_SEGMENT
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

DAY_MS = 86_400_000
TIMES, CHECKSUM = 27, 17
"""positions in a batch of its two timestamps, and of its checksum, which covers the bytes behind it"""


def of_the_next_day(log: Path) -> None:
    data = bytearray(log.read_bytes())
    for batch in scan(log.read_bytes()).batches:
        times = struct.unpack_from(">qq", data, batch.position + TIMES)
        struct.pack_into(">qq", data, batch.position + TIMES, *(time + DAY_MS for time in times))
        content = bytes(data[batch.position + CHECKSUM + 4 : batch.position + batch.size])
        struct.pack_into(">I", data, batch.position + CHECKSUM, crc32c(content))
    log.write_bytes(data)


def said(root: Path) -> list[str]:
    report = verify(str(root))
    findings = [finding for partition in report.directories[0].partitions for finding in partition.findings]
    return [finding.file or "" for finding in findings if OTHER_SEGMENT in finding.detail]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_of_another_day(tmp_path: Path, *, is_clean: bool) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    assert said(root) == []
    if not is_clean:
        (root / ".kafka_cleanshutdown").unlink()
        (root / "recovery-point-offset-checkpoint").unlink()
    log = root / "trades-41-0" / f"{86:020d}.log"
    of_the_next_day(log)
    assert said(root) == [str(log.with_suffix(".timeindex"))]
    (planned,) = plan(root)
    assert [each.partition for each in planned.consequences if OTHER_SEGMENT in each.detail] == ["trades-41-0"]
    told = f"trades-41-0: {log.name} is {OTHER_SEGMENT}: look for another copy of it"
    assert told in " ".join(kafkalog("plan", root).out.split("\n\n")[0].split())
    assert OTHER_SEGMENT in " ".join(kafkalog("report", "--format", "text", "-o", "-", root).out.split())


def test_a_time_index_or_a_snapshot_alone_says_nothing_of_the_segment(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    log = root / "trades-41-0" / f"{86:020d}.log"
    index = log.with_suffix(".timeindex")
    entries = decode_time_index(index.read_bytes())
    index.write_bytes(encode_time_index(entry._replace(timestamp=entry.timestamp - DAY_MS) for entry in entries))
    assert said(root) == []
    of_the_next_day(log)
    times = [batch.header.max_timestamp for batch in scan(log.read_bytes()).batches]
    index.write_bytes(encode_time_index([TimeEntry(times[0], 0)]))  # one entry fits
    assert said(root) == []
