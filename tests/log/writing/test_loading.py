"""Opening a log for writing: what a broker does, but that no byte of the log goes and nothing sealed is read."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kafkalog
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.directory import DirectoryDisk
from kafkalog.log.storage.loader import LoadRequest, LogLoader
from kafkalog.log.storage.segment import LogLossError
from kafkalog.log.writing.incoming import parse_batch
from testkit.made.batches import batch, record

MARKER = ".kafka_cleanshutdown"
CONFIG = kafkalog.LogConfig(segment_bytes=300, index_interval_bytes=0, segment_index_bytes=4096)
T0 = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of 40 segments that was closed in order."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "t-0"
    with kafkalog.Log.open(path, CONFIG, clock=lambda: T0) as log:
        for _ in range(80):
            log.append([b"x" * 80])
        assert len(log.segments) == 40
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@contextmanager
def log_bytes_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Bytes read of each log file, by whatever reader."""
    found: dict[str, int] = {}
    of_source, of_file = FileSource.read, fs.AppendFile.read

    def note(path: str, data: bytes) -> bytes:
        if path.endswith(".log"):
            found[os.path.basename(path)] = found.get(os.path.basename(path), 0) + len(data)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(FileSource, "read", lambda self, *where: note(self.path, of_source(self, *where)))
        patch.setattr(fs.AppendFile, "read", lambda self, *where: note(self.path, of_file(self, *where)))
        yield found


@contextmanager
def most_open_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many more descriptors than before there were, whenever a file was opened to be written."""
    before, most = len(os.listdir("/proc/self/fd")), [0]
    real = fs.AppendFile.__init__

    def counted(self: fs.AppendFile, path: str, *, create: bool, mode: int = 0o644) -> None:
        real(self, path, create=create, mode=mode)
        most[0] = max(most[0], len(os.listdir("/proc/self/fd")) - before)

    with monkeypatch.context() as patch:
        patch.setattr(fs.AppendFile, "__init__", counted)
        yield most


def test_of_a_log_that_was_closed_in_order_only_the_last_segment_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log_bytes_read(monkeypatch) as read, most_open_files(monkeypatch) as most:
        log = kafkalog.Log.open(path, CONFIG)
    assert set(read) == {max(path.glob("*.log")).name}
    assert 0 < most[0] < 12
    assert log.end_offset == 80
    log.close()


def test_after_a_crash_what_was_not_flushed_is_read_with_few_files_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path.parent / MARKER).unlink()
    point = path.parent / "recovery-point-offset-checkpoint"
    point.write_text("0\n1\nt 0 10\n")
    before = contents(path)
    with log_bytes_read(monkeypatch) as read, most_open_files(monkeypatch) as most:
        log = kafkalog.Log.open(path, CONFIG, clock=lambda: T0)
    names = sorted(each.name for each in path.glob("*.log"))
    assert sorted(read) == names[names.index(f"{10:020d}.log") :], "but for what a sealed one before it holds"
    assert 0 < most[0] < 12
    log.close()
    kept = {name: data for name, data in contents(path).items() if not name.endswith(".snapshot")}
    assert kept == {name: data for name, data in before.items() if not name.endswith(".snapshot")}


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_refused_is_left_as_it_is_with_the_marker(path: Path, clean: bool) -> None:
    if not clean:
        (path.parent / MARKER).unlink()
    last = max(path.glob("*.log"))
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    before = contents(path.parent)
    with pytest.raises(kafkalog.FormatError, match=rf"; let recover\({str(path)!r}\) decide") as raised:
        kafkalog.Log.open(path, CONFIG)
    assert raised.value.code == "crc_mismatch"
    assert raised.value.position == len(data) // 2
    assert raised.value.source == str(last)
    after = contents(path.parent)
    assert after == before


@pytest.mark.parametrize("name", ["x.log", "x.timeindex", "x.swap", "7.log", f"{0:020d}.log.cleaned"])
def test_a_name_that_stops_a_broker_or_is_left_of_a_compaction_is_refused(path: Path, name: str) -> None:
    (path / name).touch()
    before = contents(path.parent)
    with pytest.raises(kafkalog.UsageError, match=rf"; let recover\({str(path)!r}\) decide") as raised:
        kafkalog.Log.open(path, CONFIG)
    assert str(path / name) in str(raised.value)
    assert contents(path.parent) == before


def test_an_index_that_cannot_be_that_of_the_last_segment_is_built_anew(path: Path) -> None:
    index = max(path.glob("*.index"))
    right = index.read_bytes()
    for wrong in (b"\x00\x00\x00\x01\x7f\xff\xff\xff", bytes(8 * 10**5), right[::-1]):
        index.write_bytes(wrong)
        with kafkalog.Log.open(path, CONFIG, clock=lambda: T0) as log:
            assert log.end_offset == 80
        assert index.read_bytes() == right


def test_a_full_index_keeps_nobody_from_opening_a_log_after_a_crash(path: Path) -> None:
    config = kafkalog.LogConfig(index_interval_bytes=0, segment_index_bytes=24)
    full = path.with_name("u-0")
    with kafkalog.Log.open(full, config, clock=lambda: T0) as log:
        log.append([parse_batch(batch(record(0, b"k", b"v"), 1, base_offset=offset)) for offset in range(9)])
        assert len(log.segments) == 1
    assert (full / f"{0:020d}.timeindex").stat().st_size <= 24 < 8 * 8, "entries of eight batches do not fit"
    before = contents(full)
    (path.parent / MARKER).unlink()
    (path.parent / "recovery-point-offset-checkpoint").unlink()
    with kafkalog.Log.open(full, config, clock=lambda: T0) as log:
        assert log.end_offset == 9
    assert contents(full) == before


def test_an_error_in_the_middle_leaves_no_marker(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    other = kafkalog.Log.open(path.with_name("u-0"))
    monkeypatch.setattr("kafkalog.log.writing.loading.rehearse", lambda *_, **__: 80)
    monkeypatch.setattr(LogLoader, "load", cut)
    with pytest.raises(KeyboardInterrupt):
        kafkalog.Log.open(path, CONFIG)
    monkeypatch.undo()
    other.close()
    assert not (path.parent / MARKER).exists()


@pytest.mark.parametrize(("name", "slot"), [(".index", ">ii"), (".timeindex", ">qi")])
def test_an_index_that_reaches_beyond_its_log_is_built_again(path: Path, name: str, slot: str) -> None:
    """A broker believes it, finds no such offset and begins the segment again (`LogSegment.readNextOffset`)."""
    last = max(path.glob(f"*{name}"))
    entry = list(struct.unpack(slot, last.read_bytes()[-struct.calcsize(slot) :]))
    entry[0 if name == ".index" else 1] = 2**31 - 1
    last.write_bytes(last.read_bytes()[: -struct.calcsize(slot)] + struct.pack(slot, *entry))
    logs = {each: data for each, data in contents(path).items() if each.endswith(".log")}
    with kafkalog.Log.open(path, CONFIG, clock=lambda: T0) as log:
        assert log.end_offset == 80
        assert log.append([b"one more"]) == 80
    assert all(contents(path)[each].startswith(data) for each, data in logs.items())
    assert [each.offset for each in kafkalog.open_partition(path).records()] == list(range(81))


def request(path: Path, log_start_offset: int) -> LoadRequest:
    return LoadRequest(
        directory=str(path), settings=CONFIG, now_ms=T0, clean=False, recovery_point=0,
        log_start_offset=log_start_offset, keeps_log=True,
    )  # fmt: skip


def test_a_log_that_is_kept_is_neither_cut_nor_deleted_nor_split(path: Path, tmp_path: Path) -> None:
    last = max(path.glob("*.log"))
    torn = shutil.copytree(path, tmp_path / "torn" / "t-0")
    (torn / last.name).write_bytes(last.read_bytes()[:-1])
    wide = shutil.copytree(path, tmp_path / "wide" / "t-0")
    (wide / last.name).write_bytes(last.read_bytes() + batch(record(0, b"k", b"v"), 1, base_offset=2**33))
    for directory, start, position in ((torn, 0, last.stat().st_size // 2), (path, 81, 0), (wide, 0, 0)):
        before = {name: data for name, data in contents(directory).items() if name.endswith(".log")}
        with pytest.raises(LogLossError) as raised:
            LogLoader(DirectoryDisk(), request(directory, start)).load()
        assert raised.value.position == position
        assert {name: data for name, data in contents(directory).items() if name.endswith(".log")} == before


def test_opening_takes_away_what_a_log_left_and_nothing_else(path: Path) -> None:
    ours = path / "00000000000000000900.log.deleted"
    others = [path / "notes.txt.deleted", path / "backup.deleted"]
    for each in (ours, *others):
        each.write_bytes(b"x")
    kafkalog.Log.open(path, CONFIG).close()
    assert not ours.exists()
    assert [each.read_bytes() for each in others] == [b"x", b"x"]
