"""Controllers that are all here and do not start for a file beside the log: it is mended, and no vote given twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from kafkalog.log import open_segment
from testkit.judging.trees import copy_tree, stamps
from testkit.made.scenes import SCENES
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.quorums import BROKER, CONTROLLERS, METADATA, copied, flip, last_log, take_out
from testkit.running.command import Finished, kafkalog


def recover(*words: object) -> Finished:
    return kafkalog("quorum", "recover", "--yes", *words)


@pytest.mark.parametrize("damage", [b"", b"{", bytes(40)])
def test_an_unreadable_quorum_state_is_written_anew_in_a_later_epoch(damage: bytes, tmp_path: Path) -> None:
    """Within its own epoch the node could vote a second time, for another leader."""
    nodes = copied("static", tmp_path, *CONTROLLERS)
    latest = max(read_quorum_log(each).latest_epoch for each in nodes.values())
    (nodes[1] / METADATA / "quorum-state").write_bytes(damage)
    assert read_quorum_log(nodes[1]).state is None
    endpoints = [word for each in CONTROLLERS for word in ("--endpoint", f"{each}=127.0.0.1:{9090 + each}")]
    finished = recover(*endpoints, *nodes.values())
    assert finished.code == 2, finished.err
    for each in nodes.values():
        state = read_quorum_log(each).state
        assert state is not None
        assert (state.leader_epoch, state.leader_id, state.voted_id) == (latest + 1, -1, -1)
        assert sorted(state.current_voters) == list(CONTROLLERS)


def test_with_voters_missing_it_is_refused_and_nothing_changed(tmp_path: Path) -> None:
    nodes = copied("static", tmp_path, *CONTROLLERS)
    (nodes[1] / METADATA / "quorum-state").write_bytes(b"")
    before = stamps(nodes[1])
    finished = recover("--endpoint", "1=127.0.0.1:9091", "--endpoint", "2=127.0.0.1:9092", nodes[1], nodes[2])
    assert finished.code == 3
    assert stamps(nodes[1]) == before


def test_a_cut_snapshot_is_set_aside_and_an_older_one_stands_for_it(tmp_path: Path) -> None:
    """`quorum recover` said that it was set aside, and that nothing was to be done; nothing was."""
    nodes = copied("snapshots", tmp_path, *CONTROLLERS)
    for each in nodes.values():
        newest = max((each / METADATA).glob("*.checkpoint"))
        newest.chmod(0o600)
        newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
        end = read_quorum_log(each).end
        finished = recover("--standalone", each, "--others-are-gone")
        assert finished.code == 2, finished.err
        assert not newest.exists()
        after = read_quorum_log(each)
        assert after.end >= end
        assert after.newest_snapshot is not None or after.start == 0


def test_a_damaged_snapshot_does_not_hide_that_offsets_are_missing(tmp_path: Path) -> None:
    nodes = copied("dynamic", tmp_path, 1)
    gone = take_out(nodes[1])
    (nodes[1] / METADATA / "00000000000000000005-0000000001.checkpoint").write_bytes(bytes(30))
    before = stamps(nodes[1])
    finished = recover("--standalone", nodes[1], "--others-are-gone")
    assert finished.code == 3
    assert f"offsets {gone.base_offset} to {gone.next_offset - 1} are missing" in finished.err
    assert stamps(nodes[1]) == before


def test_nothing_needs_doing_is_said_only_of_files_that_are_sound(tmp_path: Path) -> None:
    nodes = copied("static", tmp_path, *CONTROLLERS)
    assert "nothing needs doing" in recover(*nodes.values()).out
    (nodes[2] / METADATA / "quorum-state").write_bytes(b"")
    assert "nothing needs doing" not in recover(*nodes.values()).out


def test_a_node_that_does_not_start_for_another_file_is_not_declared_well(tmp_path: Path) -> None:
    """Its quorum's files are mended, and Kafka still ends at its `bootstrap.checkpoint`."""
    SCENES["kraft-files"](tmp_path)
    data = tmp_path / "data"
    done = recover("--standalone", data)
    assert done.code == 2, done.err
    left = " ".join(done.out.split("to undo this:")[1].split())
    assert "would NOT START on it: java.lang.RuntimeException: No FeatureLevelRecord for metadata.version" in left
    assert left.endswith(f"kafkalog plan {data}")
    before = stamps(data)
    assert recover("--standalone", data).code == 1
    (line,) = recover("--standalone", data, "--json").objects
    assert [run["never_starts"] for run in line["runs"]] == [True]
    assert stamps(data) == before
    assert kafkalog("recover", data, "--yes").code == 2
    mended = recover("--standalone", data)
    assert (mended.code, "NOT START" in mended.out) == (0, False), mended.out


def test_voters_that_are_all_older_than_a_brokers_copy_are_not_declared_well(tmp_path: Path) -> None:
    """Whoever does not vote fetches from a voter: what only it has, the voters have lost, as by an older backup."""
    nodes = copied("static", tmp_path, *CONTROLLERS, BROKER)
    wanted = read_quorum_log(nodes[BROKER]).end
    for each in CONTROLLERS:
        log = last_log(nodes[each])
        records = [batch for batch in open_segment(log).batches() if not batch.header.is_control]
        with log.open("r+b") as file:
            file.truncate(records[len(records) // 2].position)
    shown = kafkalog("quorum", "show", *nodes.values())
    assert shown.code == 1
    assert "all metadata that was committed is in" not in shown.out
    assert f"older than the copy of node {BROKER}" in " ".join(shown.out.split())
    endpoints = [word for each in CONTROLLERS for word in ("--endpoint", f"{each}=127.0.0.1:{9090 + each}")]
    done = recover(*endpoints, *(nodes[each] for each in CONTROLLERS), "--broker", nodes[BROKER])
    assert (done.code, "nothing needs doing" in done.out) == (2, False), done.err
    assert {read_quorum_log(nodes[each]).end for each in CONTROLLERS} == {wanted}


@pytest.mark.parametrize("number", [0, 1])
def test_a_log_without_metadata_before_its_damage_is_not_made_a_quorum(tmp_path: Path, number: int) -> None:
    """The recorded dump of Kafka has 148 more records behind these batches, of which no log without them is made."""
    directory = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "data")
    log = last_log(directory)
    damaged = list(open_segment(log).batches())[number]
    flip(log, damaged.position + damaged.size - 1)
    (directory / METADATA / "quorum-state").write_bytes(b"{")
    before = stamps(directory)
    told = " ".join(kafkalog("plan", directory).out.split())
    assert "would NOT START" in told
    assert "--standalone" not in told
    assert f"kafkalog plan --cluster-metadata {directory}" in told
    for consent in ((), ("--accept-loss",)):
        refused = recover("--standalone", directory, *consent)
        assert refused.code == 3
        words = ("none of its records can be used", "would take what is before that for empty")
        assert words[number] in refused.err
        assert "holds no record" not in refused.err
    assert stamps(directory) == before


def test_damage_behind_metadata_leaves_the_advice(tmp_path: Path) -> None:
    directory = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "data")
    log = last_log(directory)
    damaged = list(open_segment(log).batches())[-2]
    flip(log, damaged.position + damaged.size - 1)
    (directory / METADATA / "quorum-state").write_bytes(b"{")
    assert f"kafkalog quorum recover --standalone {directory}" in " ".join(kafkalog("plan", directory).out.split())
    assert recover("--standalone", directory, "--accept-loss").code == 2
