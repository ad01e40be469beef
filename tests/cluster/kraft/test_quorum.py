"""What is left of a quorum, from recorded controllers; expected is what Kafka's administrator and dump tool said."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import Log, StorageError
from kafkalog.cluster.kraft.quorum import Quorum, kinds_text, read_quorum
from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.encode.batch import build_control_batch
from kafkalog.codec.files.kraft import KRaftRecord, KRaftVoters, LeaderChange, Voter, encode_kraft_value
from kafkalog.codec.model import ControlRecordType
from kafkalog.log import open_segment
from testkit.judging.trees import copy_tree, first_difference, stamps
from testkit.kafka.start_records import append_metadata, displace
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import quorum_expected
from testkit.recorded.quorums import (
    BROKER,
    CONTROLLERS,
    METADATA,
    NAMES,
    copied,
    flip,
    last_log,
    node,
    recorded,
    register,
    take_out,
    tear,
)
from testkit.running.command import kafkalog

EVERYBODY = (*CONTROLLERS, BROKER)


def of(name: str, *nodes: int) -> Quorum:
    (found,) = read_quorum(*(node(name, each) for each in nodes))
    return found


def last_batch(dumps: dict[str, str]) -> tuple[int, int]:
    """Epoch and end of a log, as Kafka's dump tool prints its last batch."""
    lines = [line for name in sorted(dumps) for line in dumps[name].splitlines() if line.startswith("baseOffset")]
    last, epoch = re.search(r"lastOffset: (\d+) .*partitionLeaderEpoch: (\d+)", lines[-1]).groups()  # type: ignore[union-attr]
    return int(epoch), int(last) + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_log_ends_where_kafkas_dump_tool_does(name: str, compared: Callable[[str, int], None]) -> None:
    dumps = quorum_expected(name)["dump"]
    for each in EVERYBODY:
        log = read_quorum_log(node(name, each))
        assert log.position == last_batch(dumps[f"node-{each}"])
        assert log.findings == []
        assert log.refusal is None
        assert log.node == each
    compared("metadata logs whose end and epoch are those that Kafka's dump tool prints", len(EVERYBODY))


@pytest.mark.parametrize("name", NAMES)
def test_voters_are_those_that_the_administrator_named(name: str) -> None:
    described = quorum_expected(name)["described"]
    for each in EVERYBODY:
        log = read_quorum_log(node(name, each))
        assert sorted(log.voter_ids) == [1, 2, 3]
        assert log.is_static is name.endswith("static")
        assert log.is_voter is (each in CONTROLLERS)
    found = of(name, *EVERYBODY)
    if not name.endswith("static"):
        named = {(voter["node"], voter["directory_id"]) for voter in described["voters"]}
        assert {(voter.node, voter.directory_id) for voter in found.in_force} == named
    assert found.cluster_id == quorum_expected(name)["cluster_id"]
    assert found.missing == ()


@pytest.mark.parametrize("name", [each for each in NAMES if not each.endswith("snapshots")])
def test_who_fell_behind_comes_last_and_lacks_what_was_created_then(name: str) -> None:
    told = quorum_expected(name)
    ends = {voter["node"]: voter["end"] for voter in told["described"]["voters"]}
    found = of(name, *EVERYBODY)
    assert [each.log.node for each in found.survivors][-1] == told["behind"]
    behind = found.survivors[-1]
    assert behind.log.end == ends[told["behind"]] == behind.common_end
    assert behind.lacks is not None
    assert behind.lacks["TopicRecord"] == 1
    assert behind.lacks["PartitionRecord"] == 1
    assert behind.only_no_ops is False
    assert not behind.is_diverged
    assert sum(behind.lacks.values()) == found.best.end - behind.log.end
    for each in found.survivors[:-1]:
        assert each.lacks == {}
        assert each.only_no_ops


def test_every_kind_of_a_record_that_a_copy_lacks_is_shown_and_no_ops_last(tmp_path: Path) -> None:
    counts = Counter({"NoOpRecord": 90, "PartitionRecord": 8, "TopicRecord": 4, "ConfigRecord": 2, "LeaderChange": 3})
    counts |= Counter({"UserScramCredentialRecord": 1, "FeatureLevelRecord": 1, "ProducerIdsRecord": 1})
    shown = kinds_text(counts)
    assert {f"{name} {count}" for name, count in counts.items()} == {*shown.split(", ")}
    assert shown.startswith("PartitionRecord 8, TopicRecord 4, ")
    assert shown.endswith("NoOpRecord 90, LeaderChange 3")
    places = copied("dynamic", tmp_path, *CONTROLLERS)
    (whole,) = read_quorum(*places.values())
    assert whole.best.node is not None
    change = {"resource_type": 2, "resource_name": "a", "name": "b", "value": "c"}
    append_metadata(last_log(places[whole.best.node]), ("ConfigRecord", 0, change), *[("NoOpRecord", 0, {})] * 9)
    printed = kafkalog("quorum", "show", *places.values()).out
    assert "lacks" in printed
    cells = "".join(printed.split())
    for kind in ("TopicRecord1", "PartitionRecord1", "ConfigRecord1", "NoOpRecord10"):
        assert kind in cells


@pytest.mark.parametrize("name", [each for each in NAMES if not each.endswith("snapshots")])
def test_records_behind_a_wrong_base_offset_are_counted_too(name: str, tmp_path: Path) -> None:
    whole = of(name, *CONTROLLERS)
    behind = whole.survivors[-1]
    assert behind.only_no_ops is False
    places = copied(name, tmp_path, *CONTROLLERS)
    assert whole.best.node is not None
    displace(last_log(places[whole.best.node]), behind.log.end, 10)
    (found,) = read_quorum(*places.values())
    assert found.best.is_displaced
    assert found.best.node == whole.best.node
    assert {each.log.node: each.lacks for each in found.survivors}[behind.log.node] == behind.lacks


def test_a_majority_holds_what_was_committed_and_fewer_cannot_say() -> None:
    assert of("dynamic", 1, 3).has_majority
    assert "a majority" in of("dynamic", 1, 3).loss()
    alone = of("dynamic", 3)
    assert not alone.has_majority
    assert [each.node for each in alone.missing] == [1, 2]
    assert "1 of 3 voters is here and 2 were needed" in alone.loss()
    assert not of("dynamic", 1, BROKER).has_majority, "a broker does not vote"
    assert of("static", 1, 2).has_majority
    assert [each.node for each in of("static", 1).missing] == [2, 3]


def test_snapshots_say_what_was_committed() -> None:
    found = of("snapshots", *EVERYBODY)
    high_watermark = quorum_expected("snapshots")["described"]["high_watermark"]
    assert 0 < found.committed_at_least <= high_watermark
    assert found.best.start > 0
    assert found.best.voters_offset is None, "the voter set is in the snapshots alone"
    assert sorted(found.best.voter_ids) == [1, 2, 3]
    assert of("dynamic", 1).committed_at_least == 0


def test_a_torn_end_is_no_damage_and_a_flipped_bit_is(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, 2)
    whole = read_quorum_log(at[1])
    tear(at[1])
    torn = read_quorum_log(at[1])
    assert torn.is_torn
    assert not torn.is_damaged
    assert torn.end == whole.end - 1
    (found,) = read_quorum(*at.values())
    assert found.best.node == 2
    assert found.survivors[1].only_no_ops
    log = last_log(at[2])
    flip(log, log.stat().st_size // 2)
    damaged = read_quorum_log(at[2])
    assert damaged.is_damaged
    assert damaged.records_behind_damage > 0
    assert damaged.end < whole.end
    (found,) = read_quorum(*at.values())
    assert not found.has_majority, "a damaged voter may lack what was committed"


def test_a_log_with_a_hole_is_worth_less_than_any_that_is_whole(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, 2)
    gone = take_out(at[1])
    holed = read_quorum_log(at[1])
    assert holed.hole == (gone.base_offset, gone.next_offset)
    assert holed.end == gone.base_offset
    assert holed.is_damaged
    assert "use another copy" in (holed.refusal or "")
    (found,) = read_quorum(at[1], at[2], node("dynamic", 3))
    assert found.best.node != 1
    assert found.survivors[-1].log.root == str(at[1])


def test_a_segment_that_is_gone_from_the_middle_is_a_hole_above_a_snapshot_only(tmp_path: Path) -> None:
    at = copied("snapshots", tmp_path, 1)
    newest = max(each.end for each in read_quorum_log(at[1]).snapshots)
    logs = sorted((at[1] / METADATA).glob("*.log"))
    bases = [int(path.stem) for path in logs]
    for path, next_base in zip(logs[1:-1], bases[2:], strict=True):
        held = path.read_bytes()
        path.unlink()
        assert (read_quorum_log(at[1]).hole is not None) is (next_base > newest)
        path.write_bytes(held)
    assert any(base > newest for base in bases[2:])


def test_a_directory_that_may_not_be_read_is_not_called_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = copied("dynamic", tmp_path, 1)
    look = os.lstat

    def hidden(path: str) -> os.stat_result:
        if str(path).endswith(METADATA):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return look(path)

    monkeypatch.setattr(os, "lstat", hidden)
    with pytest.raises(StorageError, match="Permission denied"):
        read_quorum_log(at[1])


def test_a_broken_snapshot_and_a_lost_beginning_stop_a_controller(tmp_path: Path) -> None:
    at = copied("snapshots", tmp_path, 1, 2)
    newest = max((at[1] / METADATA).glob("*.checkpoint"))
    flip(newest, newest.stat().st_size // 2)
    assert "is damaged" in (read_quorum_log(at[1]).refusal or "")
    for path in (at[2] / METADATA).glob("*.checkpoint"):
        path.unlink()
    assert "no snapshot reaches there" in (read_quorum_log(at[2]).refusal or "")
    (found,) = read_quorum(at[1], at[2], node("snapshots", 3))
    assert found.best.node == 3
    assert found.survivors[0].log.refusal is None


def append(log: Path, record: KRaftRecord, offset: int, epoch: int) -> None:
    value = encode_kraft_value(record)
    with log.open("ab") as file:
        file.write(build_control_batch([value], base_offset=offset, timestamp=1, partition_leader_epoch=epoch))


def tail(log: Path, epoch: int, leader: int, granting: tuple[int, ...], offset: int) -> None:
    """A leadership of its own at the end of a log."""
    of_voters = tuple(Voter(each) for each in CONTROLLERS)
    append(
        log,
        LeaderChange(
            version=0, leader_id=leader, voters=of_voters, granting_voters=tuple(Voter(each) for each in granting)
        ),
        offset,
        epoch,
    )


def test_a_control_record_of_an_unknown_type_counts_as_unknown(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)[1]
    end = read_quorum_log(at).end
    with last_log(at).open("ab") as file:
        file.write(build_control_batch([(ControlRecordType(0, 99), b"")], base_offset=end, timestamp=1))
    assert read_quorum_log(at).records_between(end, end + 1) == {"UNKNOWN": 1}


def test_a_tail_that_was_not_committed_is_told_from_a_second_quorum(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, 2)
    end = read_quorum_log(at[1]).end
    tail(last_log(at[1]), 3, 1, (1, 2), end)
    tail(last_log(at[2]), 4, 2, (2, 3), end)
    (found,) = read_quorum(at[1], at[2])
    assert found.best.node == 2
    assert found.survivors[1].is_diverged
    assert found.survivors[1].common_end == end
    (finding,) = found.findings
    assert (finding.code, finding.severity) == (FindingCode.METADATA_INCONSISTENT, Severity.WARNING)
    other = copied("dynamic", tmp_path / "apart", 1, 2)
    tail(last_log(other[1]), 3, 1, (1,), end)
    tail(last_log(other[2]), 4, 2, (2, 3), end)
    (found,) = read_quorum(other[1], other[2])
    (finding,) = found.findings
    assert finding.severity is Severity.ERROR
    assert "two quorums have led" in str(finding)


def test_two_quorums_that_took_the_same_epoch_are_told_apart_too(tmp_path: Path) -> None:
    """The survivor was made a quorum of its own, and the dead came back and elected: in no order of epochs."""
    at = copied("dynamic", tmp_path, 1, 2)
    before = read_quorum_log(at[1])
    append(last_log(at[1]), KRaftVoters(0, before.voters[:1]), before.end, 2)
    tail(last_log(at[2]), 2, 2, (2, 3), before.end)
    (found,) = read_quorum(at[1], at[2])
    assert all(each.contradicts is None for each in found.survivors)
    (finding,) = found.findings
    assert finding.severity is Severity.ERROR
    assert "two quorums have led" in str(finding)


def test_the_last_voter_set_in_the_log_counts(tmp_path: Path) -> None:
    at = copied("snapshots", tmp_path, 1)
    before = read_quorum_log(at[1])
    only = KRaftVoters(0, before.voters[:1])
    append(last_log(at[1]), only, before.end, 9)
    after = read_quorum_log(at[1])
    assert after.voters == before.voters[:1]
    assert after.voters_offset == before.end
    assert after.position == (9, before.end + 1)
    (found,) = read_quorum(at[1])
    assert {each.node for each in found.missing} | {1} == {1, 2, 3}
    assert {each.node for each in found.voters if not each.is_in_force} == {1, 2, 3} - {before.voters[0].voter_id}


# --- the command


def test_json_lines_come_best_first(tmp_path: Path) -> None:
    told = quorum_expected("dynamic")
    before = stamps(recorded("dynamic"))
    finished = kafkalog("quorum", "show", "--json", *(node("dynamic", each) for each in (3, BROKER, 1)))
    assert finished.code == 0
    lines = finished.objects
    survivors = [line for line in lines if line["kind"] == "survivor"]
    assert [line["node"] for line in survivors] == [1, BROKER, 3]
    assert [line["rank"] for line in survivors] == [1, 2, 3]
    assert [(line["epoch"], line["end"]) for line in survivors] == [
        last_batch(told["dump"][f"node-{each}"]) for each in (1, BROKER, 3)
    ]
    assert lines[-1]["kind"] == "quorum"
    assert lines[-1]["missing"] == [2]
    assert first_difference(dict(stamps(recorded("dynamic"))), dict(before)) == ""


def test_the_metadata_directory_itself_may_be_given_and_damage_is_exit_code_1(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    assert kafkalog("quorum", "show", at[1] / METADATA).code == 0
    log = last_log(at[1])
    flip(log, log.stat().st_size // 2)
    finished = kafkalog("quorum", "show", at[1])
    assert finished.code == 1
    assert "damaged" in finished.out


def test_directories_of_two_clusters_are_told_apart() -> None:
    finished = kafkalog("quorum", "show", node("dynamic", 1), node("static", 1))
    assert finished.code == 1
    assert "2 clusters" in finished.err


def test_what_holds_no_metadata_log_is_a_mistake(tmp_path: Path) -> None:
    finished = kafkalog("quorum", "show", tmp_path)
    assert finished.code == 64
    assert "__cluster_metadata-0" in finished.err
    assert kafkalog("quorum", "show", tmp_path / "nowhere").code == 64


def test_a_directory_without_meta_properties_is_a_finding(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    (at[1] / "meta.properties").unlink()
    finished = kafkalog("quorum", "show", at[1])
    assert finished.code == 1
    assert "meta.properties" in finished.err


@pytest.mark.parametrize("case", ["3.9.1/metadata", "4.1.1/metadata", "4.3.0/metadata", "3.9.1/torn", "4.3.0/crash"])
def test_recorded_single_nodes_are_quorums_of_one(case: str) -> None:
    found = kafkalog("quorum", "show", "--json", brokers(case)[0]).objects
    assert found[-1]["has_majority"]
    assert found[-1]["missing"] == []
    assert found[0]["voter"]


def test_cut_short_anywhere_it_is_read_without_an_exception(tmp_path: Path) -> None:
    source = node("snapshots", 1)
    for size in (0, 1, 60, 61, 100):
        copy = tmp_path / str(size)
        shutil.copytree(source, copy)
        for path in (copy / METADATA).iterdir():
            path.chmod(0o600)
            with path.open("r+b") as file:
                file.truncate(min(size, path.stat().st_size))
        finished = kafkalog("quorum", "show", copy)
        assert finished.code == 1, finished.err
        assert "unexpected" not in finished.err


def _older(tmp_path: Path, offset: int) -> Path:
    """A recorded node of its own, whose metadata log is that of an earlier moment; it went to 149, in epoch 2."""
    directory = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "older")
    assert "all metadata that was committed is in the log" in read_quorum(directory)[0].loss()
    log = last_log(directory)
    first = next(batch for batch in open_segment(log).batches() if batch.first_offset >= offset)
    with log.open("r+b") as file:
        file.truncate(first.position)
    return directory


def _without(directory: Path, *names: str) -> None:
    for name in names:
        (directory / METADATA / name).unlink()


@pytest.mark.parametrize(
    ("offset", "gone", "sign"),
    [
        (30, (), "quorum-state knows epoch 2, of which no record is here"),
        (145, ("quorum-state",), "went to offset 149"),
        (
            30,
            ("quorum-state", "leader-epoch-checkpoint", f"{93:020d}.snapshot", f"{149:020d}.snapshot"),
            "__consumer_offsets-0 is of a topic or partition that is not in this metadata",
        ),
    ],
)
def test_a_single_voter_with_an_older_log_is_not_said_to_have_everything(
    tmp_path: Path, offset: int, gone: tuple[str, ...], sign: str
) -> None:
    directory = _older(tmp_path, offset)
    _without(directory, *gone)
    (found,) = read_quorum(directory)
    assert found.has_majority
    assert sign in found.loss()
    assert "whether more was committed is not in these files" in found.loss()
    assert "all metadata that was committed" not in found.loss()


def test_neither_a_deleted_topic_nor_an_epoch_without_leader_and_vote_shows_newer_metadata(tmp_path: Path) -> None:
    """A recovery of the quorum writes such an epoch; a broker may have the log of a topic that was deleted since."""
    directory = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "node")
    path = directory / METADATA / "quorum-state"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "leaderEpoch": state["leaderEpoch"] + 1, "leaderId": -1, "votedId": -1}))
    with Log.open(directory / "gone-0", topic_id="AAAAAAAAAAMAAAAAAAAABA") as log:
        log.append([b"x"])
    assert "gone-0 is of a topic or partition that is not in this metadata" in read_quorum(directory)[0].loss()
    append_metadata(last_log(directory), ("RemoveTopicRecord", 0, {"topic_id": "AAAAAAAAAAMAAAAAAAAABA"}))
    (found,) = read_quorum(directory)
    assert found.later_epoch is None
    assert "all metadata that was committed is in the log" in found.loss()


@pytest.mark.parametrize("sign", ["registration", "vote"])
def test_a_majority_with_an_older_copy_is_not_said_to_have_everything(tmp_path: Path, sign: str) -> None:
    """4.1.1: two of three voters from backups of two moments started, and records that were committed were lost."""
    first, second, third = copied("static", tmp_path, *CONTROLLERS).values()
    end, of_third = read_quorum_log(first).end, read_quorum_log(third).end
    if sign == "registration":
        assert register(3, first, second) == end
        words = f"it ends at offset {of_third}, and node 3 had it up to its registration at offset {end}"
    else:
        for root in (first, second):
            tail(last_log(root), 2, 2, (2, 3), end)
        words = "it knows epoch 1, and node 3 voted in epoch 2"
    (found,) = read_quorum(first, third)
    assert found.has_majority
    assert f"{third} is older than it was ({words}): if there is a newer copy" in found.loss()
    (finding,) = [each for each in found.findings if each.file == str(third / METADATA)]
    assert (finding.code, finding.severity) == (FindingCode.METADATA_INCONSISTENT, Severity.WARNING)
    assert finding.detail == f"it is older than it was: {words}; what was committed since may be lost"
    (whole,) = read_quorum(first, second, third)
    assert "all metadata that was committed is in the log" in whole.loss(), "the others are a majority"
    assert whole.findings == []
    newer = copy_tree(first, tmp_path / "newer")
    meta = newer / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=3"))
    (both,) = read_quorum(first, third, newer)
    assert "all metadata that was committed is in the log" in both.loss(), "there is a newer copy of the same voter"


def test_a_voter_that_was_stopped_before_others_is_not_older_than_it_was(tmp_path: Path) -> None:
    """A broker that was registered need not have its registration yet until it is put into service."""
    first, third = copied("static", tmp_path, 1, 3).values()
    register(3, first, fenced=True)
    tail(last_log(first), 2, 2, (1, 2), read_quorum_log(first).end)
    (found,) = read_quorum(first, third)
    assert "all metadata that was committed is in the log" in found.loss()
    register(3, first)
    (third / METADATA / "quorum-state").unlink()
    assert "is older than it was" in read_quorum(first, third)[0].loss()


def test_leader_epochs_of_partitions_and_a_high_watermark_show_that_the_metadata_is_older(tmp_path: Path) -> None:
    directory = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "whole")
    (directory / "sensors-22-0" / "leader-epoch-checkpoint").write_text("0\n1\n9 0\n")
    assert "sensors-22-0 has leader epoch 9" in read_quorum(directory)[0].loss()
    (directory / "replication-offset-checkpoint").write_text(f"0\n1\n{METADATA[:-2]} 0 150\n")
    assert "150 as the high watermark of the metadata" in read_quorum(directory)[0].loss()


def test_the_only_voter_has_all_that_was_committed_unless_its_files_are_old(tmp_path: Path) -> None:
    root = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "data")
    (quorum,) = read_quorum(root)
    assert quorum.loss().endswith(" of epoch 2, unless these files are an older copy")
    assert "a majority" not in quorum.loss()


def test_a_further_directory_of_a_node_shows_that_its_metadata_is_older(tmp_path: Path) -> None:
    """It is no copy that is left out: what lies in it is compared with the metadata."""
    root = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "data")
    beside = tmp_path / "more"
    beside.mkdir()
    (beside / "meta.properties").write_bytes((root / "meta.properties").read_bytes())
    sound = kafkalog("quorum", "show", root, beside)
    assert (sound.code, "left out" in sound.err) == (0, False)
    assert f"{beside}: a further log directory" in " ".join(sound.out.split())
    assert "unless these files are an older copy" in " ".join(sound.out.split())
    (root / "sensors-22-0").rename(beside / "sensors-22-0")
    (beside / "sensors-22-0" / "leader-epoch-checkpoint").write_text("0\n1\n9 0\n")
    older = kafkalog("quorum", "show", root, beside)
    assert f"{beside}/sensors-22-0 has leader epoch 9" in " ".join(older.out.split())
    assert "unless these files" not in older.out
    for line in ("cluster.id=AAAAAAAAAAAAAAAAAAAABA", "node.id=99"):
        name = line.partition("=")[0]
        text = re.sub(rf"^{re.escape(name)}=.*$", line, (root / "meta.properties").read_text(), flags=re.MULTILINE)
        (beside / "meta.properties").write_text(text)
        other = kafkalog("quorum", "show", root, beside)
        assert (other.code, "left out" in other.err) == (1, True), "it is of another node"
