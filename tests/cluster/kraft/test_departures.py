"""What becomes of partitions if brokers leave, against what controllers did when they left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog import Log
from kafkalog.cluster.kraft.departures import kraft_departures
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.layout import cluster_metadata
from kafkalog.cluster.records.framed_records import FramedRecord, encode_framed
from kafkalog.cluster.records.messages import Decoded
from kafkalog.cluster.zookeeper import open_zookeeper
from kafkalog.cluster.zookeeper.departures import zookeeper_departures
from kafkalog.cluster.zookeeper.election import without_broker
from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState
from kafkalog.cluster.zookeeper.replay import Replayer
from kafkalog.cluster.zookeeper.timeline import from_the_beginning, timeline
from kafkalog.log import open_partition
from testkit.recorded.broker_dirs import brokers, unpacked
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.command import kafkalog

Compared = Callable[[str, int], None]
HISTORIES = [case for case in broker_cases() if case.name == "zkhist"]
KRAFT = [case for case in broker_cases() if case.name in ("metadata", "groups") and case.case["mode"] == "kraft"]


@pytest.mark.parametrize("case", HISTORIES, ids=lambda case: case.id)
def test_brokers_that_left_left_what_is_foretold(case: BrokerCase, compared: Compared) -> None:
    directory = from_the_beginning(open_zookeeper(unpacked(case.id) / "zookeeper"))
    history = timeline(directory)
    begins = sorted({life.span.from_zxid for life in history.brokers})
    leaves = {life.span.to_zxid or 0: life.broker for life in history.brokers}
    zxids = [each.zxid for each in Replayer(directory)]
    last = {max(zxid for zxid in zxids if zxid < gone): gone for gone in leaves}
    replayer, count = Replayer(directory), 0
    for transaction in replayer:
        gone = last.get(transaction.zxid)
        if gone is None or len(replayer.tree.nodes["/brokers/ids"].children) == 1:
            continue  # where nobody is left nobody writes anything
        until = min((each for each in begins if each > gone), default=1 << 62)
        became = {
            (change.topic, change.partition): change.after for change in history.changes if gone <= change.zxid < until
        }
        for found in zookeeper_departures(replayer.tree, "", [int(leaves[gone])]):
            real = became.get((found.topic, found.partition), found.before)
            assert real is not None
            assert found.after.isr == real.isr, found
            if found.outcome == "offline":
                assert real.leader in (-1, found.broker)  # a new controller up to 1.1 lets the state be
            else:
                assert found.after.leader == real.leader
            count += 1
    assert count
    compared("partitions whose broker left, as the controller changed them", count)


@pytest.mark.parametrize("case", KRAFT, ids=lambda case: case.id)
def test_a_stopped_broker_left_what_is_foretold(case: BrokerCase, compared: Compared) -> None:
    (broker,) = brokers(case.id)
    log = MetadataLog(open_partition(broker / "__cluster_metadata-0"))
    last = log.state().image
    (node,) = last.brokers
    stops = [
        event.offset
        for event in log.events([])
        if event.record.name == "BrokerRegistrationChangeRecord"
        and event.record.decoded is not None
        and event.record.decoded.fields.get("in_controlled_shutdown") == 1
    ]
    image = log.state(stops[-1]).image
    terms = log.terms([])
    found = list(kraft_departures(image, [node], controller=terms[-1].leader))
    assert found
    for each in found:
        real = last.topics[each.topic].partitions[each.partition]
        assert each.after == real, each
        assert each.outcome == "offline"
    assert image.brokers[node].fenced is False
    compared("partitions whose broker stopped, as the controller changed them", len(found))


def _state(leader: int, isr: tuple[int, ...]) -> PartitionState:
    return PartitionState(leader=leader, leader_epoch=4, isr=isr, controller_epoch=2)


def test_the_last_replica_stays_in_sync_unless_an_old_release_elects_uncleanly() -> None:
    state = _state(1, (1,))
    for unclean in (False, True):
        assert without_broker(state, (1, 2), 1, (), unclean=unclean) == (_state(-1, (1,)), False)
    gone = without_broker(state, (1, 2), 1, (), unclean=True, keeps_last=False)
    assert gone == (_state(-1, ()), False)
    assert without_broker(state, (1, 2), 1, (2,), unclean=True) == (_state(2, (2,)), True)


def record(kind: int, version: int, **fields: Any) -> bytes:
    layout = cluster_metadata.VALUES[kind][0]
    raw = encode_framed(FramedRecord(kind, version, None, Decoded(layout, version, fields, 0)))
    assert raw is not None
    return raw


UUID = "AQIDBAUGBwgJCgsMDQ4PEA"
MIGRATING = "A" * 22


def metadata_of_three(directory: Path, *more: bytes, elr: bool = True) -> Path:
    """A metadata log of brokers 1, 2 and 3 and a topic of two partitions, all with three replicas."""
    records = [
        record(12, 0, name="metadata.version", feature_level=27),
        *([record(12, 0, name="eligible.leader.replicas.version", feature_level=1)] if elr else []),
        *(
            record(0, 3, broker_id=number, broker_epoch=5, incarnation_id=UUID, fenced=False,
                   end_points=[{"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0}])
            for number in (1, 2, 3)
        ),
        record(2, 0, name="t", topic_id=UUID),
        *(
            record(3, 1, partition_id=number, topic_id=UUID, replicas=replicas, isr=isr, leader=isr[0],
                   directories=[MIGRATING] * 3)
            for number, (replicas, isr) in enumerate([([1, 2, 3], [3, 1]), ([2, 3, 1], [2])])
        ),
        *more,
    ]  # fmt: skip
    directory.mkdir(exist_ok=True)
    with Log.open(directory / "__cluster_metadata-0") as log:
        log.append([(None, each) for each in records])
    return directory


def shown(*arguments: object) -> dict[tuple[int, int], tuple[Any, ...]]:
    """(who left, partition) -> outcome, leader, ISR, ELR, last known leader."""
    finished = kafkalog("elections", *arguments, "--json")
    assert (finished.code, finished.err) == (0, "")
    return {
        (each["without"], each["partition"]): (
            each["outcome"],
            each["after"]["leader"],
            each["after"]["isr"],
            each["after"].get("elr"),
            each["after"].get("last_known_elr"),
        )
        for each in finished.objects
    }


def test_without_brokers_on_a_quorum_s_log(tmp_path: Path) -> None:
    directory = metadata_of_three(tmp_path)
    assert shown(directory, "--without", 3, "--without", 1) == {
        (3, 0): ("clean", 1, [1], [], []),
        (1, 0): ("offline", -1, [], [1], [1]),
    }
    assert shown(directory, "--without", 2, "--unclean") == {(2, 1): ("unclean", 3, [3], [], [])}
    finished = kafkalog("elections", directory, "--without", 2)
    assert (finished.code, finished.err) == (0, "")
    (row,) = [line for line in finished.lines if " offline " in line]
    assert row.split() == ["2", "t", "1", "offline", "2", "2", "none", "2", "2"]


def test_settings_of_topic_and_controller_decide_too(tmp_path: Path) -> None:
    allowed = {"name": "unclean.leader.election.enable", "value": "true"}
    without_elr = metadata_of_three(tmp_path / "a", elr=False)
    assert shown(without_elr, "--without", 2) == {(2, 1): ("offline", -1, [2], [], [])}
    properties = tmp_path / "controller.properties"
    properties.write_text("unclean.leader.election.enable=true\n")
    told = shown(without_elr, "--without", 2, "--server-properties", properties)
    assert told == {(2, 1): ("unclean", 3, [3], [], [])}
    by_topic = metadata_of_three(tmp_path / "b", record(4, 0, resource_type=2, resource_name="t", **allowed))
    assert shown(by_topic, "--without", 2) == {(2, 1): ("unclean", 3, [3], [], [])}
    two = {"name": "min.insync.replicas", "value": "2"}
    least = metadata_of_three(tmp_path / "c", record(4, 0, resource_type=4, resource_name="", **two))
    assert shown(least, "--without", 3)[3, 0] == ("clean", 1, [1], [3], [])


def test_what_is_refused(tmp_path: Path) -> None:
    directory = metadata_of_three(tmp_path)
    gone = kafkalog("elections", directory, "--without", 9)
    assert gone.code == 1
    assert gone.err == "kafkalog: broker 9 is not registered at this moment; registered: 1, 2, 3\n"
    for arguments, reason in (
        (("--unclean",), "need --without"),
        (("--without", 1, "--as-of", "0x5"), "is an offset of the metadata log here, or a time"),
        (("--without", 1, "--all"), "show what was"),
        (("--without", 1, "--as-of", "x"), "neither milliseconds since 1970 nor an ISO 8601 time"),
        (
            ("--without", 1, "--as-of", 9999999),
            "--as-of 9999999 is beyond the end of the metadata log, which is offset ",
        ),
        (("--without", 1, "--without", 2, "--without", 1), "broker 1 is given twice"),
    ):
        finished = kafkalog("elections", directory, *arguments)
        assert finished.code == 64
        assert reason in finished.err
        assert "Traceback" not in finished.err


def test_without_a_broker_in_zookeeper() -> None:
    directory = unpacked("2.8.2/zkhist") / "zookeeper"
    finished = kafkalog("elections", directory, "--without", 5, "--as-of", "0x9c", "--json")
    assert finished.code == 0
    assert {(each["outcome"], json.dumps(each["after"])) for each in finished.objects} == {
        ("clean", '{"leader": 3, "isr": [3]}'),
        ("kept", '{"leader": 3, "isr": [3]}'),
        ("offline", '{"leader": -1, "isr": [5]}'),
    }
    assert kafkalog("elections", directory, "--without", 5).code == 1  # all have left by the end
    beyond = kafkalog("elections", directory, "--without", 5, "--as-of", "0x7fffffffffffff")
    assert (beyond.code, "is beyond ZooKeeper's last transaction, which is 0x" in beyond.err) == (64, True)
    twice = kafkalog("elections", directory, "--without", 5, "--without", 5, "--as-of", "0x9c")
    assert (twice.code, "broker 5 is given twice" in twice.err) == (64, True)
