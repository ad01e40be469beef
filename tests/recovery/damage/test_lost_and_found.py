"""Segments that a file system's repair has put into lost+found, and files that are not Kafka's with batches in them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kafkalog import verify
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

TOPIC = "sensors-0-0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory whose partition has several segments, as a broker recorded it."""
    return own_copy(brokers("4.3.0/segments")[0], tmp_path / "disk" / "data")


def outside(command: str, root: Path) -> list[dict[str, Any]]:
    (line,) = kafkalog(command, "--json", root).objects
    return [each for each in line["findings"] if each["code"] == "batches_outside"]


def logs(root: Path) -> list[Path]:
    return sorted((root / TOPIC).glob("*.log"))


@pytest.mark.parametrize("command", ["ls", "verify", "plan"])
@pytest.mark.parametrize("which", ["first", "middle", "last"])
@pytest.mark.parametrize("place", ["inside", "beside", "in a directory"])
def test_a_segment_in_lost_and_found_is_offered_to_its_partition(
    command: str, which: str, place: str, root: Path
) -> None:
    assert outside(command, root) == []
    found = logs(root)
    assert len(found) > 2
    log = {"first": found[0], "middle": found[1], "last": found[-1]}[which]
    lost = root / "lost+found" if place == "inside" else root.parent / "lost+found"
    target = lost / "#4711" / log.name if place == "in a directory" else lost / "#4711"
    target.parent.mkdir(parents=True)
    log.rename(target)
    (lost / "#4712").write_bytes(bytes(500))
    (finding,) = outside(command, root)
    file = os.path.relpath(target, root) if command == "plan" else str(target)
    assert (finding["file"], finding["severity"]) == (file, "warning")
    assert finding["offset"] == int(log.stem)
    assert f"copy it to {log}" in finding["detail"]
    target.rename(log)  # the advice, followed
    (lost / "#4712").unlink()
    for each in (target.parent, lost):
        if each.is_dir():
            each.rmdir()
    assert verify(root).is_clean


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_what_fits_nowhere_is_named_with_its_offsets(command: str, root: Path, tmp_path: Path) -> None:
    other = brokers("4.3.0/segments")[0] / TOPIC
    copy = root / "lost+found" / "#1"
    copy.parent.mkdir()
    copy.write_bytes(sorted(other.glob("*.log"))[1].read_bytes())
    (finding,) = outside(command, root)
    assert "no partition in" in finding["detail"]


@pytest.mark.parametrize("command", ["ls", "verify", "plan"])
def test_a_file_that_is_not_kafkas_is_looked_into(command: str, root: Path) -> None:
    last = logs(root)[-1]
    saved = last.with_name(f"{last.name}.bak")
    last.rename(saved)
    (finding,) = outside(command, root)
    assert finding["file"] == (os.path.relpath(saved, root) if command == "plan" else str(saved))
    assert f"copy it to {last}" in finding["detail"]


def test_an_unreadable_partition_is_a_row_and_counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(kafkalog("ls", "--json", root).objects[0]["partitions"])
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if os.path.realpath(path) == str(root / TOPIC):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        finished, text = kafkalog("ls", "--json", root), kafkalog("ls", "--all", root)
    assert (finished.code, text.code) == (4, 4)
    rows = {each["path"]: each["health"] for each in finished.objects[0]["partitions"]}
    assert len(rows) == count
    assert rows[str(root / TOPIC)] == "unreadable"
    assert [each["code"] for each in finished.objects[0]["findings"]] == ["unreadable"]
    assert "1 not ok, 1 not counted" in text.out
