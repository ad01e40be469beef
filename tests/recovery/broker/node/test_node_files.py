"""Files of a KRaft node beside its logs: what recovery mends of them, and which command is named for the rest."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.model import BATCH
from kafkalog.log import open_segment
from kafkalog.recovery import Recovery, Undo, plan, recover, undo
from kafkalog.recovery.broker.node.metadata_log import Contents
from kafkalog.recovery.broker.node.node_files import node_files
from kafkalog.recovery.broker.node.reading import MetaBatch
from testkit.judging.trees import stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

CONTROLLER = "4.3.0/metadata"
"""A combined node, the only voter; its metadata log has records and a snapshot."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The log directory of the recorded controller."""
    (found,) = [each for each in brokers(CONTROLLER) if (each / "bootstrap.checkpoint").exists()][:1]
    return own_copy(found, tmp_path / "node")


@pytest.mark.parametrize("content", [b"", bytes(100)])
def test_a_damaged_bootstrap_checkpoint_is_set_aside(content: bytes, root: Path) -> None:
    """A real 4.1.0 did not start on the first, and does without the file."""
    path = root / "bootstrap.checkpoint"
    path.chmod(0o600)
    path.write_bytes(content)
    before = stamps(root)
    assert plan(root)[0].broker.outcome == "start_fails"
    done = recover(root)[0]
    assert not path.exists()
    assert done.node is not None
    assert done.node.loses_nothing
    undo(Undo(run_ids=[done.run_id or ""]), root)
    assert stamps(root) == before


def test_the_file_that_ends_the_start_is_the_first_that_a_node_reads(root: Path) -> None:
    """A node reads `bootstrap.checkpoint` before its logs, and their checkpoints with them (`KafkaRaftServer`)."""
    for name in ("bootstrap.checkpoint", "recovery-point-offset-checkpoint"):
        path = root / name
        path.chmod(0o600)
        path.write_bytes(bytes(100))
    for command in ("plan", "verify"):
        first = " ".join(kafkalog(command, root).out.split()).partition("]")[0]
        assert "Kafka 4.3 and later would NOT START on it: org.apache.kafka.common.errors.CorruptRecord" in first
        assert first.endswith(f"[{root}/bootstrap.checkpoint")


def test_it_stays_if_the_metadata_log_is_empty(root: Path) -> None:
    path = root / "bootstrap.checkpoint"
    path.chmod(0o600)
    path.write_bytes(b"")
    for each in (root / "__cluster_metadata-0").iterdir():
        if each.suffix in (".log", ".checkpoint"):
            each.unlink()
    assert all(each.path != "bootstrap.checkpoint" for each in plan(root)[0].actions)


@pytest.mark.parametrize("name", ["quorum-state", "*.checkpoint"])
def test_a_plan_names_the_command_that_mends_the_quorums_files(name: str, root: Path) -> None:
    path = max((root / "__cluster_metadata-0").glob(name))
    path.chmod(0o600)
    path.write_bytes(b"")
    printed = kafkalog("plan", root).out
    assert "would NOT START" in printed
    assert f"kafkalog quorum recover --standalone {root}" in printed
    assert "nothing to do" not in printed


@pytest.mark.parametrize("case", [CONTROLLER, "3.9.1/metadata"])
def test_the_only_voter_keeps_its_metadata_log_if_a_checkpoint_beside_it_ends_the_start(
    case: str, tmp_path: Path
) -> None:
    """Without the directory, a real 3.9.1 started without any topic and made every partition a stray."""
    root = own_copy(brokers(case)[0], tmp_path / "node")
    path = root / "__cluster_metadata-0" / "leader-epoch-checkpoint"
    recorded = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(b"X" + recorded[1:])
    printed = kafkalog("plan", root).out
    assert "would NOT START" in printed
    assert "mv " not in printed
    assert f"  kafkalog plan --cluster-metadata {root}" in printed.splitlines()
    assert "ends in damage" not in kafkalog("quorum", "recover", "--standalone", root).out
    assert f"  kafkalog recover {root} --cluster-metadata --yes" in kafkalog("plan", "--cluster-metadata", root).out
    done = recover(Recovery(cluster_metadata=True), root)[0]
    assert path.read_bytes() == recorded
    assert done.node is not None
    assert done.node.answers[0].loses_nothing


def test_a_broker_that_is_no_voter_fetches_its_metadata_log_again(root: Path) -> None:
    """The metadata log of a broker is a copy of the voters'; this one has another node's id."""
    properties = root / "meta.properties"
    properties.chmod(0o600)
    properties.write_text(properties.read_text().replace("node.id=3", "node.id=33"))
    path = root / "__cluster_metadata-0" / "leader-epoch-checkpoint"
    path.chmod(0o600)
    path.write_bytes(b"X")
    assert f"mv {root}/__cluster_metadata-0" in kafkalog("plan", root).out
    for each in path.parent.iterdir():  # nothing is left that names a voter
        each.chmod(0o600)
        each.write_bytes(b"X")
    assert "mv " not in kafkalog("plan", root).out


def test_a_plan_names_what_mends_the_metadata_log(root: Path) -> None:
    """A real 4.3.0 did not start on it (CorruptRecordException), and did once the bit was turned back."""
    log = max(each for each in (root / "__cluster_metadata-0").glob("*.log") if each.stat().st_size)
    data = bytearray(log.read_bytes())
    magic = [*open_segment(log).batches()][-3].position + BATCH.position("magic")
    data[magic] ^= 0x10
    log.chmod(0o600)
    log.write_bytes(data)
    printed = kafkalog("plan", root).out
    assert "would NOT START" in printed
    assert f"  kafkalog plan --cluster-metadata {root}" in printed.splitlines()
    assert "other nodes have copies" not in printed
    assert "--cluster-metadata --repair-bits structure --yes" in kafkalog("plan", "--cluster-metadata", root).out


def test_a_directory_with_the_topic_id_of_another_name_is_told(root: Path) -> None:
    """A real 4.3.0 made the topic's own directory again, empty, beside the renamed one, which it never served."""
    own = next(each for each in sorted(root.glob("[a-z]*-0")) if any(log.stat().st_size for log in each.glob("*.log")))
    other = own.rename(root / "renamed-0")
    for command in ("verify", "plan"):
        printed = " ".join(kafkalog(command, root).out.split())
        assert "renamed-0 has the topic id of " in printed
        assert f"so rename it to {own.name}" in printed
    own_copy(other, own)
    for command in ("verify", "plan", "report"):
        finished = kafkalog(command, root, *(["-o", root.parent / "report.txt"] if command == "report" else []))
        printed = (root.parent / "report.txt").read_text() if command == "report" else finished.out
        assert f"which {own.name} has too" in " ".join(printed.split())
    assert kafkalog("verify", root).code == 1
    shutil.rmtree(other)
    assert "topic id" not in kafkalog("verify", root).out


def test_a_start_without_the_metadata_log_is_foreseen_on_a_condition(root: Path) -> None:
    """A real 3.9.1, the only voter, began its metadata from nothing and made every partition a stray."""
    shutil.rmtree(root / "__cluster_metadata-0")
    first = " ".join(kafkalog("plan", root).out.partition("\n\n")[0].split())
    assert "if the metadata log, which is not in these directories, agrees" in first
    assert "a controller that has lost it makes every partition -stray" in first
    assert "nothing here, on the condition above" in first


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"node.id": "7", "broker.id": "8"}, 7), ({"node.id": "--7", "broker.id": "8"}, 8), ({"node.id": "²"}, None),
        ({"broker.id": " -1 "}, -1), ({}, None),
    ],
)  # fmt: skip
def test_a_node_id_that_is_no_number_names_nobody(properties: dict[str, str], expected: int | None) -> None:
    assert node_files([], properties).stated_node_id == expected


def test_batches_that_could_not_be_read_once_are_not_taken_for_all() -> None:
    batch = MetaBatch(base_offset=0, next_offset=1, epoch=0, is_control=False, records=())
    contents = Contents()

    def broken() -> Iterator[MetaBatch]:
        yield batch
        raise StorageError(errno.EIO, "the disk fails")

    for _ in range(2):
        with pytest.raises(StorageError):
            list(contents.read(broken))
    assert list(contents.read(lambda: iter([batch, batch]))) == [batch, batch]
