"""What a node does with a metadata log in which a batch claims offsets above the end: no checksum covers them.

Expected is what Kafka 3.6.2, 3.9.1, 4.1.1 and 4.3.0 did. A controller that leads remembers its state at the highest
offset that it has read (`OffsetControlManager`, `SnapshotRegistry`). Its first own record comes after the record of its
election, so that one offset above the end is not too much.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from kafkalog.codec.common.findings import FindingCode
from kafkalog.log.directories.partition import open_partition
from kafkalog.recovery.broker.node.answer import DISPLACED, ConsequenceKind, NodeAnswer, StartOutcome
from kafkalog.recovery.broker.node.metadata_log import load_metadata_log
from kafkalog.recovery.broker.node.node_files import node_files
from kafkalog.recovery.broker.node_start import node_start
from testkit.kafka.start_records import append_metadata, displace
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.quorums import CONTROLLERS, copied
from testkit.running.command import kafkalog

METADATA = "__cluster_metadata-0"
LOG = f"{METADATA}/{0:020d}.log"
FIRST = 55
"""a batch in the first 4 KiB of the log: the index leads a reader of the end past it"""
LATE = 99


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node that is the only voter, and a broker."""
    return own_copy(brokers("4.1.1/compact")[0], tmp_path / "data")


def properties(root: Path, roles: str) -> dict[str, str]:
    return {"process.roles": roles, "node.id": "1", "log.dirs": str(root)}


def answer(root: Path, roles: str = "broker,controller", release: str = "4.1") -> NodeAnswer:
    return node_start([str(root)], properties=properties(root, roles), release=release).answers[0]


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("roles", ["broker,controller", "controller"])
@pytest.mark.parametrize("past_end", [-1, 0, 1, 2, 40, 2**20])
def test_a_controller_gives_up_its_leadership_from_two_offsets_above_the_end_on(
    node: Path, past_end: int, roles: str
) -> None:
    before = answer(node, roles)
    assert before.outcome is not StartOutcome.FAILS
    end = displace(node / LOG, FIRST, past_end)
    found = answer(node, roles)
    if past_end < 2:
        assert found == before
        return
    assert (found.outcome, found.exception) == (StartOutcome.FAILS, "java.lang.RuntimeException")
    assert found.message == (
        f"Can't create a new in-memory snapshot at epoch {end + 1} because there is already a snapshot with epoch "
        f"{end + past_end}"
    )
    (fault,) = (fault for fault in found.faults if fault.kind == DISPLACED)
    times = "once" if past_end == 2 else f"again and again, {past_end - 1} times,"
    assert f"gives up its leadership {times} and forgets the metadata after offset {FIRST}" in fault.detail


def test_a_broker_alone_reads_such_a_log(node: Path) -> None:
    """Kafka 4.1.1 started and served all partitions."""
    before = answer(node, "broker")
    displace(node / LOG, FIRST, 2**20)
    assert answer(node, "broker") == before


def test_one_of_several_voters_can_follow(tmp_path: Path) -> None:
    root = copied("static", tmp_path, *CONTROLLERS)[CONTROLLERS[0]]
    log = max((root / METADATA).glob("*.log"), key=lambda path: path.stat().st_size)
    log.chmod(0o600)
    before = node_start([str(root)], release="4.3").answers[0]
    displaced = read_quorum_log(str(root)).end - 3
    displace(log, displaced, 5)
    found = node_start([str(root)], release="4.3").answers[0]
    (more,) = (each for each in found.consequences if each not in before.consequences)
    assert more.kind is ConsequenceKind.OTHER
    assert "can follow and not lead" in more.detail
    assert not found.loses_nothing


@pytest.mark.parametrize("past_end", [0, 1, 2**20])
def test_a_controller_that_reads_records_twice_ends(node: Path, past_end: int) -> None:
    """A reader of the log's end finds the batch, and reads on from it. Kafka 4.1.1 ended at a RemoveTopicRecord."""
    metadata = MetadataLog(open_partition(node / METADATA))
    changed = next(each for each in metadata.events([], LATE) if each.record.name == "PartitionChangeRecord")
    assert changed.record.decoded is not None
    topic_id = changed.record.decoded.fields["topic_id"]
    append_metadata(node / LOG, ("RemoveTopicRecord", 0, {"topic_id": topic_id}))
    assert answer(node).outcome is not StartOutcome.FAILS
    displace(node / LOG, LATE, past_end)
    found = answer(node)
    assert (found.outcome, found.exception, found.message) == (
        StartOutcome.FAILS, "java.lang.NullPointerException",
        f"Error loading metadata log record from offset {changed.offset}",
    )  # fmt: skip
    assert f"it ends as it reads the records from offset {LATE} on again" in found.faults[-1].detail


def test_readers_begin_where_the_index_leads_them(node: Path) -> None:
    for offset, is_found in ((FIRST, False), (LATE, True)):
        shutil.copy(node / LOG, node.parent / "kept")
        end = displace(node / LOG, offset, 10)
        files = node_files([str(node)], None)
        again = [batch.base_offset for batch in load_metadata_log(files, 0).batches(end)]
        files.close()
        assert (again[:1] == [end + 10]) is is_found
        assert is_found is bool(again)
        shutil.copy(node.parent / "kept", node / LOG)


def test_every_command_says_that_the_node_does_not_get_ready(node: Path) -> None:
    end = displace(node / LOG, FIRST, 2**20)
    (node.parent / "server.properties").write_text(
        "\n".join(f"{name}={value}" for name, value in properties(node, "broker,controller").items())
        + "\ncontroller.quorum.voters=1@localhost:1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://localhost:2,CONTROLLER://localhost:1\n"
    )
    asked = "--server-properties", node.parent / "server.properties"
    times = 2**20 - 1
    why = f"would NOT get ready: its controller gives up its leadership again and again, {times} times, and forgets"
    for command in (
        ["plan", *asked], ["verify", *asked], ["triage", *asked], ["quorum", "show", node], ["plan", node / METADATA],
        ["plan", "--cluster-metadata", *asked],
    ):  # fmt: skip
        assert why in words(kafkalog(*command).out), command
    screen = kafkalog("plan", *asked).out.split("\n\n")[0]
    assert f"kafkalog plan --cluster-metadata {node} --server-properties {asked[1]}" in words(
        screen.replace("\\\n", "")
    )
    assert "kafkalog recover" not in screen
    assert "lost with this plan: nothing; the metadata log stays damaged" in screen
    assert f"up to offset {end}" in words(kafkalog("triage", *asked).out)
    assert "lost to the cluster" not in words(kafkalog("triage", *asked).out)
    shown = words(kafkalog("quorum", "show", node).out)
    assert f"all of it up to offset {end} of epoch 1 is in this log; a batch in it has a wrong base offset" in shown
    screen = kafkalog("plan", "--cluster-metadata", *asked).out.split("\n\n")[0]
    assert "lost with this plan: no record; the metadata log stays damaged" in screen
    assert "consumers may skip" not in screen
    refused = kafkalog("quorum", "recover", "--standalone", node)
    assert refused.code == 3
    assert "has a wrong base offset; first see whether --repair-bits mends it: kafkalog plan" in words(refused.err)
    whole = kafkalog("plan", "--json", *asked)
    assert "NOT get ready" in json.dumps([json.loads(line) for line in whole.out.splitlines()])


def test_a_flipped_bit_is_mended_as_the_plan_says(node: Path) -> None:
    """A bit that puts the batch above the end of the log, and nothing else."""
    log = node / LOG
    original = log.read_bytes()
    data = bytearray(original)
    position = original.index(FIRST.to_bytes(8))
    data[position + 5] ^= 0x10
    log.write_bytes(data)
    log_end = read_quorum_log(str(node))
    assert [each.code for each in log_end.findings if each.code is FindingCode.OFFSET_DISPLACED]
    finished = kafkalog("recover", node, "--cluster-metadata", "--repair-bits", "structure", "--yes")
    assert finished.code == 2
    assert log.read_bytes() == original
    assert answer(node).outcome is not StartOutcome.FAILS
