"""A read that was begun goes on where retention, or the deletion of the partition, takes the files away meanwhile."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecordFilter
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.encode import ProducerState
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log import Log, LogConfig, Partition, open_partition
from kafkalog.log.disk import held_files
from kafkalog.log.disk.held_files import HeldFiles
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.reading import to_arrow
from kafkalog.log.reading.fetch import OffsetOutOfRangeError
from testkit.judging.executions import choose_execution

SEGMENTS, OF_A_SEGMENT = 30, 4
ALL = list(range(SEGMENTS * OF_A_SEGMENT))


def log_of_segments(directory: Path, segments: int = SEGMENTS) -> Path:
    directory.parent.mkdir()
    with Log.open(directory) as log:
        for _ in range(segments):
            log.append([b"one", b"two"])
            log.append(
                [b"three", b"four"],
                producer=ProducerState(
                    producer_id=7, producer_epoch=0, base_sequence=log.next_sequence(7), is_transactional=False
                ),
            )
            log.roll()
    return directory


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return log_of_segments(tmp_path / "logs" / "t-0")


def retention(directory: Path) -> None:
    """As a broker deletes segments, all but the last: first another name for each file, then none."""
    files = sorted(directory.glob("0*"))[:-4]
    assert len(files) > SEGMENTS
    for file in files:
        file.rename(f"{file}.deleted")
    for file in directory.glob("*.deleted"):
        file.unlink()


def deletion(directory: Path) -> None:
    """As a broker deletes a partition: another name for the directory, then the files, at last the directory."""
    gone = directory.rename(directory.parent / "t-0.0123456789abcdef0123456789abcdef-delete")
    for file in list(gone.iterdir()):
        file.unlink()
    gone.rmdir()


def by_records(partition: Partition) -> Iterator[list[int]]:
    reader = partition.records(on_damage="stop")
    for record in reader:
        yield [record.offset]
    assert reader.findings == []


def by_committed_records(partition: Partition) -> Iterator[list[int]]:
    return (
        [record.offset]
        for record in partition.records(RecordFilter(isolation_level="read_committed"), on_damage="stop")
    )


def by_batches(partition: Partition) -> Iterator[list[int]]:
    reader = partition.batches()
    for batch in reader:
        yield [record.offset for record in decode_batch(batch).records]
    assert reader.findings == []


def by_columns(partition: Partition, threads: int = 1) -> Iterator[list[int]]:
    for part in partition.to_arrow(["offset"], batch_rows=1, threads=threads):
        yield part["offset"].to_pylist()


def by_columns_in_threads(partition: Partition) -> Iterator[list[int]]:
    return by_columns(partition, 3)


WAYS = [by_records, by_committed_records, by_batches, by_columns, by_columns_in_threads]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("delete", [retention, deletion])
@pytest.mark.parametrize("way", WAYS)
def test_a_read_goes_on_behind_a_deletion(
    way: Callable[[Partition], Iterator[list[int]]],
    delete: Callable[[Path], None],
    compiled: bool,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose_execution(monkeypatch, 0 if compiled else 2**62)
    monkeypatch.setattr(to_arrow, "_WAITING_BYTES", 1)
    pieces = way(open_partition(directory))
    found = next(pieces)
    delete(directory)
    for piece in pieces:
        found += piece
    assert found == ALL


@pytest.mark.parametrize("threads", [1, 2])
def test_a_read_begins_when_it_is_asked_for(threads: int, directory: Path) -> None:
    partition = open_partition(directory)
    records = partition.records(RecordFilter(isolation_level="read_committed"), on_damage="stop")
    batches = partition.batches()
    columns = partition.to_arrow(["offset"], RecordFilter(isolation_level="read_committed"), threads=threads)
    deletion(directory)
    assert [record.offset for record in records] == ALL
    assert len(list(batches)) == len(ALL) // 2
    assert columns.read_all()["offset"].to_pylist() == ALL


def test_a_partition_that_nobody_began_to_read_is_gone(directory: Path) -> None:
    partition = open_partition(directory)
    deletion(directory)
    with pytest.raises(MissingFileError, match="no such file"):
        list(partition.records(on_damage="stop"))


@pytest.mark.parametrize("way", WAYS)
def test_a_log_deletes_what_its_own_reader_is_reading(
    way: Callable[[Partition], Iterator[list[int]]], tmp_path: Path
) -> None:
    directory = log_of_segments(tmp_path / "logs" / "t-0")
    with Log.open(directory, LogConfig(retention_bytes=0, file_delete_delay_ms=0)) as log:
        pieces = way(log.partition())
        found = next(pieces)
        assert log.delete_old_segments() >= SEGMENTS
        log.delete_old_segments()  # removes what the first call renamed
        assert not list(directory.glob("*.deleted"))
        for piece in pieces:
            found += piece
        assert found == ALL
        assert list(log.partition().records(on_damage="stop")) == []


def test_a_log_is_read_while_it_rolls_and_deletes(tmp_path: Path) -> None:
    """Every read of a live log gives what it held at some moment of it: whole, in order, without a hole."""
    (tmp_path / "logs").mkdir()
    config = LogConfig(segment_bytes=400, retention_bytes=1500, file_delete_delay_ms=0)
    with Log.open(tmp_path / "logs" / "t-0", config) as log:
        log.append([b"v" * 50])
        is_over = threading.Event()

        def write() -> None:
            for _ in range(400):
                log.append([b"v" * 50, b"w" * 50])
                log.delete_old_segments()
            is_over.set()

        writer = threading.Thread(target=write)
        writer.start()
        reads = 0
        while not is_over.is_set():
            start = log.log_start_offset
            try:
                chunk = log.read(start)
            except OffsetOutOfRangeError:
                assert log.log_start_offset > start
                continue
            assert [record.offset for record in chunk][:1] == [start]
            reads += 1
        writer.join()
        assert reads > 0


FEW_DESCRIPTORS = """
import os, resource, sys
from pathlib import Path
import pyarrow
from kafkalog.log import open_partition
from kafkalog.log.reading.fetch import OffsetOutOfRangeError
from kafkalog.log.disk.remote_file import MissingFileError
directory, way, delete = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "delete"
partition = open_partition(directory)
assert len(partition.segments) > 200
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
if way == "records":
    pieces = ([record.offset] for record in partition.records(on_damage="stop"))
elif way == "batches":
    pieces = (list(range(batch.header.base_offset, batch.last_offset + 1)) for batch in partition.batches())
else:
    read = partition.to_arrow(["offset"], batch_rows=1, threads=int(way))
    pieces = (part["offset"].to_pylist() for part in read)
found = next(pieces)
if delete:
    for file in list(directory.iterdir()):
        file.unlink()
try:
    for piece in pieces:
        found += piece
    print("whole", end=" ")
except MissingFileError as error:
    print(error, end=" ")
assert found == list(range(len(found))), found
print(len(found))
"""


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["records", "batches", "1", "3"])
def test_more_segments_than_open_files_are_allowed(way: str, tmp_path: Path) -> None:
    directory = log_of_segments(tmp_path / "logs" / "t-0", 200)
    whole = elsewhere(directory, way, "keep")
    assert whole == "whole 800"
    told = elsewhere(directory, way, "delete")
    assert "was deleted before it was its turn to be read" in told
    assert "ulimit -n" in told
    assert str(directory) in told
    assert OF_A_SEGMENT * 10 < int(told.rsplit(" ", 1)[1]) < OF_A_SEGMENT * 64


def elsewhere(directory: Path, *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", FEW_DESCRIPTORS, str(directory), *arguments], capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
    return run.stdout.strip()


def open_files() -> int:
    """Files and directories; threads of other tests' clients may open and close sockets at any moment."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{name}").startswith("/")
    return found


def test_nothing_is_held_when_a_read_is_over_or_forgotten(directory: Path) -> None:
    before = open_files()
    partition = open_partition(directory)
    reader = partition.records(on_damage="stop")
    assert open_files() == before + SEGMENTS + 1
    assert len(list(reader)) == len(ALL)
    assert open_files() == before
    forgotten = partition.records(on_damage="stop")
    next(iter(forgotten))
    unread = partition.to_arrow(["offset"])
    assert open_files() > before + SEGMENTS
    del forgotten, unread
    assert open_files() == before


@pytest.mark.parametrize("way", ["records", "batches"])
def test_what_is_forgotten_in_a_circle_is_closed_once(way: str, directory: Path) -> None:
    """The collector finalizes in no order; a descriptor closed twice may be somebody else's by then."""
    gc.collect()
    before = open_files()
    partition = open_partition(directory)
    reader: Any = getattr(partition, way)()
    pieces = iter(reader)
    next(pieces)
    circle = [reader, pieces]
    circle.append(circle)
    assert open_files() > before + SEGMENTS
    del reader, pieces, circle
    gc.collect()
    assert open_files() == before


def test_reads_share_what_the_process_may_hold(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    for name in ("kept_free", "_taken"):  # what a server in this process keeps free, and what other tests still read
        monkeypatch.setattr(held_files._ALLOWANCE, name, 0)
    monkeypatch.setattr("kafkalog.log.disk.held_files.resource.getrlimit", lambda _: (40, 40))
    before = open_files()
    partition = open_partition(directory)
    first, second = partition.batches(), partition.batches()
    assert open_files() == before + 15 + 7
    assert len(list(first)) == len(list(second)) == len(ALL) // 2
    assert open_files() == before


def test_what_is_read_last_is_closed_where_another_file_cannot_be_opened(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, *paths = sorted(str(path) for path in directory.glob("*.log"))
    before = open_files()
    files = HeldFiles(paths)
    held = open_files() - before
    assert held == len(paths)
    failures = iter([True, True, False])
    opened = os.open

    def refused(path: str, flags: int) -> int:
        if next(failures):
            raise OSError(24, "Too many open files")
        return opened(path, flags)

    monkeypatch.setattr("kafkalog.log.disk.files.os.open", refused)
    with files.open(other) as source:
        assert source.read(0, source.size) != b""
        assert open_files() == before + held - 2 + 1
    monkeypatch.undo()
    files.passed(paths[0])
    assert open_files() == before + held - 1  # the two are held again
    files.close()
    assert open_files() == before


def test_a_file_that_several_read_is_closed_when_the_last_one_is_done(directory: Path) -> None:
    paths = sorted(str(path) for path in directory.glob("*.log"))
    before = open_files()
    files = HeldFiles(paths)
    first, second, third = (files.open(paths[0]) for _ in range(3))
    whole = first.read(0, first.size)
    assert open_files() == before + len(paths)
    first.close()
    first.close()
    assert second.read(0, second.size) == whole != b""
    files.passed(paths[0])
    second.close()
    assert third.read(0, third.size) == whole
    assert open_files() == before + len(paths)
    third.close()
    assert open_files() == before + len(paths) - 1
    files.close()
    assert open_files() == before


def test_an_error_that_is_no_lack_of_descriptors_is_told(directory: Path) -> None:
    (path,) = [str(path) for path in directory.glob("00000000000000000004.log")]
    files = HeldFiles([path])
    files.close()
    Path(path).unlink()
    Path(path).mkdir()
    with pytest.raises(StorageError, match="a directory, not a file"):
        files.open(path)
