"""What the cluster knew is shown even if files beside it cannot be read: they are reported, and the exit code is 4."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kafkalog.codec.common.errors import StorageError
from kafkalog.log.disk import files
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

COMMANDS = ["metadata", "elections", "offsets", "groups", "transactions"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    own_copy(brokers("4.1.1/groups")[0], tmp_path / "data")
    return tmp_path / "data"


def refuse(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the system refuse to open every file with a name, as it does for one who may not read it."""
    real = files.open_regular

    def opened(path: str, *arguments: object, **more: object) -> object:
        if os.path.basename(path) == name or f"/{name}/" in path:
            raise StorageError(errno.EACCES, "cannot open the file: Permission denied", path)
        return real(path, *arguments, **more)

    monkeypatch.setattr(files, "open_regular", opened)


@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "recovery-point-offset-checkpoint"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_checkpoint(command: str, name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kafkalog(command, directory)
    assert whole.code in (0, 1)
    refuse(monkeypatch, name)
    finished = kafkalog(command, directory)
    assert finished.out == whole.out
    assert finished.code == 4
    assert f"unreadable ({directory / name})" in finished.err


@pytest.mark.parametrize(("command", "topic"), [("metadata", "__cluster_metadata"), ("offsets", "__consumer_offsets")])
def test_all_of_what_is_asked_for(command: str, topic: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in directory.glob(f"{topic}-*"):
        refuse(monkeypatch, each.name)
    finished = kafkalog(command, directory)
    assert finished.out == ""
    assert finished.code == 4
    assert "Permission denied" in finished.err


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_directory_that_is_missing_beside_another(command: str, is_empty: bool, directory: Path) -> None:
    """What is left of a broker with a lost disk is what one asks for."""
    missing = directory.parent / "data-2"
    if is_empty:
        missing.mkdir()
    finished = kafkalog(command, directory, missing)
    assert finished.out == kafkalog(command, directory).out
    assert finished.code == 4
    assert f"unreadable ({missing}): {'the directory is empty' if is_empty else 'there is no such'}" in finished.err
