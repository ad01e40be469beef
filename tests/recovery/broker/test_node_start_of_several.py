"""What decides about a node's start beside its own files: other voters, ZooKeeper, and the node's properties.

Expected are what real brokers did (docs/starts.md).
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kafkalog import Log
from kafkalog.cluster.kraft.metadata_image import MetadataImage, PartitionImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE, DirectoryState, PartitionName
from kafkalog.log.directories.partition import open_partition
from kafkalog.recovery.broker.node.answer import ConsequenceKind, NodeAnswer, Part, StartOutcome
from kafkalog.recovery.broker.node.metadata_log import LoadedMetadata
from kafkalog.recovery.broker.node.node_files import node_files
from kafkalog.recovery.broker.node.partition_directory import PartitionDirectory
from kafkalog.recovery.broker.node.releases import release_of
from kafkalog.recovery.broker.node.settings_of_start import consequences_of_migration
from kafkalog.recovery.broker.node.with_zookeeper import (
    ZooKeeperFacts,
    consequences_of_topic_ids,
    consequences_of_unknown,
    consequences_without_directory,
)
from kafkalog.recovery.broker.node_start import node_start
from kafkalog.recovery.run import plan
from testkit.judging.trees import copy_tree
from testkit.kafka.start_records import append_metadata, new_topic
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.recorded.fixture_data import broker_case
from testkit.recorded.quorums import BROKER, CONTROLLERS, copied, register
from testkit.running.command import kafkalog

METADATA = "__cluster_metadata-0"
LISTENER = {"controller_listener_names": "CONTROLLER"}
VOTER = {"controller_quorum_voters": "3@localhost:9093", **LISTENER}
"""of the node that `node` unpacks"""
ONE, OTHER, THIRD = "AAAAAAAAAAAAAAAAAAAABA", "AAAAAAAAAAAAAAAAAAAABQ", "AAAAAAAAAAAAAAAAAAAABg"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A combined node of Kafka 4.3.0."""
    unpacked = broker_case("4.3.0", "metadata").unpack(tmp_path / "node")
    return copy_tree(next(unpacked.glob("broker-*")), tmp_path / "data")


@pytest.fixture
def voters(tmp_path: Path) -> dict[int, Path]:
    """Three controllers with static voters."""
    return copied("static", tmp_path, *CONTROLLERS)


def last_log(root: Path) -> Path:
    found = max(path for path in (root / METADATA).glob("*.log") if path.stat().st_size)
    found.chmod(0o600)
    return found


def properties(root: Path, roles: str = "broker,controller", **more: str) -> dict[str, str]:
    number = re.search(r"^node\.id=(\d+)$", (root / "meta.properties").read_text(), re.MULTILINE)
    assert number is not None
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {"process.roles": roles, "node.id": number[1], "log.dirs": str(root), **named}


def answer(root: Path, given: dict[str, str] | None = None, *controllers: Path, release: str = "4.3") -> NodeAnswer:
    asked = node_start([str(root)], properties=given, release=release, controllers=[str(each) for each in controllers])
    return asked.answers[0]


@pytest.mark.parametrize(
    ("roles", "voter", "words"),
    [
        ("broker,controller", "77", "the node id 3 must be included in the set of voters controller.quorum.voters"),
        ("controller", "77", "contains the 'controller' role"),
        ("broker", "3", "just the 'broker' role, the node id 3 must not be included"),
    ],
)
def test_static_voters_that_contradict_the_role_end_the_start(node: Path, roles: str, voter: str, words: str) -> None:
    found = answer(node, properties(node, roles, controller_quorum_voters=f"{voter}@localhost:9093", **LISTENER))
    assert (found.outcome, found.exception) == (StartOutcome.FAILS, "java.lang.IllegalArgumentException")
    assert words in (found.message or "")
    assert found.faults[-1].part is Part.VOTERS


@pytest.mark.parametrize(
    ("servers", "outcome"), [("c:1", StartOutcome.NOT_SERVING), ("c:1,d:1", StartOutcome.STARTS)]
)
def test_a_node_whose_files_name_no_voters_asks_the_other_controllers(
    servers: str, outcome: StartOutcome, node: Path
) -> None:
    """4.3.0, one of three voters: it fetched the metadata log that it had lost, and served again."""
    shutil.rmtree(node / METADATA)
    found = answer(node, properties(node, controller_quorum_bootstrap_servers=servers, **LISTENER))
    assert found.outcome is outcome
    assert not found.strays
    assert outcome is StartOutcome.NOT_SERVING or "controller.quorum.bootstrap.servers" in (found.condition or "")


@pytest.mark.parametrize("roles", ["broker,controller", "controller"])
def test_the_only_voter_under_another_node_id(node: Path, roles: str) -> None:
    """4.1.1: no leader was elected, nothing became stray, and the start gave up after a minute. With
    `controller.quorum.voters`, 3.6.2, 3.9.1 and 4.1.1 refused the properties.
    """
    meta = node / "meta.properties"
    meta.chmod(0o600)
    meta.write_text(meta.read_text().replace("node.id=3", "node.id=7"))
    dynamic = properties(node, roles, controller_quorum_bootstrap_servers="localhost:9093", **LISTENER)
    found = answer(node, dynamic)
    assert not found.strays
    if roles == "controller":
        assert found.outcome is StartOutcome.NOT_SERVING
    else:
        assert (found.outcome, found.exception) == (StartOutcome.FAILS, "java.lang.RuntimeException")
        assert found.message == (
            "Received a fatal error while waiting for the controller to acknowledge that we are caught up"
        )
    assert "node 7 is not in the voter set, and the only voter 3 has the directory id" in found.faults[-1].detail
    assert "set node.id=3 again in server.properties and in every meta.properties" in found.faults[-1].cure
    static = answer(node, properties(node, roles, **VOTER))
    assert "the node id 7 must be included in the set of voters controller.quorum.voters" in (static.message or "")
    assert "set node.id=3 again" in static.faults[-1].cure


def test_static_voters_over_dynamic_ones_do_not_count(node: Path) -> None:
    found = answer(node, properties(node, controller_quorum_voters="3@localhost:9093", **LISTENER))
    assert found.outcome is StartOutcome.STARTS


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("process.roles", 'Missing required configuration "process.roles"'),
        ("node.id", 'Missing required configuration "node.id"'),
        ("controller.quorum.voters", "If using process.roles, either controller.quorum.bootstrap.servers must"),
        ("controller.listener.names", 'Missing required configuration "controller.listener.names"'),
    ],
)
def test_properties_that_lack_a_line_end_the_start(lost: str, words: str, node: Path) -> None:
    """ConfigException of Kafka 4.3.0 for each."""
    whole = properties(node, controller_quorum_voters="3@localhost:9093", **LISTENER)
    found = answer(node, {name: value for name, value in whole.items() if name != lost})
    assert (found.outcome, found.exception) == (
        StartOutcome.FAILS, "org.apache.kafka.common.config.ConfigException"
    )  # fmt: skip
    assert words in (found.message or "")
    assert answer(node, {"log.dirs": str(node)}).outcome is StartOutcome.STARTS, "nothing is known of the rest"


def test_a_node_that_is_no_broker_any_more_serves_no_partition(node: Path) -> None:
    """Kafka 4.3.0 started, as a controller."""
    found = answer(node, properties(node, "controller"))
    assert (found.outcome, len(found.consequences)) == (StartOutcome.NOT_SERVING, 1)
    assert "makes it no broker" in found.consequences[0].detail


@pytest.mark.parametrize(
    ("state", "release", "kinds"),
    [
        (1, "3.9", [ConsequenceKind.MIGRATION_ENDED]),
        (2, "3.6", [ConsequenceKind.NOT_SERVING]),
        (2, "3.9", [ConsequenceKind.NOT_SERVING]),
        (2, "4.0", []),
        (3, "3.9", []),
        (None, "3.9", []),
    ],
)
def test_a_migration_that_has_not_begun_keeps_a_controller_from_serving(
    state: int | None, release: str, kinds: list[ConsequenceKind]
) -> None:
    image = MetadataImage()
    image.zk_migration_state = state
    loaded = LoadedMetadata("", 0, 0, None, None, (), None)
    found, faults = consequences_of_migration(node_files([]), image, loaded, release_of(release))
    assert [each.kind for each in found] == kinds
    assert len(faults) == (ConsequenceKind.NOT_SERVING in kinds)


MIGRATES = {"zookeeper_metadata_migration_enable": "true"}
NAMED = {"controller.listener.names": "C"}
VOTERS = "7@a:1,8@b:1,9@c:1"
NO_PLACE = "If using `zookeeper.metadata.migration.enable` in KRaft mode, `zookeeper.connect` must also be set."
NO_MIGRATION = "Should not have ZK migrations enabled on a cluster that was created in KRaft mode."


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A combined node of Kafka 3.9.1."""
    unpacked = broker_case("3.9.1", "metadata").unpack(tmp_path / "node")
    return copy_tree(next(unpacked.glob("broker-*")), tmp_path / "data")


@pytest.mark.parametrize("roles", ["broker", "broker,controller"])
@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_a_migration_in_the_properties_without_zookeeper(older: Path, roles: str, release: str) -> None:
    """3.6.2 and 3.9.1 end; 4.1.1 ignores the setting."""
    found = answer(older, properties(older, roles, **MIGRATES), release=release)
    if release == "4.1":
        assert found.outcome is not StartOutcome.FAILS
        return
    assert (found.exception, found.message) == ("org.apache.kafka.common.config.ConfigException", NO_PLACE)
    assert "remove the line zookeeper.metadata.migration.enable" in found.faults[0].cure


@pytest.mark.parametrize("state", [None, 1, 2, 3])
@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_a_migration_in_the_properties_of_a_controller(older: Path, state: int | None, release: str) -> None:
    """3.6.2 and 3.9.1 end on a cluster of KRaft; in every other state of the migration they connect to ZooKeeper, and
    without an answer end with ZooKeeperClientTimeoutException. 4.1.1 ignores the setting.
    """
    if state is not None:
        append_metadata(last_log(older), ("ZkMigrationStateRecord", 0, {"zk_migration_state": state}))
    given = properties(older, zookeeper_connect="zoo:2181", **MIGRATES)
    found = answer(older, given, release=release)
    is_ended = state is None and release == "3.9"
    assert (found.message == NO_MIGRATION) is is_ended
    assert (found.outcome is StartOutcome.FAILS) is is_ended
    needs_zookeeper = state is not None and release == "3.9"
    assert ("if ZooKeeper answers at zoo:2181" in (found.condition or "")) is needs_zookeeper
    assert ConsequenceKind.MIGRATION_ENDED not in [each.kind for each in found.consequences]
    follower = answer(older, given | {"controller.quorum.voters": VOTERS, **NAMED}, release="3.9")
    assert ("only as long as another controller leads" in (follower.condition or "")) is (state is None)
    broker = answer(older, given | {"process.roles": "broker"}, release="3.9")
    assert "ZooKeeper" not in (broker.condition or ""), "3.9.1 waited for its controllers"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("authorizer.class.name", "com.example.X", "com.example.X (authorizer.class.name)"),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer", ""),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter, a.B", "a.B (metric.reporters)"),
        ("listener.name.in.principal.builder.class", "a.B", "a.B (listener.name.in.principal.builder.class)"),
        ("group.consumer.assignors", "uniform,range", ""),
        ("my.own.class", "a.B", ""),
        ("remote.log.storage.manager.class.name", "a.Rsm", "a.Rsm (remote.log.storage.manager.class.name)"),
    ],
)
def test_classes_that_no_file_shows_are_a_condition(node: Path, name: str, value: str, words: str) -> None:
    """3.9.1 and 4.4.0 ended without the class, with ClassNotFoundException, KafkaException or ConfigException; they
    started with `my.own.class`, and with the class of a tier that is not enabled.
    """
    given = {**properties(node, **VOTER), name: value}
    tier = {"remote.log.storage.system.enable": "true"} if "remote" in name else {}
    found = answer(node, given | tier)
    assert found.outcome is StartOutcome.STARTS
    wanted = f"if its class path has the classes that the properties name: {words}" if words else None
    assert found.condition == wanted
    assert not tier or answer(node, given).condition is None


def test_a_topic_with_a_tier_on_a_broker_without_one(node: Path) -> None:
    fields = {"resource_type": 2, "resource_name": "orders-48", "name": "remote.storage.enable", "value": "true"}
    append_metadata(last_log(node), ("ConfigRecord", 0, fields))
    found = answer(node, properties(node))
    assert (found.outcome, found.loses_nothing) == (StartOutcome.STARTS, False)
    assert "of orders-48 only what is local is served" in found.consequences[-1].detail
    assert answer(node, properties(node, remote_log_storage_system_enable="true")).loses_nothing


def test_what_another_voter_has_as_well_is_not_dropped(voters: dict[int, Path]) -> None:
    first, *others = voters.values()
    for root in (first, others[0]):
        append_metadata(last_log(root), ("RemoveTopicRecord", 0, {"topic_id": ONE}))
    assert answer(first, None, *others).outcome is StartOutcome.FAILS, "one of the others has it, and may lead"
    assert answer(first, None, others[1]).outcome is StartOutcome.FAILS, "one of three is no majority"


def test_a_record_that_only_this_voter_has_is_truncated(voters: dict[int, Path]) -> None:
    first, *others = voters.values()
    append_metadata(last_log(first), ("RemoveTopicRecord", 0, {"topic_id": ONE}))
    assert answer(first).outcome is StartOutcome.FAILS
    found = answer(first, None, *others)
    assert found.outcome is StartOutcome.STARTS
    assert found.condition == "if it follows the controllers that were given"


def test_a_voter_and_others_that_are_a_majority_with_it_start_by_the_metadata_that_goes_furthest(
    voters: dict[int, Path],
) -> None:
    """4.1.1: 2 and 3 of three combined nodes were restored from two backups. 3 was elected in either order of starts,
    and 2 renamed a topic that was deleted in between.
    """
    first, second, third = voters.values()
    last_log(third).write_bytes(last_log(first).read_bytes())
    for root in (first, second, third):
        append_metadata(last_log(root), *new_topic("gone", ONE, 3))
    with Log.open(third / "gone-0", topic_id=ONE) as log:
        log.append([b"x"])
    end = register(3, first, second)
    for root in (first, second):
        append_metadata(last_log(root), ("RemoveTopicRecord", 0, {"topic_id": ONE}))
    alone, behind, ahead = answer(third), answer(third, None, first), answer(first, None, third)
    whole = answer(third, None, first, second)
    assert (alone.condition or "").startswith("as soon as a majority of the voters 1, 2, 3 runs")
    assert behind.condition == ahead.condition == "if of the voters 1, 2, 3 only the given ones start"
    assert (ahead.outcome, ahead.consequences) == (StartOutcome.STARTS, ())
    older, stray = behind.consequences
    assert (older.kind, older.file) == (ConsequenceKind.METADATA_MAY_GO_BACK, str(third / METADATA))
    assert f"node 3 had it up to its registration at offset {end}): what the voters 1, 2, 3 committed" in older.detail
    assert (stray.kind, stray.names) == (ConsequenceKind.EXPECTED_STRAY, ("gone-0",))
    assert whole.consequences == (stray,), "first and second have everything"


def test_plan_and_verify_name_an_older_copy_of_a_voter(voters: dict[int, Path]) -> None:
    first, second, third = voters.values()
    assert kafkalog("plan", first, third).code == kafkalog("quorum", "show", first, third).code == 0
    register(3, first, second)
    for command in (("plan",), ("verify",), ("quorum", "show")):
        told = kafkalog(*command, first, third)
        assert told.code == 1
        assert "older than it was (it ends at offset" in " ".join(told.out.split())
    assert "look for a newer copy of the metadata (runbook: kraft-files)" in " ".join(
        kafkalog("plan", first, third).out.split()
    )


@pytest.mark.parametrize("command", ["plan", "verify"])
def test_controllers_that_are_given_beside_a_node_decide(command: str, voters: dict[int, Path]) -> None:
    first, *others = voters.values()
    append_metadata(last_log(first), ("RemoveTopicRecord", 0, {"topic_id": ONE}))
    (told, *_rest) = kafkalog(command, "--json", first).objects
    assert {each["outcome"] for each in told["broker"]["node"]["answers"]} == {"fails"}
    lines = kafkalog(command, "--json", first, *others).objects
    told = next(each for each in lines if each.get("path", each.get("root")) == str(first))
    answers = told["broker"]["node"]["answers"]
    assert {(each["outcome"], each["condition"]) for each in answers} == {
        ("starts", "if it follows the controllers that were given")
    }


@pytest.mark.parametrize("left", [0, 600], ids=["empty", "cut"])
def test_a_voter_of_several_gets_from_the_others_what_is_missing_of_its_metadata(left: int, tmp_path: Path) -> None:
    """Kafka 4.1.0 made no stray."""
    unpacked = broker_case("3.9.1", "metadata").unpack(tmp_path / "node")
    root = copy_tree(next(unpacked.glob("broker-*")), tmp_path / "data")
    for path in (root / METADATA).glob("*.checkpoint"):
        path.unlink()
    log = last_log(root)
    log.write_bytes(log.read_bytes()[:left])
    given = properties(root, **LISTENER)
    given["controller.quorum.voters"] = f"{given['node.id']}@localhost:1,77@localhost:2,78@localhost:3"
    found = answer(root, given, release="4.1")
    assert found.outcome is StartOutcome.STARTS
    assert found.condition is not None
    assert found.condition.endswith("comes from them, and partitions that they do not know become -stray")


def test_controllers_of_another_cluster_refuse_a_node(voters: dict[int, Path]) -> None:
    first, *others = voters.values()
    meta = first / "meta.properties"
    meta.chmod(0o600)
    meta.write_text(re.sub(r"cluster\.id=.*", f"cluster.id={OTHER}", meta.read_text()))
    found = answer(first, None, *others)
    assert found.outcome is StartOutcome.NOT_SERVING
    assert "they refuse it" in found.consequences[-1].detail
    assert answer(first).outcome is StartOutcome.STARTS, "nobody else is known"


def test_what_was_deleted_and_made_again_while_the_node_was_down_is_a_note(tmp_path: Path) -> None:
    """Kafka 4.1.1 started, renamed what was deleted -stray, and served the new partition."""
    nodes = copied("static", tmp_path, *CONTROLLERS, BROKER)
    broker, controllers = nodes.pop(BROKER), list(nodes.values())
    for root in (broker, *controllers):
        append_metadata(last_log(root), *new_topic("again", ONE, BROKER), *new_topic("gone", THIRD, BROKER))
    for name, topic_id in (("again", ONE), ("gone", THIRD)):
        with Log.open(broker / f"{name}-0", topic_id=topic_id) as log:
            log.append([b"x"])
    before = answer(broker, None, *controllers)
    assert not {each.kind for each in before.consequences} & {ConsequenceKind.STRAY, ConsequenceKind.EMPTY_AGAIN}
    for root in controllers:
        removed = [("RemoveTopicRecord", 0, {"topic_id": topic_id}) for topic_id in (ONE, THIRD)]
        append_metadata(last_log(root), *removed, *new_topic("again", OTHER, BROKER))
    found = answer(broker, None, *controllers)
    kinds = {each.kind: each.names for each in found.consequences}
    assert (found.outcome, found.strays, found.loses_nothing) == (StartOutcome.STARTS, (), True)
    assert kinds == {ConsequenceKind.EXPECTED_STRAY: ("again-0", "gone-0")}
    told = kafkalog("plan", broker, *controllers)
    assert "start_loses" not in told.out + told.err
    assert "out of service after a start as it is" not in told.out


def test_what_was_created_while_an_older_copy_of_the_broker_ran_is_made_again_empty(tmp_path: Path) -> None:
    """Seen on 4.1.1: a broker of yesterday served, empty, what was created after its last start."""
    nodes = copied("static", tmp_path, *CONTROLLERS, BROKER)
    broker, controllers = nodes.pop(BROKER), list(nodes.values())
    events = MetadataLog(open_partition(broker / METADATA)).events([])
    records = [each.record for each in events if each.record.name == "RegisterBrokerRecord"]
    found = [(each.decoded.fields, each.version or 0) for each in records if each.decoded is not None]
    own, version = [each for each in found if each[0]["broker_id"] == BROKER][-1]
    again = {**own, "broker_epoch": own["broker_epoch"] + 1000}
    for root in controllers:
        append_metadata(last_log(root), ("RegisterBrokerRecord", version, again), *new_topic("newer", ONE, BROKER))
    (consequence,) = [each for each in answer(broker, None, *controllers).consequences
                      if each.kind is ConsequenceKind.EMPTY_AGAIN]  # fmt: skip
    assert (consequence.names, consequence.lost) == (("newer-0",), ("newer-0",))


def test_an_older_copy_of_the_controllers_does_not_explain_strays(tmp_path: Path) -> None:
    """They know nothing of a topic because their metadata ends before it."""
    nodes = copied("static", tmp_path, *CONTROLLERS, BROKER)
    broker, controllers = nodes.pop(BROKER), list(nodes.values())
    append_metadata(last_log(broker), *new_topic("newer", ONE, BROKER))
    with Log.open(broker / "newer-0", topic_id=ONE) as log:
        log.append([b"x"])
    assert answer(broker, None, *controllers).strays == ("newer-0",)


def test_an_empty_end_of_the_metadata_log_is_read_forever(node: Path) -> None:
    """Kafka 4.3.0 does not come further than `Reading KRaft snapshot and log as part of the initialization`."""
    last_log(node).write_bytes(b"")
    found = answer(node, properties(node))
    assert found.outcome is StartOutcome.STARTS, "the snapshot goes as far"
    shutil.copy(last_log(node), node / METADATA / f"{400:020d}.log")
    (node / METADATA / f"{400:020d}.log").write_bytes(b"")
    found = answer(node, properties(node))
    assert found.outcome is StartOutcome.NOT_SERVING
    assert "the node reads there forever" in found.consequences[-1].detail


def test_a_combined_node_whose_metadata_goes_back_starts_if_its_partitions_are_in_the_snapshot(node: Path) -> None:
    """Kafka 4.1.1 and 4.3.0 lost nothing: nothing but no-ops came after the snapshot."""
    for path in (node / METADATA).glob("*.log"):
        path.unlink()
    found = answer(node, properties(node))
    assert found.outcome is StartOutcome.STARTS
    assert not found.loses_nothing
    assert any("what came after it, if anything, is lost" in each.detail for each in found.consequences)
    alone = answer(node, properties(node, "controller"))
    assert alone.outcome is StartOutcome.OVERWRITES_METADATA


def test_meta_properties_of_two_directories_that_were_exchanged(node: Path, tmp_path: Path) -> None:
    """Kafka 4.3.0 waits for a leader forever."""
    other = tmp_path / "other"
    other.mkdir()
    own = (node / "meta.properties").read_text()
    (other / "meta.properties").write_text(own)
    (node / "meta.properties").unlink()
    (node / "meta.properties").write_text(re.sub(r"directory\.id=.*", "directory.id=QLzt-g_BuAkWCE5UuGwm5Q", own))
    found = node_start([str(node), str(other)], release="4.3").answers[0]
    assert found.outcome is StartOutcome.NOT_SERVING
    assert f"the file of {other} has that id" in found.consequences[0].detail


@pytest.mark.parametrize("name", ["dynamic", "static"])
def test_a_broker_waits_for_controllers_that_were_formatted_anew(name: str, tmp_path: Path) -> None:
    """Kafka 4.3.0: "the loader is still catching up because we still don't know the high water mark yet"."""
    nodes = copied(name, tmp_path, *CONTROLLERS, BROKER)
    broker = nodes.pop(BROKER)
    sound = answer(broker, None, *nodes.values())
    assert (sound.outcome, sound.condition) == (
        StartOutcome.STARTS, "if it follows the controllers that were given"
    )  # fmt: skip
    for root in nodes.values():
        for path in (root / METADATA).iterdir():
            if path.name != f"{0:020d}-{0:010d}.checkpoint":
                path.unlink()
    found = answer(broker, None, *nodes.values())
    assert found.outcome is StartOutcome.NOT_SERVING
    assert "hold no record" in found.consequences[-1].detail
    other = copied(name, tmp_path / "more", BROKER)[BROKER]
    meta = other / "meta.properties"
    meta.chmod(0o600)
    meta.write_text(meta.read_text().replace(f"node.id={BROKER}", "node.id=12"))
    assert answer(broker, None, *nodes.values(), other).outcome is StartOutcome.NOT_SERVING, "a broker is no voter"


def test_the_level_of_a_directory_that_was_just_formatted_is_in_its_bootstrap_checkpoint(node: Path) -> None:
    """Kafka 4.3.0 had written it: no release before 4.1 is asked."""
    for path in (node / METADATA).iterdir():
        if path.name != f"{0:020d}-{0:010d}.checkpoint":
            path.unlink()
    assert (node / "bootstrap.checkpoint").exists()
    asked = node_start([str(node)])
    assert str(asked.releases[0]) == "4.3"


# --- ZooKeeper ------------------------------------------------------------------------------------------------------


@pytest.fixture
def old_node(tmp_path: Path) -> Path:
    """A broker of Kafka 3.9.1 with ZooKeeper."""
    unpacked = broker_case("3.9.1-zk", "codecs").unpack(tmp_path / "node")
    return copy_tree(next(unpacked.glob("broker-*")), tmp_path / "data")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("version=0", "version=1").replace("broker", "node"), "Found unexpected version in"),
        (lambda text: re.sub(r"broker\.id=.*", "broker.id=77", text), "Stored node id 77"),
    ],
)
def test_files_that_end_the_start_of_a_broker_with_zookeeper(old_node: Path, change: object, words: str) -> None:
    assert callable(change)
    meta = old_node / "meta.properties"
    number = re.search(r"^broker\.id=(\d+)$", meta.read_text(), re.MULTILINE)
    assert number is not None
    given = {"broker.id": number[1], "log.dirs": str(old_node), "zookeeper.connect": "localhost"}
    assert answer(old_node, given, release="3.9").loses_nothing
    meta.chmod(0o600)
    meta.write_text(change(meta.read_text()))
    found = answer(old_node, given, release="3.9")
    assert found.outcome is StartOutcome.FAILS
    assert words in (found.message or "")


def test_with_zookeeper_missing_files_are_written_again(old_node: Path) -> None:
    (old_node / "meta.properties").unlink()
    for path in old_node.glob("*/partition.metadata"):
        path.unlink()
    assert answer(old_node, release="3.9").outcome is StartOutcome.STARTS


def directory(name: str, topic_id: str | None) -> PartitionDirectory:
    topic, _, number = name.rpartition("-")
    return PartitionDirectory(
        root="/data", name=name, parsed=PartitionName(topic, int(number), DirectoryState.LIVE), topic_id=topic_id
    )


def test_a_partition_with_another_topic_id_than_zookeeper_has_is_not_served() -> None:
    found = [directory("t-0", ONE), directory("t-1", OTHER), directory("t-2", None), directory("u-0", OTHER)]
    known = ZooKeeperFacts(is_known=True, cluster_id=None, topic_ids={"t": ONE, "u": OTHER})
    told, _faults = consequences_of_topic_ids(found, known)
    assert [(each.kind, each.names) for each in told] == [(ConsequenceKind.NOT_SERVING, ("t-1",))]
    told, _faults = consequences_of_topic_ids(found, ZooKeeperFacts())
    assert {each.names[0] for each in told} == {"t-0", "t-1"}, "one of them is wrong"


def test_partitions_that_zookeeper_does_not_know_are_not_served() -> None:
    """Kafka 3.9.1 with an older ZooKeeper: nobody led a partition that had been added since, and a newer topic."""
    found = [directory("t-0", ONE), directory("t-1", ONE), directory("u-0", None), directory("unreadable-3", ONE)]
    numbers = {"t": frozenset({0}), "unreadable": frozenset[int]()}
    known = ZooKeeperFacts(is_known=True, topic_ids={"t": ONE, "unreadable": None}, numbers=numbers)
    (told,) = consequences_of_unknown(found, known)
    assert (told.kind, told.names) == (ConsequenceKind.NOT_SERVING, ("t-1", "u-0"))
    assert told.detail.endswith(": t-1, u-0")
    assert consequences_of_unknown(found[:1], known) == consequences_of_unknown(found, ZooKeeperFacts()) == []


@pytest.fixture
def with_zookeeper(tmp_path: Path) -> tuple[Path, Path]:
    """A broker and its ZooKeeper, of Kafka 3.9.1, and a partition of a topic that this ZooKeeper does not know."""
    cluster = own_copy(unpacked("3.9.1-zk/zkhist"), tmp_path / "cluster")
    data = min(cluster.glob("broker-*"))
    newer = shutil.copytree(next(path for path in data.glob("*-0") if "__" not in path.name), data / "newer-0")
    (newer / "partition.metadata").unlink()
    return data, cluster / "zookeeper"


@pytest.mark.parametrize("command", ["plan", "verify", "report"])
def test_zookeepers_data_beside_a_broker_decide_what_it_serves(command: str, with_zookeeper: tuple[Path, Path]) -> None:
    data, zookeeper = with_zookeeper
    options = ("-o", "-", "--format", "text") if command == "report" else ()
    alone = kafkalog(command, data, *options).out
    assert "what ZooKeeper says is not in these directories" in " ".join(alone.split())
    both = kafkalog(command, data, zookeeper, *options)
    said = " ".join(both.out.split())
    assert "partitions that ZooKeeper does not know are not served, and their directories stay: newer-0" in said
    assert "out of service after a start as it is" in said
    assert "what ZooKeeper says" not in said
    assert both.code == 1
    if command == "verify":
        assert f"kafkalog plan {data} {zookeeper}" in said


def test_a_plan_of_the_package_reads_zookeepers_data_too(with_zookeeper: tuple[Path, Path]) -> None:
    data, zookeeper = with_zookeeper
    (made,) = plan(data, zookeeper)
    assert made.broker.node is not None
    assert made.broker.node.worst.outcome is StartOutcome.NOT_SERVING


def test_zookeepers_data_that_cannot_be_read_are_a_condition(with_zookeeper: tuple[Path, Path]) -> None:
    data, zookeeper = with_zookeeper
    for path in (zookeeper / "version-2").iterdir():
        path.unlink()
    said = " ".join(kafkalog("plan", data, zookeeper).out.split())
    assert "the data of ZooKeeper that were given cannot be read" in said


def test_a_command_that_changes_names_those_that_read_zookeepers_data(with_zookeeper: tuple[Path, Path]) -> None:
    ended = kafkalog("recover", *with_zookeeper, "--yes")
    assert ended.code == 64
    assert "is ZooKeeper's data directory, which is read by verify, plan, report, compare and triage" in ended.err


@pytest.mark.parametrize("is_certain", [True, False])
def test_a_partition_that_zookeeper_places_here_and_that_is_missing_is_made_again(is_certain: bool) -> None:
    """Kafka 3.9.1 made it again, empty: 12 records were gone."""
    image = PartitionImage((6, 7), (6,), 6, 0, 0, ())
    held, elsewhere = structs.replace(image, isr=(6, 7)), structs.replace(image, replicas=(7,), isr=(7,))
    known = ZooKeeperFacts(
        is_known=True, partitions={("t", 0): image, ("t", 1): image, ("t", 2): held, ("t", 3): elsewhere}
    )
    told, led = consequences_without_directory([directory("t-0", ONE)], known, 6, is_certain=is_certain)
    assert (led.kind, led.names) == (ConsequenceKind.OTHER, ("t-2",)), "it can lead what broker 7 has"
    assert told.kind is ConsequenceKind.EMPTY_AGAIN
    assert (told.names, told.lost) == (("t-1", "t-2"), ("t-1",))
    assert ("unless a log directory that was not given has them" in told.detail) is not is_certain


# --- several log directories ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["plan", "verify"])
@pytest.mark.parametrize("order", [1, -1])
def test_the_directories_of_a_node_are_told_one_start(command: str, order: int, node: Path, tmp_path: Path) -> None:
    """Kafka 4.3.0 loads all logs before it reads `replication-offset-checkpoint`: those of `other` end the start."""
    other = tmp_path / "other"
    other.mkdir()
    own = (node / "meta.properties").read_text()
    (other / "meta.properties").write_text(re.sub(r"directory\.id=.*", "directory.id=QLzt-g_BuAkWCE5UuGwm5Q", own))
    (node / ".kafka_cleanshutdown").unlink()
    moved = next(log.parent for log in sorted(node.glob("[a-z]*-0/*.log")) if log.stat().st_size)
    (moved.rename(other / moved.name) / "partition.metadata").unlink()
    (other / "log-start-offset-checkpoint").write_bytes(b"\0\0\0\0")
    (node / "replication-offset-checkpoint").unlink()
    (node / "replication-offset-checkpoint").write_bytes(b"\0" * 50)
    lines = kafkalog(command, "--json", *[node, other][::order]).objects
    answers = [each["broker"]["node"]["answers"] for each in lines if each.get("broker")]
    assert len(answers) == 2
    assert answers[0] == answers[1]
    assert answers[0][0]["message"] == "The log dir is already offline due to a previous IO exception."


def test_one_voter_of_several_is_answered_for_from_its_own_metadata(voters: dict[int, Path]) -> None:
    """A node of Kafka 4.1.0 whose image was older started with the other two, made strays of partitions, and others
    again, empty: that a majority was there did not keep them.
    """
    condition = answer(voters[CONTROLLERS[0]]).condition or ""
    numbers = ", ".join(map(str, sorted(CONTROLLERS)))
    assert condition == f"as soon as a majority of the voters {numbers} runs, with the same metadata as here"


def test_properties_that_name_another_directory_are_a_condition(node: Path, tmp_path: Path) -> None:
    """Kafka 4.1.0, started with the old properties after a move: "No readable meta.properties files found"."""
    moved = copy_tree(node, tmp_path / "moved")
    assert answer(node, properties(node)).condition is None
    assert answer(moved, properties(node)).condition == f"if log.dirs names what is here; it names {node}"


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Paths whose file system is mounted read-only; empty at first."""
    closed: set[str] = set()
    real = os.statvfs

    def statvfs(path: Any) -> os.statvfs_result:
        facts = real(path)
        return os.statvfs_result([*facts[:8], os.ST_RDONLY if str(path) in closed else 0, *facts[9:]])

    monkeypatch.setattr(os, "statvfs", statvfs)
    return closed


def test_a_metadata_directory_that_is_mounted_read_only_ends_the_start(node: Path, read_only: set[str]) -> None:
    """3.6.2 and 4.1.1 ended with this exception."""
    read_only.add(str(node))
    combined = answer(node, properties(node, **VOTER))
    first = min((node / METADATA).glob("*.log"))
    assert (combined.outcome, combined.exception) == (StartOutcome.FAILS, "java.nio.file.FileSystemException")
    assert combined.message == f"{first}: Read-only file system"
    alone = answer(node, properties(node, "controller", **VOTER))
    assert alone.message == f"{node / '.lock'}: Read-only file system"
    assert answer(node).outcome is StartOutcome.STARTS  # a copy that is mounted so to be examined
    assert kafkalog("verify", node).code == 0


@pytest.mark.parametrize("has_id", [True, False])
def test_a_second_directory_that_is_mounted_read_only(
    has_id: bool, node: Path, tmp_path: Path, read_only: set[str]
) -> None:
    """4.1.1 and 4.3.0 took one with an id offline, after a clean stop too; 3.9.1 and 4.3.0 did not start if one had to
    be written.
    """
    other = tmp_path / "other"
    other.mkdir()
    lines = (node / "meta.properties").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("directory.id=")]
    own_id = ["directory.id=AAAAAAAAAAAAAAAAAAAAZg"] if has_id else []
    (other / "meta.properties").write_text("".join(f"{line}\n" for line in [*kept, *own_id]))
    read_only.add(str(other))
    given = properties(node, **VOTER) | {"log.dirs": f"{node},{other}"}
    found = answer(node, given)
    if has_id:
        (offline,) = [each for each in found.consequences if each.kind is ConsequenceKind.DIRECTORY_OFFLINE]
        assert offline.file == str(other)
        assert f"Disk error while locking directory {other}" in offline.detail
    else:
        assert (found.outcome, found.exception) == (StartOutcome.FAILS, "java.io.FileNotFoundException")
        assert found.message == f"{other}/meta.properties.tmp (Read-only file system)"
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    for command in ("plan", "verify", "report"):
        where = ["--format", "text", "-o", "-"] if command == "report" else []
        finished = kafkalog(command, node, other, "--server-properties", path, *where)
        assert finished.code == 1
        assert "log directory" in finished.out if has_id else "NOT START" in finished.out
        if command != "verify":
            assert f"findmnt -T {other} " in f"{' '.join(finished.out.split())} "
            assert "metadata log stays damaged" not in finished.out


def test_what_coordinators_meet_is_told_in_the_order_of_the_log_directories(tmp_path: Path) -> None:
    source = brokers("4.3.0/groups")[0]
    meta, clean = (source / "meta.properties").read_text(), source / CLEAN_SHUTDOWN_FILE
    log = next(path for path in sorted(source.glob("__consumer_offsets-*/*.log")) if path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[17] ^= 1  # checksum of the first batch
    roots = [tmp_path / name for name in "gbhdafce"]
    for number, root in enumerate(roots):
        partition = own_copy(log.parent, root / f"__consumer_offsets-{number}")
        (partition / log.name).write_bytes(data)
        (root / "meta.properties").write_text(re.sub("(?m)^directory.id=.*\n", "", meta))
        shutil.copy(clean, root)
    found = node_start([*map(str, roots)], release="4.3").answers[0]
    names = [each.names[0] for each in found.consequences if each.kind is ConsequenceKind.UNFORESEEN]
    assert names == [f"__consumer_offsets-{number}" for number in range(len(roots))]
