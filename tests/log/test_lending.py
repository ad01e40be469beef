"""Parts of a file lent as memory: only while nobody can change the file, and given back before others have the word."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from batches import simple
from kafkalog.codec.fast import choice
from kafkalog.log import lending, open_partition
from kafkalog.log.files import FileSource
from kafkalog.log.lending import lent

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
    monkeypatch.setattr(choice, "ENOUGH_BYTES", 0)
    monkeypatch.setattr(choice, "ENOUGH_BATCHES", 0)
    directory = folder / "t-0"
    directory.mkdir()
    log = directory / f"{0:020}.log"
    log.write_bytes(b"".join(simple(5, base) for base in range(0, 500, 5)))
    calls = []

    def counted(descriptor: int, position: int, length: int) -> object:
        calls.append(position)
        return lent(descriptor, position, length)

    monkeypatch.setattr("kafkalog.log.files.lent", counted)
    reader = open_partition(directory).to_arrow(["offset"], batch_rows=50)
    offsets = []
    for batch in reader:
        assert opens_for_writing(log)
        offsets += batch["offset"].to_pylist()
    assert offsets == list(range(500))
    assert calls


def test_a_file_that_is_cut_between_two_windows_is_read_as_far_as_it_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "ENOUGH_BYTES", 0)
    monkeypatch.setattr("kafkalog.codec.fast.runs._LENT_WINDOW", 4096)
    directory = folder / "t-0"
    directory.mkdir()
    log = directory / f"{0:020}.log"
    one = simple(5, 0)
    log.write_bytes(b"".join(simple(5, base) for base in range(0, 5000, 5)))
    reader = open_partition(directory).to_arrow(["offset"], batch_rows=20)
    first = reader.read_next_batch()["offset"].to_pylist()
    os.truncate(log, 100 * len(one))
    rest = [offset for batch in reader for offset in batch["offset"].to_pylist()]
    assert first + rest == list(range(len(first + rest)))
    assert 0 < len(first + rest) <= 500
