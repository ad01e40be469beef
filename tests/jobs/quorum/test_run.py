"""A quorum brought back from recorded disks: what is written, what is refused, and that all of it can be taken back."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from json_pages import validator
from kafkalog import UsageError, runs, undo
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.quorum import read_quorum
from kafkalog.cluster.kraft.quorum_log import QuorumLog, read_quorum_log
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.files.text import encode_uuid
from kafkalog.jobs.quorum.request import QuorumRecovery, QuorumWay
from kafkalog.jobs.quorum.run import plan_quorum, recover_quorum
from kafkalog.log import open_partition
from testkit.judging.trees import contents, copy_tree, first_difference, stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import quorum_expected
from testkit.recorded.quorums import (
    BROKER,
    CONTROLLERS,
    METADATA,
    NAMES,
    copied,
    flip,
    last_log,
    lean,
    node,
    take_out,
    tear,
)
from testkit.running.command import Finished, kafkalog
from testkit.running.lock_holder import held
from testkit.running.shares import EACH
from testkit.running.stopping import Stopped, complete_what_began, disturbed, just_before, take_back_all

AT = 1_800_000_000_000
GONE = ("--others-are-gone", "--yes")


def run(*words: object) -> Finished:
    return kafkalog("quorum", "recover", *words)


def lines_for_all(finished: Finished) -> list[str]:
    """What every node's properties must say."""
    told = finished.objects[0]["configuration"]
    (lines,) = (each["lines"] for each in told if each["for"].startswith("every controller and broker"))
    found: list[str] = lines
    return found


def image(directory: Path) -> dict[str, object]:
    """All of the metadata but what changes by itself."""
    found = MetadataLog(open_partition(directory / METADATA)).state().image
    return {
        "topics": {name: (topic.id, topic.partitions) for name, topic in found.topics.items()},
        "configs": found.configs,
        "acls": found.acls,
        "features": found.features,
        "brokers": found.brokers,
    }


def unchanged(place: Path, before: dict[str, tuple[int, int, str]]) -> None:
    assert first_difference(dict(stamps(place)), dict(before)) == ""


@pytest.mark.parametrize("name", ["dynamic", "snapshots"])
def test_one_controller_becomes_the_quorum(name: str, tmp_path: Path) -> None:
    at = copied(name, tmp_path, 1)
    before, kept = read_quorum_log(at[1]), stamps(at[1])
    metadata = image(at[1])
    finished = run("--standalone", at[1], "--json", *GONE)
    assert finished.code == 2, finished.err
    (line,) = finished.objects
    after = read_quorum_log(at[1])
    assert line["bytes_appended"] == 128
    assert after.voter_ids == (1,)
    assert after.is_voter
    assert after.voters_offset == before.end
    assert after.position == (before.latest_epoch + 1, before.end + 1)
    assert after.findings == []
    assert after.state is not None
    assert (after.state.leader_id, after.state.voted_id, after.state.leader_epoch) == (-1, -1, after.epoch)
    assert image(at[1]) == metadata
    assert after.voters[0].endpoints == next(each for each in before.voters if each.voter_id == 1).endpoints
    assert sorted(line["stay_dead"]) == [2, 3]
    (kept_run,) = kafkalog("runs", "--json", at[1]).objects[0]["runs"]
    assert (kept_run["mode"], kept_run["undoable"]) == ("quorum", True)
    undo(at[1])
    assert first_difference(dict(stamps(at[1])), dict(kept)) == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_second_time_there_is_nothing_to_do(name: str, tmp_path: Path) -> None:
    at = copied(name, tmp_path, 1)
    assert run("--standalone", at[1], *GONE).code == 2
    again = contents(at[1])
    finished = run("--standalone", at[1], "--json", *GONE)
    assert finished.code == 0 if not name.endswith("static") else finished.code in (0, 2)
    if not name.endswith("static"):
        assert contents(at[1]) == again


def test_a_torn_end_is_cut_before_the_batch_is_written(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    tear(at[1])
    torn = read_quorum_log(at[1])
    assert run("--standalone", at[1], *GONE).code == 2
    after = read_quorum_log(at[1])
    assert after.findings == []
    assert after.end == torn.end + 1
    assert after.voters_offset == torn.end
    assert after.voter_ids == (1,)


def test_all_end_with_the_best_log_and_new_endpoints(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, *CONTROLLERS)
    best = read_quorum_log(at[1])
    metadata = image(at[1])
    words = [word for each in CONTROLLERS for word in ("--endpoint", f"{each}=controller-{each}:9{each}93")]
    finished = run(*words, "--json", "--yes", *at.values())
    assert finished.code == 2, finished.err
    for each in CONTROLLERS:
        after = read_quorum_log(at[each])
        assert after.position == (best.latest_epoch + 1, best.end + 1)
        assert {voter.voter_id: voter.endpoints[0] for voter in after.voters}[each].host == f"controller-{each}"
        assert {voter.voter_id: voter.endpoints[0].port for voter in after.voters} == {1: 9193, 2: 9293, 3: 9393}
        assert after.is_voter
        assert image(at[each]) == metadata
    logs = [[path.read_bytes() for path in sorted((at[each] / METADATA).glob("*.log"))] for each in CONTROLLERS]
    assert logs[0] == logs[1] == logs[2]
    (line,) = finished.objects
    assert line["stay_dead"] == []
    bootstrap = "controller.quorum.bootstrap.servers=controller-1:9193,controller-2:9293,controller-3:9393"
    assert lines_for_all(finished) == [bootstrap]
    for each in CONTROLLERS:
        assert run(*words, "--json", "--yes", *at.values()).code == 0, "nothing is left to do"
        undo(at[each])
        assert first_difference(dict(stamps(at[each])), dict(stamps(node("dynamic", each)))) == ""
        at = copied("dynamic", tmp_path / str(each), *CONTROLLERS)
        assert run(*words, "--yes", *at.values()).code == 2


def test_a_brokers_copy_becomes_a_controller(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, BROKER)
    before, untouched = read_quorum_log(at[BROKER]), stamps(at[BROKER])
    into = tmp_path / "new"
    words = ("--from-broker", at[BROKER], "--node", 9, "--endpoint", "controller-9:9093", "--into", into)
    assert run(*words, "--yes").code == 3, "three controllers may be alive"
    finished = run(*words, "--json", *GONE)
    assert finished.code == 0, finished.err
    after = read_quorum_log(into)
    assert after.node == 9
    assert after.cluster_id == quorum_expected("dynamic")["cluster_id"]
    assert after.is_voter
    assert after.voter_ids == (9,)
    assert after.position == (before.latest_epoch + 1, before.end + 1)
    assert image(into) == image(at[BROKER])
    unchanged(at[BROKER], untouched)
    assert sorted(finished.objects[0]["stay_dead"]) == [1, 2, 3]
    assert run(*words, *GONE).code == 64, "--into is not empty"


def test_static_voters_stay_in_the_configuration_or_become_dynamic(tmp_path: Path) -> None:
    at = copied("static", tmp_path, 1)
    finished = run("--standalone", at[1], "--json", *GONE)
    assert finished.code == 2, finished.err
    (line,) = finished.objects
    assert line["static"]
    assert line["bytes_appended"] == 0
    assert lines_for_all(finished)[0].startswith("controller.quorum.voters=1@127.0.0.1:")
    after = read_quorum_log(at[1])
    assert after.is_static
    assert after.state is not None
    assert after.state.current_voters == (1,)
    assert after.state.leader_epoch == after.epoch + 1
    other = copied("static", tmp_path / "dynamic", 1)
    finished = run("--standalone", other[1], "--dynamic", "--json", *GONE)
    assert finished.code == 2, finished.err
    (line,) = finished.objects
    assert line["bytes_appended"] == 144
    after = read_quorum_log(other[1])
    assert not after.is_static
    assert after.voter_ids == (1,)
    assert after.state is not None
    assert after.state.data_version == 1


def test_static_voters_that_have_all_moved_need_no_change_of_files(tmp_path: Path) -> None:
    at = copied("static", tmp_path, 1, 2)
    before = stamps(tmp_path)
    finished = run("--voters", "1@a:1,2@b:2", "--json", *GONE, at[1], at[2])
    assert finished.code == 2, "one of three is gone: the epoch is raised"
    assert lines_for_all(finished) == ["controller.quorum.voters=1@a:1,2@b:2"]
    for each in (1, 2):
        undo(at[each])
    for path in tmp_path.glob("*.recovery"):
        assert path.is_dir()
    assert {name: what for name, what in stamps(tmp_path).items() if ".recovery" not in name and name != "."} == {
        name: what for name, what in before.items() if name != "."
    }


# --- refused, with nothing changed


def refused(place: Path, *words: object, reason: str) -> str:
    before = stamps(place)
    finished = run(*words)
    assert finished.code == 3, (finished.code, finished.err, finished.out)
    assert finished.err.count("\n") == 1, finished.err
    assert reason in finished.err, finished.err
    told = run(*words, "--json")
    assert told.code == 3
    (line,) = told.objects
    assert told.err == finished.err
    assert finished.err.endswith(f"{line['refusal']}\n")
    assert (line["changed"], line["runs"]) == (False, [])
    validator("quorum-recover").validate(line)
    unchanged(place, before)
    return finished.err


def test_other_voters_are_named(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    said = refused(tmp_path, "--standalone", at[1], "--yes", reason="--others-are-gone")
    assert "2 at 127.0.0.1:" in said
    assert "3 at 127.0.0.1:" in said


def test_two_clusters(tmp_path: Path) -> None:
    one, other = copied("dynamic", tmp_path / "a", 1), copied("static", tmp_path / "b", 2)
    refused(tmp_path, "--standalone", one[1], other[2], *GONE, reason="2 clusters")


def test_a_majority_is_left(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, 2)
    refused(tmp_path, "--standalone", at[1], at[2], *GONE, reason="a majority")


def test_a_brokers_directory(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, BROKER)
    refused(tmp_path, "--standalone", at[BROKER], *GONE, reason="--from-broker")
    into = ("--node", 9, "--endpoint", "h:1", "--into", tmp_path / "new")
    refused(tmp_path, "--from-broker", at[1], *into, *GONE, reason="--standalone")
    clash = ("--node", BROKER, "--endpoint", "h:1", "--into", tmp_path / "new")
    refused(tmp_path, "--from-broker", at[BROKER], *clash, *GONE, reason="is a broker of this cluster")


@pytest.mark.parametrize("which", [1, BROKER])
def test_somebody_is_using_a_directory(which: int, tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, BROKER)
    with held(at[which] / ".lock"):
        refused(tmp_path, "--standalone", at[1], "--broker", at[BROKER], *GONE, reason="locked")


def test_no_consent_and_no_terminal(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    refused(tmp_path, "--standalone", at[1], "--others-are-gone", reason="--yes")


def test_damage_needs_consent(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    flip(last_log(at[1]), last_log(at[1]).stat().st_size // 2)
    refused(tmp_path, "--standalone", at[1], *GONE, reason="--accept-loss")
    damaged = read_quorum_log(at[1])
    assert run("--standalone", at[1], "--accept-loss", *GONE).code == 2
    after = read_quorum_log(at[1])
    assert after.end == damaged.end + 1
    assert after.findings == []


def test_a_hole_in_the_only_log(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    gone = take_out(at[1])
    first, last = gone.base_offset, gone.next_offset - 1
    refused(tmp_path, "--standalone", at[1], *GONE, reason=f"offsets {first} to {last} are missing")


@pytest.mark.parametrize("epoch", [2**31 - 1, 2**31 - 2])
def test_an_epoch_that_no_cluster_reaches(epoch: int, tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    state = at[1] / METADATA / "quorum-state"
    state.write_text(re.sub(r'("leaderEpoch":)\d+', rf"\g<1>{epoch}", state.read_text()))
    assert str(epoch) in state.read_text()
    refused(tmp_path, "--standalone", at[1], *GONE, reason=f"quorum-state names epoch {epoch}")


def test_a_flipped_bit_is_corrected_first_and_nothing_is_lost(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    metadata, end = image(at[1]), read_quorum_log(at[1]).end
    flip(last_log(at[1]), last_log(at[1]).stat().st_size // 2)
    corrected = kafkalog("recover", "--cluster-metadata", "--full", "--repair-bits", "structure", "--yes", at[1])
    assert corrected.code == 2
    assert run("--standalone", at[1], *GONE).code == 2
    assert read_quorum_log(at[1]).end == end + 1
    assert image(at[1]) == metadata


def test_a_damaged_snapshot_is_set_aside_where_an_older_one_stands_for_it(tmp_path: Path) -> None:
    at = copied("snapshots", tmp_path, 1)
    metadata = image(at[1])
    newest = max((at[1] / METADATA).glob("*.checkpoint"))
    flip(newest, newest.stat().st_size // 2)
    finished = run("--standalone", at[1], "--json", *GONE)
    assert finished.code == 2, finished.err
    assert any("damaged snapshot" in each for each in finished.objects[0]["warnings"])
    assert not newest.exists()
    assert image(at[1]) == metadata
    for path in (at[1] / METADATA).glob("*.checkpoint"):
        path.unlink()
    refused(tmp_path, "--standalone", at[1], *GONE, reason="no snapshot reaches there")


def test_the_better_log_that_was_given_goes_on(tmp_path: Path) -> None:
    told = quorum_expected("dynamic")
    at = copied("dynamic", tmp_path, told["behind"], BROKER)
    metadata = image(at[BROKER])
    words = ("--standalone", at[told["behind"]], "--broker", at[BROKER])
    finished = run(*words, "--json", *GONE)
    assert finished.code == 2, finished.err
    assert finished.objects[0]["donor"] == str(at[BROKER])
    assert image(at[told["behind"]]) == metadata
    assert "later" in MetadataLog(open_partition(at[told["behind"]] / METADATA)).state().image.topics


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--standalone", "x", "--from-broker", "y"),
        ("--from-broker", "x"),
        ("--endpoint", "nonsense"),
        ("--endpoint", "1=host:99999", "."),
        ("--voters", "1=a:1", "."),
        ("--endpoint", "host:1", "."),
        ("--standalone", "nowhere"),
    ],
)
def test_what_makes_no_sense(words: tuple[str, ...]) -> None:
    finished = run(*words, *GONE)
    assert finished.code == 64
    assert finished.err.count("\n") == 1


def test_an_endpoint_of_nobody(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    refused(tmp_path, "--standalone", at[1], "--endpoint", "2=h:1", *GONE, reason="node 2")
    refused(tmp_path, "--standalone", at[1], "--voters", "1@h:1,2@h:2", *GONE, reason="--")


def test_a_single_recorded_node_of_each_release(tmp_path: Path) -> None:
    for case in ("3.9.1/metadata", "4.1.1/metadata", "4.3.0/metadata"):
        copy = own_copy(brokers(case)[0], tmp_path / case.replace("/", "-"))
        metadata = image(copy)
        before = stamps(copy)
        ours = read_quorum_log(copy).node
        finished = run("--standalone", copy, "--endpoint", f"{ours}=moved:9093", *GONE)
        assert finished.code in (0, 2), finished.err
        assert image(copy) == metadata
        if finished.code == 2:
            undo(copy)
        unchanged(copy, before)


# --- stopped anywhere


ALONE = QuorumRecovery(way=QuorumWay.STANDALONE, others_are_gone=True, at=AT, stamp=AT)


def wanted(at: dict[int, Path]) -> QuorumRecovery:
    endpoints = {each: ("moved", 9000 + each) for each in at}
    return QuorumRecovery(
        way=QuorumWay.TOGETHER,
        endpoints=endpoints,
        others_are_gone=True,
        at=AT,
        stamp=AT,
    )


def some_of(count: int, most: int) -> list[int]:
    """Numbers of operations: the first, the last, and some between them, where one file after another is moved."""
    edge = most // 3
    if count <= most:
        return list(range(1, count + 1))
    between = range(edge + 1, count - edge + 1, -(-(count - 2 * edge) // edge))
    return [*range(1, edge + 1), *between, *range(count - edge + 1, count + 1)]


@EACH
@pytest.mark.parametrize("name", ["dynamic", "static", pytest.param("snapshots", marks=pytest.mark.sweep)])
def test_stopped_anywhere_it_is_completed_and_taken_back(
    name: str, each: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    original = lean(copied(name, tmp_path / "original", 3)[3])
    before = stamps(original)
    undisturbed = copy_tree(original, tmp_path / "undisturbed")
    recover_quorum(ALONE, undisturbed)
    want = contents(undisturbed)
    counted = copy_tree(original, tmp_path / "counted")
    with just_before(0, lambda: None, monkeypatch) as operations:
        recover_quorum(ALONE, counted)
    shutil.rmtree(counted)
    stops = some_of(operations[0], 60 if os.environ.get("KAFKALOG_SWEEP") == "ci" else 300)
    for number in stops[::each]:
        again = copy_tree(original, tmp_path / "again")
        assert disturbed(lambda: recover_quorum(ALONE, again), number, Stopped, monkeypatch), number  # noqa: B023
        told = [found.code for found in read_quorum(again)[0].findings]
        assert (FindingCode.RUN_UNFINISHED in told) is any(run.is_unfinished for run in runs(again)), number
        if number % 2:
            complete_what_began(again)
            recover_quorum(ALONE, again)
            assert first_difference(dict(contents(again)), dict(want)) == "", number
        take_back_all(again, before, f"operation {number}", None)
    assert len(stops) > 10
    measured("returns of a quorum stopped before one of their changes, completed or undone", len(stops[::each]))


@pytest.mark.sweep
def test_two_controllers_stopped_anywhere_end_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    original = {each: lean(path) for each, path in copied("dynamic", tmp_path / "original", 1, 3).items()}
    undisturbed = {each: copy_tree(path, tmp_path / f"undisturbed-{each}") for each, path in original.items()}
    recover_quorum(wanted(undisturbed), *undisturbed.values())
    want = {each: contents(undisturbed[each]) for each in (1, 3)}
    number = 0
    while True:
        number += 1
        at = {each: copy_tree(path, tmp_path / f"again-{each}") for each, path in original.items()}
        if not disturbed(lambda: recover_quorum(wanted(at), *at.values()), number, Stopped, monkeypatch):  # noqa: B023
            break
        if number % 2:
            for each in (1, 3):
                complete_what_began(at[each])
            recover_quorum(wanted(at), *at.values())
            for each in (1, 3):
                assert first_difference(dict(contents(at[each])), dict(want[each])) == "", (number, each)
        for each in (1, 3):
            take_back_all(at[each], stamps(original[each]), f"operation {number} of {each}", None)
    assert number > 20
    measured("returns of two controllers stopped before each of their changes, completed or undone", number - 1)


def test_a_directory_that_changed_since_the_plan_is_left_alone(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    made = plan_quorum(ALONE, at[1])
    made.close()
    log = last_log(at[1])
    os.utime(log, ns=(1, 1))
    before = stamps(tmp_path)
    with pytest.raises(Exception, match="changed since the plan was made"):
        recover_quorum(ALONE, at[1], expected=made)
    unchanged(tmp_path, before)


def rank(*logs: QuorumLog) -> list[int | None]:
    (found,) = read_quorum(*(each.root for each in logs))
    return [each.log.node for each in found.survivors]


def test_the_new_quorum_outranks_those_who_were_lost(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, *CONTROLLERS)
    behind = quorum_expected("dynamic")["behind"]
    assert rank(*map(read_quorum_log, at.values()))[-1] == behind
    assert run("--standalone", at[behind], *GONE).code == 2
    assert rank(*map(read_quorum_log, at.values()))[0] == behind
    finished = kafkalog("quorum", "show", *at.values())
    assert finished.code == 1, "they hold what the new one does not"
    assert "differs" in finished.out


def test_a_new_controller_gets_the_directory_id_of_its_plan(tmp_path: Path) -> None:
    """The plan names it, and `meta.properties` and the voters in the log have it."""
    broker = lean(copied("dynamic", tmp_path, BROKER)[BROKER])
    into = tmp_path / "new"
    request = QuorumRecovery(
        way=QuorumWay.FROM_BROKER, brokers=(str(broker),), node=9, endpoints={9: ("h", 1)}, into=str(into),
        others_are_gone=True,
    )  # fmt: skip
    planned, other = plan_quorum(request), plan_quorum(request)
    assert planned.identity is not None
    assert planned.identity != other.identity
    recover_quorum(request, expected=planned)
    written = re.findall(r"^directory.id=(.*)$", (into / "meta.properties").read_text(), re.MULTILINE)
    assert (9, *written) == planned.identity
    voters = read_quorum_log(into).voters
    assert [(each.voter_id, encode_uuid(each.directory_id)) for each in voters] == [planned.identity]


def test_a_new_controller_is_made_in_no_directory_that_there_is(tmp_path: Path) -> None:
    way = QuorumWay.FROM_BROKER
    request = QuorumRecovery(way=way, brokers=("broker",), node=9, endpoints={9: ("h", 1)}, into="new")
    for call in (plan_quorum, recover_quorum):
        with pytest.raises(UsageError, match="name no directories to change"):
            call(request, tmp_path)


@pytest.mark.parametrize("directory_id", ["garbage", "AAAAAAAAAAAAAAAAAAAAAQ", ""])
def test_a_new_controller_has_no_directory_id_that_kafka_refuses(directory_id: str) -> None:
    request = QuorumRecovery(
        way=QuorumWay.FROM_BROKER, brokers=("broker",), node=9, endpoints={9: ("h", 1)}, into="new",
        directory_id=directory_id,
    )  # fmt: skip
    for call in (plan_quorum, recover_quorum):
        with pytest.raises(UsageError, match="no controller starts with it"):
            call(request)


def test_a_controller_that_is_being_made_and_is_stopped_anywhere_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """Without `meta.properties` no process starts on it; with it, it is all there.  The broker's disk is left alone."""
    broker = lean(copied("dynamic", tmp_path, BROKER)[BROKER])
    before = stamps(broker)

    def make(into: Path) -> None:
        request = QuorumRecovery(
            way=QuorumWay.FROM_BROKER, brokers=(str(broker),), node=9, endpoints={9: ("h", 1)}, into=str(into),
            directory_id="KBeF-DP8TEu5yBtxn69_Fg", others_are_gone=True, at=AT, stamp=AT,
        )  # fmt: skip
        recover_quorum(request)

    make(tmp_path / "undisturbed")
    want = contents(tmp_path / "undisturbed")
    number = 0
    while True:
        number += 1
        into = tmp_path / f"new-{number}"
        went_on = disturbed(lambda: make(into), number, Stopped, monkeypatch)  # noqa: B023
        unchanged(broker, before)
        if (into / "meta.properties").exists():
            assert first_difference(dict(contents(into)), dict(want)) == "", number
        if not went_on:
            break
    assert number > 5
    measured("controllers made of a broker's copy that were stopped before each change", number - 1)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["dynamic", "snapshots"])
def test_whatever_is_cut_short_is_refused_or_brought_back(name: str, tmp_path: Path) -> None:
    original = lean(copied(name, tmp_path, 1)[1])
    for number, path in enumerate(sorted((original / METADATA).iterdir())):
        if path.suffix in (".index", ".timeindex", ".snapshot") or (name == "snapshots" and number % 7):
            continue
        copy = copy_tree(original, tmp_path / f"copy-{number}")
        victim = copy / METADATA / path.name
        victim.chmod(0o600)
        with victim.open("r+b") as file:
            file.truncate(victim.stat().st_size // 2)
        finished = run("--standalone", copy, "--json", *GONE)
        assert finished.code in (2, 3), (path.name, finished.err)
        assert "unexpected" not in finished.err
        if finished.code == 2:
            assert not read_quorum_log(copy).is_damaged, path.name
        shutil.rmtree(copy)
