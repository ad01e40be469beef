"""Kafka's MirrorMaker 2 as a process, from one cluster to another."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testkit.kafka import kafka_jars

ARTIFACTS = ("connect-mirror", "connect-mirror-client")
MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
PREFIX = "dead"
SETTINGS = """
clusters = dead, alive
dead.bootstrap.servers = {source}
alive.bootstrap.servers = {target}
dead->alive.enabled = true
dead->alive.topics = .*
alive->dead.enabled = false
dead->alive.offset-syncs.topic.location = target
dead->alive.sync.topic.acls.enabled = false
dead->alive.emit.heartbeats.enabled = false
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
dead.consumer.isolation.level = read_committed
"""


@contextmanager
def mirroring(version: str, source: str, target: str, directory: Path) -> Iterator[Path]:
    """It runs until the end of the context; gives what it has written to its log."""
    settings, log = directory / "mirror.properties", directory / "mirror.log"
    settings.write_text(SETTINGS.format(source=source, target=target))
    command = kafka_jars.java(version, MAIN, str(settings), classes=kafka_jars.further_jars(version, *ARTIFACTS))
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield log
        finally:
            process.kill()
