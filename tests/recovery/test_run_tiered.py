"""Log directories of brokers with tiered storage: nothing is wrong with them, and what is damaged is told apart."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.files.text import (
    OffsetCheckpointEntry,
    decode_leader_epochs,
    decode_offset_checkpoint,
    encode_offset_checkpoint,
)
from kafkalog.recovery import Recovery, plan, recover, undo
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.decide.remote_part import held_remotely
from kafkalog.recovery.facts.survey import survey
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import tiered_case, tiered_volumes, unpack_tiered
from testkit.running.command import kafkalog as command

CACHE, METADATA, EVENTS = "remote-log-index-cache", "__cluster_metadata-0", "__remote_log_metadata-"
WITHOUT = {
    "all of it": (),
    "no cache": (CACHE,),
    "no metadata": (CACHE, METADATA),
    "logs alone": (CACHE, METADATA, EVENTS),
}
"""what is taken away"""
STOPPED = (("stopped", "broker"), ("pair", "broker-1"), ("pair", "broker-2"), ("returned", "broker-2"))
TIERED = (
    "moved-0", "epochs-0", "payments-0", "kept-0", "both-0", "tiered-0", "tiered-1", "codecs-0", "pays-0", "cut-0",
    "orders-0", "as-plain-0", "as-zstd-1-0", "as-aes-0", "as-both-0",
)  # fmt: skip


def unpacked(name: str, volume: str, tmp_path: Path, without: str = "all of it") -> Path:
    root = unpack_tiered(name, tmp_path, volume)
    for prefix in WITHOUT[without]:
        for path in root.glob(f"{prefix}*"):
            shutil.rmtree(path)
    if without == "logs alone":  # else the partitions of the topic are missing
        for checkpoint in root.glob("*-offset-checkpoint"):
            entries = decode_offset_checkpoint(checkpoint.read_bytes())
            kept = [each for each in entries if each.topic != "__remote_log_metadata"]
            checkpoint.write_bytes(encode_offset_checkpoint(kept))
    return root


def worse_than_info(found: Sequence[Finding]) -> list[Finding]:
    return [each for each in found if each.severity != "info"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


QUICK = (("killed", "broker", "no cache"), ("pair", "broker-1", "logs alone"), ("returned", "broker-2", "all of it"))
EVERY = [(*volume, without) for volume in tiered_volumes() for without in WITHOUT]


@pytest.mark.parametrize(
    ("name", "volume", "without"),
    [each if each in QUICK else pytest.param(*each, marks=pytest.mark.sweep) for each in EVERY],
)
def test_nothing_is_wrong(name: str, volume: str, without: str, tmp_path: Path) -> None:
    root = unpacked(name, volume, tmp_path, without)
    before = stamps(root)
    assert worse_than_info(verify(root).findings) == []
    for mode in ("safe", "salvage", "kafka", "strict", "remote"):
        made = plan(Recovery(mode=mode), root)[0]
        assert worse_than_info(made.findings) == []
        assert (made.refusal, made.choice.own.records_lost, made.choice.missing) == (None, 0, [])
        assert made.broker.outcome == "loaded"
    assert command("ls", root).code == 0
    assert stamps(root) == before


@pytest.mark.parametrize(("name", "volume"), STOPPED)
def test_what_was_stopped_in_order_is_left_as_it_is(name: str, volume: str, tmp_path: Path) -> None:
    root = unpacked(name, volume, tmp_path)
    before = stamps(root)
    assert command("recover", "--yes", root).code == 0
    assert stamps(root) == before


@pytest.mark.parametrize(("name", "volume"), tiered_volumes())
def test_the_local_start_is_told_apart_from_the_log_start(name: str, volume: str, tmp_path: Path) -> None:
    case, root = tiered_case(name), unpacked(name, volume, tmp_path)
    (listed,) = command("ls", "--json", root).objects
    (checked,) = command("verify", "--json", root).objects
    verified = {Path(each["path"]).name: each["tiering"] for each in checked["partitions"]}
    tiered = 0
    for each in listed["partitions"]:
        directory = f"{each['topic']}-{each['partition']}"
        if directory not in case.bounds:
            continue
        start, _end = case.bounds[directory]
        begins = max(case.local[volume][directory][0], start)
        assert each["log_start_offset"] == start
        assert (each["tiering"] or {}).get("local_log_start_offset", begins) == begins
        assert each["tiering"] == verified[directory]
        assert (each["tiering"] is not None) == (directory in TIERED), directory
        tiered += directory in TIERED
    assert tiered >= 2


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("all of it", ["the topic's settings in the cluster's metadata", "the events in __remote_log_metadata"]),
        ("no metadata", ["the events in __remote_log_metadata"]),
        ("logs alone", []),
    ],
)
def test_the_report_says_from_what_it_knows(without: str, said: list[str], tmp_path: Path) -> None:
    root = unpacked("stopped", "broker", tmp_path, without)
    checkpoint = "the log start offset in log-start-offset-checkpoint and the leader epochs"
    (checked,) = command("verify", "--json", root).objects
    found = next(each["tiering"] for each in checked["partitions"] if each["path"].endswith("tiered-0"))
    assert found["known_from"] == [*said, checkpoint]
    assert found["certain"] is (without != "logs alone")
    text = command("verify", root).out
    assert f"{', and by '.join([*said, checkpoint])}" in text
    assert ("nothing here tells whether all of offsets 0 to 1020" in text) is (without == "logs alone")


def test_without_the_checkpoint_settings_and_events_tell(tmp_path: Path) -> None:
    root = unpacked("stopped", "broker", tmp_path)
    (root / "log-start-offset-checkpoint").unlink()
    assert worse_than_info(verify(root).findings) == []
    made = plan(root)[0]
    assert (made.findings, made.choice.missing) == ([], [])


def test_offsets_in_neither_tier_are_a_finding(tmp_path: Path) -> None:
    """Of `kept` nothing was copied after remote storage stopped to take copies; then its next segments went."""
    root = unpacked("pair", "broker-1", tmp_path)
    bases = sorted(int(path.stem) for path in (root / "kept-0").glob("*.log"))
    for base in bases[:-1]:
        for path in (root / "kept-0").glob(f"{base:020}.*"):
            path.unlink()
    found = worse_than_info(verify(root).findings)
    assert [(each.code, Path(each.file or "").name) for each in found] == [("tier_gap", "kept-0")]
    first = found[0].offset
    assert first is not None
    assert bases[0] < first < bases[-1]
    assert f"offsets {first} to {bases[-1] - 1} are in neither tier" in found[0].detail
    made = plan(root)[0]
    assert made.choice.own.records_lost == bases[-1] - first
    assert [each.code for each in worse_than_info(made.findings)] == ["tier_gap"]


def test_an_index_left_below_the_log_start_hides_no_loss(tmp_path: Path) -> None:
    """Its log went with the records below the log start: nothing is missing that a consumer could get."""
    root = unpacked("pair", "broker-1", tmp_path)
    first, second, *_later = sorted((root / "kept-0").glob("*.log"))
    checkpoint = root / "log-start-offset-checkpoint"
    others = [each for each in decode_offset_checkpoint(checkpoint.read_bytes()) if each.topic != "kept"]
    own = OffsetCheckpointEntry("kept", 0, int(second.stem))
    checkpoint.write_bytes(encode_offset_checkpoint([*others, own]))
    first.unlink()
    assert first.with_suffix(".index").exists()
    assert [each for each in verify(root).findings if each.code in ("tier_gap", "segment_missing")] == []
    assert plan(root)[0].choice.missing == []


def test_to_look_into_the_tier_makes_no_epoch_checkpoint(tmp_path: Path) -> None:
    root = unpacked("pair", "broker-1", tmp_path)
    (root / "kept-0" / "leader-epoch-checkpoint").unlink()
    with survey(str(root), tolerant=True) as found:
        tree, tiering = found.tree(), read_topic_facts([str(root)]).tiering
        assert tiering.is_tiered(("kept", 0))
        held_remotely(tree, "kept-0", ("kept", 0), tiering)
        assert tree.names("kept-0") == found.tree().names("kept-0")


def test_local_segments_that_were_copied_can_go(tmp_path: Path) -> None:
    """As retention of the local part deletes them."""
    root = unpacked("stopped", "broker", tmp_path)
    for base in (1119, 1501):
        for path in (root / "tiered-0").glob(f"{base:020}.*"):
            path.unlink()
    assert worse_than_info(verify(root).findings) == []
    assert plan(root)[0].choice.own.records_lost == 0


def test_that_nothing_is_lost_is_not_said_where_damage_is_in_the_only_copy_too(tmp_path: Path) -> None:
    root = unpacked("stopped", "broker", tmp_path)
    for base in (1119, 1875):  # the active segment is in no remote tier
        flip(root / "tiered-0" / f"{base:020}.log")
    (way,) = (way for way in plan(root)[0].choice.ways if way.way == "remote")
    assert way.measured.lost
    assert way.consequence.startswith("offsets 1119 to 1500 of tiered-0 are in the remote tier")
    assert all(lost.first >= 1875 for lost in way.measured.lost), "the rest is read from the remote tier"
    offsets = sum((lost.last or lost.first) - lost.first + 1 for lost in way.measured.lost)
    assert way.measured.records_lost == offsets
    (safe,) = (way for way in plan(root)[0].choice.ways if way.way == "safe")
    assert safe.measured.records_kept is not None
    assert safe.measured.records_lost is not None
    assert way.measured.records_kept == safe.measured.records_kept + safe.measured.records_lost - offsets


def test_damage_in_a_segment_that_was_copied_loses_nothing(tmp_path: Path) -> None:
    root = unpacked("stopped", "broker", tmp_path)
    flip(root / "tiered-0" / f"{1119:020}.log")
    before = stamps(root)
    made = plan(root)[0]
    best = made.choice.recommended
    assert best is not None
    assert (str(best.way), best.measured.records_lost, best.measured.lost) == ("remote", 0, [])
    assert "nothing is lost: offsets 1119 to 1500 of tiered-0 are in the remote tier" in best.consequence
    assert made.choice.own.records_lost != 0 or made.choice.own.damage_left
    shown = command("plan", root).out
    assert f"kafkalog recover {root} --mode remote --yes" in shown
    done = recover(Recovery(mode="remote"), root)[0]
    assert done.changed
    assert sorted(int(path.stem) for path in (root / "tiered-0").glob("*.log")) == [1501, 1875]
    assert decode_leader_epochs((root / "tiered-0" / "leader-epoch-checkpoint").read_bytes())[0].start_offset == 0
    starts = decode_offset_checkpoint((root / "log-start-offset-checkpoint").read_bytes())
    assert ("tiered", 0, 0) in starts
    assert worse_than_info(verify(root).findings) == []
    undo(root)
    assert stamps(root) == before


@pytest.mark.parametrize("base", [1501, 1875])
def test_only_what_was_copied_is_given_up(base: int, tmp_path: Path) -> None:
    """The last segment is in no remote tier; of the one before, all local ones below it go too."""
    root = unpacked("stopped", "broker", tmp_path)
    flip(root / "tiered-0" / f"{base:020}.log")
    ways = [str(each.way) for each in plan(root)[0].choice.ways]
    assert ("remote" in ways) is (base == 1501)
    if base == 1501:
        recover(Recovery(mode="remote"), root)
        assert [int(path.stem) for path in (root / "tiered-0").glob("*.log")] == [1875]


def test_what_was_deleted_after_it_was_copied_is_not_offered_to_be_restored(tmp_path: Path) -> None:
    root = unpacked("stopped", "broker", tmp_path)
    assert list((root / "tiered-0").glob("*.log.deleted"))
    assert plan(root)[0].deleted is None
    shutil.rmtree(root / f"{EVENTS}0")
    shutil.rmtree(root / f"{EVENTS}1")
    assert ".deleted segment in tiered-0" in (plan(root)[0].deleted or "")


def test_a_broker_keeps_the_snapshot_at_its_first_local_segment(tmp_path: Path) -> None:
    """`ProducerStateManager.truncateAndReload` removes what lies at the log start or below, which is remote here."""
    root = unpacked("killed", "broker", tmp_path)
    snapshot = "cut-0/00000000000000002241.snapshot"
    assert (root / snapshot).is_file()
    assert snapshot not in {each.path for each in plan(Recovery(mode="kafka"), root)[0].actions}
    off = {"remote.log.storage.system.enable": "false"}
    assert snapshot in {each.path for each in plan(Recovery(mode="kafka", config=off), root)[0].actions}


def test_copies_are_compared_and_merged(tmp_path: Path) -> None:
    root = tiered_case("returned").unpack(tmp_path)
    first, second, into = root / "broker-1", root / "broker-2", tmp_path / "merged"
    compared = kafkalog.compare(first, second)
    assert [each.topic for each in compared.partitions if not each.is_clean] == ["__cluster_metadata"]
    assert command("merge", first, second, "--into", into).code == 0
    starts = decode_offset_checkpoint((into / "log-start-offset-checkpoint").read_bytes())
    told = {f"{topic}-{number}": offset for topic, number, offset in starts}
    case = tiered_case("returned")
    assert told == {each: case.bounds[each][0] for each in TIERED if each in case.bounds}


def test_copies_may_have_deleted_different_local_parts(tmp_path: Path) -> None:
    root = tiered_case("pair").unpack(tmp_path)
    for path in (root / "broker-2" / "payments-0").glob(f"{190:020}.*"):
        path.unlink()
    compared = kafkalog.compare(root / "broker-1", root / "broker-2")
    assert [each.topic for each in compared.partitions if not each.is_clean] == ["__cluster_metadata"]


def test_no_tiered_topic_is_compacted(tmp_path: Path) -> None:
    root = unpacked("pair", "broker-1", tmp_path)
    before = stamps(root)
    done = command("compact", "--json", "--config", "cleanup.policy=compact", root / "payments-0", "--yes")
    assert done.code == 1
    assert "has remote storage, and Kafka compacts no such topic" in str(done.objects)
    assert stamps(root) == before


def test_no_tiered_log_is_opened_for_writing(tmp_path: Path) -> None:
    root = unpacked("pair", "broker-1", tmp_path)
    before = stamps(root)
    with pytest.raises(kafkalog.UsageError, match="offsets 0 to 136 are in the remote tier"):
        kafkalog.Log.open(root / "epochs-0")
    assert stamps(root) == before


def test_a_directory_that_a_run_made_and_a_later_one_removes_was_not_replaced(tmp_path: Path) -> None:
    case = tiered_case("stopped")
    case.unpack(tmp_path)
    root = tmp_path / "broker"
    shutil.rmtree(root / "pays-0")
    assert command("recover", root, *case.options(tmp_path), "--yes").code == 2
    first = command("runs", "--json", root).objects[0]["runs"][0]["run_id"]
    assert command("recover", root, "--mode", "set-aside", "-t", "pays", "--yes", "--accept-loss").code == 2
    refused = command("undo", root, "--run", first, "--yes")
    assert refused.code == 3
    assert "undo that one first" in refused.err
