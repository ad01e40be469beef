"""One trial of a node's start: a stage's disks are copied and damaged, the node is started, and what follows is seen.

What is observed is said in the words of the forecast (`StartOutcome`), so that the two can be compared.
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kafkalog.recovery.broker.node.answer import StartOutcome
from testkit.judging.trees import copy_tree
from testkit.kafka.kafka_oracle import Json, KafkaOracle, OracleError
from testkit.kafka.start_damages import DAMAGES
from testkit.kafka.start_stages import (
    BROKER,
    COMBINED,
    CONTROLLER,
    GROUP,
    TOPICS,
    WITH_ZOOKEEPER,
    Base,
    Cluster,
    Stage,
    counts,
    has_started,
    payload,
)

__all__ = ["Observed", "Trial", "damaged_copy", "observe"]

READY_SECONDS = 25
WAITING_SECONDS = 25
LEARNING_SECONDS = 10
OFFLINE = re.compile(r"LogDirFailureChannel|Stopping serving logs in dir|Error while reading meta\.properties file")
_STRAY = re.compile(r"^(.+-\d+)\.[0-9a-f]{32}-stray$")
_DELETED = re.compile(r"^(.+-\d+)\.[0-9a-f]{32}-delete$")


@dataclass(frozen=True)
class Trial:
    """A damage to one node of a stage."""

    base: Base
    node: int
    damage: str
    seed: int

    @property
    def name(self) -> str:
        """In words."""
        role = {COMBINED: "combined", CONTROLLER: "controller", BROKER: "broker", WITH_ZOOKEEPER: "broker"}[self.node]
        return f"{self.base.name} {role}: {self.damage} ({self.seed})"


@dataclass
class Observed:
    """What a start came to."""

    outcome: StartOutcome
    words: str = ""
    """the telling lines that the node printed"""
    strays: list[str] = field(default_factory=list)
    """partition directories, as they were called before"""
    deleted: list[str] = field(default_factory=list)
    topics_lost: list[str] = field(default_factory=list)
    acls_lost: int = 0
    records_lost: int = 0
    is_begun_anew: bool = False
    """a controller has appended its bootstrap records"""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


def damaged_copy(trial: Trial, made: Stage, place: Path) -> None:
    """Copy the stage's disks to `place` and damage one node's; raises `NotHereError` if that cannot be."""
    copy_tree(Path(made.place), place)
    roots = [place / f"node-{trial.node}" / f"data-{number}" for number in range(trial.base.directories)]
    DAMAGES[trial.damage](roots, Random(trial.seed))


def observe(trial: Trial, made: Stage, place: Path, clients: KafkaOracle) -> Observed:
    """Start the nodes on the damaged copy and say what followed."""
    begun = time.monotonic()
    with Cluster(made, place, clients) as cluster:
        before = _partitions(cluster, trial.node)
        found = _started(cluster, trial)
        output = cluster.output(trial.node)
        assert "Address already in use" not in output, "somebody else has the port"
        found.words = telling(output)
        found.is_begun_anew = "The metadata log appears to be empty" in output
        _compare_disks(cluster, trial.node, before, found)
        found.outcome = _gravest(found)
    found.seconds = round(time.monotonic() - begun, 1)
    return found


def telling(output: str) -> str:
    """Lines with errors or exceptions, shortened."""
    lines = [line for line in output.splitlines() if re.search(r"ERROR|FATAL|Exception|Caused by", line)]
    return "\n".join(line[:600] for line in lines[:40])


def _partitions(cluster: Cluster, node: int) -> list[str]:
    return sorted(
        path.name for root in cluster.directories(node) if root.is_dir() for path in root.iterdir()
        if path.is_dir() and re.search(r"-\d+$", path.name)
    )  # fmt: skip


def _started(cluster: Cluster, trial: Trial) -> Observed:
    found = Observed(StartOutcome.STARTS)
    cluster.start_all()
    is_up = _answers(cluster, trial.node)
    if not cluster.is_alive(trial.node):
        found.notes.append("ended")
    elif not is_up:
        found.notes.append("does not serve")
    else:
        _compare_service(cluster, found)
    if not cluster.is_alive(trial.node) and "ended" not in found.notes:
        found.notes.append("ended")
    return found


def _answers(cluster: Cluster, node: int) -> bool:
    """Whether the broker answers an administrator with a leader of the metadata, before the node under trial ends."""
    deadline = time.monotonic() + WAITING_SECONDS
    while time.monotonic() < deadline:
        if not cluster.is_alive(node):
            return False
        last = cluster.stage.base.ids[-1]
        if has_started(cluster.output(last)):
            try:
                cluster.ask("facts")
                return True
            except OracleError:
                pass
        time.sleep(0.2)
    return False


def _compare_service(cluster: Cluster, found: Observed) -> None:
    stage = cluster.stage
    facts = _facts(cluster)
    found.topics_lost = sorted(set(stage.facts["topics"]) - set(facts["topics"]))
    found.acls_lost = len(set(stage.facts["acls"]) - set(facts["acls"]))
    deadline = time.monotonic() + READY_SECONDS
    kept = {topic: count for topic, count in counts(stage.facts).items() if topic in facts["topics"]}
    for topic, count in kept.items():
        for number in range(count):
            name = f"{topic}-{number}"
            try:
                seconds = max(1.0, deadline - time.monotonic())
                if topic in TOPICS:
                    one = [{**payload(1, 1)[0], "partition": number}]
                    cluster.patiently("produce", seconds=seconds, topic=topic, records=one,
                                      producer={"delivery.timeout.ms": 6000, "request.timeout.ms": 5000})  # fmt: skip
                got = cluster.patiently(
                    "consume", seconds=max(1.0, deadline - time.monotonic()), topics={topic: [number]},
                    timeout_ms=4000, consumer={"default.api.timeout.ms": 6000},
                )["partitions"][name]  # fmt: skip
                was = {(each["offset"], each["value"]) for each in stage.records[name]["records"]}
                found.records_lost += len(was - {(each["offset"], each["value"]) for each in got["records"]})
            except OracleError as error:
                found.notes.append(f"{name} does not serve: {str(error)[:120]}")
    _compare_coordinators(cluster, found)


def _compare_coordinators(cluster: Cluster, found: Observed) -> None:
    """Whether groups and transactions are answered for."""
    deadline = time.monotonic() + 8
    offsets: Json = {}
    while time.monotonic() < deadline:
        try:
            offsets = cluster.client("committed", group=GROUP, timeout=10)
            if offsets["offsets"]:
                break
        except OracleError:
            pass
        time.sleep(0.5)
    else:
        found.notes.append("the group has no offsets" if offsets else "the group does not answer")
    if "orders" in found.topics_lost or any("orders-0" in note for note in found.notes):
        return
    try:
        one = [{**payload(1, 1)[0], "partition": 0}]
        cluster.client("transaction", transactional_id="t1", topic="orders", records=one, keep=False,
                       producer={"max.block.ms": 8000})  # fmt: skip
    except OracleError as error:
        found.notes.append(f"transactions do not serve: {str(error)[:120]}")


def _facts(cluster: Cluster) -> Json:
    """What the broker knows; with ZooKeeper it learns of topics some time after it has started."""
    deadline = time.monotonic() + READY_SECONDS
    learned_by = time.monotonic() + (LEARNING_SECONDS if cluster.stage.base.zookeepers else 0)
    while True:
        try:
            found = cluster.ask("facts")
            is_whole = set(cluster.stage.facts["topics"]) <= set(found["topics"])
            if is_whole or time.monotonic() > learned_by:
                return found
        except OracleError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.5)


def _compare_disks(cluster: Cluster, node: int, before: list[str], found: Observed) -> None:
    names = [path.name for root in cluster.directories(node) if root.is_dir() for path in root.iterdir()]
    gone = [match[1] for name in names if (match := _DELETED.match(name)) is not None]
    found.strays = sorted(match[1] for name in names if (match := _STRAY.match(name)) is not None)
    live = set(names) if not found.records_lost else set()
    found.deleted = sorted((set(gone) & set(before)) - live)  # what another directory has now, whole, was moved


def _gravest(found: Observed) -> StartOutcome:
    if "ended" in found.notes:
        return StartOutcome.FAILS
    if OFFLINE.search(found.words) and not (found.strays or found.deleted):
        return StartOutcome.DIRECTORY_OFFLINE
    if "does not serve" in found.notes:
        return StartOutcome.NOT_SERVING
    if found.is_begun_anew:
        return StartOutcome.OVERWRITES_METADATA
    if found.deleted:
        return StartOutcome.DELETES
    if found.strays:
        return StartOutcome.STRAYS
    if found.topics_lost or found.acls_lost:
        return StartOutcome.OVERWRITES_METADATA
    if OFFLINE.search(found.words):
        return StartOutcome.DIRECTORY_OFFLINE
    return StartOutcome.NOT_SERVING if any("not" in note or "no offsets" in note for note in found.notes) else (
        StartOutcome.STARTS
    )  # fmt: skip


def forget(place: Path) -> None:
    """Remove a trial's disks."""
    shutil.rmtree(place, ignore_errors=True)
