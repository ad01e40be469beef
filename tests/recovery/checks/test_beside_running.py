"""`verify` and `ls` beside a process that writes: no alarm for what it is doing, and damage is found all the same."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkalog.codec.common.errors import StorageError
from kafkalog.inspect.health import health
from kafkalog.log.directories.directory import open_log_dir
from kafkalog.log.directories.partition import Partition
from kafkalog.recovery.checks.beside_running import read_again
from kafkalog.recovery.checks.verify import verify
from testkit.made.tens import log_of_tens
from testkit.running.command import kafkalog
from testkit.running.lock_holder import held

BUSY = """
import sys
from kafkalog import Log, LogConfig
config = LogConfig(segment_bytes=20_000, index_interval_bytes=200, retention_bytes=100_000)
with Log.open(sys.argv[1], config) as log:
    number = 0
    while True:
        for _ in range(20):
            log.append([b"%d" % number + b"x" * 200 for _ in range(5)])
            number += 1
        log.delete_old_segments()
        if number == 400:
            print("busy", flush=True)
"""
LOOKS = 5


@contextmanager
def busy(partition: Path) -> Iterator[None]:
    """A process that appends, rolls and deletes segments as fast as it can."""
    process = subprocess.Popen([sys.executable, "-c", BUSY, str(partition)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        yield
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_nothing_is_wrong_with_a_log_that_is_being_written(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    with busy(root / "t-0"):
        for _ in range(LOOKS):
            report = verify(root)
            assert [str(each) for each in report.findings if str(each.severity) != "info"] == []
            assert [each.is_in_use for each in report.directories] == [True]
            (looked,) = health(root)
            assert looked.is_in_use
            assert [each.words for each in looked.partitions] == [()]
        assert kafkalog("verify", root).code == 0
        assert kafkalog("ls", root).code == 0


@pytest.mark.parametrize("what", ["verify", "ls"])
def test_damage_is_found_beside_a_running_broker(what: str, tmp_path: Path) -> None:
    first, *_ = log_of_tens(tmp_path, 3, segments=2)
    data = bytearray(first.read_bytes())
    data[-5] ^= 1
    first.write_bytes(data)
    with held(tmp_path / ".lock"):
        finished = kafkalog(what, tmp_path)
    assert finished.code == 1
    assert "crc_mismatch" in finished.err


def test_a_log_that_the_cleaner_replaces_is_read_again(tmp_path: Path) -> None:
    log_of_tens(tmp_path, 3)
    (partition,) = open_log_dir(tmp_path).partitions
    errors = [errno.ESTALE, errno.ENOENT]
    given = []

    def read(listed: Partition) -> int:
        given.append(listed)
        if errors:
            raise StorageError(errors.pop(), "replaced", listed.path)
        return len(given)

    with held(tmp_path / ".lock"):
        assert read_again(read, partition) == 3
    assert given[0] is partition
    assert given[1] is not partition
    errors = [errno.ESTALE]
    with pytest.raises(StorageError):
        read_again(read, partition)  # nobody replaces it
    errors = [errno.EIO]
    with held(tmp_path / ".lock"), pytest.raises(StorageError):
        read_again(read, partition)
    errors = [errno.ESTALE] * 1000
    with held(tmp_path / ".lock"), pytest.raises(StorageError):
        read_again(read, partition)


def test_what_a_start_would_do_is_not_asked_of_a_broker_that_runs(tmp_path: Path) -> None:
    log_of_tens(tmp_path, 3)
    (tmp_path / "no partition").mkdir()  # with which no broker starts
    assert "broker_refuses" in kafkalog("verify", tmp_path).err
    with held(tmp_path / ".lock"):
        finished = kafkalog("verify", tmp_path)
        (line,) = kafkalog("verify", tmp_path, "--json").objects
    assert "broker_refuses" not in finished.err
    assert finished.lines[1].startswith("another process, such as a running broker, has the directory open")
    assert line["broker"]["outcome"] is None
