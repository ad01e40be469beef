"""Partitions that cannot be read are there all the same: named, chosen and left out like others, and exit code 4."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

PROGRAM = Path(sys.executable).parent / "kafkalog"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A FIFO stands in place of a checkpoint of one partition: root reads everything that has no permission."""
    made = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    for path in (made / "orders-23-0").glob("*.log"):
        path.unlink()
        os.mkfifo(path)
    return made


@pytest.mark.parametrize("words", [
    ("ls", "--topic", "orders-23"), ("verify", "--topic", "orders-23"), ("index", "verify"),
    ("dump", "--topic", "orders-23"), ("find", "--topic", "orders-23", "--time", "latest"),
])  # fmt: skip
def test_it_exists_and_the_code_is_4(root: Path, words: tuple[str, ...]) -> None:
    finished = kafkalog(*words, root)
    assert finished.code == 4, finished.err
    assert "orders-23-0" in finished.err
    assert "there is no" not in finished.err


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_it_can_be_left_out(root: Path, command: str) -> None:
    assert kafkalog(command, root, "--exclude", "orders-23-0").code == 0


def test_copies_that_were_not_chosen_do_not_stop_a_choice(tmp_path: Path) -> None:
    first = own_copy(brokers("4.1.1/segments")[0], tmp_path / "a")
    second = own_copy(brokers("4.1.1/segments")[0], tmp_path / "b")
    for path in second.glob("orders-23-0/*"):
        path.unlink()
    (second / "orders-23-0").rmdir()
    assert kafkalog("dump", first, second, "--topic", "orders-23", "-n", 1).code == 0
    assert kafkalog("find", first, second, "--topic", "orders-23", "--time", "latest").code == 0
    assert "--replica" in kafkalog("dump", first, second, "--topic", "clicks-42").err


def test_a_pipe_that_nobody_reads_on_is_no_finding(tmp_path: Path) -> None:
    data = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    command = f"set -o pipefail; {PROGRAM} dump {' '.join([str(data)] * 4)} --replica longest | head -1"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert finished.returncode in (0, 141)
    assert finished.stderr == ""


def test_a_choice_that_is_not_there_is_told_on_one_line() -> None:
    finished = kafkalog("completion", "csh")
    assert finished.code == 64
    assert "\\x0a" not in finished.err
