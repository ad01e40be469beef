"""Committed offsets, groups, producers and transactions: what Kafka's own admin client said while they lived."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cluster.groups.groups import read_groups
from kafkalog.cluster.groups.offsets import OffsetsState, read_offsets
from kafkalog.cluster.records.coordinator_records import decode_record
from kafkalog.cluster.records.replay import Entry, Marker, Until
from kafkalog.cluster.rules.java import coordinator_partition, string_hash, topic_partition_hash
from kafkalog.cluster.transactions.producers import read_producers
from kafkalog.cluster.transactions.transactions import open_transactions, read_transactions
from kafkalog.codec.common.findings import FindingCode
from kafkalog.log import open_all
from testkit.recorded.broker_dirs import KILLED, STOPPED, brokers, unpacked
from testkit.recorded.fixture_data import BrokerCase, broker_case
from testkit.running.command import kafkalog

Note = Callable[[str, int], None]


def cases_with(stem: str) -> list[BrokerCase]:
    found = [case for case in STOPPED if case.has(stem)]
    assert found
    return found


def lines_of(case: BrokerCase, *command: str) -> list[dict[str, Any]]:
    found = []
    for broker in brokers(case.id):
        finished = kafkalog(*command, "--json", broker)
        assert finished.code == 0, finished.err
        found += finished.objects
    return found


@pytest.mark.parametrize("case", cases_with("committed"), ids=lambda case: case.id)
def test_committed_offsets_are_those_of_kafkas_consumer(case: BrokerCase, compared: Note) -> None:
    def key(line: dict[str, Any]) -> tuple[Any, ...]:
        return line["group"], line["topic"], line["partition"]

    wanted = {key(line): line for line in case.expected("committed")}
    got = {key(line): line for line in lines_of(case, "offsets")}
    for place, line in wanted.items():
        assert line.items() <= got[place].items()
    compared("committed offsets", len(wanted))


def plain(value: Any) -> Any:
    """`Optional[x]` as Java prints it, or what stands for it in JSON."""
    if value in ("Optional.empty", "OptionalInt.empty", "OptionalLong.empty"):
        return None
    found = re.fullmatch(r"Optional(Int|Long)?\[(.*)\]", value) if isinstance(value, str) else None
    if found is None:
        return value
    return int(found[2]) if found[1] or found[2].isdigit() else found[2]


@pytest.mark.parametrize("case", cases_with("groups"), ids=lambda case: case.id)
def test_groups_are_those_of_kafkas_admin_client(case: BrokerCase, compared: Note) -> None:
    got = {line["group"]: line for line in lines_of(case, "groups")}
    wanted = case.expected("groups")
    assert {line["group"] for line in wanted} == {*got}
    members = 0
    for line in wanted:
        group = got[line["group"]]
        assert group["state"] == line["state"]
        assert line["type"] in (None, group["type"])
        assert group["groupEpoch"] == plain(line["groupEpoch"])
        assert group["logPartition"] == group["expectedPartition"]
        if line["members"]:
            assert group["assignor"] == line["assignor"]

        def parts(member: dict[str, Any]) -> tuple[Any, ...]:
            named = [plain(member[name]) for name in ("memberId", "instance", "clientId", "host")]
            return (*named, sorted(member["assignment"]))

        assert sorted(map(parts, group["members"])) == sorted(map(parts, line["members"]))
        assert group["offsets"] == [{**each, "leaderEpoch": plain(each["leaderEpoch"])} for each in line["offsets"]]
        members += len(line["members"])
        compared("offsets of groups", len(line["offsets"]))
    compared("groups", len(wanted))
    compared("members of groups", members)


@pytest.mark.parametrize("case", cases_with("producers"), ids=lambda case: case.id)
def test_producers_and_transactions_are_those_of_kafkas_admin_client(case: BrokerCase, compared: Note) -> None:
    lines = lines_of(case, "transactions")
    producers = {(line["topic"], line["partition"], line["producerId"]): line for line in lines if "topic" in line}
    ids = {line["transactionalId"]: line for line in lines if "topic" not in line}
    topics = {line["topic"] for line in case.expected("producers") if "topic" in line}
    for line in case.expected("producers"):
        if "topic" in line:
            got = producers.pop((line["topic"], line["partition"], line["producerId"]))
            compared("producers", 1)
        else:
            got = ids.pop(line["transactionalId"])
            compared("transactional ids", 1)
        assert {name: plain(value) for name, value in line.items()}.items() <= got.items()
    assert not ids
    # the broker has dropped idempotent producers that were idle for a day by the records' own timestamps
    assert all(got["currentTxnStart"] is None for place, got in producers.items() if place[0] in topics)


@pytest.mark.parametrize("case", cases_with("committed"), ids=lambda case: case.id)
def test_offsets_as_of_an_earlier_moment(case: BrokerCase) -> None:
    """As of every log offset, against a plain reading of the commits below it; no transactions in these."""
    for broker in brokers(case.id):
        partitions = open_all(broker).readable()
        commits: list[tuple[int, int, Any, Any]] = []
        for partition in partitions:
            if partition.topic != "__consumer_offsets":
                continue
            for record in partition.records():
                decoded = decode_record("__consumer_offsets", record.key, record.value)
                if decoded.type in (0, 1) and decoded.key is not None:
                    value = None if decoded.value is None else decoded.value.fields["offset"]
                    commits.append((record.offset, record.timestamp, tuple(decoded.key.fields.values()), value))
        for until in (0, 1, 5, 20, 50):
            standing = {key: value for offset, _, key, value in commits if offset < until}
            got = {
                tuple(each.key): each.offset for each in read_offsets(partitions, until=Until(offset=until)).committed
            }
            assert got == {key: value for key, value in standing.items() if value is not None}


def test_offsets_as_of_a_time() -> None:
    (broker,) = brokers("2.8.2/groups")
    times = sorted({line["commitTimestamp"] for line in kafkalog("offsets", "--json", broker).objects})
    early = kafkalog("offsets", "--json", "--as-of", times[0], broker).objects
    assert early
    assert all(line["commitTimestamp"] <= times[0] for line in early)
    assert not kafkalog("offsets", "--json", "--as-of", 0, broker).objects


KEY = bytes.fromhex("0001 0001 67 0001 74 00000000")


def _commit(offset: int, at: int, producer: int = -1) -> Entry:
    value = b"\0\3" + offset.to_bytes(8, "big") + bytes(4) + b"\0\0" + bytes(8)
    return Entry(decode_record("__consumer_offsets", KEY, value), at, 0, producer)


def _offsets(*events: Entry | Marker) -> tuple[list[int], list[int]]:
    state = OffsetsState(0)
    for event in events:
        if isinstance(event, Marker):
            state.marker(event)
        else:
            state.entry(event)
    return [each.offset for each in state.committed.values()], [each.offset for each in state.pending]


def test_transactional_commits_wait_for_their_marker() -> None:
    assert _offsets(_commit(5, 0, 7)) == ([], [5])
    assert _offsets(_commit(5, 0, 7), Marker(7, True, 1)) == ([5], [])
    assert _offsets(_commit(5, 0, 7), Marker(7, False, 1)) == ([], [])
    assert _offsets(_commit(5, 0, 7), Marker(8, True, 1)) == ([], [5])
    # a plain commit after the transactional one stands, although the marker comes last
    assert _offsets(_commit(5, 0, 7), _commit(6, 1), Marker(7, True, 2)) == ([6], [])
    assert _offsets(_commit(6, 0), _commit(5, 1, 7), Marker(7, True, 2)) == ([5], [])
    tombstone = Entry(decode_record("__consumer_offsets", KEY, None), 1, 0)
    assert _offsets(_commit(5, 0), tombstone) == ([], [])
    assert _offsets(_commit(5, 0, 7), tombstone, Marker(7, True, 2)) == ([], [])


@pytest.mark.parametrize("version", ["0.11.0.3", "1.1.1", "2.8.2", "3.9.1", "3.9.1-zk", "4.1.1", "4.3.0"])
def test_open_transactions_are_ongoing_and_nothing_hangs(version: str, compared: Note) -> None:
    partitions = open_all(*brokers(f"{version}/txn")).readable()
    places = read_producers(partitions)
    opened, findings = open_transactions(places, read_transactions(partitions))
    assert findings == []
    assert opened
    for each in opened:
        assert (each.hanging, (each.transactional_id or "")[:3]) == (False, "op-")
    case = broker_case(version, "txn")
    stable = {(place.partition.topic, place.partition.partition): place.last_stable_offset for place in places}
    ends = {(line["topic"], line["partition"]): line["end"] for line in case.expected("read_committed.offsets")}
    assert {place: stable[place] for place in ends} == ends
    compared("last stable offsets", len(ends))


def test_a_transaction_that_its_coordinator_has_forgotten_hangs() -> None:
    partitions = open_all(*brokers("4.1.1/txn")).readable()
    places = read_producers(partitions)
    coordinator = read_transactions(partitions, until=Until(offset=0))
    opened, findings = open_transactions(places, coordinator)
    assert all(each.hanging for each in opened)
    assert {found.code for found in findings} == {FindingCode.TRANSACTION_HANGING}
    without = [each for each in partitions if each.topic != "__transaction_state"]
    opened, findings = open_transactions(places, read_transactions(without))
    assert {each.hanging for each in opened} == {None}
    assert findings == []


def test_a_group_in_the_wrong_partition_is_found(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/groups")
    source = next(
        path for path in sorted(broker.glob("__consumer_offsets-*")) if (path / f"{0:020d}.log").stat().st_size
    )
    number = int(source.name.rpartition("-")[2])
    wrong = tmp_path / f"__consumer_offsets-{number + 1}"
    wrong.mkdir()
    (wrong / f"{0:020d}.log").write_bytes((source / f"{0:020d}.log").read_bytes())
    other = tmp_path / source.name
    other.mkdir()
    (other / f"{0:020d}.log").write_bytes((source / f"{0:020d}.log").read_bytes())
    found = read_groups(open_all(tmp_path).readable())
    assert {each.code for each in found.findings} == {FindingCode.GROUP_MISPLACED}


HASHES = {"test": (3556498, 48), "my-group": (-1906497762, 12), "console-consumer-12345": (158455506, 6),
          "polygenelubricants": (-2147483648, 0), "": (0, 0), "é中": (27236, 36)}  # fmt: skip


def test_javas_hashes() -> None:
    assert {text: (string_hash(text), coordinator_partition(text, 50)) for text in HASHES} == HASHES
    assert string_hash("[t0,1]") == -1581112255
    assert topic_partition_hash("t", 1) == 31 * 32 + ord("t")


@pytest.mark.parametrize("command", ["offsets", "groups", "transactions"])
def test_tables_for_people(command: str) -> None:
    (broker,) = brokers("4.1.1/txn" if command == "transactions" else "4.1.1/groups")
    finished = kafkalog(command, broker)
    assert (finished.code, finished.err) == (0, "")
    assert finished.lines[0] in ("committed", "groups", "transactional ids")
    assert any(name in finished.out for name in ("alive-68", "op-0"))


@pytest.mark.parametrize("case", [f"{version}/{name}" for version in ("1.1.1", "4.1.1") for name in KILLED[:2]])
def test_a_killed_brokers_directory_gives_a_report(case: str) -> None:
    assert unpacked(case)
    for broker in brokers(case):
        finished = kafkalog("transactions", "--json", broker)
        assert finished.code in (0, 1)
        assert finished.objects
        assert "Traceback" not in finished.err


def test_no_internal_topic_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "plain-0").mkdir()
    (tmp_path / "plain-0" / f"{0:020d}.log").touch()
    assert kafkalog("offsets", tmp_path).code == 64
    assert kafkalog("groups", tmp_path).code == 64
