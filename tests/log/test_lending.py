"""Parts of a file lent as memory: only while nobody can change the file, and given back before others have the word."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from kafkalog.codec import thresholds
from kafkalog.codec.encode.columns import build_batches
from kafkalog.codec.errors import FormatError
from kafkalog.log import open_partition
from kafkalog.log.disk import holders, lending, lending_cost
from kafkalog.log.disk.files import FileSource
from kafkalog.log.disk.fs import AppendFile
from kafkalog.log.disk.lending import lent, withdrawn
from kafkalog.log.writing.session import locked_directory
from testkit.made.batches import simple

CONTENT = bytes(range(256)) * 100


def opens_for_writing(path: Path) -> bool:
    """Whether somebody could without waiting for who holds a lease."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the system lends files: not every folder for temporary files is of a file system that can."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as shared:
        for candidate in (tmp_path, Path(shared)):
            (candidate / "tried").write_bytes(b"x")
            with FileSource(candidate / "tried") as source, source.lent(0, 1) as part:
                if part is not None:
                    yield candidate
                    return
        pytest.skip("this system lends no files: it has no leases, or its kernel is older than 5.14")


@pytest.fixture
def path(folder: Path) -> Path:
    (folder / "file").write_bytes(CONTENT)
    return folder / "file"


@pytest.mark.parametrize(("position", "length"), [(0, 1), (0, len(CONTENT)), (4095, 2), (4097, 9000), (25_599, 1)])
def test_what_is_lent_are_the_bytes_of_the_file(path: Path, position: int, length: int) -> None:
    with FileSource(path) as source, source.lent(position, length) as part:
        assert part is not None
        assert part == CONTENT[position : position + length]
        assert part.readonly


@pytest.mark.parametrize(("position", "length"), [(0, len(CONTENT) + 1), (len(CONTENT), 1), (0, 0), (5, -1)])
def test_what_is_not_there_is_not_lent(path: Path, position: int, length: int) -> None:
    with FileSource(path) as source, source.lent(position, length) as part:
        assert part is None


def test_who_wants_to_cut_a_file_waits_until_it_is_given_back(path: Path) -> None:
    with FileSource(path) as source:
        with source.lent(0, len(CONTENT)) as part:
            assert part is not None
            assert not opens_for_writing(path)
            other = subprocess.Popen([sys.executable, "-c", f"import os; os.truncate({str(path)!r}, 0)"])
            descriptor = source._descriptor
            while fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == fcntl.F_RDLCK:  # until somebody asks for it back
                time.sleep(0.01)
            assert bytes(part) == CONTENT
            assert path.stat().st_size == len(CONTENT)
        assert other.wait(timeout=60) == 0
        assert path.stat().st_size == 0
        with source.lent(0, len(CONTENT)) as part:
            assert part is None


def test_a_file_that_somebody_writes_is_not_lent(path: Path) -> None:
    with FileSource(path) as source:
        with path.open("ab"), source.lent(0, 10) as part:
            assert part is None
        with source.lent(0, 10) as part:
            assert part is not None


@pytest.mark.parametrize("error", [False, True])
def test_it_is_given_back_whatever_happens(path: Path, error: bool) -> None:
    with FileSource(path) as source:
        with pytest.raises(ZeroDivisionError) if error else memoryview(b""), source.lent(0, 10) as part:
            assert part is not None
            if error:
                raise ZeroDivisionError
        assert opens_for_writing(path)
        with pytest.raises(ValueError, match="released"):
            part[0]


def test_pages_that_cannot_be_brought_in_are_not_lent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "_POPULATE_READ", 9999)
    with FileSource(path) as source, source.lent(0, 10) as part:
        assert part is None
    assert opens_for_writing(path)


def test_a_network_is_never_lent_from(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = path.stat().st_dev
    lines = f"36 35 {os.major(device)}:{os.minor(device)} / /mnt rw,noatime master:1 - {{}} host:/share rw\n"
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(lending, "_MOUNTS", mounts)
    for kind, expected in (("nfs4", False), ("fuse.sshfs", False), ("overlay", False), ("ext4", True)):
        mounts.write_text(lines.format(kind))
        lending._is_local.cache_clear()
        with FileSource(path) as source, source.lent(0, 10) as part:
            assert (part is not None) is expected, kind
    lending._is_local.cache_clear()


def test_nothing_is_held_while_a_reader_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "ENOUGH_BYTES", 0)
    monkeypatch.setattr(thresholds, "ENOUGH_BATCHES", 0)
    directory = folder / "t-0"
    directory.mkdir()
    log = directory / f"{0:020}.log"
    log.write_bytes(b"".join(simple(5, base) for base in range(0, 500, 5)))
    calls = []

    def counted(descriptor: int, position: int, length: int) -> object:
        calls.append(position)
        return lent(descriptor, position, length)

    monkeypatch.setattr("kafkalog.log.disk.files.lent", counted)
    reader = open_partition(directory).to_arrow(["offset"], batch_rows=50)
    offsets = []
    for batch in reader:
        assert opens_for_writing(log)
        offsets += batch["offset"].to_pylist()
    assert offsets == list(range(500))
    assert calls


def test_a_file_that_is_cut_between_two_windows_is_read_as_far_as_it_goes_and_missed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "ENOUGH_BYTES", 0)
    monkeypatch.setattr("kafkalog.codec.headers.run_scanner._LENT_WINDOW", 4096)
    directory = folder / "t-0"
    directory.mkdir()
    log = directory / f"{0:020}.log"
    one = simple(5, 0)
    log.write_bytes(b"".join(simple(5, base) for base in range(0, 5000, 5)))
    reader = open_partition(directory).to_arrow(["offset"], batch_rows=20)
    first = reader.read_next_batch()["offset"].to_pylist()
    os.truncate(log, 100 * len(one))
    rest: list[int] = []
    with pytest.raises(FormatError, match=f"the file has {100 * len(one)} bytes"):
        rest.extend(offset for batch in reader for offset in batch["offset"].to_pylist())
    assert first + rest == list(range(len(first + rest)))
    assert 0 < len(first + rest) <= 500


# --- who may cut a file while its reader is stopped -----------------------------------------------------------------

HOLDER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""
READER = """
import sys, time
from kafkalog.log.disk.files import FileSource
with FileSource(sys.argv[1]) as source, source.lent(0, 10) as part:
    print(part is not None, flush=True)
    sys.stdin.readline()
    assert bytes(part) == bytes(range(10))
"""


@contextmanager
def other(program: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has said its first line."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() in ("held\n", "True\n")
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0


@pytest.fixture
def segment(folder: Path) -> Path:
    directory = folder / "logs" / "t-0"
    directory.mkdir(parents=True)
    (directory / "0.log").write_bytes(CONTENT)
    return directory / "0.log"


def is_lent(path: Path) -> bool:
    with FileSource(path) as source, source.lent(0, 10) as part:
        return part is not None


@pytest.mark.parametrize("hidden", [False, True])
def test_nothing_is_lent_while_another_process_has_the_brokers_lock(
    segment: Path, hidden: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert is_lent(segment)
    lock = segment.parents[1] / ".lock"
    if hidden:  # as a container's list shows nobody outside of it
        (tmp_path / "locks").write_text("")
        monkeypatch.setattr(holders, "_LOCKS", tmp_path / "locks")
    with other(HOLDER, lock):
        assert not is_lent(segment)
        assert bytes(FileSource(segment).read(0, 10)) == CONTENT[:10]
    assert lock.exists(), "a broker that died leaves the file"
    assert is_lent(segment)


def test_our_own_lock_lends_and_is_not_lost_by_asking(segment: Path) -> None:
    root = segment.parents[1]
    with locked_directory(root):
        assert is_lent(segment)
        command = [sys.executable, "-c", HOLDER, str(root / ".lock")]
        refused = subprocess.run(command, input="", capture_output=True, text=True, check=False)
        assert "BlockingIOError" in refused.stderr
    assert not holders.held_by_others(str(root))


def test_a_file_with_another_name_is_not_lent(segment: Path) -> None:
    os.link(segment, segment.with_name("other.log"))
    assert not is_lent(segment)


def test_a_file_is_withdrawn_from_the_readers_of_this_process(segment: Path) -> None:
    lent_now, cut, seen = threading.Event(), threading.Event(), []

    def read() -> None:
        with FileSource(segment) as source, source.lent(0, len(CONTENT)) as part:
            assert part is not None
            lent_now.set()
            assert not cut.wait(0.3), "who cuts the file waits"
            seen.append(bytes(part) == CONTENT)

    reader = threading.Thread(target=read)
    reader.start()
    assert lent_now.wait(60)
    with withdrawn(str(segment)), withdrawn(str(segment)):
        cut.set()
        assert not is_lent(segment)
        os.truncate(segment, 20)
    reader.join()
    assert seen == [True]
    assert is_lent(segment)
    with withdrawn(str(segment.with_name("none.log"))):
        pass


def test_who_writes_a_file_waits_for_the_reader_of_another_process(segment: Path) -> None:
    with other(READER, segment) as reader:
        opened: list[int] = []
        writer = threading.Thread(target=lambda: opened.append(AppendFile(str(segment), create=False).size))
        writer.start()
        writer.join(0.3)
        assert opened == []
        assert reader.stdin is not None
        reader.stdin.write("\n")
        reader.stdin.flush()
        writer.join(60)
    assert opened == [len(CONTENT)]


@pytest.fixture
def large(folder: Path) -> Path:
    (folder / "large").write_bytes(bytes(lending_cost._WORTH_IT))
    return folder / "large"


@pytest.mark.parametrize("takes_less", [False, True])
def test_large_files_are_read_where_that_takes_less_time(
    large: Path, monkeypatch: pytest.MonkeyPatch, takes_less: bool
) -> None:
    monkeypatch.setattr(lending_cost, "_known", {})
    times = iter([1, 2] if takes_less else [2, 1])
    monkeypatch.setattr(lending_cost, "_least_time", lambda work: (work(), next(times))[1])
    with FileSource(large) as source:
        assert source.prefers_reading(0) is takes_less
        assert source.prefers_reading(source.size - 1) is takes_less, "it is known now"
        assert opens_for_writing(large)


def test_what_is_small_or_cannot_be_lent_is_not_tried(path: Path, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending_cost, "_known", {})
    monkeypatch.setattr(lending_cost, "_least_time", lambda work: pytest.fail("it was tried"))
    with FileSource(path) as source:
        assert not source.prefers_reading(0)
    with FileSource(large) as source, large.open("r+b"):
        assert not source.prefers_reading(0)
    assert not lending_cost.reading_takes_less(-1, 0)


def test_a_large_log_is_read_the_same_either_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = folder / "large-0"
    directory.mkdir()
    values = [b"%07d" % number * 2000 for number in range(2600)]
    log = b"".join(build_batches(pa.record_batch({"value": pa.array(values, pa.binary())})))
    assert len(log) > lending_cost._WORTH_IT
    (directory / f"{0:020}.log").write_bytes(log)
    device = directory.stat().st_dev
    for is_read in (False, True):
        monkeypatch.setattr(lending_cost, "_known", {device: is_read})
        with FileSource(directory / f"{0:020}.log") as source:
            assert source.prefers_reading(0) is is_read
        assert open_partition(directory).to_arrow(["value"]).read_all()["value"].to_pylist() == values
