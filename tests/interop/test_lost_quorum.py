"""Real controllers are killed and lost, and `kafkalog quorum recover` brings the cluster back; a part of the campaign.

What must be as before: topics with ids, settings, access control entries, offsets of groups, records; and then a topic
is created, written and read, and a controller joins.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.cluster.kraft.quorum import read_quorum
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.quorum_trials import Setting, Stage, Trial, run_trial
from testkit.kafka.real_quorum import RealQuorum
from testkit.running.command import kafkalog

pytestmark = pytest.mark.interop
VERSION = "4.4.0"
DYNAMIC, STATIC = Setting(VERSION, 1), Setting("4.3.0", 1, static=True)
TRIALS = [
    Trial(DYNAMIC, "majority", damage="torn"),
    Trial(DYNAMIC, "endpoints"),
    Trial(DYNAMIC, "controllers", damage="flip"),
    Trial(STATIC, "majority"),
    Trial(STATIC, "controllers", dynamic=True),
]
NO_LEADER_SECONDS = 8.0


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name.replace(" ", "-"))
def test_a_lost_quorum_comes_back(
    trial: Trial, stage: Callable[[Setting], Stage], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    told = run_trial(trial, stage(trial.setting), tmp_path / "trial")
    assert told["records"] == 30
    if not trial.setting.static or trial.dynamic:
        assert told["bytes"] > 0
        assert told["voters_afterwards"] > 1
    compared("records that a consumer reads again after a lost quorum was brought back", told["records"])


def test_without_it_there_is_no_leader_and_undo_goes_back_to_that(
    stage: Callable[[Setting], Stage], tmp_path: Path
) -> None:
    """The control: the same survivor does not elect itself, neither before nor once all was taken back."""
    made = stage(DYNAMIC)
    shutil.copytree(made.place, tmp_path / "trial")
    with RealQuorum(VERSION, tmp_path / "trial", brokers=(11,)) as quorum:
        quorum.cluster_id, quorum.ports, quorum.controllers = made.cluster_id, dict(made.ports), [1]
        quorum.lose(2, 3)
        words = ("quorum", "recover", "--yes", "--others-are-gone", "--standalone", quorum[1])
        assert kafkalog(*words).code == 2
        assert kafkalog("undo", "--yes", quorum[1]).code == 2
        quorum.start(1)
        assert not quorum.has_leader(NO_LEADER_SECONDS)
        quorum.kill(1)
        assert kafkalog(*words).code == 2
        quorum.start(1)
        assert quorum.has_leader(60.0)


def test_dead_controllers_that_come_back_all_the_same_are_seen_in_the_files(
    stage: Callable[[Setting], Stage], tmp_path: Path
) -> None:
    """They find each other before the survivor starts, and elect: two quorums, told apart by their logs."""
    made = stage(DYNAMIC)
    shutil.copytree(made.place, tmp_path / "trial")
    with RealQuorum(VERSION, tmp_path / "trial", brokers=(11,)) as quorum:
        quorum.cluster_id, quorum.ports = made.cluster_id, dict(made.ports)
        words = ("quorum", "recover", "--yes", "--others-are-gone", "--standalone", quorum[1])
        assert kafkalog(*words).code == 2
        quorum.start(2, 3)
        quorum.controllers = [2, 3]
        assert quorum.has_leader(60.0)
        time.sleep(2)
        quorum.kill()
        (found,) = read_quorum(*(quorum[each] for each in (1, 2, 3)))
        finished = kafkalog("quorum", "show", *(quorum[each] for each in (1, 2, 3)))
    assert finished.code == 1
    assert any("two quorums have led" in str(each) for each in found.findings), found.findings


def test_what_has_become_too_old_goes_at_the_first_start_and_stays_with_the_lines_of_the_plan(tmp_path: Path) -> None:
    """Records of a month ago in a topic that keeps a day: the plan counts them, and a broker does as it says."""
    month_ago = int(time.time() * 1000) - 30 * 86_400_000
    old = [{"partition": 0, "ts": month_ago + each, "k": "aw==", "v": "dg=="} for each in range(20)]
    place = tmp_path / "base"
    patient = {"log.initial.task.delay.ms": 86_400_000}
    with kafka_needed(), RealQuorum(VERSION, place, brokers=(11,), settings=patient) as q:
        q.start(1, 2, 3, 11)
        q.client("create", topic="old", partitions=1, replicas=1, config={"retention.ms": "86400000"})
        q.client("produce", topic="old", records=old)
        q.ask("commit", group="billing", topic="old", partition=0, offset=7)
        q.kill()
        known = q.cluster_id, dict(q.ports)
    kept = {}
    for prevented in (False, True):
        shutil.copytree(place, tmp_path / str(prevented))
        with RealQuorum(VERSION, tmp_path / str(prevented), brokers=(11,)) as q:
            q.cluster_id, q.ports, q.controllers = known[0], dict(known[1]), [1]
            words = ("--others-are-gone", "--standalone", q[1], "--broker", q[11])
            finished = kafkalog("quorum", "recover", "--yes", "--json", *words)
            assert finished.code == 2
            told = finished.objects[0]
            assert [(each["name"], each["partition"], each["setting"], each["count"]) for each in told["expiry"]] == [
                ("old", 0, "retention.ms", 1)
            ]
            if prevented:
                (lines,) = (each["lines"] for each in told["configuration"] if "may go" in each["for"])
                q.configure(**{name.replace(".", "_"): value for name, value in (line.split("=", 1) for line in lines)})
            q.start(1, 11)
            kept[prevented] = _settled(q)
    assert kept == {False: 0, True: 20}


def _settled(quorum: RealQuorum) -> int:
    """How many records a consumer gets once retention has had its time."""
    counts: list[int] = []
    deadline = time.monotonic() + 25
    while time.monotonic() < deadline and (not counts or counts[-1]):
        counts.append(len(quorum.records({"old": 1})["old-0"]["records"]))
        time.sleep(2)
    return counts[-1]
