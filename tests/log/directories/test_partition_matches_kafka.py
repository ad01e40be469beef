"""Partitions of recorded brokers: offsets, transactions and lookups are those that Kafka knew."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalog import RecordFilter
from kafkalog.codec.common.findings import Severity
from kafkalog.codec.files.index_files import decode_transaction_index
from kafkalog.codec.names import FileKind
from kafkalog.log import Inventory, Partition, open_all, open_log_dir, read_small
from testkit.recorded.broker_dirs import STOPPED, brokers, expected_offsets, expected_records, own_copy
from testkit.recorded.fixture_data import BrokerCase, broker_case

TRANSACTIONAL = [case for case in STOPPED if case.name == "txn"]
LARGE = 1 << 20


def inventories(case: BrokerCase) -> list[Inventory]:
    return [open_all(broker) for broker in brokers(case.id)]


def partitions(case: BrokerCase) -> list[Partition]:
    return [partition for inventory in inventories(case) for partition in inventory.readable()]


def test_there_are_transactional_cases() -> None:
    assert len(TRANSACTIONAL) == 8


@pytest.mark.parametrize("case", STOPPED, ids=lambda case: case.id)
def test_start_end_and_stable_offsets_are_the_brokers(case: BrokerCase) -> None:
    uncommitted = expected_offsets(case, "read_uncommitted")
    committed = expected_offsets(case, "read_committed")
    seen = set()
    for partition in partitions(case):
        key = (str(partition.topic), int(partition.partition or 0))
        if key in uncommitted:
            seen.add(key)
            assert (partition.log_start_offset, partition.log_end_offset()) == uncommitted[key]
            assert partition.last_stable_offset() == committed[key][1]
            assert partition.transactions().log_end_offset == partition.log_end_offset()
    assert seen == set(uncommitted)


@pytest.mark.parametrize("case", STOPPED, ids=lambda case: case.id)
def test_nothing_is_wrong_with_what_a_broker_left(case: BrokerCase) -> None:
    for inventory in inventories(case):
        assert [found for found in inventory.findings if found.severity is not Severity.INFO] == []


@pytest.mark.parametrize("case", TRANSACTIONAL, ids=lambda case: case.id)
def test_aborted_transactions_are_those_of_the_transaction_indexes(case: BrokerCase) -> None:
    total = 0
    for partition in partitions(case):
        listed = [
            entry
            for segment in partition.segments
            if FileKind.TRANSACTION_INDEX in segment.files
            for entry in decode_transaction_index(read_small(segment.files[FileKind.TRANSACTION_INDEX], LARGE))
        ]
        assert list(partition.aborted_transactions()) == listed, partition.path
        total += len(listed)
    assert total > 0


@pytest.mark.parametrize("case", TRANSACTIONAL, ids=lambda case: case.id)
def test_committed_records_need_no_transaction_index(case: BrokerCase, tmp_path: Path) -> None:
    wanted = set(expected_records(case, "read_committed"))
    topics = {key[0] for key in wanted}
    copy = own_copy(brokers(case.id)[0], tmp_path / "broker")
    removed = 0
    for path in copy.rglob("*.txnindex"):
        path.unlink()
        removed += 1
    assert removed > 0
    got = {
        (partition.topic, partition.partition, record.offset)
        for partition in open_log_dir(copy).partitions
        if partition.topic in topics
        for record in partition.records(RecordFilter(isolation_level="read_committed"))
    }
    assert got == wanted


@pytest.mark.parametrize("case", STOPPED, ids=lambda case: case.id)
def test_reading_from_an_offset_gives_the_records_behind_it(case: BrokerCase) -> None:
    wanted = expected_records(case, "read_uncommitted")
    choose = random.Random(case.id)
    for partition in partitions(case):
        offsets = [key[2] for key in wanted if key[:2] == (partition.topic, partition.partition)]
        if not offsets:
            continue
        end = max(offsets) + 1
        for start in {0, end, *(choose.randrange(end + 1) for _ in range(3))}:
            stop = choose.randrange(start, end + 1)
            got = [record.offset for record in partition.records(RecordFilter(start_offset=start, end_offset=stop))]
            assert got == [offset for offset in offsets if start <= offset < stop]


@pytest.mark.parametrize("name", ["segments", "codecs", "compact"])
def test_lookup_by_time_gives_the_first_record_at_or_behind_it(name: str) -> None:
    case = broker_case("2.8.2", name)
    wanted = expected_records(case, "read_uncommitted")
    looked_up = 0
    for partition in partitions(case):
        lines = [line for key, line in wanted.items() if key[:2] == (partition.topic, partition.partition)]
        lines.sort(key=lambda line: line["offset"])
        times = [line["timestamp"] for line in lines if line["timestamp"] >= 0]
        for time in {*times[:3], *times[-2:], *(time + 1 for time in times[:2]), *([max(times) + 1] if times else [])}:
            first = next((line for line in lines if line["timestamp"] >= time), None)
            found = partition.offset_for_timestamp(time)
            looked_up += 1
            if first is None:
                assert found is None
            else:
                assert found is not None
                epoch = -1 if first["leaderEpoch"] is None else first["leaderEpoch"]
                assert found == (first["offset"], first["timestamp"], epoch)
    assert looked_up > 20


def test_records_carry_the_leader_epoch_of_their_batch() -> None:
    case = broker_case("2.8.2", "codecs")
    wanted = expected_records(case, "read_uncommitted")
    legacy = 0
    for partition in partitions(case):
        for record in partition.records():
            line = wanted.get((str(partition.topic), int(partition.partition or 0), record.offset))
            if line is not None:
                assert record.leader_epoch == (-1 if line["leaderEpoch"] is None else line["leaderEpoch"])
                legacy += line["leaderEpoch"] is None
    assert legacy > 0


def test_everything_in_the_files_is_more_than_a_consumer_sees() -> None:
    case = broker_case("4.1.1", "segments")
    (partition,) = [found for found in partitions(case) if found.topic == "invoices-25"]
    assert partition.log_start_offset == 97  # delete-records moved it into a batch of the first segment
    assert next(iter(partition.records())).offset == 97
    everything = [record.offset for record in partition.records(all=True)]
    assert everything[0] == partition.segments[0].base_offset == 84
    assert everything == sorted(everything)
