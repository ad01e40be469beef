"""Share groups whose state is lost, as `groups`, `offsets` and `plan` tell it.

Expected is what Kafka 4.1.1 and 4.3.0 did: without its partition of `__share_group_state` a group got no record until
its offsets were reset. 4.3.0 kept the states of group `sg` for partitions 0 and 1 of this topic id in partitions 1 and
2 of three.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kafkalog import Log, NewRecord
from kafkalog.cluster.groups.share_lost import Initialized
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TOPICS
from kafkalog.cluster.records.messages import encode
from kafkalog.log import open_partition
from testkit.kafka.start_records import append_metadata
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

QUIET = "e_5bPEuVQf66DrqXU5dgQg"
STATE_ID, OFFSETS_ID = "3nJ1s8hOQ0uV2m5cYw7bAw", "4nJ1s8hOQ0uV2m5cYw7bAw"
INITIALIZED, SNAPSHOT = 15, 0


def record(topic: str, kind: int, key: dict[str, Any], value: dict[str, Any]) -> NewRecord:
    _, key_layout, values = TOPICS[topic][kind]
    encoded = struct.pack(">h", kind) + encode(key_layout, 0, key)
    return NewRecord(struct.pack(">h", 0) + encode(values[0], 0, value), key=encoded)


def write(root: Path, topic: str, number: int, topic_id: str, *records: NewRecord) -> None:
    with Log.open(root / f"{topic}-{number}") as log:
        for each in records:
            log.append([each])
    (root / f"{topic}-{number}/partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def state(partition: int) -> NewRecord:
    key = {"group_id": "sg", "topic_id": QUIET, "partition": partition}
    return record(SHARE_GROUP_STATE_TOPIC, SNAPSHOT, key, {
        "snapshot_epoch": 0, "state_epoch": 3, "leader_epoch": 5, "start_offset": 0, "delivery_complete_count": -1,
        "create_timestamp": 1_700_000_000_000, "write_timestamp": 1_700_000_000_000, "state_batches": [],
    })  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node of 4.3.0 with three partitions of `__share_group_state`, and a group with two initialized partitions."""
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    log = max(path for path in (root / "__cluster_metadata-0").glob("*.log") if path.stat().st_size)
    log.chmod(0o600)
    image = MetadataLog(open_partition(root / "__cluster_metadata-0")).state().image
    ((node, broker),) = image.brokers.items()
    for topic, topic_id, count in (
        (SHARE_GROUP_STATE_TOPIC, STATE_ID, 3), (CONSUMER_OFFSETS_TOPIC, OFFSETS_ID, 1), ("quiet", QUIET, 2),
    ):  # fmt: skip
        append_metadata(log, ("TopicRecord", 0, {"name": topic, "topic_id": topic_id}), *(
            ("PartitionRecord", 1, {
                "partition_id": number, "topic_id": topic_id, "replicas": [node], "isr": [node],
                "removing_replicas": [], "adding_replicas": [], "leader": node, "leader_epoch": 0,
                "partition_epoch": 0, "leader_recovery_state": 0, "directories": list(broker.directories),
                "eligible_leader_replicas": None, "last_known_elr": None,
            })
            for number in range(count)
        ))  # fmt: skip
    place = {"topic_id": QUIET, "topic_name": "quiet", "partitions": [0, 1]}
    value = {"initializing_topics": [], "initialized_topics": [place], "deleting_topics": []}
    initialized = record(CONSUMER_OFFSETS_TOPIC, INITIALIZED, {"group_id": "sg"}, value)
    write(root, CONSUMER_OFFSETS_TOPIC, 0, OFFSETS_ID, initialized)
    write(root, SHARE_GROUP_STATE_TOPIC, 0, STATE_ID)
    write(root, SHARE_GROUP_STATE_TOPIC, 1, STATE_ID, state(0))
    write(root, SHARE_GROUP_STATE_TOPIC, 2, STATE_ID, state(1))
    for number in range(2):
        write(root, "quiet", number, QUIET, NewRecord(b"x"))
    return root


def empty(root: Path) -> None:
    (root / f"{SHARE_GROUP_STATE_TOPIC}-1").rename(root.parent / "lost")


@pytest.mark.parametrize("command", ["offsets", "groups"])
def test_a_group_whose_state_is_lost_is_a_finding(root: Path, command: str) -> None:
    assert kafkalog(command, root, "--group", "sg").code == 0
    empty(root)
    for _time in range(2):
        finished = kafkalog(command, root, "--group", "sg")
        assert finished.code == 1
        words = " ".join(finished.err.split())
        assert "warning: share_state_missing: share group sg has initialized quiet-0, and __share_group_state" in words
        assert "its members get no record from there until the group's offsets are reset" in words
        write(root, SHARE_GROUP_STATE_TOPIC, 1, STATE_ID)  # a start makes it again, empty


def test_state_of_partitions_that_were_not_given_is_not_called_lost(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (root / f"{CONSUMER_OFFSETS_TOPIC}-0").rename(other / f"{CONSUMER_OFFSETS_TOPIC}-0")
    finished = kafkalog("groups", other)
    assert (finished.code, "share_state_missing" in finished.err) == (0, False)


def test_a_plan_names_the_groups(root: Path) -> None:
    empty(root)
    words = " ".join(kafkalog("plan", root).out.split())
    assert "share groups whose state was in __share_group_state-1 (sg) have none left: their members get no" in words


def test_the_place_of_a_state_is_kafkas() -> None:
    places = [Initialized(group="sg", topic="quiet", topic_id=QUIET, partition=each).place(3) for each in range(2)]
    assert places == [1, 2]
