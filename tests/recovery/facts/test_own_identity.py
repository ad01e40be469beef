"""A lost meta.properties is rewritten from what the broker's other directories and its metadata log know."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import MetaProperties, decode_meta_properties
from kafkalog.recovery.facts.own_identity import lost_identity
from kafkalog.recovery.facts.topic_facts import NO_FACTS
from testkit.judging.trees import stamps
from testkit.made.scenes import metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.quorums import BROKER, copied
from testkit.running.command import kafkalog

SOURCE = "4.3.0/metadata"


def meta_of(root: Path) -> MetaProperties:
    return decode_meta_properties((root / "meta.properties").read_bytes())


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """A broker's partitions in one directory, and its metadata log in another; the first has lost its file."""
    (source,) = brokers(SOURCE)
    first = own_copy(source, tmp_path / "a")
    return [first, metadata_elsewhere(first, tmp_path / "b")]


def test_a_file_that_is_far_too_large_names_no_directory_id(disks: list[Path]) -> None:
    with (disks[0] / "meta.properties").open("r+b") as lost:
        lost.truncate(DEFAULT_LIMITS.checkpoint_bytes + 1)
    made = lost_identity(str(disks[0]), [str(disks[1])], NO_FACTS)
    assert made is not None
    assert decode_meta_properties(made).directory_id is None


@pytest.mark.parametrize("content", [None, b"", b"version=7\n", b"\0" * 50])
def test_it_becomes_what_the_broker_had_written(content: bytes | None, disks: list[Path]) -> None:
    wanted = meta_of(brokers(SOURCE)[0])
    lost = disks[0] / "meta.properties"
    lost.unlink() if content is None else lost.write_bytes(content)
    before = [stamps(disk) for disk in disks]
    asked = kafkalog("recover", "--meta-properties", *disks)
    assert (asked.code, [stamps(disk) for disk in disks]) == (3, before)
    assert "rewritten" in asked.out
    assert "stays as it is" not in asked.out
    done = kafkalog("recover", "--meta-properties", "--yes", "--json", *disks)
    assert done.code == 2
    assert [line["run_id"] is not None for line in done.objects] == [True, False]
    made = meta_of(disks[0])
    assert (made.version, made.cluster_id, made.node_id, made.directory_id) == (
        wanted.version, wanted.cluster_id, wanted.node_id, wanted.directory_id
    )  # fmt: skip
    assert kafkalog("verify", *disks).code == 0
    assert kafkalog("plan", "--meta-properties", *disks).code == 0
    assert kafkalog("undo", "--yes", disks[0]).code == 2
    assert [stamps(disk) for disk in disks] == before


def test_without_another_directory_nobody_knows_whose_it_is(disks: list[Path]) -> None:
    (disks[0] / "meta.properties").unlink()
    before = stamps(disks[0])
    refused = kafkalog("recover", "--meta-properties", "--yes", disks[0])
    assert (refused.code, stamps(disks[0])) == (3, before)
    assert "whose log directory" in refused.err


def test_one_that_can_be_read_stays(disks: list[Path]) -> None:
    assert kafkalog("plan", "--meta-properties", *disks).code == 0


@pytest.mark.parametrize("words", [["--mode", "kafka"], ["--topic", "visits-7"]])
def test_it_is_about_a_whole_directory_and_not_what_kafka_does(words: list[str], disks: list[Path]) -> None:
    assert kafkalog("plan", "--meta-properties", *words, *disks).code == 64


@pytest.mark.parametrize("content", [None, b"", b"\0" * 50])
def test_the_plan_names_the_command_and_all_directories_that_it_needs(
    content: bytes | None, disks: list[Path]
) -> None:
    lost = disks[0] / "meta.properties"
    lost.unlink() if content is None else lost.write_bytes(content)
    planned = kafkalog("plan", *disks)
    stays = "stays as it is, and no broker starts on it: it can be written again with the ids that"
    assert f"meta.properties {stays} {disks[1]} has" in planned.out
    (command,) = {line.strip() for line in planned.out.splitlines() if line.startswith("  kafkalog recover")}
    (needs,) = {each for line in kafkalog("plan", "--json", *disks).objects for each in line["recommended_needs"]}
    assert needs == "--meta-properties"
    done = kafkalog(*shlex.split(command)[1:])
    assert done.code == 2, done.err
    assert kafkalog("verify", *disks).code == 0


def test_one_that_may_be_newer_is_not_rewritten_by_recommendation(disks: list[Path]) -> None:
    (disks[0] / "meta.properties").write_bytes(b"version=7\n")
    assert "--meta-properties" not in kafkalog("plan", *disks).out


@pytest.mark.parametrize("content", [None, b"", b"version=1\nnode.id=3 \n"])
def test_the_directory_of_the_metadata_keeps_its_id_too(content: bytes | None, disks: list[Path]) -> None:
    """Without it a voter gets a new one and does not vote (`KafkaRaftClient`, 4.3.0), and partitions have no leader."""
    written = meta_of(disks[1])
    lost = disks[1] / "meta.properties"
    lost.unlink() if content is None else lost.write_bytes(content)
    text = (disks[0] / "meta.properties").read_text().replace(written.directory_id or "?", "QLzt-g_BuAkWCE5UuGwm5Q")
    (disks[0] / "meta.properties").write_text(text)
    assert kafkalog("recover", "--meta-properties", "--yes", *disks).code == 2
    assert meta_of(disks[1]).directory_id == written.directory_id


@pytest.mark.parametrize("lines", [("version",), ("version", "directory.id"), ("directory.id",)])
def test_the_file_itself_and_the_metadata_are_enough(lines: tuple[str, ...], tmp_path: Path) -> None:
    """Without `version` Kafka looks for broker.id (`MetaProperties.Builder`); without its id a voter does not vote."""
    root = own_copy(brokers(SOURCE)[0], tmp_path / "data")
    file, wanted = root / "meta.properties", meta_of(root)
    kept = [line for line in file.read_text().splitlines() if not line.startswith(lines)]
    file.write_text("\n".join([*kept, ""]))
    planned = kafkalog("plan", root)
    assert "names no broker" not in planned.out
    assert ("it has no line version" in planned.out) is ("version" in lines)
    (command,) = {line.strip() for line in planned.out.splitlines() if line.startswith("  kafkalog recover")}
    assert kafkalog(*shlex.split(command)[1:]).code == 2
    made = meta_of(root)
    assert (made.version, made.cluster_id, made.node_id, made.directory_id) == (
        wanted.version, wanted.cluster_id, wanted.node_id, wanted.directory_id
    )  # fmt: skip
    assert kafkalog("plan", root).code == 0


@pytest.mark.parametrize("refused", ["@@@", "AAAAAAAAAAAAAAAAAAAAAA"])
def test_a_directory_id_that_no_broker_accepts_is_replaced(refused: str, tmp_path: Path) -> None:
    root = own_copy(brokers(SOURCE)[0], tmp_path / "data")
    file, wanted = root / "meta.properties", meta_of(root)
    file.write_text(file.read_text().replace(wanted.directory_id or "?", refused))
    planned = kafkalog("plan", root)
    assert "NOT START" in planned.out
    (command,) = {line.strip() for line in planned.out.splitlines() if line.startswith("  kafkalog recover")}
    assert kafkalog(*shlex.split(command)[1:]).code == 2
    assert meta_of(root).directory_id == wanted.directory_id
    assert kafkalog("plan", root).code == 0


def test_a_refused_directory_id_goes_even_if_nothing_names_another(tmp_path: Path) -> None:
    """A broker makes a new one then (`KafkaRaftServer.initializeLogDirs`); with the refused one it does not start."""
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\ndirectory.id=@@@\n")
    made = lost_identity(str(tmp_path), [], NO_FACTS)
    assert made is not None
    meta = decode_meta_properties(made)
    assert (meta.cluster_id, meta.node_id, meta.directory_id) == ("abc", 1, None)


def test_what_is_to_be_written_by_hand_is_named_and_is_enough(tmp_path: Path) -> None:
    root = own_copy(brokers(SOURCE)[0], tmp_path / "data")
    file, wanted = root / "meta.properties", meta_of(root)
    file.unlink()
    told = [kafkalog("plan", root).out, kafkalog("recover", "--meta-properties", "--yes", root).err]
    for each in told:
        assert "version=1, cluster.id and node.id" in " ".join(each.split())
    file.write_text(f"version=1\ncluster.id={wanted.cluster_id}\nnode.id={wanted.node_id}\n")
    assert kafkalog("recover", "--meta-properties", "--yes", root).code == 2
    assert meta_of(root).directory_id == wanted.directory_id


@pytest.mark.parametrize(("name", "votes"), [("dynamic", False), ("static", True)])
def test_only_a_voter_of_the_metadata_does_not_vote_without_its_directory_id(
    name: str, votes: bool, tmp_path: Path
) -> None:
    """Kafka 4.1.1 with `controller.quorum.voters` took a new id and led at once, without the partitions of the old."""
    if votes:
        root = copied(name, tmp_path, BROKER)[BROKER]
    else:
        root = own_copy(brokers(SOURCE)[0], tmp_path / "data")
    file = root / "meta.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("directory.id")]
    file.write_text("\n".join([*lines, ""]))
    printed = " ".join(kafkalog("plan", root, columns=1000).out.split())
    assert "it has no directory.id, the metadata has one, and a start makes another" in printed
    assert ("does not vote then" in printed) is not votes
