"""Controllers and brokers in processes of their own, on loopback, of one Kafka version: to be killed and lost.

with RealQuorum("4.3.0", directory) as quorum:
    quorum.start(1, 2, 3, 11)
    quorum.ask("facts")               # Kafka's own administrator
    quorum.kill(2, 3)                 # SIGKILL
    quorum.lose(2, 3)                 # and their disks
    quorum[1]                         # a log directory

The clients are those of 4.3, whatever the version of the processes.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import Json, KafkaOracle, OracleError
from testkit.kafka.real_broker import LOGGING, SETTINGS, end, end_all
from testkit.running.free_ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

__all__ = ["CLIENTS", "QuorumError", "RealQuorum", "new_uuid"]

CLIENTS = "4.3.0"
HEAP = "160m"
START_SECONDS = 180.0
SESSION_MS = 3000
SECOND_STARTS = 2
LATE = "fatal error while waiting for the controller to acknowledge"
"""What a broker says that ends because its controllers were busy; whoever runs one starts it again."""
ALWAYS_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": 1000,
    "metadata.log.segment.ms": 300,
    "metadata.max.retention.bytes": 2000,
    "metadata.max.retention.ms": 2000,
}
"""With these a node takes a snapshot every few records; the cleaner looks at the log once a minute."""


class QuorumError(Exception):
    """A process that does not do as it should; the message ends with its last lines."""


def new_uuid() -> str:
    """An id as Kafka writes it, and as a command line takes it."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class RealQuorum:
    """Nodes below 10 are controllers, the others brokers; none is started by making it."""

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        controllers: tuple[int, ...] = (1, 2, 3),
        brokers: tuple[int, ...] = (11,),
        static: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.version = version
        self.directory = directory
        self.cluster_id = new_uuid()
        self.controllers = list(controllers)
        self.brokers = list(brokers)
        self.is_static = static
        self.ports = {node: free_port() for node in (*controllers, *brokers)}
        self.directory_ids = {node: new_uuid() for node in controllers}
        self._settings: Json = {**SETTINGS, "broker.session.timeout.ms": SESSION_MS, **(settings or {})}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._second_starts: Counter[int] = Counter()
        self._clients = KafkaOracle(CLIENTS, heap="160m", timeout=30)
        directory.mkdir(parents=True, exist_ok=True)

    def __getitem__(self, node: int) -> Path:
        return self.directory / f"node-{node}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.close()
        end_all(self._processes)

    # ---- processes

    def endpoint(self, node: int) -> str:
        """``127.0.0.1:port``."""
        return f"127.0.0.1:{self.ports[node]}"

    def move(self, *nodes: int) -> None:
        """Give nodes other ports from their next start on."""
        for node in nodes:
            self.ports[node] = free_port()

    def configuration(self, node: int) -> Json:
        """The properties that a node is started with."""
        is_controller = node in self.controllers
        listener = f"{'CONTROLLER' if is_controller else 'PLAINTEXT'}://{self.endpoint(node)}"
        settings: Json = {
            **self._settings,
            "process.roles": "controller" if is_controller else "broker",
            "node.id": node,
            "log.dirs": str(self[node]),
            "listeners": listener,
            "advertised.listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.election.timeout.ms": 1500,
            "controller.quorum.fetch.timeout.ms": 4000,
            "broker.heartbeat.interval.ms": SESSION_MS // 4,
            "initial.broker.registration.timeout.ms": 120000,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }
        if self.is_static:
            voters = (f"{each}@{self.endpoint(each)}" for each in self.controllers)
            settings["controller.quorum.voters"] = ",".join(voters)
        else:
            settings["controller.quorum.bootstrap.servers"] = ",".join(map(self.endpoint, self.controllers))
        return settings

    def configure(self, **settings: object) -> None:
        """Settings from the next start on; with ``_`` for the dots."""
        self._settings.update({name.replace("_", "."): value for name, value in settings.items()})

    def _config_file(self, node: int) -> Path:
        path = self.directory / f"node-{node}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self.configuration(node).items()))
        return path

    def _output(self, node: int) -> Path:
        return self.directory / f"node-{node}.out"

    def output(self, node: int) -> str:
        """Everything a node has printed, over all its starts."""
        path = self._output(node)
        return path.read_text(errors="replace") if path.exists() else ""

    def format(self, node: int, *how: str) -> None:
        """`StorageTool format`; dynamic controllers know each other, others join."""
        if not how and not self.is_static:
            voters = ",".join(f"{each}@{self.endpoint(each)}:{self.directory_ids[each]}" for each in self.directory_ids)
            first = node in self.directory_ids
            how = ("--initial-controllers", voters) if first else ("--no-initial-controllers",)
        arguments = ["format", "-t", self.cluster_id, "-c", str(self._config_file(node)), *how]
        command = kafka_jars.java(self.version, "kafka.tools.StorageTool", *arguments, heap="128m")
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
        if done.returncode:
            raise QuorumError(f"format of node {node}: {(done.stdout + done.stderr)[-800:]}")

    def start(self, *nodes: int) -> None:
        """Start nodes (again), formatted if they are new; does not wait."""
        for node in nodes:
            if not (self[node] / "meta.properties").exists():
                self.format(node)
        for node in nodes:
            config = str(self._config_file(node))
            command = kafka_jars.java(self.version, "kafka.Kafka", config, heap=HEAP, flags=LOGGING)
            with self._output(node).open("ab") as output:
                self._processes[node] = subprocess.Popen(command, stdout=output, stderr=output, cwd=self.directory)

    def start_in_order(self, *brokers: int) -> None:
        """Start the controllers, and brokers once these have a leader."""
        self.start(*self.controllers)
        self.has_leader(START_SECONDS)
        self.start(*brokers)

    def kill(self, *nodes: int) -> None:
        """SIGKILL."""
        for node in nodes or tuple(self._processes):
            end(self._processes.pop(node))

    def lose(self, *nodes: int) -> None:
        """Their disks are gone."""
        for node in nodes:
            shutil.rmtree(self[node])

    def is_alive(self, node: int) -> bool:
        """Whether its process is still there."""
        return node in self._processes and self._processes[node].poll() is None

    # ---- clients

    @property
    def bootstrap(self) -> str:
        """The brokers."""
        return ",".join(map(self.endpoint, self.brokers))

    def ask(self, verb: str, *, seconds: float = START_SECONDS, controllers: bool = False, **fields: Any) -> Json:
        """The administrator's question, asked again until there is an answer."""
        where = {"controllers": ",".join(map(self.endpoint, self.controllers))} if controllers else {}
        asked = {"verb": verb, "bootstrap": self.bootstrap, **where, **fields}
        return self._answered(lambda: self._clients.ask("quorum", **asked), seconds)

    def client(self, verb: str, *, seconds: float = START_SECONDS, **fields: Any) -> Json:
        """A producer's or consumer's request."""
        return self._answered(lambda: self._clients.client(verb, self.bootstrap, **fields), seconds)

    def _answered(self, question: Callable[[], Json], seconds: float) -> Json:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return question()
            except OracleError as error:
                words = f"{error} {error.failure}"
                if "IllegalArgument" in words:
                    raise
                if "TopicExists" in words:
                    return {}
                if time.monotonic() > deadline:
                    raise QuorumError(f"{error}\n{self.last_words()}") from error
                self._start_the_late_again()
                time.sleep(0.5)

    def _start_the_late_again(self) -> None:
        """Brokers that gave up waiting for a controller, as on a busy machine; any other end stays one."""
        for node in self.brokers:
            is_late = node in self._processes and not self.is_alive(node) and LATE in self.output(node)
            if is_late and self._second_starts[node] < SECOND_STARTS:
                self._second_starts[node] += 1
                self.start(node)

    def last_words(self) -> str:
        """The telling lines of every node."""
        told = []
        for node in (*self.controllers, *self.brokers):
            lines = [each for each in self.output(node).splitlines() if re.search(r"ERROR|FATAL|Exception", each)]
            state = "runs" if self.is_alive(node) else "does not run"
            told.append(f"node {node} {state}: " + " | ".join(lines[-3:])[-900:])
        return "\n".join(told)

    def has_leader(self, seconds: float) -> bool:
        """Whether the controllers elect one of them within some time."""
        try:
            return bool(self.ask("describe", seconds=seconds, controllers=True)["leader"] >= 0)
        except QuorumError:
            return False

    def records(self, topics: dict[str, int]) -> dict[str, Json]:
        """Every record, as a consumer gets it."""
        found: dict[str, Json] = self.client("consume", topics=topics)["partitions"]
        return found
