"""A worker of Kafka Connect as a process, whose connector writes a topic into a file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testkit.kafka import kafka_jars

ARTIFACTS = ("connect-file",)
STANDALONE = "org.apache.kafka.connect.cli.ConnectStandalone"
DISTRIBUTED = "org.apache.kafka.connect.cli.ConnectDistributed"
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
COMMON = {"key.converter": CONVERTER, "value.converter": CONVERTER, "offset.flush.interval.ms": 1000,
          "plugin.discovery": "only_scan"}  # fmt: skip


def file_sink(topics: str, output: Path) -> dict[str, str]:
    """A connector that writes each record's value as a line."""
    return {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1",
            "topics.regex": topics, "file": str(output)}  # fmt: skip


@contextmanager
def _running(version: str, main: str, directory: Path, settings: Mapping[str, object], *words: str) -> Iterator[Path]:
    """Until the end of the context; gives its log."""
    path, log = directory / "worker.properties", directory / "worker.log"
    path.write_text("".join(f"{name}={value}\n" for name, value in {**COMMON, **settings}.items()))
    classes = kafka_jars.further_jars(version, *ARTIFACTS)
    command = kafka_jars.java(version, main, str(path), *words, classes=classes)
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield log
        finally:
            process.kill()


@contextmanager
def standalone(version: str, bootstrap: str, directory: Path, connector: Mapping[str, str]) -> Iterator[Path]:
    """A worker that needs no topics of its own."""
    sink = directory / "sink.properties"
    sink.write_text("".join(f"{name}={value}\n" for name, value in {"name": "sink", **connector}.items()))
    settings = {"bootstrap.servers": bootstrap, "offset.storage.file.filename": directory / "connect.offsets",
                "listeners": "HTTP://127.0.0.1:0"}  # fmt: skip
    with _running(version, STANDALONE, directory, settings, str(sink)) as log:
        yield log


@contextmanager
def distributed(version: str, source: str, own: str, directory: Path, rest: int) -> Iterator[Path]:
    """A worker whose own topics are in the cluster at `own`, and whose connectors read from `source`."""
    settings: dict[str, object] = {
        "bootstrap.servers": own, "consumer.bootstrap.servers": source, "group.id": "workers",
        "listeners": f"HTTP://127.0.0.1:{rest}",
    }  # fmt: skip
    for name in ("config", "offset", "status"):
        settings |= {f"{name}.storage.topic": f"connect-{name}", f"{name}.storage.replication.factor": 1}
    with _running(version, DISTRIBUTED, directory, settings) as log:
        yield log


def as_request(connector: Mapping[str, str]) -> bytes:
    """The body of the REST request that starts a connector."""
    return json.dumps({"name": "sink", "config": connector}).encode()
