"""The log of the transactions' coordinator is gone: what is open in other logs never ends, and the plan says so.

Kafka 4.1.0 with the whole directory ended these transactions within 80 seconds, as their timeout had passed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog import transactions
from kafkalog.codec.plain.scanner import scan
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


def cut_state(root: Path, offset: int, *, is_torn: bool) -> None:
    """Cut partition 1 of the coordinator's log before the batch at `offset`, or within it."""
    (log,) = (root / f"{STATE}-1").glob("*.log")
    (batch,) = [each for each in scan(log.read_bytes()).batches if each.header.first_offset == offset]
    log.chmod(0o600)
    log.write_bytes(log.read_bytes()[: batch.position + 60 * is_torn])
    if not is_torn:
        for path in log.parent.glob("*.snapshot"):
            path.unlink()
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)


@pytest.mark.parametrize("is_torn", [True, False])
def test_a_coordinators_log_without_its_end_has_lost_an_open_transaction(is_torn: bool, root: Path) -> None:
    """The last record, at 101, begins a transaction of op-1 in two partitions. Brokers 4.1.1 and 4.3.0 whose state
    lacked this record left such a transaction open, and op-1's next commit committed its records.
    """
    cut_state(root, 101, is_torn=is_torn)
    found = told(root)
    assert set(found) == {"trades-41-0", "sensors-0-1"}
    for name, details in found.items():
        (detail,) = details
        kept = f"{name}: keep the producer of op-1 stopped: its next commit there commits the records of an open"
        assert kept in detail
    screen = " ".join(kafkalog("plan", root, columns=80).out.partition("\n\n")[0].split())
    assert "served after a start, but read_committed consumers stop in 2 partitions" in screen
    stops = [detail.partition(" stop at ")[2].partition(":")[0] for (detail,) in found.values()]
    assert f"read_committed consumers stop at {', '.join(sorted(stops))}: keep the producer of op-1 stopped" in screen
    recovered = " ".join(kafkalog("recover", "--yes", root).out.split())
    assert "keep the producer of op-1 stopped" in recovered
    assert told(root) == found
    hanging = [line for line in kafkalog("verify", root).err.splitlines() if "transaction_hanging" in line]
    assert {place for place in found for line in hanging if f"{place}, offset" in line} == set(found)
    assert len(hanging) == 2
    report = " ".join(kafkalog("report", "--format", "text", "-o", "-", root).out.split())
    assert "keep the producer of op-1 stopped" in report


def test_an_id_of_which_the_coordinators_log_has_nothing_left_cannot_commit(root: Path) -> None:
    """The first record of op-1 is at 96: its next producer gets another producer id."""
    cut_state(root, 96, is_torn=True)
    found = told(root)
    assert set(found) == {"trades-41-0", "sensors-0-1"}
    for (detail,) in found.values():
        assert "nothing ends the transaction of producer 1003; if it was not committed" in detail


def test_what_the_coordinator_will_end_is_not_named(root: Path) -> None:
    """At 100 the state is that op-1 is to be aborted in both partitions, and the coordinator writes these markers."""
    cut_state(root, 100, is_torn=False)
    assert told(root) == {}
    assert "transaction_hanging" not in kafkalog("verify", root).err
