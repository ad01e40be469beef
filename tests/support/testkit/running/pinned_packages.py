"""Packages that only some tests need, from a list with hashes, in a folder of the checkout's cache."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from testkit.kafka import kafka_jars


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def install(target: Path, requirements: Path, what: str) -> None:
    """Into `target`, whose folder is locked, if they are not there; `KafkaUnavailableError` in one line."""
    wanted = kafka_jars._digest(requirements.read_text())
    if kafka_jars._stamped(target, wanted):
        return
    made = fresh(target.with_name(f"{target.name}.new"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    command = [*pip, "--no-build-isolation", "--target", str(made), "-r", str(requirements)]
    kafka_jars._run(command, target.parent, f"pip did not install {what}")
    kafka_jars._replace(target, made, wanted)
