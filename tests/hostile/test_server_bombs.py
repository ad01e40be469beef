"""Batches that take far more memory than bytes: what a client makes the server look into is bounded."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkalog import Log, LogConfig, NewRecord
from kafkalog.codec.common.limits import MIB
from kafkalog.server.error_codes import Code
from testkit.serving.raw_client import RawClient, fetching
from testkit.serving.the_server import listening

TIMES = (1_000, 2_000, 3_000)
MAX_TIMESTAMP = -3
PARTITIONS = 8
MEMORY_MIB = 120


def bombs(root: Path, value: bytes, count: int) -> Path:
    """In each partition a small batch, one that expands, and a small one."""
    with Log.open(root / "t-0", LogConfig(retention_ms=-1)) as log:
        log.append([NewRecord(b"first", timestamp=TIMES[0])])
        log.append([NewRecord(value, timestamp=TIMES[1])] * count, compression="zstd")
        log.append([NewRecord(b"last", timestamp=TIMES[2])])
    for number in range(1, PARTITIONS):
        shutil.copytree(root / "t-0", root / f"t-{number}")
    return root


def asked(address: tuple[str, int], partition: int, timestamp: int) -> tuple[int, int]:
    """Offset and timestamp."""
    with RawClient(address, 60) as client:
        each = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
        topics = [{"name": "t", "partitions": [each]}]
        (topic,) = client.ask("ListOffsets", 7, replica_id=-1, isolation_level=0, topics=topics)["topics"]
    (found,) = topic["partitions"]
    assert found["error_code"] == Code.NONE
    return found["offset"], found["timestamp"]


@pytest.mark.parametrize(("value", "count"), [(b"\0" * (40 * MIB), 1), (b"", 110_000)], ids=["bytes", "records"])
def test_what_is_looked_into_for_clients_is_bounded(tmp_path: Path, value: bytes, count: int) -> None:
    """The first offset of a batch that would take more is the answer: a client gets too much rather than too little."""
    with listening(bombs(tmp_path, value, count)) as (bootstrap, process), ThreadPoolExecutor(PARTITIONS) as several:
        host, _, port = bootstrap.rpartition(":")
        address = host, int(port)
        last = 1 + count, TIMES[2]
        for timestamp, found in {TIMES[0]: (0, TIMES[0]), TIMES[1]: (1, TIMES[1]), TIMES[2]: last,
                                 MAX_TIMESTAMP: last}.items():  # fmt: skip
            answers = several.map(partial(asked, address, timestamp=timestamp), range(PARTITIONS))
            assert list(answers) == [found] * PARTITIONS
        with RawClient(address, 60) as client:  # as it is: nothing is decompressed for a fetch
            body: dict[str, Any] = fetching("t", dict.fromkeys(range(PARTITIONS), 1), most=8 * MIB, max_bytes=50 * MIB)
            (topic,) = client.ask("Fetch", 11, **body)["responses"]
            assert all(len(each["records"]) < MIB for each in topic["partitions"])
        lines = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
        most = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:"))
        print(f"{PARTITIONS} batches of {count} records, {len(value)} bytes each: at most {most} MiB")
        assert most <= MEMORY_MIB


def test_a_batch_that_is_not_too_large_is_looked_into(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", LogConfig(retention_ms=-1)) as log:
        log.append([NewRecord(b"\0" * MIB, timestamp=number) for number in range(1, 21)], compression="gzip")
    with listening(tmp_path) as (bootstrap, _):
        host, _, port = bootstrap.rpartition(":")
        assert asked((host, int(port)), 0, 7) == (6, 7)
        assert asked((host, int(port)), 0, MAX_TIMESTAMP) == (19, 20)
