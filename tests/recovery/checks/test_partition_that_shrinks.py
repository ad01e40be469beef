"""A log that becomes shorter after it was listed cannot be read: nothing is decided on what is left of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkalog.cli.main import run
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.encode import build_batch
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.model import Record, TimestampType
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.log_file import LogFile
from kafkalog.recovery.damage.census import census
from kafkalog.recovery.facts.survey import survey


def log_dir(root: Path) -> Path:
    partition = root / "t-0"
    partition.mkdir(parents=True)
    written = [
        bytearray(build_batch([Record(number, 0, TimestampType.CREATE_TIME, b"k", b"v")], base_offset=number))
        for number in range(6)
    ]
    written[2][-2] ^= 1
    path = partition / f"{0:020d}.log"
    path.write_bytes(b"".join(written))
    return path


class Shorter:
    """Fewer bytes than its size says."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = data
        self.size = size

    def read(self, position: int, length: int) -> bytes:
        return self._data[position : position + length]


def test_a_log_file_as_the_broker_reads_it(tmp_path: Path) -> None:
    data = log_dir(tmp_path).read_bytes()
    for there in range(len(data) // 6 + 17):
        with pytest.raises(StorageError, match="became shorter while it was read"):
            list(LogFile(Shorter(data[:there], len(data))).batches())


def test_what_is_counted(tmp_path: Path) -> None:
    path = log_dir(tmp_path)
    size = path.stat().st_size
    for there in reversed(range(size)):
        with survey(str(tmp_path)) as found:
            tree = found.tree()
            os.truncate(path, there)
            with pytest.raises(StorageError, match="became shorter while it was read"):
                census(tree, ["t-0"], 0)
        os.truncate(path, size)


def test_plan_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir(tmp_path)
    read = FileSource.read

    def cut(self: FileSource, position: int, length: int) -> bytes:
        data = read(self, position, length)
        return data[: max(200 - position, 0)] if str(self.path).endswith(".log") else data

    monkeypatch.setattr(FileSource, "read", cut)
    code = run(["plan", str(tmp_path)])
    shown = capsys.readouterr()
    assert "unexpected" not in shown.err
    assert (code, "became shorter while it was read" in shown.out + shown.err) == (4, True), shown


COMMANDS = (["verify"], ["verify", "--shallow"], ["index", "verify"], ["report"])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_is_checked(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "logs"
    log_dir(root)
    read = FileSource.read

    def cut(self: FileSource, position: int, length: int) -> bytes:
        data = read(self, position, length)
        return data[: max(200 - position, 0)] if str(self.path).endswith(".log") else data

    monkeypatch.setattr(FileSource, "read", cut)
    page = tmp_path / "page.html"
    code = run([*words, *(["--output", str(page)] if words == ["report"] else []), str(root)])
    shown = capsys.readouterr()
    told = shown.out + shown.err + (page.read_text() if page.exists() else "")
    assert "unexpected" not in told
    assert (code, "became shorter while it was read" in told) == (4, True), shown


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("what", ["file", "directory", "size"])
def test_what_goes_after_it_was_listed(
    words: list[str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "logs"
    path = log_dir(root)

    def goes() -> HeaderTables:
        if what == "file":
            path.unlink()
        elif what == "directory":
            shutil.rmtree(path.parent)
        else:
            os.truncate(path, 100)
        return HeaderTables()

    monkeypatch.setattr("kafkalog.recovery.checks.verify.HeaderTables", goes)
    page = tmp_path / "page.html"
    code = run([*words, *(["--output", str(page)] if words == ["report"] else []), str(root)])
    shown = capsys.readouterr()
    told = shown.out + shown.err + (page.read_text() if page.exists() else "")
    assert "unexpected" not in told
    why = "became shorter while it was read" if what == "size" else "there is no such file"
    assert (code, why in told) == (4, True), shown
