"""Partitions that cannot be read are there all the same: named, chosen and left out like others, and exit code 4."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.log.directories.selection import Selection
from kafkalog.replay import Replay, plan_replay
from kafkalog.server.catalog import Catalog
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


def a_directory(path: Path) -> None:
    path.mkdir()


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [os.mkfifo, a_directory, a_link_to_nothing])
def test_every_reader_names_a_partition_without_a_readable_log(make: Callable[[Path], None], tmp_path: Path) -> None:
    """`find`, `top` and `retention` gave the records of all others, and exit code 0."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    logs = sorted((root / "orders-23-0").glob("*.log"))
    for path in logs:
        path.unlink()
        make(path)
    for words in (["find", "--time", "latest"], ["dump"], ["top"], ["retention"], ["ls"], ["verify"]):
        for select, named in (([], True), (["--topic", "orders-23"], True), (["--topic", "clicks-42"], False)):
            finished = kafkalog(words[0], root, *words[1:], *select)
            told = [path for path in logs if f"({path})" in finished.err]
            assert (words, finished.code in (1, 4), told) == (words, named, logs if named else [])
    served = Catalog([root], chosen=Selection.of(["orders-23"])).findings
    planned = plan_replay(Replay(select=Selection.of(["orders-23", "clicks-42"])), root).findings
    for findings in (served, planned):
        assert [each.file for each in findings if each.file is not None] == [str(path) for path in logs]
    assert Catalog([root], chosen=Selection.of(["clicks-42"])).findings == []


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
