"""Spark Connect for the tests: what it needs beyond Spark itself, kept in the checkout's cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from testkit.kafka import kafka_jars
from testkit.running import pinned_packages

HERE = Path(__file__).resolve().parents[3] / "interop" / "spark_connect"
JOB = HERE / "through_connect.py"
JOB_SECONDS = 300


def setup() -> Path:
    """Get what is missing and give the folder with the packages; `KafkaUnavailableError` in one line."""
    directory = kafka_jars.cache_directory() / "spark-connect"
    with kafka_jars._locked(directory):
        pinned_packages.install(directory / "python", HERE / "requirements.txt", "what Spark Connect needs")
    return directory / "python"


def through_connect(paths: list[str], folder: Path) -> dict[str, Any]:
    """What `through_connect.py` answers."""
    source = Path(__file__).resolve().parents[4] / "src"
    values = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    values |= {"PYTHONPATH": os.pathsep.join([str(setup()), str(source)]), "SPARK_LOCAL_IP": "127.0.0.1"}
    values.pop("SPARK_HOME", None)
    command = [sys.executable, str(JOB), json.dumps({"paths": paths, "folder": str(folder)})]
    done = subprocess.run(command, capture_output=True, text=True, env=values, timeout=JOB_SECONDS, check=False)
    if done.returncode:
        raise AssertionError(f"the job ended with {done.returncode}: {done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
