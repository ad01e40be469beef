"""A lost transaction index after an orderly stop: the command that plan names mends it, and no plan says all is well.

Kafka 4.3.0, started on such a directory, gave consumers with `read_committed` the records of the aborted transaction:
after an orderly stop a start builds no index that is below the recovery point.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import Finished, kafkalog


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's directory, stopped in order, without the transaction index of a log."""
    root = own_copy(brokers("4.3.0/txn")[0], tmp_path / "data")
    assert (root / ".kafka_cleanshutdown").is_file()
    listed = [path for path in root.glob("[a-z]*/*.txnindex") if path.stat().st_size]
    assert listed
    for path in listed:
        path.unlink()
    return root


def named(finished: Finished) -> list[str]:
    """The arguments of the first command that a plan names."""
    text = finished.out.replace("\\\n", " ")
    line = next(line for line in text.splitlines() if line.strip().startswith("kafkalog recover"))
    return shlex.split(line)[1:]


@pytest.mark.parametrize("before", [[], ["recover", "--yes"]])
def test_the_command_that_a_plan_names_mends_it(before: list[str], data: Path) -> None:
    if before:
        kafkalog(*before, data)
    assert kafkalog("verify", data).code == 1
    words = named(kafkalog("plan", data))
    assert "--full" in words
    assert kafkalog(*words).code == 2
    assert (kafkalog("verify", data).code, kafkalog("plan", data).code) == (0, 0)


def test_a_full_plan_that_mends_it_is_needed(data: Path) -> None:
    planned = kafkalog("plan", "--full", data)
    assert "txn_index_mismatch" in planned.out
    assert "a recovery is not needed" not in planned.out
    assert named(planned)[-2:] == ["--full", "--yes"]
