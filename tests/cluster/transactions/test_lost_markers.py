"""Transactions whose end marker is lost: how they ended is told, and no committed one is advised to be aborted."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkalog.cluster.transactions.lost_markers import (
    Decided,
    EndMarker,
    History,
    Listed,
    Opened,
    by_markers,
    decision_of,
    read_opened,
)
from kafkalog.cluster.transactions.producers import read_producers
from kafkalog.cluster.transactions.transactions import TransactionState, open_transactions, read_transactions
from kafkalog.cluster.transactions.undecided import DecidedPartition
from kafkalog.codec.model import ControlType
from kafkalog.log.directories.inventory import open_all
from kafkalog.recovery import plan
from testkit.made.lost_markers import (
    cut_coordinator,
    without_a_trace,
    without_last_marker,
    without_marker,
    without_transaction,
)
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog


@pytest.mark.parametrize("version", ["2.8.2", "3.9.1", "4.1.1"])
@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_recorded_log_that_loses_its_marker(version: str, kind: ControlType, tmp_path: Path) -> None:
    root = own_copy(brokers(f"{version}/txn")[0], tmp_path / "broker")
    name, producer_id, offset = without_last_marker(root, kind)
    partitions = open_all(root).readable()
    opened, findings = open_transactions(read_producers(partitions), read_transactions(partitions))
    (lost,) = [
        each for each in opened if f"{each.topic}-{each.partition}" == name and each.producer.producer_id == producer_id
    ]
    assert lost.hanging
    assert lost.decision is not None
    assert lost.decision.decided is (Decided.COMMIT if kind is ControlType.COMMIT else Decided.ABORT)
    assert lost.may_be_aborted == (kind is ControlType.ABORT)
    assert any(kind.name in finding.detail for finding in findings)
    (line,) = [
        each
        for each in kafkalog("transactions", root, "--json").objects
        if f"{each.get('topic')}-{each.get('partition')}" == name and each["producerId"] == producer_id
    ]
    assert (line["decided"], line["abort_command"] is None) == (kind.name.lower(), kind is ControlType.COMMIT)
    (root / "replication-offset-checkpoint").write_text(f"0\n1\n{name.replace('-', ' ')} {offset + 1}\n")
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    told = [each for each in plan(root)[0].consequences if each.kind == "marker_lost"]
    (detail,) = [each.detail for each in told if each.partition == name and f"producer {producer_id} " in each.detail]
    assert ("there ends it, an abort hides its records" in detail) == (kind is ControlType.COMMIT)
    assert detail.endswith("(runbook: lost-marker)") == (kind is ControlType.COMMIT)
    (said,) = [each.sentence for each in opened if each is lost]
    assert ("The next commit of the same transactional id" in said) == (kind is ControlType.COMMIT)


@pytest.mark.parametrize("version", ["3.9.1", "4.1.1"])
def test_a_log_that_ends_before_its_marker_and_shows_nothing_of_it(version: str, tmp_path: Path) -> None:
    """It is cut between two batches, no checkpoint knows more, and nothing counts as lost: the coordinator tells."""
    root = own_copy(brokers(f"{version}/txn")[0], tmp_path / "broker")
    name, producer_id = without_a_trace(root)
    made = plan(root)[0]
    assert made.choice.own_by_partition[name].records_lost == 0
    told = [each.detail for each in made.consequences if (each.kind, each.partition) == ("marker_lost", name)]
    assert any(f"producer {producer_id}" in detail and "committed" in detail for detail in told)
    assert kafkalog("recover", "--yes", root).code == 2
    report = " ".join(kafkalog("report", "--format", "text", "-o", "-", root).out.split())
    assert f"transaction_hanging ({root}/{name}, offset " in report
    assert "contradicts anything else" not in report


@pytest.mark.parametrize("version", ["2.8.2", "3.9.1", "4.1.1"])
def test_each_marker_of_recorded_logs(version: str) -> None:
    """What a broker wrote is the truth: each marker is that of the transaction that it ended. If the beginning of
    either log is unknown, a decision may be unknown, but is never wrong.
    """
    partitions = open_all(*brokers(f"{version}/txn")).readable()
    coordinator = read_transactions(partitions)
    histories = coordinator.histories
    counts = Counter[str]()
    for partition in partitions:
        place = partition.topic or "", partition.partition or 0
        known = read_opened(partition, dict.fromkeys(histories)) if not place[0].startswith("__") else {}
        for producer_id, here in known.items():
            history = histories[producer_id]
            for number, marker in enumerate(here.markers):
                opened = Opened(
                    epoch=marker.of_epoch, timestamp=marker.timestamp, markers=here.markers[:number], is_from_start=True
                )
                whole = decision_of(history, place, opened)
                assert whole is not None
                assert whole.decided is marker.decided
                for kept in range(len(history.transactions)):
                    later = History(history.transactions[kept:])
                    for left in range(number + 1):
                        opened = Opened(epoch=marker.of_epoch, markers=here.markers[left:number])
                        part = decision_of(later, place, opened)
                        assert part is not None, "the coordinator may have lost it"
                        assert part.decided in (marker.decided, None)
                        counts["known" if part.decided else "not known"] += 1
    assert counts["known"]
    assert counts["not known"]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("version", ["2.8.2", "3.9.1", "4.1.1"])
def test_a_coordinators_log_from_which_a_recovery_removed_a_transaction(
    version: str, number: int, tmp_path: Path
) -> None:
    """It is sound, with a gap in the offsets as compaction leaves them. No decision is wrong, and nothing hangs."""
    root = own_copy(brokers(f"{version}/txn")[0], tmp_path / "broker")
    for producer_id in range(3):
        without_transaction(root, producer_id, number)
    partitions = open_all(root).readable()
    histories, known = read_transactions(partitions).histories, 0
    for partition in partitions:
        place = partition.topic or "", partition.partition or 0
        for producer_id, here in read_opened(partition, dict.fromkeys(histories)).items():
            for index, marker in enumerate(here.markers):
                opened = Opened(epoch=marker.of_epoch, markers=here.markers[:index], is_from_start=True)
                decision = decision_of(histories[producer_id], place, opened)
                assert decision is not None
                assert decision.decided in (marker.decided, None)
                known += decision.decided is not None
    assert known


@pytest.mark.parametrize(
    ("version", "name", "producer_id", "number"),
    [("3.9.1", "metrics-0-0", 0, 1), ("3.9.1", "metrics-0-0", 1, 2), ("2.8.2", "ledger-21-0", 2, 1),
     ("4.1.1", "sensors-0-1", 1, 2), ("4.1.1", "sensors-0-1", 0, 2)],
)  # fmt: skip
def test_the_decision_is_that_of_the_transaction_and_not_of_the_last_one(
    version: str, name: str, producer_id: int, number: int, tmp_path: Path
) -> None:
    root = own_copy(brokers(f"{version}/txn")[0], tmp_path / "broker")
    is_commit = without_marker(root, name, producer_id, number)
    topic, partition_number = name.rsplit("-", 1)
    (line,) = [each for each in kafkalog("transactions", root, "--json").objects if each.get("topic") == topic
               and (each["partition"], each["producerId"]) == (int(partition_number), producer_id)]  # fmt: skip
    assert line["decided"] == ("commit" if is_commit else "abort")
    assert (line["abort_command"] is None) == is_commit
    details = [each.detail for each in plan(root)[0].consequences if each.partition == name]
    (told,) = [each for each in details if f"the transaction of producer {producer_id} (" in each]
    assert (" was committed, " in told, " was aborted, " in told) == (is_commit, not is_commit)
    partition = next(each for each in open_all(root).readable() if str(each.name) == name)
    decided = DecidedPartition(partition, read_transactions(open_all(root).readable()), abort_rest=False).transactions()
    assert producer_id not in decided.open_first_offsets
    aborted = {each.first_offset for each in decided.aborted if each.producer_id == producer_id}
    assert (line["currentTxnStart"] in aborted) == (not is_commit)


@pytest.mark.parametrize(
    ("producer_id", "number", "status", "said"),
    [(1, 1, TransactionState.PREPARE_COMMIT,
      "a start commits the records of producer 1 (*) from offset * on, whose transaction was aborted: *"),
     (1, 2, TransactionState.PREPARE_ABORT,
      "a start hides the records of producer 1 (*) from offset * on, whose transaction was committed: *"),
     (0, 1, TransactionState.ONGOING,
      "the next end marker of producer 0 (*) counts for its * on too, whose transaction was aborted: *")],
)  # fmt: skip
def test_a_start_that_ends_it_by_the_marker_of_a_later_transaction(
    producer_id: int, number: int, status: TransactionState, said: str, tmp_path: Path
) -> None:
    root = own_copy(brokers("3.9.1/txn")[0], tmp_path / "broker")
    is_commit = without_marker(root, "metrics-0-0", producer_id, number)
    cut_coordinator(root, producer_id, status)
    partitions = open_all(root).readable()
    coordinator = read_transactions(partitions)
    assert coordinator.by_producer[producer_id].status == status
    opened, findings = open_transactions(read_producers(partitions), coordinator)
    (lost,) = [each for each in opened if (each.topic, each.partition, each.producer.producer_id)
               == ("metrics-0", 0, producer_id)]  # fmt: skip
    assert (lost.hanging, lost.may_be_aborted) == (False, False)
    assert lost.decision is not None
    assert lost.decision.decided is (Decided.COMMIT if is_commit else Decided.ABORT)
    assert any(finding.detail == lost.sentence for finding in findings)
    told = [each for each in plan(root)[0].consequences if each.kind == "later_marker"]
    assert any(fnmatch(each.detail, said) for each in told), told
    screen = " ".join(kafkalog("plan", root).out.split())
    assert said[:30] in screen
    partition = next(each for each in partitions if str(each.name) == "metrics-0-0")
    decided = DecidedPartition(partition, coordinator, abort_rest=False).transactions()
    aborted = {each.first_offset for each in decided.aborted if each.producer_id == producer_id}
    assert (lost.producer.transaction_start in aborted) == (not is_commit)
    assert producer_id not in decided.open_first_offsets


@pytest.mark.parametrize(
    ("version", "name", "producer_id", "number", "is_commit"),
    [("4.1.1", "sensors-0-1", 0, 6, True), ("2.8.2", "ledger-21-0", 0, 6, True), ("2.8.2", "ledger-21-0", 3, 2, True),
     ("4.1.1", "sensors-0-1", 1, 6, False), ("2.8.2", "ledger-21-0", 1, 6, False)],
)  # fmt: skip
@pytest.mark.parametrize("is_known_cut", [False, True])
def test_a_coordinator_that_has_lost_the_decision_aborts_what_was_committed(
    version: str, name: str, producer_id: int, number: int, is_commit: bool, is_known_cut: bool, tmp_path: Path
) -> None:
    """4.1.1 did, a minute after the start: `__transaction_state` ended with the ongoing transaction, another partition
    had its COMMIT marker, and consumers of committed data never got the records of this one.
    """
    root = own_copy(brokers(f"{version}/txn")[0], tmp_path / "broker")
    assert without_marker(root, name, producer_id, number) == is_commit
    cut_coordinator(root, producer_id, TransactionState.ONGOING)
    if is_known_cut:
        ends = [f"{directory.name.replace('-', ' ')} 99999" for directory in root.glob("__transaction_state-*")]
        (root / "replication-offset-checkpoint").write_text("\n".join(["0", str(len(ends)), *ends, ""]))
    partitions = open_all(root).readable()
    opened, _findings = open_transactions(read_producers(partitions), read_transactions(partitions))
    (lost,) = [each for each in opened if f"{each.topic}-{each.partition}" == name
               and each.producer.producer_id == producer_id]  # fmt: skip
    assert (lost.decision is not None and lost.decision.is_forgotten) == is_commit
    assert not lost.may_be_aborted
    told = [each.detail for each in plan(root)[0].consequences if each.kind == "later_marker"]
    assert any(f"aborts the transaction of producer {producer_id} (" in detail for detail in told) == is_commit
    assert ("transaction_hanging" in kafkalog("verify", root).err) >= is_commit


@pytest.mark.parametrize("version", ["2.8.2", "3.9.1", "4.1.1"])
def test_a_transaction_that_is_ongoing_is_not_taken_for_a_committed_one(version: str) -> None:
    partitions = open_all(brokers(f"{version}/txn")[0]).readable()
    opened, _findings = open_transactions(read_producers(partitions), read_transactions(partitions))
    assert not [each for each in opened if each.decision is not None and each.decision.is_forgotten]


def listed(status: TransactionState, at: int, epoch: int = 3, version: int = 0, **fields: object) -> Listed:
    raised = epoch + (version == 2 and status is not TransactionState.ONGOING)
    transaction = Listed(
        status=status, epochs=(epoch,), marker_epoch=raised, partitions=frozenset({("t", 0)}), started=at - 10,
        decided_at=at, has_own_epoch=version == 2,
    )  # fmt: skip
    return replace(transaction, **fields)


COMMITTED = EndMarker(is_commit=True, timestamp=100_001, epoch=3, of_epoch=3)


@pytest.mark.parametrize(
    ("history", "markers", "expected"),
    [
        (History((listed(TransactionState.PREPARE_COMMIT, 100_000),), 3), [], Decided.COMMIT),
        (History((listed(TransactionState.PREPARE_COMMIT, 100_000),), 3), [COMMITTED], None),  # a late batch: it hangs
        (History((listed(TransactionState.PREPARE_ABORT, 100_000),), 3), [COMMITTED], "unknown"),  # contradiction
        (History((listed(TransactionState.COMPLETE_COMMIT, 100_000),)), [], "unknown"),  # perhaps an earlier one
        (History((listed(TransactionState.COMPLETE_COMMIT, 100_000, partitions=None),)), [], "unknown"),
        (History((listed(TransactionState.COMPLETE_COMMIT, 100_000, version=2, partitions=None),)), [], Decided.COMMIT),
        (History((listed(TransactionState.COMPLETE_ABORT, 100_000, epoch=4, version=2),)), [], "unknown"),
        (History((listed(TransactionState.COMPLETE_COMMIT, 100_000, partitions=frozenset()),), 3), [], None),
        (History((), 4), [], "unknown"),  # only a later initialization is left of the id
        (History((), 3), [], None),
        (History((listed(TransactionState.COMPLETE_COMMIT, 10_000, followed_at=99_990),
                  listed(TransactionState.COMPLETE_COMMIT, 100_000, followed_at=189_990),
                  listed(TransactionState.COMPLETE_ABORT, 190_000))), [COMMITTED], Decided.ABORT),  # by the times
        (History((listed(TransactionState.COMPLETE_COMMIT, 99_900, followed_at=99_990),
                  listed(TransactionState.COMPLETE_COMMIT, 100_000, followed_at=100_090),
                  listed(TransactionState.COMPLETE_ABORT, 100_100))), [COMMITTED], "unknown"),  # as clocks differ
    ],
)  # fmt: skip
def test_the_decision(history: History, markers: list[EndMarker], expected: Decided | str | None) -> None:
    opened = Opened(epoch=3, timestamp=90_000, markers=markers, is_from_start=not markers)
    found = decision_of(history, ("t", 0), opened)
    assert (found and (found.decided or "unknown")) == expected


def test_two_brokers_whose_clocks_differ_a_little() -> None:
    """The times of several markers tell which transactions they belong to, if the pauses between them differ."""
    times = [100_000, 104_000, 105_000, 117_000, 120_000]
    states = [TransactionState.COMPLETE_COMMIT] * 4 + [TransactionState.COMPLETE_ABORT]
    history = History(tuple(listed(state, at, followed_at=at + 5) for state, at in zip(states, times, strict=True)))
    markers = [EndMarker(is_commit=True, timestamp=at - 250, epoch=3, of_epoch=3) for at in times[:4]]
    found = decision_of(history, ("t", 0), Opened(epoch=3, timestamp=90_000, markers=markers))
    assert found is not None
    assert found.decided is Decided.ABORT


@pytest.mark.parametrize(
    ("markers", "has_own_epoch", "expected"),
    [
        ([EndMarker(is_commit=True, timestamp=9, epoch=4, of_epoch=3)], False, Decided.COMMIT),
        ([EndMarker(is_commit=False, timestamp=9, epoch=4, of_epoch=3)], True, Decided.ABORT),
        ([EndMarker(is_commit=False, timestamp=9, epoch=4, of_epoch=3)], False, "unknown"),  # perhaps after a timeout
        ([EndMarker(is_commit=True, timestamp=9, epoch=3, of_epoch=3)], False, "unknown"),
        ([EndMarker(is_commit=True, timestamp=9, epoch=4, of_epoch=2)], False, None),
        ([], False, None),
    ],
)
def test_markers_in_another_partition(
    markers: list[EndMarker], expected: Decided | str | None, *, has_own_epoch: bool
) -> None:
    elsewhere = [(("u", 0), Opened(markers=markers))]
    found = by_markers(None, Opened(epoch=3), elsewhere, has_own_epoch=has_own_epoch)
    assert (found and (found.decided or "unknown")) == expected


def test_ages_count_until_now() -> None:
    partitions = open_all(*brokers("4.1.1/txn")).readable()
    places = read_producers(partitions)
    opened, _findings = open_transactions(places, read_transactions(partitions), now_ms=1 << 41)
    assert opened
    assert all(each.age_ms == (1 << 41) - each.producer.last_timestamp for each in opened)


def test_damage_before_the_newest_snapshot_leaves_the_transactions_that_a_start_sees(tmp_path: Path) -> None:
    whole, root = brokers("4.1.1/txn")[0], own_copy(brokers("4.1.1/txn")[0], tmp_path / "broker")
    log = root / "trades-41-0" / f"{86:020d}.log"
    data = bytearray(log.read_bytes())
    data[4096:8192] = bytes(4096)
    log.write_bytes(data)
    there, here = (
        next(each for each in read_producers(open_all(path).readable()) if str(each.partition.name) == "trades-41-0")
        for path in (whole, root)
    )
    assert (here.last_stable_offset, here.log_end_offset) == (there.last_stable_offset, there.log_end_offset)
    assert {each.producer_id for each in here.producers if each.transaction_start is not None} == {1002, 1003}
    assert "marker lost" not in kafkalog("transactions", root).out
