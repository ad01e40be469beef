"""Voters without metadata that are a majority, as after their directories were reformatted.

Kafka 4.1.1: of three static voters, two reformatted elected each other with empty metadata, and brokers renamed
their partitions -stray. If the third, which had its metadata, ran before the second of them, it led instead.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog.jobs.triage.run import triage
from kafkalog.recovery.broker.node.answer import EmptyVoters, NodeStart, Role, StartOutcome
from kafkalog.recovery.broker.node.leader import empty_majority
from kafkalog.recovery.broker.node_start import node_start
from testkit.recorded.quorums import BROKER, CONTROLLERS, METADATA, copied
from testkit.running.command import kafkalog

FIRST, SECOND, THIRD = CONTROLLERS


@pytest.fixture
def nodes(tmp_path: Path) -> dict[int, Path]:
    """Three controllers with static voters, and a broker."""
    return copied("static", tmp_path, *CONTROLLERS, BROKER)


def reformat(root: Path, number: int) -> None:
    """What `kafka-storage.sh format` leaves: a new directory id, and no metadata log."""
    shutil.rmtree(root / METADATA)
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    meta = root / "meta.properties"
    lines = [line for line in meta.read_text().splitlines() if not line.startswith("directory.id=")]
    meta.chmod(0o600)
    meta.write_text("\n".join([*lines, f"directory.id=AAAAAAAAAAAAAAAAAAA{number:02}A", ""]))


def start_of(number: int, nodes: dict[int, Path]) -> NodeStart:
    others = [str(path) for each, path in nodes.items() if each != number]
    return node_start([str(nodes[number])], release="4.3", controllers=others)


@pytest.fixture
def lost(nodes: dict[int, Path]) -> dict[int, Path]:
    """The nodes, two controllers of which are reformatted."""
    reformat(nodes[SECOND], SECOND)
    reformat(nodes[THIRD], THIRD)
    return nodes


def test_a_majority_without_metadata_elects_an_empty_cluster(lost: dict[int, Path]) -> None:
    start = start_of(SECOND, lost)
    assert start.role is Role.CONTROLLER, "the other copies name it as a voter"
    assert start.answers[0].outcome is StartOutcome.OVERWRITES_METADATA
    assert start.answers[0].condition == "unless a voter that has metadata leads before"
    empty = EmptyVoters(nodes=(SECOND, THIRD), voters=3, best=str(lost[FIRST]), copies=(str(lost[BROKER]),))
    assert {start_of(number, lost).empty_voters for number in lost} == {empty}


@pytest.mark.parametrize("number", [FIRST, BROKER])
def test_nodes_with_metadata_start_unless_it_is_elected(number: int, lost: dict[int, Path]) -> None:
    answer = start_of(number, lost).answers[0]
    said = f"if nodes {SECOND} and {THIRD}, which hold no metadata, do not elect an empty cluster"
    assert (answer.outcome, answer.condition) == (StartOutcome.STARTS, said)


def test_a_metadata_log_without_records_is_no_metadata(nodes: dict[int, Path]) -> None:
    """Reformatted, and started while no other voter was up."""
    for number in (SECOND, THIRD):
        reformat(nodes[number], number)
        log = nodes[number] / METADATA
        log.mkdir()
        (log / "00000000000000000000.log").write_bytes(b"")
        shutil.copy(nodes[FIRST] / METADATA / "quorum-state", log)
    assert start_of(SECOND, nodes).answers[0].outcome is StartOutcome.OVERWRITES_METADATA


def test_one_voter_without_metadata_follows_the_others(nodes: dict[int, Path]) -> None:
    reformat(nodes[SECOND], SECOND)
    start = start_of(SECOND, nodes)
    assert (start.role, start.empty_voters) == (Role.CONTROLLER, None)
    assert start.answers[0].outcome is StartOutcome.STARTS
    assert start.answers[0].condition == "if it follows the controllers that were given"


def test_dynamic_voters_that_were_formatted_anew_do_not_vote(tmp_path: Path) -> None:
    nodes = copied("dynamic", tmp_path, *CONTROLLERS)
    reformat(nodes[SECOND], SECOND)
    reformat(nodes[THIRD], THIRD)
    assert start_of(FIRST, nodes).empty_voters is None


def test_a_directory_beside_one_that_was_not_given_is_no_voter_without_metadata() -> None:
    """The metadata log of a combined node can be in the directory that is not there."""
    without = {SECOND: ["one"], THIRD: ["new"]}
    held = [(FIRST, "/first")]
    assert empty_majority(held, without, CONTROLLERS, lambda node: ["one", "two"] if node == SECOND else []) is None
    assert empty_majority(held, without, CONTROLLERS, lambda node: ["one"] if node == SECOND else []) is not None


def test_every_command_says_first_that_they_are_not_to_be_started(lost: dict[int, Path]) -> None:
    paths = [str(path) for path in lost.values()]
    said = (
        f"do not start nodes {SECOND} and {THIRD}, without metadata, as if reformatted: they would elect an "
        "empty cluster, as 2 of the 3 voters; first bring the quorum back: kafkalog quorum recover --standalone "
        f"{lost[FIRST]} {lost[BROKER]}"
    )
    for command in (["plan"], ["verify"], ["report", "--format", "text", "--output", "-"]):
        ended = kafkalog(*command, *paths)
        _title, *lines = ended.lines
        text = " ".join(" ".join(lines).replace("\\", " ").split())
        assert text.startswith(said), command
        assert "out of service once an empty cluster is elected: every partition" in text, command
        assert ended.code == 1, command
    assert triage(*paths).empty_voters is not None
    output = " ".join(kafkalog("triage", *paths).out.replace("\\", " ").split())
    assert output.startswith(said)


def test_controllers_given_together_are_of_several_nodes(lost: dict[int, Path]) -> None:
    output = kafkalog("verify", *(str(lost[number]) for number in CONTROLLERS))
    assert "identity_mismatch" not in output.out + output.err


def test_a_broker_formatted_anew_is_answered_for_by_other_copies(nodes: dict[int, Path]) -> None:
    reformat(nodes[BROKER], BROKER)
    start = start_of(BROKER, nodes)
    names = ("__consumer_offsets-0", "later-0", "orders-0", "orders-1")
    assert (start.not_given, start.in_not_given, start.only_in_not_given, start.lost) == (1, names, names, names)
    paths = [str(path) for path in nodes.values()]
    for command in (["plan"], ["report", "--format", "text", "--output", "-"]):
        output = " ".join(kafkalog(*command, *paths).out.split())
        assert "all of 4 partitions (__consumer_offsets-0, later-0, orders-0 and 1 more)" in output, command
        assert "--cluster-metadata" not in output, command
