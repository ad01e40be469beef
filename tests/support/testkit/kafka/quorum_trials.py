"""Trials of `kafkalog quorum recover` on real processes: a cluster is killed, loses disks, and is brought back.

A cluster is set up once for several trials: what its nodes left on their disks when all were killed is copied for each.
"""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from kafkalog.recovery.facts.topic_facts import directory_id_of
from testkit.kafka.kafka_jars import number
from testkit.kafka.kafka_oracle import Json
from testkit.kafka.real_quorum import ALWAYS_SNAPSHOTS, QuorumError, RealQuorum, new_uuid
from testkit.recorded.quorums import METADATA, flip, last_log, tear
from testkit.running.command import kafkalog

__all__ = ["Setting", "Stage", "Trial", "run_trial", "set_stage"]

CONTROLLERS = (1, 2, 3)
JOINING, MADE = 5, 9
"""a controller that joins afterwards, and the one that is made of a broker's copy"""
WITH_SNAPSHOT_SECONDS = 150
TOPIC, GROUP, AFTER = "orders", "billing", "after"


@dataclass(frozen=True)
class Setting:
    """A cluster as it was before anything was lost."""

    version: str
    brokers: int
    snapshot: bool = False
    static: bool = False

    @property
    def nodes(self) -> tuple[int, ...]:
        """Ids of the brokers."""
        return tuple(range(11, 11 + self.brokers))


@dataclass(frozen=True)
class Trial:
    """What is lost, and how the rest is damaged."""

    setting: Setting
    lost: str
    """majority, endpoints, controllers (all of them), or brokers (all controllers, and all brokers but one)"""
    rf: int = 1
    damage: str = "none"
    """none; torn: the last batch of each metadata log is cut short; flip: a bit in the middle, corrected first"""
    dynamic: bool = False
    """static voters become dynamic ones"""

    @property
    def name(self) -> str:
        """In words, for counts and resuming."""
        kind = ("static to dynamic" if self.dynamic else "static") if self.setting.static else "dynamic"
        log = "snapshot" if self.setting.snapshot else "no snapshot"
        return f"{self.setting.version}, {kind}, {log}, RF {self.rf}: {self.lost} lost, damage {self.damage}"


@dataclass
class Stage:
    """A killed cluster's disks, and what its clients had seen."""

    setting: Setting
    place: Path
    cluster_id: str
    ports: dict[int, int]
    directory_ids: dict[int, str]
    facts: Json
    records: Json
    replicas: dict[str, list[int]]


def _options(setting: Setting) -> Json:
    settings: Json = {"min.insync.replicas": 1, "offsets.topic.replication.factor": setting.brokers}
    return {
        "controllers": CONTROLLERS,
        "brokers": setting.nodes,
        "static": setting.static,
        "settings": {**settings, **(ALWAYS_SNAPSHOTS if setting.snapshot else {})},
    }


def _payload(count: int, partitions: int) -> list[Json]:
    return [
        {"partition": each % partitions, "k": "aw==", "v": base64.b64encode(b"value %d" % each).decode()}
        for each in range(count)
    ]


def set_stage(setting: Setting, place: Path) -> Stage:
    """Start a cluster, let it live a little, kill it."""
    with RealQuorum(setting.version, place, **_options(setting)) as quorum:
        quorum.start_in_order(*setting.nodes)
        for rf in {1, setting.brokers}:
            topic = f"{TOPIC}-{rf}"
            config = {"retention.ms": "86400000", "min.insync.replicas": "1"}
            quorum.client("create", topic=topic, partitions=3, replicas=rf, config=config)
            quorum.ask("grant", user="alice", topic=topic)
            quorum.client("produce", topic=topic, records=_payload(30, 3))
            quorum.ask("commit", group=GROUP, topic=topic, partition=1, offset=4)
        if setting.snapshot:
            _until_snapshots(quorum)
        facts, records = quorum.ask("facts"), _read(quorum, setting)
        quorum.kill()
        replicas = {
            f"{topic}-{each['number']}": each["replicas"]
            for topic, told in facts["topics"].items()
            for each in told["partitions"]
        }
        return Stage(
            setting, place, quorum.cluster_id, dict(quorum.ports), dict(quorum.directory_ids), facts, records, replicas
        )


def _until_snapshots(quorum: RealQuorum) -> None:
    """Until the beginning of every controller's log is gone."""
    deadline = time.monotonic() + WITH_SNAPSHOT_SECONDS
    count = 0
    while any(read_quorum_log(quorum[each]).start == 0 for each in CONTROLLERS):
        if time.monotonic() > deadline:
            raise QuorumError("no old metadata was deleted")
        quorum.client("create", topic=f"more-{count}", partitions=1, replicas=1, config={})
        count += 1
        time.sleep(5)


def _read(quorum: RealQuorum, setting: Setting) -> Json:
    return quorum.records({f"{TOPIC}-{rf}": 3 for rf in {1, setting.brokers}})


def run_trial(
    trial: Trial, stage: Stage, place: Path, by: Callable[[RealQuorum], Json] | None = None
) -> Json:
    """Lose, damage, bring back with the command, start what is left, and compare; raises if anything differs.

    `by` brings it back in another way than by the command that the trial stands for.
    """
    begun = time.monotonic()
    setting = trial.setting
    shutil.copytree(stage.place, place, symlinks=True)
    with RealQuorum(setting.version, place, **_options(setting)) as quorum:
        quorum.cluster_id, quorum.ports = stage.cluster_id, dict(stage.ports)
        quorum.directory_ids = dict(stage.directory_ids)
        brokers = setting.nodes[:1] if trial.lost == "brokers" else setting.nodes
        _lose(trial, quorum, brokers)
        _damage(trial, quorum, brokers[0])
        told = _recover(trial, quorum, brokers) if by is None else by(quorum)
        seconds = time.monotonic() - begun
        quorum.start_in_order(*brokers)
        quorum.brokers = list(brokers)
        compared = _compare(trial, quorum, stage, brokers)
        _use(trial, quorum)
        voters = _join(trial, quorum)
        quorum.kill()
    return {
        "trial": trial.name,
        "epoch": told.get("epoch"),
        "bytes": told.get("bytes_appended"),
        "recover_seconds": round(seconds, 1),
        "seconds": round(time.monotonic() - begun, 1),
        "voters_afterwards": voters,
        **compared,
    }


def _lose(trial: Trial, quorum: RealQuorum, brokers: tuple[int, ...]) -> None:
    if trial.lost == "majority":
        quorum.lose(2, 3)
        quorum.controllers = [1]
    elif trial.lost == "endpoints":
        quorum.move(*CONTROLLERS)
    else:
        quorum.lose(*CONTROLLERS)
        quorum.lose(*(each for each in trial.setting.nodes if each not in brokers))
        quorum.controllers = [MADE]
        quorum.move(MADE)
        quorum.directory_ids = {MADE: new_uuid()}


def _damage(trial: Trial, quorum: RealQuorum, broker: int) -> None:
    """To the logs that are left; where three are, one of them stays as it is."""
    left = {"majority": [1], "endpoints": [1, 2]}.get(trial.lost, [broker])
    for node in left:
        log = last_log(quorum[node])
        if trial.damage == "torn":
            tear(quorum[node])
        elif trial.damage == "flip":
            logs = sorted((quorum[node] / METADATA).glob("*.log"), key=lambda path: path.stat().st_size)
            log = logs[-1]
            flip(log, log.stat().st_size // 2)
            if trial.lost != "endpoints":
                _changed("recover", "--cluster-metadata", "--full", "--repair-bits", "structure", "--yes", quorum[node])


def _changed(*words: object) -> Json:
    """A command that must change something; its one line of JSON."""
    finished = kafkalog(*words, "--json")
    assert finished.code == (0 if "--into" in words else 2), (words, finished.code, finished.err)
    line: Json = finished.objects[-1]
    return line


def _recover(trial: Trial, quorum: RealQuorum, brokers: tuple[int, ...]) -> Json:
    words: list[Any] = ["quorum", "recover", "--yes"]
    endpoints = [word for each in quorum.controllers for word in ("--endpoint", f"{each}={quorum.endpoint(each)}")]
    if trial.dynamic:
        words.append("--dynamic")
        quorum.is_static = False
    if trial.lost == "majority":
        return _changed(*words, "--others-are-gone", "--standalone", quorum[1])
    if trial.lost == "endpoints":
        words += [*endpoints, *(quorum[each] for each in CONTROLLERS)]
        if trial.setting.static and not trial.dynamic and trial.damage == "none":
            return _nothing_to_do(words)
        return _changed(*words)
    words += ["--others-are-gone", "--from-broker", quorum[brokers[0]], "--node", MADE, *endpoints]
    for each in brokers[1:]:
        words += ["--broker", quorum[each]]
    return _changed(*words, "--into", quorum[MADE])


def _nothing_to_do(words: list[Any]) -> Json:
    """Static voters that have moved: the configuration says all."""
    finished = kafkalog(*words, "--json")
    assert finished.code in (0, 2), finished.err
    line: Json = finished.objects[-1]
    return line


def _compare(trial: Trial, quorum: RealQuorum, stage: Stage, brokers: tuple[int, ...]) -> Json:
    facts = quorum.ask("facts")
    for name in ("topics", "settings", "acls"):
        assert facts[name] == stage.facts[name], (trial.name, name, facts[name], stage.facts[name])
    features = {name: level for name, level in facts["features"].items() if name != "kraft.version"}
    assert features == {name: level for name, level in stage.facts["features"].items() if name != "kraft.version"}
    topic = f"{TOPIC}-{trial.rf}"
    if trial.lost == "brokers":
        _elect_anybody(
            quorum, [name for name, nodes in stage.replicas.items() if len(nodes) > 1 and set(nodes) & set(brokers)]
        )
    served = {name for name, nodes in stage.replicas.items() if set(nodes) & set(brokers)}
    wanted = {name: each for name, each in stage.records.items() if name in served and name.startswith(topic + "-")}
    got = _partitions(quorum, topic, wanted)
    assert _without_epochs(got) == _without_epochs(wanted), (trial.name, json.dumps(got)[:600])
    assert wanted
    if "__consumer_offsets-0" in served:
        groups = _groups(quorum)
        assert groups == stage.facts["groups"], (trial.name, groups)
    return {"records": sum(len(each["records"]) for each in wanted.values()), "topics": len(facts["topics"])}


def _groups(quorum: RealQuorum) -> Json:
    groups: Json = quorum.ask("facts")["groups"]
    deadline = time.monotonic() + 60
    while not groups.get(GROUP) and time.monotonic() < deadline:
        time.sleep(1)
        groups = quorum.ask("facts")["groups"]
    return groups


def _without_epochs(partitions: Json) -> Json:
    """Leader epochs of records are those of before; only the end of a log may have moved by nothing."""
    return {name: (each["start"], each["end"], each["records"]) for name, each in partitions.items()}


def _partitions(quorum: RealQuorum, topic: str, names: Json) -> Json:
    """Only the partitions that somebody still has."""
    numbers = sorted(int(name.rpartition("-")[2]) for name in names)
    found: Json = quorum.client("consume", topics={topic: numbers}, seconds=120)["partitions"]
    return found


def _elect_anybody(quorum: RealQuorum, partitions: list[str]) -> None:
    """The only disk that is left leads, however far it had come: nobody else will ever come back."""
    deadline = time.monotonic() + 60
    elected: set[str] = set()
    while time.monotonic() < deadline and not elected.issuperset(partitions):
        elected.update(quorum.ask("elect")["elected"])
        time.sleep(2)


def _use(trial: Trial, quorum: RealQuorum) -> None:
    """A new topic, written and read."""
    quorum.client("create", topic=AFTER, partitions=2, replicas=1, config={})
    sent = quorum.client("produce", topic=AFTER, records=_payload(10, 2))["offsets"]
    got = quorum.records({AFTER: 2})
    assert sum(len(each["records"]) for each in got.values()) == len(sent) == 10, trial.name


def _join(trial: Trial, quorum: RealQuorum) -> int:
    """A new controller joins the voters, where they are dynamic; how many there are then."""
    if quorum.is_static:
        return len(quorum.controllers)
    quorum.move(JOINING)
    standing = list(quorum.controllers)
    quorum.controllers = [*standing, JOINING]
    quorum.format(JOINING, "--no-initial-controllers")
    quorum.controllers = [*standing, JOINING]
    quorum.start(JOINING)
    directory_id = directory_id_of(str(quorum[JOINING]))
    quorum.ask("add", node=JOINING, directory_id=directory_id, host="127.0.0.1", port=quorum.ports[JOINING])
    described = quorum.ask("describe")
    voters = {each["node"] for each in described["voters"]}
    assert JOINING in voters, (trial.name, described)
    expected = number(trial.setting.version) >= (3, 9)
    assert expected
    return len(voters)
