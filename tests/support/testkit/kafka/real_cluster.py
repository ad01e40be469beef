"""A controller and two brokers of one Kafka version on loopback, so that a partition has a leader and a follower.

with RealCluster("4.3.0", directory) as cluster:
    cluster.start()
    cluster[1].kill()                 # a RealBroker; its log directory is cluster[1].log_dir
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.log import open_partition
from testkit.kafka.real_broker import CLUSTER_ID, SESSION_MS, START_SECONDS, RealBroker
from testkit.running.free_ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from kafkalog.cluster.kraft.metadata_image import MetadataImage, PartitionImage
    from testkit.kafka.kafka_oracle import Json

CONTROLLER = 100


class _Node(RealBroker):
    """A broker, or the controller, of a cluster that has its controller in a process of its own."""

    def __init__(
        self, version: str, directory: Path, node_id: int, controller: str, settings: Json, directories: int
    ) -> None:
        super().__init__(version, directory, settings=settings, directories=directories)
        self.node_id = node_id
        self._controller = controller
        self.features: dict[str, int] = {}

    def _configuration(self) -> Json:
        is_controller = self.node_id == CONTROLLER
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        own = {
            "process.roles": "controller" if is_controller else "broker",
            "listeners": f"CONTROLLER://{self._controller}" if is_controller else listener,
            "advertised.listeners": f"CONTROLLER://{self._controller}" if is_controller else listener,
        }
        return {
            **self._settings,
            **own,
            "log.dirs": ",".join(map(str, self.log_dirs)),
            "node.id": self.node_id,
            "controller.quorum.bootstrap.servers": self._controller,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "broker.session.timeout.ms": SESSION_MS,
            "broker.heartbeat.interval.ms": SESSION_MS // 4,
        }

    def _format(self, config: Path) -> None:
        how = ["--standalone"] if self.node_id == CONTROLLER else ["--no-initial-controllers"]
        if self.node_id == CONTROLLER:
            how += [word for name, level in self.features.items() for word in ("--feature", f"{name}={level}")]
        process = self._spawn("format", "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config), *how)
        code = process.wait(START_SECONDS)
        del self._processes["format"]
        if code:
            raise self._fail("format", f"ended with {code}")

    def start(self) -> None:
        """Start (again); a broker answers clients then."""
        config = self.directory / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._configuration().items()))
        if not self.is_formatted:
            self._format(config)
        self._spawn("broker", "kafka.Kafka", str(config))
        if self.node_id == CONTROLLER:
            self._await_port("broker", int(self._controller.rpartition(":")[2]))
            return
        self._await_port("broker", self.port)
        self.client("ready")


class RealCluster:
    """The nodes by id; not started by making it."""

    directories = 1
    """log directories of each broker"""

    def __init__(
        self,
        version: str,
        directory: Path,
        brokers: tuple[int, ...] = (1, 2),
        features: Mapping[str, int] | None = None,
        **settings: object,
    ) -> None:
        self.controller = controller = f"127.0.0.1:{free_port()}"
        self._nodes = {
            node_id: _Node(
                version, directory / (f"broker-{node_id}" if node_id in brokers else "controller"), node_id, controller,
                dict(settings), self.directories if node_id in brokers else 1,
            )
            for node_id in (CONTROLLER, *brokers)
        }
        self._nodes[CONTROLLER].features.update(features or {})

    def __getitem__(self, node_id: int) -> RealBroker:
        return self._nodes[node_id]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in reversed(self._nodes.values()):
            node.__exit__(kind, value, trace)

    @property
    def log_dirs(self) -> list[Path]:
        """Of the controller and the brokers."""
        return [node.log_dir for node in self._nodes.values()]

    @property
    def control(self) -> RealBroker:
        """The controller."""
        return self._nodes[CONTROLLER]

    def sessions(self) -> dict[int, int]:
        """The brokers that have one now, and their epochs."""
        return {node: each.epoch for node, each in self.image().brokers.items() if not each.fenced}

    def elected(self) -> dict[tuple[str, int], tuple[int, tuple[int, ...]]]:
        """Leader and ISR of every partition now."""
        return {
            (name, number): (each.leader, each.isr)
            for name, topic in self.image().topics.items()
            for number, each in topic.partitions.items()
        }

    def start(self) -> None:
        """Start all nodes, the controller first."""
        for node in self._nodes.values():
            node.start()

    def image(self) -> MetadataImage:
        """What the controller's metadata log says now."""
        return MetadataLog(open_partition(self._nodes[CONTROLLER].log_dir / "__cluster_metadata-0")).state().image

    def partition(self, topic: str, number: int = 0) -> PartitionImage | None:
        """What the controller's metadata log says of a partition now."""
        found = self.image().topics.get(topic)
        return None if found is None else found.partitions.get(number)

    def await_partition(self, topic: str, condition: Callable[[PartitionImage], bool]) -> PartitionImage:
        """Wait until the metadata says so."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            found = self.partition(topic)
            if found is not None and condition(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.2)
