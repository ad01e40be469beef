"""One of a broker's log directories is missing, empty, unreadable or read-only: what was in it, beside the others."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.judging.trees import stamps
from testkit.made.voters import directory_id_changed
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

COMMANDS = ("ls", "verify", "plan")
LOST = "alerts-25"
"""A topic of the broker that is recorded; the cluster has its partitions on this broker alone."""


def findings(command: str, *paths: object) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and the findings of each path."""
    finished = kafkalog(command, "--json", *paths)
    return finished.code, {line["path"]: line["findings"] for line in finished.objects}


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    """A broker's directory with the metadata log and no partition; and where the one was that had all of them."""
    (source,) = brokers("4.3.0/metadata")
    kept, lost = own_copy(source, tmp_path / "kept"), tmp_path / "lost"
    for each in kept.iterdir():
        if each.is_dir() and each.name != "__cluster_metadata-0":
            shutil.rmtree(each)
        elif each.name.endswith("-checkpoint"):
            each.write_text("0\n0\n")
    directory_id_changed(kept, "AAAAAAAAAAAAAAAAAAAAZg")
    return kept, lost


def of_itself(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings but for what the start says of partitions that are assigned to the other directory."""
    return [finding for finding in found if "assigned to a log directory that is gone" not in finding["detail"]]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("state", ["missing", "empty", "lost+found"])
def test_what_was_in_a_directory_that_is_gone(command: str, state: str, disks: tuple[Path, Path]) -> None:
    kept, lost = disks
    if state != "missing":
        lost.mkdir()
    if state == "lost+found":
        (lost / "lost+found").mkdir()
    before = stamps(kept)
    code, found = findings(command, kept, lost)
    assert code == 1
    assert of_itself(found[str(kept)]) == []
    (finding,) = found[str(lost)]
    assert (finding["code"], finding["severity"]) == ("log_directory_missing", "error")
    assert "no such directory" in finding["detail"] if state == "missing" else "not mounted" in finding["detail"]
    live = [each.name for each in brokers("4.3.0/metadata")[0].iterdir() if each.is_dir()]
    count = sum(not name.endswith("-delete") and name != "__cluster_metadata-0" for name in live)
    alone = "no other broker has a replica of any"
    assert f"{count} partitions of this broker were in it, and {alone}: {LOST}-0, {LOST}-1, " in finding["detail"]
    assert "a broker with KRaft does not start" in finding["detail"]
    assert stamps(kept) == before
    text = kafkalog(command, kept, lost)
    assert f"{count} partitions of this broker were in it" in text.err


@pytest.mark.parametrize("command", COMMANDS)
def test_one_path_that_holds_nothing_is_a_slip(command: str, tmp_path: Path) -> None:
    assert kafkalog(command, tmp_path / "nowhere").code == 64
    assert kafkalog(command, tmp_path / "a", tmp_path / "b").code == 64


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_of_something_else_is_a_slip_too(command: str, disks: tuple[Path, Path]) -> None:
    kept, other = disks
    other.mkdir()
    (other / "notes.txt").write_text("not Kafka's")
    assert kafkalog(command, kept, other).code == 64


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_that_cannot_be_read(
    command: str, disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, lost = disks
    own_copy(brokers("4.3.0/metadata")[0], lost)
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if os.path.realpath(path) == str(lost):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        code, found = findings(command, kept, lost)
    assert code == 4
    (finding,) = found[str(lost)]
    assert finding["code"] == "unreadable"
    assert f"were in it, and no other broker has a replica of any: {LOST}-0, " in finding["detail"]
    assert "takes it offline and starts with the others" in finding["detail"]


def test_metadata_that_cannot_be_read_does_not_say_that_nothing_was_there(disks: tuple[Path, Path]) -> None:
    kept, lost = disks
    for each in (kept / "__cluster_metadata-0").iterdir():
        each.unlink()
    (finding,) = findings("ls", kept, lost)[1][str(lost)]
    assert "which partitions were in it is not known: " in finding["detail"]


def test_a_directory_without_an_id_may_have_what_was_in_the_lost_one(disks: tuple[Path, Path]) -> None:
    kept, lost = disks
    properties = kept / "meta.properties"
    lines = properties.read_text().splitlines()
    properties.write_text("".join(f"{line}\n" for line in lines if not line.startswith("directory.id=")))
    (finding,) = findings("ls", kept, lost)[1][str(lost)]
    assert "one of the other directories has no directory id" in finding["detail"]


def test_without_the_clusters_metadata_nobody_knows(tmp_path: Path) -> None:
    """A broker of ZooKeeper's time has none, and makes what it misses again (`LogManager.createAndValidateLogDirs`)."""
    one = brokers("2.8.2/zkhist")[0]
    code, found = findings("ls", one, tmp_path / "gone")
    (finding,) = found[str(tmp_path / "gone")]
    assert code == 1
    assert "which partitions were in it is not known" in finding["detail"]
    assert "starts on it, and begins the logs that were there again, empty" in finding["detail"]


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_a_file_system_that_is_mounted_read_only(
    command: str, disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _lost = disks
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_flag=os.ST_RDONLY))
        code, found = findings(command, kept)
    (finding,) = of_itself(found[str(kept)])
    assert code == (0 if found[str(kept)] == [finding] else 1)
    assert (finding["code"], finding["severity"]) == ("log_directory_read_only", "info")


@pytest.mark.parametrize("state", ["missing", "empty"])
def test_its_partitions_are_out_of_service_affected_and_lost(state: str, tmp_path: Path) -> None:
    """Half of a broker's partitions are on the disk that is left; the start ends, so that nobody serves either half."""
    (source,) = brokers("4.3.0/metadata")
    kept, lost = own_copy(source, tmp_path / "kept"), tmp_path / "lost"
    directory_id_changed(kept, "AAAAAAAAAAAAAAAAAAAAZg")
    live = sorted(each.name for each in kept.iterdir() if (each / "partition.metadata").exists())
    live = [name for name in live if name != "__cluster_metadata-0" and "." not in name]
    gone = live[: len(live) // 2]
    for name in gone:
        shutil.rmtree(kept / name)
    if state == "empty":
        lost.mkdir()
    planned = " ".join(kafkalog("plan", kept, lost, columns=1000).out.split())
    assert f"out of service until that is mended: {len(live)} partitions, {len(gone)} of them in what is" in planned
    report = " ".join(kafkalog("report", kept, lost, "-o", "-", "--format", "text").out.split())
    assert f"Affected: {', '.join(gone[:8])} and {len(gone) - 8} more" in report
    assert f"all of {len(gone)} partitions ({', '.join(gone[:3])} and {len(gone) - 3} more), unless" in report
    assert "Lost: no record" not in report
