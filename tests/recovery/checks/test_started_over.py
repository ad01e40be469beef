"""Metadata that a controller took for empty: what Kafka 4.3.0 wrote over a cut snapshot is told, and taken back.

The batches are those that Kafka 4.3.0 appended when it was started on this directory with its newest snapshot cut after
the first batch (the change of leader, then its bootstrap records in one metadata transaction).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from kafkalog.codec.encode import build_batch, build_control_batch
from kafkalog.codec.files.kraft import LeaderChange, Voter, encode_kraft_value
from kafkalog.codec.model import Record, TimestampType
from kafkalog.recovery.broker.node_start import node_start
from testkit.judging.trees import copy_tree
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog

METADATA = "__cluster_metadata-0"
BOOTSTRAP = [
    b"\x01\x17\x00\x01\x00\x12\x12Bootstrap records",
    b"\x01\f\x00\x11metadata.version\x00\x1e\x00",
    b"\x01\x18\x00\x00",
]
"""values of the first two records that Kafka 4.3.0 appended, and of the last"""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked = broker_case("4.3.0", "metadata").unpack(tmp_path_factory.mktemp("node"))
    return next(unpacked.glob("broker-*"))


@pytest.fixture
def node(recorded: Path, tmp_path: Path) -> Path:
    return copy_tree(recorded, tmp_path / "data")


def start_over(root: Path) -> int:
    """Leave what a start leaves that took the metadata for empty; the offset of the change of leader."""
    before = read_quorum_log(root)
    newest = max((root / METADATA).glob("*.checkpoint"))
    os.truncate(newest, 12 + int.from_bytes(newest.read_bytes()[8:12]))
    voter, epoch, time = Voter(before.node or 0), before.epoch + 1, before.last_time
    change = encode_kraft_value(
        LeaderChange(version=0, leader_id=voter.voter_id, voters=(voter,), granting_voters=(voter,))
    )
    head = build_control_batch([change], base_offset=before.end, timestamp=time, partition_leader_epoch=epoch)
    records = [
        Record(before.end + 1 + number, time, TimestampType.CREATE_TIME, None, value)
        for number, value in enumerate(BOOTSTRAP)
    ]
    log = max(path for path in (root / METADATA).glob("*.log"))
    log.write_bytes(log.read_bytes() + head + build_batch(records, partition_leader_epoch=epoch))
    epochs = root / METADATA / "leader-epoch-checkpoint"
    lines = epochs.read_text().splitlines()
    lines[1] = str(int(lines[1]) + 1)
    epochs.write_text("\n".join([*lines, f"{epoch} {before.end}"]) + "\n")
    for name in live(root):
        if name != METADATA:
            (root / name).rename(root / f"{name}.{'a' * 32}-stray")
    return before.end


def live(root: Path) -> list[str]:
    names = [each.parent.name for each in root.glob("*/partition.metadata")]
    return sorted(name for name in names if "." not in name)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_it_is_told_where_the_metadata_starts_over(node: Path) -> None:
    assert read_quorum_log(node).started_over is None
    offset = start_over(node)
    found = read_quorum_log(node).started_over
    assert found is not None
    assert (found.offset, found.topics) == (offset, 7)
    words = f"the metadata starts over at offset {offset}"
    shown = kafkalog("quorum", "show", node)
    assert shown.code == 1
    assert "started over" in shown.out
    (line, *_rest) = kafkalog("quorum", "show", "--json", node).objects
    assert any(words in finding["detail"] for finding in line["findings"])
    for command in ("plan", "verify"):
        finished = kafkalog(command, node)
        assert finished.code == 1, command
        assert words in " ".join((finished.out + finished.err).split()), command


def test_a_new_cluster_has_not_started_over(node: Path) -> None:
    """The first leader of an empty log appends bootstrap records, too."""
    log = read_quorum_log(node)
    assert log.start == 0
    assert log.terms[0].from_offset < 10
    assert log.started_over is None


def test_the_log_goes_back_with_consent_and_the_partitions_with_it(node: Path) -> None:
    names = live(node)
    topics = {name.rpartition("-")[0] for name in names} - {"__cluster_metadata"}
    offset = start_over(node)
    before = contents(node)
    refused = kafkalog("quorum", "recover", "--standalone", node, "--dry-run")
    assert "--accept-loss goes back to them" in refused.out
    done = kafkalog("quorum", "recover", "--standalone", node, "--accept-loss", "--yes")
    assert done.code == 2, done.err
    after = read_quorum_log(node)
    assert after.started_over is None
    assert after.log_end[1] == offset + 1, "the voters are written behind it"
    chosen = [word for topic in sorted(topics) for word in ("--topic", topic)]
    put_back = kafkalog("undelete", node, *chosen, "--yes")
    assert put_back.code == 2, put_back.err
    start = node_start([str(node)], release="4.3").answers[0]
    assert start.loses_nothing, start
    assert live(node) == names
    while kafkalog("undo", "--yes", node).code == 2:
        pass
    assert contents(node) == before


def test_without_consent_what_came_since_stays(node: Path) -> None:
    offset = start_over(node)
    kafkalog("quorum", "recover", "--standalone", node, "--yes")
    assert read_quorum_log(node).end > offset + 1
