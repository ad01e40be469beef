"""Transactions whose end marker is lost: how they ended is told, and no committed one is advised to be aborted."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkalog.cluster.transactions.lost_markers import Decided, Decision, Listed, decision_of
from kafkalog.cluster.transactions.producers import LastMarker, PartitionProducer, read_producers
from kafkalog.cluster.transactions.transactions import TransactionState, open_transactions, read_transactions
from kafkalog.codec.model import ControlType
from kafkalog.log.directories.inventory import open_all
from kafkalog.recovery import plan
from testkit.made.lost_markers import without_a_trace, without_last_marker
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

OPEN = PartitionProducer(
    producer_id=7,
    producer_epoch=3,
    last_sequence=0,
    last_timestamp=1_000,
    coordinator_epoch=0,
    transaction_start=50,
    transaction_started_at=1_000,
)


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


COMMIT_AT_2000 = LastMarker(True, 2_000, 3)


@pytest.mark.parametrize(
    ("listed", "last_state", "elsewhere", "expected"),
    [
        (Listed(TransactionState.PREPARE_COMMIT, 2_000, 3), None, {}, Decided.COMMIT),
        (Listed(TransactionState.PREPARE_ABORT, 2_000, 3), None, {("u", 0): COMMIT_AT_2000}, Decided.ABORT),
        (None, Listed(TransactionState.COMPLETE_COMMIT, 2_000, 3), {}, Decided.COMMIT),
        (None, Listed(TransactionState.COMPLETE_COMMIT, 2_000, 4), {}, Decided.COMMIT),  # KIP-890 raises the epoch
        (None, Listed(TransactionState.COMPLETE_COMMIT, 2_000, 5), {}, None),
        (None, Listed(TransactionState.COMPLETE_COMMIT, 900, 3), {}, None),  # ended before this one began
        (None, None, {("u", 0): COMMIT_AT_2000}, Decided.COMMIT),
        (None, None, {("u", 0): replace(COMMIT_AT_2000, timestamp=900)}, None),
        (None, None, {("u", 0): replace(COMMIT_AT_2000, is_commit=False), ("v", 0): COMMIT_AT_2000}, Decided.COMMIT),
        (None, None, {}, None),
    ],
)
def test_the_decision(
    listed: Listed | None,
    last_state: Listed | None,
    elsewhere: dict[tuple[str, int], LastMarker],
    expected: Decided | None,
) -> None:
    found = decision_of(OPEN, listed, last_state, elsewhere)
    assert (found.decided if isinstance(found, Decision) else None) == expected


def test_a_batch_that_came_after_the_marker_truly_hangs() -> None:
    """A late write opens a transaction that no coordinator knows (KAFKA-14402): aborting it is right."""
    late = replace(OPEN, last_marker=LastMarker(True, 2_001, 3))
    listed = Listed(TransactionState.PREPARE_COMMIT, 2_000, 3)
    assert decision_of(late, listed, Listed(TransactionState.COMPLETE_COMMIT, 2_000, 3), {}) is None


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
