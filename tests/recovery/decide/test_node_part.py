"""A plan tells the consequences of the start after it: what it mends neither hides them nor counts as lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.files.text import decode_partition_metadata
from kafkalog.recovery import Plan, plan
from kafkalog.recovery.broker.node.answer import ConsequenceKind
from testkit.kafka.start_records import append_metadata, new_topic
from testkit.made.damage import walk, with_crc
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog as command

METADATA = "__cluster_metadata-0"
GONE = "orders-48-0"
LOST = f"lost beside this plan: all or part of 1 partition ({GONE}), by the broker's next start, recovered or not"


def add_directory(root: Path) -> None:
    (root / "lost+found").mkdir()


def empty_bootstrap_checkpoint(root: Path) -> None:
    (root / "bootstrap.checkpoint").write_bytes(b"")


def damage_partition_metadata(root: Path) -> None:
    other = next(path for path in sorted(root.glob("*/partition.metadata")) if not path.parent.name.startswith("__"))
    other.write_text("version: 0\n")


OBSTACLES = (add_directory, empty_bootstrap_checkpoint, damage_partition_metadata)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node of which one partition directory is missing, on which a group stands at 1500."""
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    kafkalog.commit_offsets(root, "mail", {("orders-48", 0): 1500})
    shutil.rmtree(root / GONE)
    return root


def words(text: str) -> str:
    return " ".join(text.split())


def told_of(made: Plan) -> list[tuple[str, str]]:
    return [(each.kind, each.detail) for each in made.consequences if each.partition == GONE]


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_what_a_recovery_mends_does_not_hide_what_the_next_start_does(
    obstacle: Callable[[Path], None], root: Path
) -> None:
    """With `lost+found` in a log directory no broker started; after the recovery a real 4.1.1 made tx-0 again."""
    without = told_of(plan(root)[0])
    assert [kind for kind, _detail in without] == ["groups_beyond_end"]
    assert LOST in words(command("plan", root).out)
    obstacle(root)
    made = plan(root)[0]
    assert made.node is not None
    assert made.node.never_starts
    assert told_of(made) == without
    report = root.parent / "report.txt"
    command("report", root, "-o", report)
    again = f"and partitions that the metadata places here are made again, empty: {GONE}"
    for text in (command("plan", root).out, report.read_text()):
        screen = words(text.partition("\n\n")[0])
        assert "would NOT START" in screen
        assert "after this plan, Kafka" in screen
        assert again in screen
        assert f"served after this plan, but empty: 1 partition ({GONE})" in screen
        assert LOST in screen
        assert without[0][1] in screen
    finished = command("recover", "--yes", root)
    assert without[0][1] in words(finished.out.partition("\nrecovered ")[2])
    assert told_of(plan(root)[0]) == without
    assert again in words(command("plan", root).out)


@pytest.mark.parametrize("committed", [400, 10**9])
def test_groups_of_a_topic_that_was_deleted_and_made_again(tmp_path: Path, committed: int) -> None:
    """4.1.1, with one of two log directories from before: the old log became a stray, the new one was empty, and the
    group stood at its commit.
    """
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    kafkalog.commit_offsets(root, "mail", {("orders-48", 0): committed})
    metadata = decode_partition_metadata((root / GONE / "partition.metadata").read_bytes())
    removed = ("RemoveTopicRecord", 0, {"topic_id": metadata.topic_id})
    again = new_topic("orders-48", "AAAAAAAAAAAAAAAAAAAABA", 3)
    append_metadata(max((root / METADATA).glob("*.log")), removed, *again)
    made = plan(root)[0]
    assert made.node is not None
    assert ConsequenceKind.EXPECTED_STRAY in {each.kind for each in made.node.worst.consequences}
    (told,) = told_of(made)
    assert told[0] == "groups_beyond_end"
    assert f"1 group stands beyond the end 0 of {GONE} (mail at {committed})" in told[1]


def test_what_a_recovery_does_not_mend_is_said_once(root: Path) -> None:
    """A `meta.properties` without a copy stays lost, so that the start after the plan fails as before it."""
    (root / "meta.properties").unlink()
    assert "after this plan, Kafka" not in words(command("plan", root).out)


def test_what_a_recovery_saves_is_not_lost(tmp_path: Path) -> None:
    """A real 4.1.1 served all records after the recovery, which wrote the file again; without it, it served none."""
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    (root / GONE / "partition.metadata").unlink()
    saved = f"lost with this plan: nothing; a start before it would lose all or part of 1 partition ({GONE})"
    report = root.parent / "report.txt"
    command("report", root, "-o", report)
    assert "Lost beside these logs" not in report.read_text()
    for text in (command("plan", root).out, report.read_text()):
        assert saved in words(text)
        assert "lost beside this plan" not in text
    finished = command("recover", "--yes", root)
    assert saved in words(finished.out)
    assert "none is lost" in words(finished.out)
    assert (root / GONE / "partition.metadata").exists()


def at_3_3_iv0(*files: Path) -> None:
    """Set the first metadata.version in each file to 4, 3.3-IV0, in a batch with a right checksum."""
    for path in files:
        data = bytearray(path.read_bytes())
        level = data.index(b"metadata.version") + len(b"metadata.version")
        data[level : level + 2] = (4).to_bytes(2, "big")
        start, size = next((start, size) for start, size in walk(bytes(data)) if start + size > level)
        data[start : start + size] = with_crc(bytes(data[start : start + size]))
        path.write_bytes(data)


def test_a_bootstrap_checkpoint_is_set_aside_also_if_the_logs_do_not_load(root: Path) -> None:
    """The plan says that a broker starts after it, so it has to mend both obstacles."""
    add_directory(root)
    empty_bootstrap_checkpoint(root)
    assert "after this plan, Kafka 4.3 and later would start on it" in words(command("plan", root).out)
    recovered = words(command("recover", root, "--yes").out.partition("\nrecovered ")[2])
    assert "would NOT START" not in recovered
    assert not (root / "bootstrap.checkpoint").exists()


def test_properties_of_another_node_count_after_a_recovery_no_more_than_before(tmp_path: Path) -> None:
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    add_directory(root)
    properties = tmp_path / "server.properties"
    properties.write_text("process.roles=broker,controller\nnode.id=99\nlog.dirs=/var/other\n")
    said = words(command("recover", root, "--server-properties", properties, "--yes").out)
    before, _, after = said.partition(" recovered ")
    assert "with its own properties: those that were given are of node 99" in before
    assert "a broker that starts on it now opens it and changes nothing" in after


def test_metadata_of_3_3_needs_an_older_release_and_a_snapshot_before_4_0(tmp_path: Path) -> None:
    """4.1.1 started on such a directory after 3.9.1 had raised the level and had written a snapshot, not before."""
    root = own_copy(brokers("3.9.1/compact")[0], tmp_path / "data")
    at_3_3_iv0(root / "bootstrap.checkpoint", root / METADATA / "00000000000000000000.log")
    planned = command("plan", root)
    said = words(planned.out)
    assert "Kafka 4.1 and later would NOT START on it" in said
    assert "No MetadataVersion with feature level 4" in said
    screen = words(planned.out.partition("\n\n")[0])
    assert "nothing left to do: it starts with Kafka 3.7.0 to 3.9; for others, raise metadata.version there" in screen
    assert "stop it after the next snapshot (*.checkpoint in __cluster_metadata-0), and ask again" in screen
    assert "do not start the node" not in said


def test_a_bootstrap_checkpoint_that_only_4_0_refuses_stays(tmp_path: Path) -> None:
    """4.1 and later do not read the level in it, and earlier ones know it."""
    root = own_copy(brokers("3.9.1/compact")[0], tmp_path / "data")
    at_3_3_iv0(root / "bootstrap.checkpoint")
    before = (root / "bootstrap.checkpoint").read_bytes()
    planned = command("plan", root)
    said = words(planned.out)
    assert "Kafka 4.0 would NOT START on it" in said
    assert "checkpoint_invalid (bootstrap.checkpoint): Kafka 4.0 does not start with it" in said
    assert "no node starts" not in said
    assert "moves to quarantine" not in said
    assert "it starts with Kafka 3.9; for others, see to what is said above" in said
    command("recover", root, "--yes")
    assert (root / "bootstrap.checkpoint").read_bytes() == before
    recovered = words(command("recover", root, "--release", "4.0", "--yes").out).split("recovered ")[1]
    assert "No MetadataVersion" not in recovered
    assert not (root / "bootstrap.checkpoint").exists()
