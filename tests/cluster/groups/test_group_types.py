"""A record of a new group behind a group of another kind: `GroupMetadataManager.replay` of 4.1.1 and 4.3.0, read."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cluster.groups.group_types import GroupTypes
from kafkalog.cluster.groups.groups import read_groups
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC, TOPICS, decode_record
from kafkalog.cluster.records.messages import encode
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import BatchHeader, Record, TimestampType
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log import open_all
from kafkalog.recovery.broker.node.answer import ConsequenceKind
from kafkalog.recovery.broker.node_start import node_start
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

COMMIT, CLASSIC, CONSUMER, SHARE, STREAMS = 1, 2, 3, 11, 17
Pair = tuple[bytes, bytes | None]


def pair(kind: int, group: str, *, tombstone: bool = False) -> Pair:
    _, key, values = TOPICS[CONSUMER_OFFSETS_TOPIC][kind]
    commit = {"group": group, "topic": "orders", "partition": 0}
    names: dict[int, dict[str, Any]] = {CLASSIC: {"group": group}, COMMIT: commit}
    encoded = struct.pack(">h", kind) + encode(key, key.versions[-1], names.get(kind, {"group_id": group}))
    if tombstone:
        return encoded, None
    fields: dict[int, dict[str, Any]] = {
        COMMIT: {"offset": 1, "leader_epoch": -1, "metadata": "", "commit_timestamp": 1, "topic_id": "A" * 22},
        CLASSIC: {
            "protocol_type": "consumer", "generation": 1, "protocol": None, "leader": None,
            "current_state_timestamp": 1, "members": [],
        },
        CONSUMER: {"epoch": 1, "metadata_hash": 0},
        SHARE: {"epoch": 1, "metadata_hash": 0},
        STREAMS: {
            "epoch": 1, "metadata_hash": 0, "validated_topology_epoch": 0, "last_assignment_configs": [],
        },
    }  # fmt: skip
    version = values[0].versions[-1]
    return encoded, struct.pack(">h", version) + encode(values[0], version, fields[kind])


def conflicts(*pairs: Pair) -> list[bool]:
    types = GroupTypes()
    decoded = [decode_record(CONSUMER_OFFSETS_TOPIC, *each) for each in pairs]
    assert all(each.understood for each in decoded), [each.findings for each in decoded]
    return [types.conflict(each) is not None for each in decoded]


def test_which_records_a_coordinator_refuses() -> None:
    for kind in (CONSUMER, SHARE, STREAMS):
        assert conflicts(pair(CLASSIC, "g"), pair(kind, "g")) == [False, True]
        assert conflicts(pair(CLASSIC, "g"), pair(kind, "g", tombstone=True)) == [False, True]
        assert conflicts(pair(CLASSIC, "other"), pair(kind, "g")) == [False, False]
        assert conflicts(pair(kind, "g"), pair(CLASSIC, "g")) == [False, False]  # it replaces what was there
        assert conflicts(pair(kind, "g", tombstone=True), pair(CLASSIC, "g")) == [False, False]
        upgraded = pair(CLASSIC, "g"), pair(CLASSIC, "g", tombstone=True), pair(kind, "g")
        assert conflicts(*upgraded) == [False, False, False]
        removed = pair(kind, "g"), pair(kind, "g", tombstone=True), pair(CLASSIC, "g"), pair(kind, "g")
        assert conflicts(*removed) == [False, False, False, True]
    assert conflicts(pair(CONSUMER, "g"), pair(STREAMS, "g")) == [False, True]


def test_a_group_that_only_commits_have_made_gives_way() -> None:
    assert conflicts(pair(COMMIT, "g"), pair(CONSUMER, "g")) == [False, False]
    assert conflicts(pair(COMMIT, "g"), pair(SHARE, "g")) == [False, True]
    assert conflicts(pair(CONSUMER, "g"), pair(COMMIT, "g"), pair(CONSUMER, "g")) == [False, False, False]


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    return own_copy(brokers("4.1.1/groups")[0], tmp_path / "data")


def append(partition: Path, *pairs: Pair) -> int:
    """Write records behind the last one of a partition; the offset of the first."""
    log = max(partition.glob("*.log"))
    data = log.read_bytes()
    headers = [each.header for each in Scanner(BufferSource(data))]
    last = headers[-1]
    assert isinstance(last, BatchHeader)
    records = [
        Record(last.next_offset + number, last.max_timestamp, TimestampType.CREATE_TIME, key, value)
        for number, (key, value) in enumerate(pairs)
    ]
    log.write_bytes(data + build_batch(records, partition_leader_epoch=last.partition_leader_epoch))
    return last.next_offset


def test_groups_and_the_start_of_a_node_say_that_the_partition_is_not_loaded(broker: Path) -> None:
    before = read_groups(open_all(broker).readable())
    assert not [each for each in before.findings if each.code is FindingCode.GROUP_KINDS_MIXED]
    classic = next(each for each in before.groups if each.type == "Classic" and each.members)
    partition = broker / f"{CONSUMER_OFFSETS_TOPIC}-{classic.log_partition}"
    offset = append(partition, pair(CONSUMER, classic.group_id))
    after = read_groups(open_all(broker).readable())
    (finding,) = (each for each in after.findings if each.code is FindingCode.GROUP_KINDS_MIXED)
    assert (finding.offset, finding.severity, finding.file) == (offset, Severity.ERROR, str(partition))
    assert classic.group_id in (finding.detail or "")
    assert after.logs.is_whole(classic.log_partition)  # everything was read: nobody need doubt the commits
    assert kafkalog("groups", broker).code == 1
    for words in (("plan", broker), ("report", broker, "-o", "-", "--format", "text")):
        said = " ".join(kafkalog(*words).out.split())
        assert f"out of service after a start as it is: 1 partition ({partition.name})" in said
    assert f"Affected: {partition.name}" in said

    def unserved(release: str) -> list[str]:
        found = node_start([str(broker)], release=release).answers[0].consequences
        return [
            each.detail for each in found
            if each.kind is ConsequenceKind.NOT_SERVING and classic.group_id in each.detail
        ]  # fmt: skip

    assert len(unserved("4.1")) == len(unserved("4.3")) == 1
    assert f"offset {offset}" in unserved("4.1")[0]
    assert unserved("3.9") == []
