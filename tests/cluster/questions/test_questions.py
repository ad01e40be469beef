"""The public calls about a cluster: answers that Kafka gave, and errors in the words of Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kafkalog
from kafkalog import Moment, Rebalance, Selection, UsageError
from kafkalog.codec.common.errors import UnknownName
from kafkalog.types import KRaftElections, ZooKeeperElections
from testkit.recorded.broker_dirs import STOPPED, brokers
from testkit.recorded.fixture_data import BrokerCase, broker_case


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return broker_case("2.8.2", "zkhist").unpack(tmp_path_factory.mktemp("zk")) / "zookeeper"


@pytest.fixture(scope="module")
def data() -> Path:
    return brokers("4.1.1/groups")[0]


@pytest.mark.parametrize("case", [case for case in STOPPED if case.has("committed")], ids=lambda case: case.id)
def test_offsets_are_those_of_kafkas_consumer(case: BrokerCase) -> None:
    committed = [each.commit for root in brokers(case.id) for each in kafkalog.offsets(root).committed]
    offsets = {tuple(commit.key): commit.offset for commit in committed}
    for line in case.expected("committed"):
        assert offsets[line["group"], line["topic"], line["partition"]] == line["offset"]


@pytest.mark.parametrize("case", [case for case in STOPPED if case.has("groups")], ids=lambda case: case.id)
def test_groups_have_the_states_that_kafkas_admin_client_gives(case: BrokerCase) -> None:
    found = {each.group_id: each.state for root in brokers(case.id) for each in kafkalog.groups(root).groups}
    assert found == {line["group"]: line["state"] for line in case.expected("groups")}


def test_a_rebalance_is_answered_for_each_group(data: Path) -> None:
    found = kafkalog.groups(data, groups=["alive-68"], rebalance=Rebalance(joining="new", topics=["clicks-21"]))
    (group,) = found.groups
    joined, grown = found.after_joining(group), found.after_growth(group)
    assert joined is not None
    assert grown is not None
    assert set(joined) == {*(each.member_id for each in group.members), "new"}
    assert {topic for places in grown.values() for topic, _number in places} == {"clicks-21", "visits-0"}


def test_the_earliest_of_several_moments_counts(data: Path, zookeeper: Path) -> None:
    known = kafkalog.metadata(data)
    early = kafkalog.metadata(data, as_of=Moment(offset=133))
    assert early.next_offset == 133 < known.next_offset
    late = known.state.timestamp
    assert kafkalog.metadata(data, as_of=Moment(offset=133, time=late)).next_offset == 133
    with pytest.raises(UsageError, match=r"^as_of is an offset of the metadata log here, or a time"):
        kafkalog.metadata(data, as_of=Moment(zxid=5))
    assert kafkalog.departures(zookeeper, brokers=[5], as_of=Moment(zxid=0x9C)).departures == (
        kafkalog.departures(zookeeper, brokers=[5], as_of=Moment(offset=0x9C, time=2**62)).departures
    )


def test_either_kind_of_metadata_has_a_history(data: Path, zookeeper: Path) -> None:
    kraft, old = kafkalog.elections(data), kafkalog.elections(zookeeper)
    assert isinstance(kraft, KRaftElections)
    assert isinstance(old, ZooKeeperElections)
    every = kafkalog.metadata_history(data).changes
    assert kraft.changes == tuple(each for each in every if each.is_election)
    only = kafkalog.elections(zookeeper, select=Selection.of(["invoices-20"]), every_change=True)
    assert {each.topic for each in only.changes} == {"invoices-20"}


def test_damage_of_the_metadata_log_is_one_finding_of_elections(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    log = next((tmp_path / "__cluster_metadata-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(content)
    found = kafkalog.elections(tmp_path).findings
    assert found
    assert len(found) == len(set(found))


def test_metadata_of_both_kinds_is_not_read_as_that_of_zookeeper_alone(data: Path, zookeeper: Path) -> None:
    for call in (
        kafkalog.effective_settings, kafkalog.elections, lambda *paths: kafkalog.departures(*paths, brokers=[5])
    ):  # fmt: skip
        with pytest.raises(UsageError, match="holds a metadata log, and another path is ZooKeeper's"):
            call(data, zookeeper)


def test_errors_name_arguments_and_no_options(data: Path, zookeeper: Path) -> None:
    for call, words in (
        (lambda: kafkalog.offsets(zookeeper, replica="longest"), "replica is about __consumer_offsets"),
        (lambda: kafkalog.offsets(data, chroot="/a"), "chroot is a ZooKeeper node"),
        (lambda: kafkalog.offsets(data, as_of=Moment(zxid=1)), "as_of.zxid is a ZooKeeper transaction"),
        (lambda: kafkalog.offset_history(zookeeper), "offset_history() needs log directories"),
        (lambda: kafkalog.elections(zookeeper, replica="longest"), "replica chooses among log directories"),
        (lambda: kafkalog.effective_settings(data, chroot="/a"), "this is not effective_settings() of"),
        (lambda: kafkalog.metadata(data, as_of=Moment(offset=10**6)), "as_of 1000000 is beyond the end"),
        (lambda: kafkalog.groups(data, rebalance=Rebalance(topics=["new"])), "give partitions={'new': N}"),
        (lambda: kafkalog.groups(data, rebalance=Rebalance(partitions={"new": 2})), "give topics=['new'] too"),
    ):
        with pytest.raises(UsageError) as raised:
            call()
        assert words in str(raised.value)
        assert "--" not in str(raised.value)


def test_why_a_group_may_exist_is_in_the_error(tmp_path: Path) -> None:
    root = next(broker_case("4.1.1", "groups").unpack(tmp_path).glob("broker-*"))
    log = max(root.glob("__consumer_offsets-*/*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    damaged = {each.file for each in kafkalog.offsets(root).findings}
    assert str(log) in damaged
    with pytest.raises(UnknownName) as raised:
        kafkalog.offsets(root, groups=["nobody*"])
    assert {each.file for each in raised.value.findings} >= {str(log)}


def test_a_log_that_is_a_link_has_no_end(tmp_path: Path) -> None:
    root = next(broker_case("4.3.0", "groups").unpack(tmp_path).glob("broker-*"))
    log = next((root / "stock-1-1").glob("*.log"))
    log.rename(tmp_path / "elsewhere.log")
    log.symlink_to(tmp_path / "elsewhere.log")
    answer = kafkalog.offsets(root)
    codes = {finding.code for finding in answer.findings}
    assert {each.file for each in answer.findings if each.code == "unreadable"} == {str(log)}
    assert "offset_beyond_log_end" not in codes
    assert "unreadable" in {finding.code for finding in kafkalog.transactions(root).findings}
    assert "unreadable" in {finding.code for finding in kafkalog.top(root).findings}


def test_a_coordinators_topic_that_is_gone_as_a_whole_is_found(tmp_path: Path) -> None:
    root = next(broker_case("4.3.0", "txn").unpack(tmp_path).glob("broker-*"))
    names = sorted(path.name for path in root.glob("__transaction_state-*"))
    for name in names:
        shutil.rmtree(root / name)
    findings = kafkalog.transactions(root).findings
    missing = sorted(Path(each.file or "").name for each in findings if each.code == "partition_missing")
    assert missing == names
    assert "partition_missing" not in {each.code for each in kafkalog.transactions(root / "orders-20-1").findings}


def test_partitions_of_the_groups_in_another_log_directory_are_missed(tmp_path: Path) -> None:
    """A broker with two log directories, of which one is given."""
    root = next(broker_case("4.1.1", "groups").unpack(tmp_path).glob("broker-*"))
    whole = kafkalog.groups(root)
    held = {group.log_partition for group in whole.groups}
    assert len(held) > 1
    assert not [finding for finding in whole.findings if finding.code == "partition_missing"]
    (tmp_path / "other").mkdir()
    name = f"__consumer_offsets-{max(held)}"
    shutil.move(root / name, tmp_path / "other" / name)
    for checkpoint in root.glob("*-checkpoint"):
        checkpoint.unlink()
    meta = root / "meta.properties"
    lines = meta.read_text().splitlines(keepends=True)
    meta.write_text("".join(line for line in lines if not line.startswith("directory.id")))
    first, last = (next(group.group_id for group in whole.groups if group.log_partition == number)
                   for number in (min(held), max(held)))  # fmt: skip
    for found in (kafkalog.groups(root), kafkalog.offsets(root), kafkalog.groups(root, groups=["*"])):
        (finding,) = [each for each in found.findings if each.code == "partition_missing"]
        assert f"is not in the given paths ({name})" in finding.detail
    assert not [each for each in kafkalog.groups(root, groups=[first]).findings if each.code == "partition_missing"]
    with pytest.raises(UnknownName, match=name):
        kafkalog.groups(root, groups=[last])
    both = kafkalog.groups(root, tmp_path / "other")
    assert [group.group_id for group in both.groups] == [group.group_id for group in whole.groups]
