"""The log of the transactions' coordinator is gone: what is open in other logs never ends, and the plan says so.

Kafka 4.1.0 with the whole directory ended these transactions within 80 seconds, as their timeout had passed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog import transactions
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

STATE = "__transaction_state"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")


def told(root: Path) -> dict[str, list[str]]:
    (line,) = kafkalog("plan", "--json", root).objects
    found: dict[str, list[str]] = {}
    for each in line["consequences"]:
        if each["kind"] == "transaction_stays_open":
            found.setdefault(each["partition"], []).append(each["detail"])
    return found


@pytest.mark.parametrize("is_emptied", [False, True])
@pytest.mark.parametrize("lost", [(0, 1), (0,), (1,)])
def test_each_open_transaction_of_a_lost_coordinator_is_named(
    lost: tuple[int, ...], is_emptied: bool, root: Path
) -> None:
    assert told(root) == {}
    ids = [each for each in transactions(root).transactional_ids if each.is_undecided and each.log_partition in lost]
    expected = {(f"{topic}-{number}", each.producer_id) for each in ids for topic, number in each.partitions}
    for number in lost:
        for path in (root / f"{STATE}-{number}").glob("[0-9]*") if is_emptied else ():
            path.unlink()
        if not is_emptied:
            shutil.rmtree(root / f"{STATE}-{number}")
    found = told(root)
    named = {(name, int(detail.partition("transaction of producer ")[2].split(";")[0]))
             for name, details in found.items() for detail in details}  # fmt: skip
    assert named == expected
    assert len(lost) == 1 or named
    printed = " ".join(kafkalog("plan", root).out.split())
    assert "out of service after a start as it is" not in printed
    assert ("served after a start as it is, but empty" in printed) is not is_emptied


def test_the_first_screen_has_the_whole_sentence_and_the_command_is_below_it(root: Path) -> None:
    for number in (0, 1):
        shutil.rmtree(root / f"{STATE}-{number}")
    detail = next(iter(told(root).values()))[0]
    sentence, command = detail.split(": kafka-transactions.sh ")
    screen, _, rest = kafkalog("plan", root, columns=80).out.partition("\n\n")
    assert f"{sentence} (see below)" in " ".join(screen.split())
    assert f"kafka-transactions.sh {command}" in " ".join(rest.replace("\\\n", " ").split())
