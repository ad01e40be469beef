"""Kafka's own command line tools under their names, as a page types them: scripts in a folder that goes on PATH."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from testkit.kafka import kafka_jars

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MAINS", "write_tools"]

MAINS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
    "zookeeper-shell.sh": "org.apache.zookeeper.ZooKeeperMain",
}


def write_tools(version: str, folder: Path) -> Path:
    """Write one script for each tool."""
    folder.mkdir()
    for name, main in MAINS.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(kafka_jars.java(version, main, heap="128m"))} "$@"\n')
        script.chmod(0o755)
    return folder
