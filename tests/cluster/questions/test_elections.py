"""Election timelines, and metadata against the log directories that are beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkalog.cluster.cross_check import cluster_ids, cross_check, known_from_image, known_from_zookeeper
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState
from kafkalog.cluster.zookeeper.timeline import Timeline, cause_of, timeline
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.log import open_all, open_partition
from testkit.made.zookeeper_log import write_log
from testkit.recorded.broker_dirs import KILLED, brokers, unpacked
from testkit.recorded.fixture_data import BrokerCase, broker_case, broker_cases
from testkit.running.command import kafkalog

Note = Callable[[str, int], None]
HISTORIES = [case for case in broker_cases() if case.name == "zkhist"]
ZOOKEEPER = [case for case in broker_cases() if case.case["mode"] != "kraft" and case.name not in KILLED]
KRAFT = [case for case in broker_cases() if case.case["mode"] == "kraft" and case.name not in KILLED]


def of(case: BrokerCase) -> Timeline:
    return timeline(open_zookeeper(unpacked(case.id) / "zookeeper"))


@pytest.mark.parametrize("case", HISTORIES, ids=lambda case: case.id)
def test_controllers_follow_each_other_and_one_was_killed(case: BrokerCase) -> None:
    found = of(case)
    assert found.findings == []
    assert [term.epoch for term in found.terms] == list(range(1, len(found.terms) + 1))
    assert len(found.terms) >= 3
    for term, following in zip(found.terms, found.terms[1:], strict=False):
        assert term.span.to_zxid is not None
        assert term.span.to_zxid < following.span.from_zxid
    # exactly the killed broker's session ran out; all others were closed by their clients
    expired = [life for life in found.brokers if life.span.ended_by == "session expired"]
    assert len(expired) == 1
    assert {life.span.ended_by for life in found.brokers} == {"session expired", "session closed by its client"}
    (killed,) = [term for term in found.terms if term.span.ended_by == "session expired"]
    assert str(killed.broker) == expired[0].broker
    assert killed.span.to_zxid == expired[0].span.to_zxid


@pytest.mark.parametrize("case", HISTORIES, ids=lambda case: case.id)
def test_partition_states_and_epochs_are_those_of_tree_and_checkpoints(case: BrokerCase, compared: Note) -> None:
    found = of(case)
    last: dict[tuple[str, int], PartitionState | None] = {}
    epochs: dict[tuple[str, int], set[int]] = {}
    for change in found.changes:
        key = change.topic, change.partition
        assert change.before == last.get(key)
        assert change.cause
        assert change.writer in (None, *(life.broker for life in found.brokers))
        last[key] = change.after
        if change.before is None:
            epochs[key] = set()
        if change.after is not None:
            epochs[key].add(change.after.leader_epoch)
    count = 0
    for broker in brokers(case.id):
        for partition in open_all(broker).readable():
            key = partition.topic or "", partition.partition or 0
            for each in partition.leader_epochs:
                assert each.epoch in epochs[key]
                count += 1
    assert bool(count) == (case.version not in ("0.8.2.2", "0.9.0.1", "0.10.2.2"))  # no epochs before 0.11
    compared("leader epochs of checkpoints found in ZooKeeper's log", count)


@pytest.mark.parametrize("case", ZOOKEEPER, ids=lambda case: case.id)
def test_zookeeper_and_the_directories_agree(case: BrokerCase, compared: Note) -> None:
    known = known_from_zookeeper(tree_at(open_zookeeper(unpacked(case.id) / "zookeeper")).tree)
    assert known
    count, findings = cross_check(open_all(*brokers(case.id)).log_dirs, known)
    assert findings == []
    compared("partitions held against ZooKeeper", count)


@pytest.mark.parametrize("case", [case for case in ZOOKEEPER if case.version >= "2"], ids=lambda case: case.id)
def test_the_cluster_id_of_zookeeper_is_that_of_the_directories(case: BrokerCase, tmp_path: Path) -> None:
    tree = tree_at(open_zookeeper(unpacked(case.id) / "zookeeper")).tree
    clusters = cluster_ids(tree)
    assert list(clusters) == [""]
    known = known_from_zookeeper(tree)
    assert cross_check(open_all(*brokers(case.id)).log_dirs, known, clusters)[1] == []
    other = Path(shutil.copytree(brokers(case.id)[0], tmp_path / "other"))
    _alter(other / "meta.properties", clusters[""], "AQIDBAUGBwgJCgsMDQ4PEA")
    found = cross_check(open_all(other).log_dirs, known, clusters)[1][0]
    assert (found.code, found.severity) == (FindingCode.IDENTITY_MISMATCH, Severity.ERROR)
    assert clusters[""] in found.detail
    finished = kafkalog("elections", "--against", other, unpacked(case.id) / "zookeeper")
    assert finished.code == 1
    assert FindingCode.IDENTITY_MISMATCH in finished.err


@pytest.mark.parametrize("case", KRAFT, ids=lambda case: case.id)
def test_metadata_and_the_directories_agree(case: BrokerCase, compared: Note) -> None:
    (broker,) = brokers(case.id)
    image = MetadataLog(open_partition(broker / "__cluster_metadata-0")).state().image
    count, findings = cross_check(open_all(broker).log_dirs, known_from_image(image))
    assert findings == []
    assert count
    compared("partitions held against the KRaft image", count)


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    (broker,) = brokers("4.1.1/groups")
    return Path(shutil.copytree(broker, tmp_path / broker.name))


def _alter(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_contradictions_are_found(changed: Path) -> None:
    log = MetadataLog(open_partition(changed / "__cluster_metadata-0"))
    known = known_from_image(log.state().image)

    def details() -> list[tuple[Severity, str]]:
        return [(found.severity, found.detail) for found in cross_check(open_all(changed).log_dirs, known)[1]]

    assert details() == []
    identity = known["visits-0"].topic_id
    assert identity is not None
    _alter(changed / "visits-0-1" / "partition.metadata", identity, "AQIDBAUGBwgJCgsMDQ4PEA")
    ((severity, detail),) = details()
    assert (severity, "another topic of the same name" in detail) == (Severity.ERROR, True)
    _alter(changed / "visits-0-1" / "partition.metadata", "AQIDBAUGBwgJCgsMDQ4PEA", identity)
    (changed / "visits-0-2" / "leader-epoch-checkpoint").write_text("0\n1\n900 0\n")
    assert "leader epoch 900 here" in details()[0][1]
    (changed / "visits-0-2").rename(changed / "visits-0-7")
    assert "has all of visits-0-2, and none" in details()[0][1]
    assert "visits-0-7 is not in the metadata" in details()[1][1]
    (changed / "visits-0-7").rename(changed / "gone-0")
    assert "topic gone is not in the metadata" in details()[1][1]
    finished = kafkalog("elections", "--against", changed, changed)
    assert finished.code == 1
    assert FindingCode.METADATA_INCONSISTENT in finished.err


def test_whoever_is_in_sync_has_what_was_committed(changed: Path) -> None:
    known = known_from_image(MetadataLog(open_partition(changed / "__cluster_metadata-0")).state().image)

    def details() -> list[tuple[Severity, str]]:
        return [(found.severity, found.detail) for found in cross_check(open_all(changed).log_dirs, known)[1]]

    partition = open_partition(changed / "visits-0-1")
    end = partition.log_end_offset()
    assert end > 3
    cut = partition.segments[-1]
    last = list(cut.batches())[-1]
    with Path(cut.path).open("r+b") as file:
        file.truncate(last.position)
    ((severity, detail),) = details()
    assert severity is Severity.ERROR
    assert f"knows {end} as committed" in detail
    shutil.rmtree(changed / "visits-0-1")
    ((severity, detail),) = details()
    assert severity is Severity.WARNING
    assert "has all of visits-0-1, and none" in detail
    topic = known["visits-0"]
    partitions = {**topic.partitions, 2: replace(topic.partitions[2], isr=(77,))}
    known["visits-0"] = replace(topic, partitions=partitions)
    assert "in-sync replicas [77] are not all replicas" in details()[-1][1]


def state(leader: int, epoch: int, *isr: int, recovering: bool = False) -> PartitionState:
    return PartitionState(
        leader=leader, leader_epoch=epoch, isr=isr, controller_epoch=1, recovering=recovering
    )


ALIVE = {"1", "2", "3"}


@pytest.mark.parametrize(
    ("before", "after", "live", "cause"),
    [
        (None, state(1, 0, 1, 2), ALIVE, "created"),
        (state(1, 0, 1, 2), None, ALIVE, "topic deleted"),
        (state(1, 3, 1, 2), state(1, 3, 1), ALIVE, "ISR shrinks"),
        (state(1, 3, 1), state(1, 3, 1, 2), ALIVE, "ISR grows"),
        (state(1, 3, 1), state(-1, 4, 1), ALIVE, "leader lost: no replica may lead"),
        (state(-1, 4, 1), state(1, 5, 1), ALIVE, "elected: there was no leader"),
        (state(-1, 4, 1), state(2, 5, 2), ALIVE, "unclean election"),
        (state(-1, 4, 2), state(2, 5, 2, recovering=True), ALIVE, "unclean election"),
        (state(1, 4, 1, 2), state(1, 5, 1), ALIVE, "ISR shrinks, by the controller"),
        (state(2, 4, 1, 2), state(1, 5, 1, 2), ALIVE, "preferred leader elected"),
        (state(1, 4, 1, 2), state(2, 5, 2), {"2"}, "elected: the old leader's broker is gone"),
        (state(1, 4, 1, 2), state(2, 5, 2), ALIVE, "elected: controlled shutdown of the old leader's broker"),
        (state(9, 4, 9, 1), state(1, 5, 9, 1), ALIVE, "elected: reassignment"),
    ],
)
def test_causes(before: PartitionState | None, after: PartitionState | None, live: set[str], cause: str) -> None:
    assert cause_of(before, after, (1, 2, 3), live) == cause


def test_a_cluster_that_is_deleted_ends_its_controller(tmp_path: Path) -> None:
    made: list[tuple[str, bytes | None]] = [
        ("/a", b""), ("/a/brokers", b""), ("/a/brokers/ids", b""), ("/a/brokers/topics", b""),
        ("/a/brokers/ids/1", b"{}"), ("/a/controller_epoch", b"1"), ("/a/controller", b'{"brokerid":1}'),
    ]  # fmt: skip
    order = ("/a/brokers/ids/1", "/a/brokers/topics", "/a/brokers/ids", "/a/controller")  # `deleteall`: deepest first
    found = timeline(open_zookeeper(write_log(tmp_path / "zk", [*made, *((path, None) for path in order)])))
    (life,), (term,) = found.brokers, found.terms
    assert (life.span.to_zxid, term.broker, term.span.to_zxid) == (8, 1, 11)
    assert term.span.ended_by == "node deleted"


def test_the_command_for_zookeeper() -> None:
    root = unpacked("2.8.2/zkhist")
    finished = kafkalog("elections", "--json", "--against", root / "broker-3", "--against", root / "broker-5",
                        root / "zookeeper")  # fmt: skip
    assert (finished.code, finished.err) == (0, "")
    assert {line["kind"] for line in finished.objects} == {"controller", "broker", "partition"}
    elections = [line for line in finished.objects if line["kind"] == "partition"]
    assert all(line["election"] for line in elections)
    every = kafkalog("elections", "--json", "--all", "--topic", "invoices-20", root / "zookeeper").objects
    assert {line["topic"] for line in every if line["kind"] == "partition"} == {"invoices-20"}
    assert any(line["cause"] == "ISR grows" for line in every if line["kind"] == "partition")
    table = kafkalog("elections", root / "zookeeper")
    assert "session expired" in table.out
    assert "preferred leader elected" in table.out


def test_the_command_for_kraft() -> None:
    (broker,) = brokers("4.1.1/metadata")
    finished = kafkalog("elections", "--json", "--against", broker, broker)
    assert (finished.code, finished.err) == (0, "")
    terms = [line for line in finished.objects if line.get("kind") == "controller"]
    assert [term["epoch"] for term in terms] == [1, 2, 3]
    assert kafkalog("elections", broker).lines[0] == "controllers"
    assert broker_case("4.1.1", "metadata")


def test_neither_is_a_usage_error(tmp_path: Path) -> None:
    assert kafkalog("elections", tmp_path).code == 64
