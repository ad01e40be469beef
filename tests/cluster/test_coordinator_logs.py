"""What a coordinator's log that is not whole does not say: no group, no offset, no transaction is denied by it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import kafkalog as library
from kafkalog.cluster.groups.groups import read_groups
from kafkalog.cluster.groups.offset_history import read_offset_history
from kafkalog.cluster.groups.offsets import read_offsets
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.cluster.transactions.producers import read_producers
from kafkalog.cluster.transactions.transactions import open_transactions, read_transactions
from kafkalog.codec.common.findings import Severity
from kafkalog.jobs.quorum.expiry import expiry_of
from kafkalog.log import open_all
from kafkalog.replay.planning import plan_replay
from kafkalog.server.error_codes import Code
from kafkalog.spark.contents_cluster import cluster_rows
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog
from testkit.serving.raw_client import RawClient
from testkit.serving.serving import serving

FIRST = f"{0:020d}"
Hurt = Callable[[Path], None]


def batches(log: Path) -> list[tuple[int, int]]:
    """Base offset and position of each."""
    data, position, found = log.read_bytes(), 0, []
    while position < len(data):
        base, length = struct.unpack_from(">qi", data, position)
        found.append((base, position))
        position += 12 + length
    return found


def split(place: Path, numbers: list[int]) -> None:
    """The one segment of a partition becomes several, which begin with these batches; indexes are left out."""
    log = place / f"{FIRST}.log"
    data, starts = log.read_bytes(), batches(log)
    for index in place.glob("*index"):
        index.unlink()
    cuts = [*(starts[number] for number in numbers), (0, len(data))]
    for (base, begin), (_, end) in pairwise(cuts):
        (place / f"{base:020d}.log").write_bytes(data[begin:end])
    log.write_bytes(data[: cuts[0][1]])


def missing(place: Path) -> None:
    for each in place.iterdir():
        each.unlink()
    place.rmdir()


def damaged(place: Path) -> None:
    log = place / f"{FIRST}.log"
    data, (_, position) = bytearray(log.read_bytes()), batches(log)[len(batches(log)) // 2]
    data[position + 70] ^= 1
    log.write_bytes(data)


def emptied(place: Path) -> None:
    (place / f"{FIRST}.log").write_bytes(b"")


def cut(place: Path) -> None:
    log = place / f"{FIRST}.log"
    log.write_bytes(log.read_bytes()[: batches(log)[-1][1]])


def beginning_gone(place: Path) -> None:
    split(place, [len(batches(place / f"{FIRST}.log")) // 2])
    (place / f"{FIRST}.log").unlink()


def gap(place: Path) -> None:
    count = len(batches(place / f"{FIRST}.log"))
    split(place, [count // 3, count // 2])
    sorted(place.glob("*.log"))[1].unlink()


HURTS = {
    "partition_missing": missing,
    "crc_mismatch": damaged,
    "log_end_below_high_watermark": emptied,
    "log_end_below_high_watermark ": cut,
    "segment_missing": beginning_gone,
    "segment_missing ": gap,
}
every_hurt = pytest.mark.parametrize(("code", "hurt"), HURTS.items(), ids=[each.__name__ for each in HURTS.values()])


@every_hurt
def test_only_a_log_that_was_read_whole_says_that_a_transaction_hangs(code: str, hurt: Hurt, tmp_path: Path) -> None:
    broker = own_copy(brokers("4.3.0/txn")[0], tmp_path / "logs")
    hurt(broker / "__transaction_state-1")
    found = kafkalog("transactions", broker)
    assert (found.code, code.strip() in found.err, "transaction_hanging" in found.err) == (1, True, False)
    assert "abort" not in found.out
    lines = kafkalog("transactions", broker, "--json").objects
    opened = [each for each in lines if each["kind"] == "producer" and each["currentTxnStart"] is not None]
    assert {each["producerId"]: each["hanging"] for each in opened} == {1002: False, 1003: None}
    partitions = open_all(broker).readable()
    _, hanging = open_transactions(read_producers(partitions), read_transactions(partitions))
    assert hanging == []
    nobody = kafkalog("transactions", broker, "--transactional-id", "op-9")
    assert coordinator_partition("op-9", 2) == 1
    assert (nobody.code, nobody.out, "there is no transactional id" in nobody.err) == (1, "", False)
    assert "nothing is known of transactional id 'op-9': " in nobody.err
    assert code.strip() in nobody.err


def test_a_directory_without_metadata_and_watermarks_says_of_nothing_that_it_hangs(tmp_path: Path) -> None:
    broker = own_copy(brokers("4.3.0/txn")[0], tmp_path / "logs")
    missing(broker / "__transaction_state-1")
    for metadata in (broker / "__cluster_metadata-0").iterdir():
        metadata.unlink()
    (broker / "__cluster_metadata-0").rmdir()
    for checkpoint in broker.glob("*checkpoint"):
        checkpoint.unlink()
    lines = kafkalog("transactions", broker, "--json").objects
    assert {each["hanging"] for each in lines if each.get("currentTxnStart") is not None} == {False, None}


def test_what_a_coordinator_said_before_damage_is_not_its_last_word(tmp_path: Path) -> None:
    """Here it ends where `op-1` was about to be aborted: that was an earlier transaction than the one that is open."""
    broker = own_copy(brokers("4.3.0/txn")[0], tmp_path / "logs")
    log = broker / "__transaction_state-1" / f"{FIRST}.log"
    whole, open_at = log.read_bytes(), {}
    for _, position in batches(log)[1:]:
        log.write_bytes(whole[:position])
        ids = read_transactions(open_all(broker).readable()).ids
        if [each.state for each in ids if each.transactional_id == "op-1"] == ["PrepareAbort"]:
            plan = plan_replay(broker)
            places = [each for topic in plan.topics for each in topic.partitions.values()]
            open_at[position] = {
                (each.topic, each.partition, number) for each in places
                for number in each.transactions().open_first_offsets
            }  # fmt: skip
            break
    ((_, found),) = open_at.items()
    assert {("metrics-1", 0, 1003), ("orders-20", 0, 1003), ("orders-20", 1, 1003)} <= found


@every_hurt
def test_what_is_gone_of_the_offsets_is_said(code: str, hurt: Hurt, tmp_path: Path) -> None:
    broker = own_copy(brokers("4.3.0/groups")[0], tmp_path / "logs")
    hurt(broker / "__consumer_offsets-2")
    forms = (["offsets"], ["offsets", "--json"], ["offsets", "--format", "reset-csv"], ["offsets", "--history"],
             ["offsets", "--as-of", "2026-11-21T00:30:05Z"], ["groups"], ["groups", "--json"])  # fmt: skip
    for form in forms:
        found = kafkalog(*form, broker)
        assert (found.code, code.strip() in found.err) == (1, True), form
    partitions = open_all(broker).readable()
    for read in (read_offsets, read_groups, read_offset_history):
        result = read(partitions)
        assert code.strip() in {each.code.value for each in result.findings}
        assert not result.logs.are_whole
    for contents in ("offsets", "groups"):
        rows: list[library.Finding] = []
        assert list(cluster_rows(contents, [str(broker)], None, rows))
        assert code.strip() in {each.code.value for each in rows}
    assert coordinator_partition("rr-44", 3) == 2
    with pytest.raises(library.FormatError, match="the offsets of group rr-44 are not known"):
        library.GroupOffsets(broker, "rr-44").load()
    assert library.GroupOffsets(broker, "alive-62").load()


@every_hurt
def test_there_is_no_group_only_where_that_is_known(code: str, hurt: Hurt, tmp_path: Path) -> None:
    broker = own_copy(brokers("4.3.0/groups")[0], tmp_path / "logs")
    hurt(broker / "__consumer_offsets-2")
    names = {coordinator_partition(f"nobody-{number}", 3): f"nobody-{number}" for number in range(20)}
    forms = (["offsets"], ["offsets", "--json"], ["offsets", "--format", "reset-csv"], ["offsets", "--history"],
             ["groups"], ["groups", "--json"])  # fmt: skip
    for form in forms:
        found = kafkalog(*form, broker, "--group", names[2])
        assert (found.code, found.out, "there is no group" in found.err) == (1, "", False)
        assert f"nothing is known of group '{names[2]}': " in found.err
        assert f" {code.strip()} (" in found.err
        assert f"there is no group '{names[0]}'" in kafkalog(*form, broker, "--group", names[0]).err
        matching = kafkalog(*form, broker, "--group", "nobody-*")
        assert "nothing is known of groups that match 'nobody-*': " in matching.err
    found = kafkalog("dump", broker, "-t", "stock-1", "-G", names[2])
    assert (found.code, "nothing is known of group" in found.err) == (1, True)
    assert f"there is no group '{names[0]}'" in kafkalog("dump", broker, "-t", "stock-1", "-G", names[0]).err


NOT_KNOWN = Code.KAFKA_STORAGE_ERROR


@every_hurt
@pytest.mark.parametrize("version", [2, 7, 9])
def test_serve_does_not_deny_offsets_of_a_log_that_is_not_whole(
    version: int, code: str, hurt: Hurt, tmp_path: Path
) -> None:
    """A client that is told of none begins where `auto.offset.reset` says; what it commits here counts."""
    broker = own_copy(brokers("4.3.0/groups")[0], tmp_path / "logs")
    whole = read_offsets(open_all(broker).readable()).committed
    hurt(broker / "__consumer_offsets-2")
    left = {each.key for each in read_offsets(open_all(broker).readable()).committed}
    (topic, number), *_ = [(each.key.topic, each.key.partition) for each in whole if each.key.group == "alive-62"]
    names = {coordinator_partition(f"nobody-{each}", 3): f"nobody-{each}" for each in range(20)}
    wanted = [{"name": topic, "partition_indexes": [number]}]

    with serving(broker) as server, RawClient(server.address) as client:

        def asked(group: str, topics: object) -> tuple[int, list[tuple[int, int]]]:
            one = {"group_id": group, "topics": topics}
            if version < 8:
                answer = client.ask("OffsetFetch", version, **one)
            else:
                (answer,) = client.ask("OffsetFetch", version, groups=[one])["groups"]
            rows = [each for one_topic in answer["topics"] for each in one_topic["partitions"]]
            return answer["error_code"], [(each["committed_offset"], each["error_code"]) for each in rows]

        for key in {each.key for each in whole}:
            (offset, told), = asked(key.group, [{"name": key.topic, "partition_indexes": [key.partition]}])[1]
            assert (offset >= 0, told) == ((True, Code.NONE) if key in left else (False, NOT_KNOWN)), key
        assert asked(names[2], wanted) == (Code.NONE, [(-1, NOT_KNOWN)])
        assert asked(names[0], wanted) == (Code.NONE, [(-1, Code.NONE)])
        assert asked(names[2], None)[0] == NOT_KNOWN
        assert asked("alive-62", None)[0] == Code.NONE
        described = client.ask("DescribeGroups", 5, groups=[names[2], names[0]])["groups"]
        assert [each["error_code"] for each in described] == [NOT_KNOWN, Code.NONE]
        commit = {"partition_index": number, "committed_offset": 3, "committed_metadata": ""}
        client.ask("OffsetCommit", 2, group_id=names[2], generation_id_or_member_epoch=-1, member_id="",
                   topics=[{"name": topic, "partitions": [commit]}])  # fmt: skip
        assert asked(names[2], wanted) == (Code.NONE, [(3, Code.NONE)])


@every_hurt
def test_what_goes_of_a_log_that_is_not_whole_is_not_known(code: str, hurt: Hurt, tmp_path: Path) -> None:
    for case, place, kind in (
        ("4.3.0/groups", "__consumer_offsets-2", "group"),
        ("4.3.0/txn", "__transaction_state-1", "transactional_id"),
    ):
        broker = own_copy(brokers(case)[0], tmp_path / kind)
        image = MetadataLog(library.open_partition(broker / "__cluster_metadata-0")).state().image
        for is_hurt in (False, True):
            if is_hurt:
                hurt(broker / place)
            for now in (0, 4_000_000_000_000):
                found = expiry_of(image, [(str(broker), 1)], {}, now)
                told = [each.detail for each in found if (each.kind, each.name, each.count) == (kind, "*", None)]
                due = f"more than is named here may go: {code.strip()} ("
                assert [due in each for each in told] == [True] * is_hurt


def test_nothing_is_known_of_a_group_whose_past_the_cleaner_has_removed(tmp_path: Path) -> None:
    broker = own_copy(brokers("4.3.0/groups")[0], tmp_path / "logs")
    for number in range(3):
        with library.Log.open(broker / f"__consumer_offsets-{number}") as log:
            log.roll()
    settings = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
    kafkalog("compact", "--yes", *settings, "--topic", "__consumer_offsets", "--at", "2027-01-01", broker)
    for command in ("offsets", "groups"):
        found = kafkalog(command, broker, "--as-of", "2026-11-21T00:30:38.900Z", "--group", "alive-62")
        assert (found.code, found.out, "there is no group" in found.err) == (1, "", False)
        assert "nothing is known of group 'alive-62': past_removed (" in found.err
        assert kafkalog(command, broker, "--group", "alive-62").code == 0


@pytest.mark.parametrize("case_id", ["2.8.2/groups", "3.9.1-zk/txn", "4.1.1/groups", "4.3.0/txn", "4.3.0/compact"])
def test_of_what_a_broker_left_nothing_is_missing(case_id: str) -> None:
    for broker in brokers(case_id):
        partitions = open_all(broker).readable()
        for read in (read_offsets, read_groups, read_transactions):
            found = read(partitions)
            assert [each for each in found.findings if each.severity is not Severity.INFO] == []
            assert found.logs.are_whole
