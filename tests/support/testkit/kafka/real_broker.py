"""A real Kafka broker of one version on loopback: KRaft (broker and controller in one), or with a ZooKeeper beside it.

    with RealBroker("4.3.0", directory) as broker:
        broker.start()
        broker.client("create", topic="t")
        broker.stop()                     # orderly; kill() is SIGKILL
        ...                               # the log directory is broker.log_dir
        broker.start()

The clients are those of the same version, in a JVM of their own. Everything ends with the context.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import Json, KafkaOracle, OracleError
from testkit.running.free_ports import free_port

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

HEAP = "300m"
CLUSTER_ID = "TWFkZS11cC1jbHVzdGVyIQ"
START_SECONDS = 90
STOP_SECONDS = 60
# A killed broker's session outlives it; a broker that comes back earlier meets its own registration.
SESSION_MS = 2000
LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dorg.slf4j.simpleLogger.showThreadName=false")
SETTINGS = {
    "num.network.threads": 1,
    "num.io.threads": 2,
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 4194304,
    "log.cleaner.io.buffer.size": 524288,
    "log.cleaner.backoff.ms": 200,
    "log.retention.ms": -1,
    "log.retention.check.interval.ms": 1000,
    "log.initial.task.delay.ms": 300,
}


class BrokerError(Exception):
    """A broker that does not start or stop as it should; the message ends with its last lines."""


def _listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL; it is gone afterwards."""
    process.kill()
    process.wait()


def end_all(processes: dict[Any, subprocess.Popen[bytes]]) -> None:
    """Of a context that ends."""
    for process in processes.values():
        end(process)
    processes.clear()


class RealBroker:
    """One broker and what it needs; not started by making it."""

    def __init__(
        self, version: str, directory: Path, *, mode: str = "kraft", settings: Json | None = None, directories: int = 1
    ) -> None:
        row = kafka_jars.versions()[version]
        if mode not in row.modes:
            raise ValueError(f"Kafka {version} has no mode {mode}")
        self.version = version
        self.mode = mode
        self.directory = directory
        self.log_dir = directory / "data"
        self.further_log_dirs = [directory / f"data-{number}" for number in range(2, directories + 1)]
        self.port = free_port()
        self._other_port = free_port()  # the controller's, or ZooKeeper's
        self._row = row
        self._settings = {**SETTINGS, **(settings or {})}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.classes: tuple[Path, ...] = ()
        """further jars of its class path"""
        self.metadata_version: str | None = None
        """the release as whose metadata it is formatted; None: its own"""
        self.user: int | None = None
        """whom its processes run as; None: as the tests"""
        self._clients = KafkaOracle(version, heap="200m")
        self._killed_at = 0.0
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def log_dirs(self) -> list[Path]:
        """All of them; KRaft's metadata log is in the first, unless its setting says otherwise."""
        return [self.log_dir, *self.further_log_dirs]

    @property
    def process_id(self) -> int:
        """Of the broker that is running."""
        return self._processes["broker"].pid

    @property
    def is_running(self) -> bool:
        """Whether the broker has been started and has not ended by itself, which is then forgotten."""
        process = self._processes.get("broker")
        if process is not None and process.poll() is not None:
            del self._processes["broker"]
        return "broker" in self._processes

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.close()
        end_all(self._processes)

    # ---- processes
    def _spawn(self, name: str, main: str, *arguments: str, heap: str = HEAP) -> subprocess.Popen[bytes]:
        command = kafka_jars.java(self.version, main, *arguments, heap=heap, flags=LOGGING, classes=self.classes)
        if self.user is not None:
            command = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", *command]
        with self._output(name).open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=self.directory)
        self._processes[name] = process
        return process

    def _output(self, name: str) -> Path:
        return self.directory / f"{name}.out"

    def output(self) -> str:
        """Everything the broker has printed, over all its starts."""
        return self._output("broker").read_text(errors="replace")

    def _fail(self, name: str, what: str) -> BrokerError:
        lines = self._output(name).read_text(errors="replace").splitlines()
        telling = [line for line in lines if re.search(r"ERROR|FATAL|Exception", line)] or lines
        return BrokerError(f"{name} of Kafka {self.version} {what}: " + " | ".join(telling[-5:])[-1500:])

    def _await_port(self, name: str, port: int) -> None:
        process, deadline = self._processes[name], time.monotonic() + START_SECONDS
        while not _listening(port):
            if process.poll() is not None:
                del self._processes[name]
                raise self._fail(name, f"ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise self._fail(name, f"does not listen after {START_SECONDS} s")
            time.sleep(0.1)

    def _configuration(self) -> Json:
        settings: Json = {**self._settings, "log.dirs": ",".join(map(str, self.log_dirs))}
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        if self.mode == "zk":
            session = {"zookeeper.connect": f"127.0.0.1:{self._other_port}", "zookeeper.session.timeout.ms": SESSION_MS}
            return {**settings, "broker.id": 1, "listeners": listener, **session}
        controller = f"127.0.0.1:{self._other_port}"
        if self._row.at_least("4.0"):
            quorum = {"controller.quorum.bootstrap.servers": controller}
        else:
            quorum = {"controller.quorum.voters": f"1@{controller}"}
        return {
            **settings,
            **quorum,
            "broker.session.timeout.ms": SESSION_MS,
            "broker.heartbeat.interval.ms": SESSION_MS // 4,
            "node.id": 1,
            "process.roles": "broker,controller",
            "listeners": f"{listener},CONTROLLER://{controller}",
            "advertised.listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }

    def _start_zookeeper(self) -> None:
        data = self.directory / "zookeeper"
        lines = [f"dataDir={data}", f"clientPort={self._other_port}", "clientPortAddress=127.0.0.1", "tickTime=500"]
        config = self.directory / "zookeeper.properties"
        config.write_text("\n".join([*lines, "maxClientCnxns=0", "admin.enableServer=false"]) + "\n")
        self._spawn("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config), heap="128m")
        self._await_port("zookeeper", self._other_port)

    def _format(self, config: Path) -> None:
        standalone = ["--standalone"] if self._row.at_least("4.0") else []
        version = ["--release-version", self.metadata_version] if self.metadata_version else []
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(config), *standalone, *version]
        process = self._spawn("format", "kafka.tools.StorageTool", *arguments)
        code = process.wait(START_SECONDS)
        del self._processes["format"]
        if code:
            raise self._fail("format", f"ended with {code}")

    @property
    def is_formatted(self) -> bool:
        return any((each / "meta.properties").exists() for each in self.log_dirs)

    def configure(self, settings: Json) -> None:
        """Settings that differ from the next start on."""
        self._settings.update(settings)

    def start(self) -> None:
        """Start (again) and wait until the broker answers. Raises BrokerError if it does not come up."""
        if self.mode == "zk":
            if "zookeeper" not in self._processes:
                self._start_zookeeper()
            time.sleep(max(0.0, self._killed_at + 2 * SESSION_MS / 1000 - time.monotonic()))
        config = self.directory / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._configuration().items()))
        if self.mode == "kraft" and not self.is_formatted:
            self._format(config)
        self._spawn("broker", "kafka.Kafka", str(config))
        self._await_port("broker", self.port)
        self.client("ready")

    def stop(self) -> None:
        """End the broker in an orderly way; ZooKeeper goes on."""
        process = self._processes.pop("broker")
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as e:
            end(process)
            raise self._fail("broker", f"did not stop within {STOP_SECONDS} s") from e

    def kill(self) -> None:
        """kill -9."""
        if self.is_running:
            end(self._processes.pop("broker"))
        self._killed_at = time.monotonic()

    # ---- clients
    def client(self, verb: str, **fields: Any) -> Json:
        """One request to the clients; a broker that is still electing leaders is asked again."""
        deadline = time.monotonic() + 30
        while True:
            try:
                return self._clients.client(verb, self.bootstrap, **fields)
            except OracleError as e:
                words = f"{e} {e.failure}"
                passing = "LeaderNotAvailable|NotLeader|UnknownTopicOrPartition|not available|not the leader"
                if verb in ("produce", "transaction") or not re.search(passing, words) or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def create(self, topic: str, partitions: int = 1, *, segment_bytes: int = 4096, **config: object) -> None:
        """A topic with small segments and dense indexes; config names with _ for the dots."""
        size = "internal.segment.bytes" if self._row.at_least("4.0") else "segment.bytes"
        named = {name.replace("_", "."): value for name, value in config.items()}
        dense = {size: segment_bytes, "index.interval.bytes": 256, "segment.index.bytes": 8192}
        self.client("create", topic=topic, partitions=partitions, config={**dense, **named})

    def records(self, topic: str, partitions: int = 1, *, isolation: str = "read_uncommitted") -> dict[str, Json]:
        """Partition name to ``{"start", "end", "records"}`` as a consumer of the version sees them."""
        answer = self.client("consume", topics={topic: partitions}, isolation=isolation)
        found: dict[str, Json] = answer["partitions"]
        return found
