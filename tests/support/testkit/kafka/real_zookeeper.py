"""A ZooKeeper and several brokers of one Kafka version on loopback.

with ZooKeeperCluster("2.8.2", directory, (1, 2, 3)) as cluster:
    cluster.start()
    cluster[1].kill()                 # its log directory is cluster[1].log_dir
    cluster.control.kill()            # ZooKeeper; its data directory is cluster.control.log_dir

What ZooKeeper knows is read from its transaction log, into which every change goes before it is answered.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.kafka_nodes import partition_state
from testkit.kafka.real_broker import SESSION_MS, START_SECONDS, RealBroker, end

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from kafkalog.cluster.zookeeper import Tree
    from testkit.kafka.kafka_oracle import Json

CONNECTION_MS = 30_000
"""for which a broker waits for ZooKeeper"""


class ZooKeeper(RealBroker):
    """ZooKeeper alone, with the port and the directory that it keeps."""

    def __init__(self, version: str, directory: Path) -> None:
        super().__init__(version, directory, mode="zk")
        self.log_dir = directory / "zookeeper"
        self._other_port = self.port

    @property
    def address(self) -> str:
        return self.bootstrap

    def start(self) -> None:
        """Start (again) and wait until it listens."""
        self._start_zookeeper()

    def kill(self) -> None:
        """kill -9."""
        end(self._processes.pop("zookeeper"))


class _Broker(RealBroker):
    """A broker whose ZooKeeper is not its own."""

    def __init__(self, version: str, directory: Path, node_id: int, zookeeper: str, settings: Json) -> None:
        super().__init__(version, directory, mode="zk", settings=settings)
        self.node_id = node_id
        self._zookeeper = zookeeper

    def _configuration(self) -> Json:
        return {
            **self._settings,
            "log.dirs": str(self.log_dir),
            "broker.id": self.node_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "zookeeper.connect": self._zookeeper,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "zookeeper.connection.timeout.ms": CONNECTION_MS,
        }

    def start(self) -> None:
        """Start until it stays, as a service manager does: while its old session lasts, a broker ends at once."""
        config = self.directory / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._configuration().items()))
        deadline = time.monotonic() + START_SECONDS
        while not self._stays(config):
            if time.monotonic() > deadline:
                raise self._fail("broker", f"does not stay up within {START_SECONDS} s")
            time.sleep(0.5)
        self.client("ready")

    def _stays(self, config: Path) -> bool:
        """Its port is open before it has registered: it is up when it says so."""
        said = len(self.output()) if self._output("broker").exists() else 0
        process = self._spawn("broker", "kafka.Kafka", str(config))
        while process.poll() is None:
            if f"[KafkaServer id={self.node_id}] started" in self.output()[said:]:
                return True
            time.sleep(0.1)
        del self._processes["broker"]
        if "NodeExists" not in self.output()[said:]:
            raise self._fail("broker", f"ended with {process.returncode}")
        return False


class ZooKeeperCluster:
    """ZooKeeper and brokers by id; not started by making it."""

    def __init__(self, version: str, directory: Path, brokers: tuple[int, ...], **settings: object) -> None:
        self.control = ZooKeeper(version, directory / "control")
        self._brokers = {
            node_id: _Broker(version, directory / f"node-{node_id}", node_id, self.control.address, dict(settings))
            for node_id in brokers
        }

    def __getitem__(self, node_id: int) -> RealBroker:
        return self._brokers[node_id]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (*self._brokers.values(), self.control):
            each.__exit__(kind, value, trace)

    @property
    def log_dirs(self) -> list[Path]:
        """ZooKeeper's data directory and the log directories of the brokers."""
        return [each.log_dir for each in (self.control, *self._brokers.values())]

    def start(self) -> None:
        """Start ZooKeeper, then the brokers."""
        for each in (self.control, *self._brokers.values()):
            each.start()

    def tree(self) -> Tree:
        """What ZooKeeper's files say now."""
        return tree_at(open_zookeeper(self.control.log_dir)).tree

    def sessions(self) -> dict[int, int]:
        """The brokers that have one now, and their epochs."""
        nodes = self.tree().nodes
        found = nodes.get("/brokers/ids")
        return {int(each): nodes[f"/brokers/ids/{each}"].czxid for each in (found.children if found else ())}

    def elected(self) -> dict[tuple[str, int], tuple[int, tuple[int, ...]]]:
        """Leader and ISR of every partition now."""
        found = {}
        for path, node in self.tree().nodes.items():
            words = path.split("/")
            if words[1:3] == ["brokers", "topics"] and words[-1] == "state":
                state = partition_state(node.data)
                assert state is not None, (path, node.data)
                found[words[3], int(words[5])] = state.leader, state.isr
        return found
