"""Nodes that have lived a little, kept on disk: what trials of a node's start are made of.

A stage is the disks of one small cluster of one release, stopped in order: one combined node, or a controller and a
broker apart, or a combined node with two more voters, or a broker with a ZooKeeper.  It holds topics with records, a
group's offsets, a transaction, a setting, an access control entry, and snapshots of the metadata.  Stages are kept in
the cache and made once.
"""

from __future__ import annotations

import base64
import fcntl
import json
import re
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import Json, KafkaOracle, OracleError
from testkit.kafka.real_broker import LOGGING, SESSION_MS, SETTINGS, end
from testkit.kafka.real_quorum import ALWAYS_SNAPSHOTS, CLIENTS, new_uuid
from testkit.running.free_ports import free_port

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["GROUP", "Base", "Cluster", "Stage", "stage"]

COMBINED, CONTROLLER, BROKER = 1, 2, 3
SECOND_VOTER, THIRD_VOTER, WITH_ZOOKEEPER, ZOOKEEPER = 4, 5, 6, 7
_NODES = {
    "combined": (COMBINED,),
    "apart": (CONTROLLER, BROKER),
    "three": (SECOND_VOTER, THIRD_VOTER, COMBINED),
    "zookeeper": (ZOOKEEPER, WITH_ZOOKEEPER),
}
_ROLES = {
    COMBINED: "broker,controller",
    CONTROLLER: "controller",
    BROKER: "broker",
    SECOND_VOTER: "controller",
    THIRD_VOTER: "controller",
}
SETTINGS_OF_DAMAGE = "settings.json"
"""beside a node's log directories: what a damage changed of its properties; null takes one away"""
GROUP = "billing"
TOPICS = {"orders": 2, "audit": 1}
STOPPING, STARTING = 40, 60
CLEANED_SECONDS = 120
SOME_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": 2500}
_IS_UP = re.compile(r"Completed transition to Leader|binding to port|Snapshot taken|PrepRequestProcessor")
_HAS_STARTED = re.compile(r"Kafka Server started|\[KafkaServer id=\d+\] started")
_MADE_AS = 4
"""raised if stages are made in another way"""


@dataclass(frozen=True)
class Base:
    """What a stage is: a release, who runs, and how voters and snapshots are."""

    version: str
    nodes: str = "combined"
    """combined; apart: a controller and a broker; three: a combined node and two controllers; zookeeper"""
    dynamic: bool = False
    cleaned: bool = False
    """the beginning of the metadata log is gone: only a snapshot has it"""
    directories: int = 1

    @property
    def name(self) -> str:
        """In words, and as the name of a directory."""
        voters = "dynamic" if self.dynamic else "static"
        if self.nodes == "zookeeper":
            return f"{self.version}-zookeeper-{self.directories}"
        cleaned = "-cleaned" if self.cleaned else ""
        return f"{self.version}-{self.nodes}-{voters}{cleaned}-{self.directories}"

    @property
    def ids(self) -> tuple[int, ...]:
        """The nodes, in the order in which they are started."""
        return _NODES[self.nodes]

    @property
    def zookeepers(self) -> tuple[int, ...]:
        """The node that is a ZooKeeper, if there is one."""
        return tuple(node for node in self.ids if node == ZOOKEEPER)

    @property
    def voters(self) -> tuple[int, ...]:
        """The nodes that vote on the metadata."""
        return tuple(node for node in self.ids if "controller" in _ROLES.get(node, ""))


@dataclass
class Stage:
    """A stopped cluster: where its disks are, and what its clients saw."""

    base: Base
    place: str
    cluster_id: str
    ports: dict[str, int]
    directory_ids: dict[str, str]
    facts: Json = field(default_factory=dict)
    records: Json = field(default_factory=dict)


class Cluster:
    """The processes of one stage, on its disks or on a copy of them; everything ends with the context."""

    def __init__(self, made: Stage, place: Path, asked: KafkaOracle | None = None) -> None:
        self.stage = made
        self.place = place
        self._asked = asked
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                end(process)

    @property
    def clients(self) -> KafkaOracle:
        """Kafka's own clients."""
        assert self._asked is not None, "a cluster without clients"
        return self._asked

    def directories(self, node: int) -> list[Path]:
        """The log directories of a node; its metadata log is in the first."""
        return [self.place / f"node-{node}" / f"data-{number}" for number in range(self.stage.base.directories)]

    @property
    def bootstrap(self) -> str:
        """The broker."""
        return f"127.0.0.1:{self.stage.ports['broker']}"

    def configuration(self, node: int) -> Json:
        """The properties that a node is started with, with what a damage changed of them."""
        found = self._zookeeper_configuration(node) if node == WITH_ZOOKEEPER else self._kraft_configuration(node)
        changed = self.place / f"node-{node}" / SETTINGS_OF_DAMAGE
        if changed.exists():
            found |= json.loads(changed.read_text())
        return {name: value for name, value in found.items() if value is not None}

    def _settings(self, node: int) -> Json:
        return {
            **SETTINGS,
            **(ALWAYS_SNAPSHOTS if self.stage.base.cleaned else SOME_SNAPSHOTS),
            "transaction.state.log.num.partitions": 1,
            "log.dirs": ",".join(map(str, self.directories(node))),
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }

    def _zookeeper_configuration(self, node: int) -> Json:
        return {
            **self._settings(node),
            "broker.id": node,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": f"127.0.0.1:{self.stage.ports['controller']}",
            "zookeeper.session.timeout.ms": SESSION_MS,
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        }

    def controller(self, node: int) -> str:
        """Where a voter listens."""
        names = {SECOND_VOTER: "second", THIRD_VOTER: "third"}
        return f"127.0.0.1:{self.stage.ports[names.get(node, 'controller')]}"

    def _kraft_configuration(self, node: int) -> Json:
        base = self.stage.base
        plain, controller = f"PLAINTEXT://{self.bootstrap}", self.controller(node)
        listeners = {COMBINED: f"{plain},CONTROLLER://{controller}", BROKER: plain}
        settings: Json = {
            **self._settings(node),
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 500,
            "node.id": node,
            "process.roles": _ROLES[node],
            "listeners": listeners.get(node, f"CONTROLLER://{controller}"),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "initial.broker.registration.timeout.ms": 60000,
        }
        if "broker" in _ROLES[node]:
            settings["advertised.listeners"] = plain
        if base.dynamic:
            settings["controller.quorum.bootstrap.servers"] = ",".join(map(self.controller, base.voters))
        else:
            settings["controller.quorum.voters"] = ",".join(f"{each}@{self.controller(each)}" for each in base.voters)
        return settings

    def properties_file(self, node: int) -> Path:
        """Write a node's properties and return their path."""
        path = self.place / f"node-{node}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self.configuration(node).items()))
        return path

    def output(self, node: int) -> str:
        """Everything that a node has printed."""
        path = self.place / f"node-{node}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def format(self, node: int) -> None:
        """Format a node's directories as its voters are."""
        if node == WITH_ZOOKEEPER:
            return
        how: list[str] = []
        if self.stage.base.nodes == "three" and self.stage.base.dynamic:
            ids = self.stage.directory_ids
            how = ["--initial-controllers",
                   ",".join(f"{each}@{self.controller(each)}:{ids[str(each)]}" for each in self.stage.base.voters)]
        elif self.stage.base.dynamic:
            how = ["--standalone"] if node != BROKER else ["--no-initial-controllers"]
        arguments = ["format", "-t", self.stage.cluster_id, "-c", str(self.properties_file(node)), *how]
        command = kafka_jars.java(self.stage.base.version, "kafka.tools.StorageTool", *arguments, heap="128m")
        done = subprocess.run(command, capture_output=True, text=True, timeout=STARTING, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, node: int) -> None:
        """Start a node; does not wait."""
        if node == ZOOKEEPER:
            config, main = str(self._zookeeper_file()), "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        else:
            config, main = str(self.properties_file(node)), "kafka.Kafka"
        heap = "300m" if node in (COMBINED, BROKER, WITH_ZOOKEEPER) else "160m"
        command = kafka_jars.java(self.stage.base.version, main, config, heap=heap, flags=LOGGING)
        with (self.place / f"node-{node}.out").open("ab") as output:
            self.processes[node] = subprocess.Popen(command, stdout=output, stderr=output, cwd=self.place)

    def start_all(self) -> None:
        """Start every node, the last one after the others have a leader, or listen; does not wait for the last."""
        ids = self.stage.base.ids
        for node in ids:
            if node == ids[-1] and self.stage.base.nodes in ("three", "zookeeper"):
                self._await_first(ids[:-1])
            self.start(node)

    def _await_first(self, nodes: tuple[int, ...]) -> None:
        deadline = time.monotonic() + STARTING
        while time.monotonic() < deadline:
            if any(_IS_UP.search(self.output(node)) for node in nodes):
                return
            assert all(map(self.is_alive, nodes)), "a node that is not under trial ended"
            time.sleep(0.1)
        raise AssertionError("the nodes that are not under trial have no leader")

    def _zookeeper_file(self) -> Path:
        data = self.directories(ZOOKEEPER)[0]
        lines = [f"dataDir={data}", f"clientPort={self.stage.ports['controller']}", "clientPortAddress=127.0.0.1"]
        path = self.place / "zookeeper.properties"
        path.write_text("\n".join([*lines, "tickTime=500", "maxClientCnxns=0", "admin.enableServer=false"]) + "\n")
        return path

    def is_alive(self, node: int) -> bool:
        """Whether a node's process runs."""
        return node in self.processes and self.processes[node].poll() is None

    def await_started(self, node: int, seconds: float = STARTING) -> bool:
        """Wait until a node says that it has started, or ends; whether it said so."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if has_started(self.output(node)):
                return True
            if not self.is_alive(node):
                return False
            time.sleep(0.1)
        return False

    def stop(self, node: int) -> None:
        """End a node in an orderly way."""
        process = self.processes.pop(node)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            end(process)

    def ask(self, verb: str, **fields: Any) -> Json:
        """The administrator's question, once."""
        return self.clients.ask("quorum", verb=verb, bootstrap=self.bootstrap, **fields)

    def client(self, verb: str, **fields: Any) -> Json:
        """A client's request, once."""
        return self.clients.client(verb, self.bootstrap, **fields)

    def patiently(self, verb: str, seconds: float = 30, **fields: Any) -> Json:
        """A client's request, again until it is answered."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.client(verb, **fields)
            except OracleError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)


def has_started(output: str) -> bool:
    """Whether a node says that it has started."""
    return _HAS_STARTED.search(output) is not None


def payload(count: int, partitions: int) -> list[Json]:
    """Records for a topic's partitions in turn."""
    return [
        {"partition": each % partitions, "k": "aw==", "v": base64.b64encode(b"value %d" % each).decode()}
        for each in range(count)
    ]


def _live(cluster: Cluster) -> None:
    for topic, partitions in TOPICS.items():
        config = {"cleanup.policy": "compact"} if topic == "audit" else {"retention.ms": "86400000"}
        cluster.patiently("create", topic=topic, partitions=partitions, config=config)
        cluster.patiently("produce", topic=topic, records=payload(20, partitions))
    for count in range(6):
        cluster.ask("grant", user=f"alice-{count}", topic="orders")
    cluster.patiently("transaction", transactional_id="t1", topic="orders", records=payload(4, 2), keep=False)
    deadline = time.monotonic() + 30
    while True:
        try:
            cluster.ask("commit", group=GROUP, topic="orders", partition=1, offset=4)
            return
        except OracleError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _until_cleaned(cluster: Cluster) -> None:
    """Until the beginning of the metadata log is gone on every node."""
    deadline = time.monotonic() + CLEANED_SECONDS
    count = 0
    while any(read_quorum_log(cluster.directories(node)[0]).start == 0 for node in cluster.stage.base.ids):
        assert time.monotonic() < deadline, "no old metadata was deleted"
        cluster.patiently("create", topic=f"more-{count}", partitions=1, config={})
        count += 1
        time.sleep(4)


def _make(base: Base, place: Path, asked: KafkaOracle) -> Stage:
    ports = {name: free_port() for name in ("broker", "controller", "second", "third")}
    ids = {str(node): new_uuid() for node in base.voters}
    made = Stage(base, str(place), new_uuid(), ports, ids)
    with Cluster(made, place, asked) as cluster:
        for node in base.ids:
            for directory in cluster.directories(node):
                directory.mkdir(parents=True)
            if node != ZOOKEEPER:
                cluster.format(node)
        cluster.start_all()
        cluster.patiently("ready", seconds=STARTING)
        _live(cluster)
        if base.cleaned:
            _until_cleaned(cluster)
        else:
            cluster.patiently("create", topic="later", partitions=1, config={})
            cluster.patiently("produce", topic="later", records=payload(5, 1))
            time.sleep(2)
        made.facts = cluster.ask("facts")
        made.records = cluster.client("consume", topics=counts(made.facts))["partitions"]
        for node in reversed(base.ids):
            cluster.stop(node)
        for node in base.ids:
            (place / f"node-{node}.out").unlink()
    return made


def counts(facts: Json) -> dict[str, int]:
    """Topics and how many partitions they have, without Kafka's own."""
    return {topic: len(each["partitions"]) for topic, each in facts["topics"].items() if not topic.startswith("__")}


def stage(base: Base, asked: KafkaOracle) -> Stage:
    """The stage of a base, from the cache if it has been made."""
    folder = kafka_jars.cache_directory() / "starts" / f"v{_MADE_AS}"
    folder.mkdir(parents=True, exist_ok=True)
    place, note = folder / base.name, folder / f"{base.name}.json"
    with (folder / f"{base.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not note.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            made = _make(base, place, asked)
            note.write_text(json.dumps(asdict(made)))
    kept = json.loads(note.read_text())
    return Stage(**{**kept, "base": base, "place": str(place)})


def clients() -> KafkaOracle:
    """The clients that every stage is asked with."""
    return KafkaOracle(CLIENTS, heap="200m", timeout=40)
