"""Other minor versions of PySpark than the pinned one, each in a folder of the checkout's cache, and tests run on them.

What else the tests need is that of the environment they run in.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from testkit.kafka import kafka_jars
from testkit.running import pinned_packages, time_limit

HERE = Path(__file__).resolve().parents[3] / "interop" / "spark_versions"
ROOT = Path(__file__).resolve().parents[4]
MINORS = tuple(sorted(path.stem for path in HERE.glob("*.txt")))
LONGEST_SECONDS = 900


def setup(minor: str) -> Path:
    """Get what is missing and give the folder with the package; `KafkaUnavailableError` in one line."""
    directory = kafka_jars.cache_directory() / f"spark-{minor}"
    with kafka_jars._locked(directory):
        pinned_packages.install(directory / "python", HERE / f"{minor}.txt", f"pyspark {minor}")
    return directory / "python"


def run_tests(minor: str, tests: list[str], folder: Path) -> tuple[int, str]:
    """How many tests passed on that version, and what pytest printed; `AssertionError` if one failed or was skipped."""
    found = setup(minor)
    of_this_run = ("PYTEST_", time_limit.UNTIL)  # what has begun goes on to its end
    values = {name: value for name, value in os.environ.items() if not name.startswith(of_this_run)}
    values |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    values |= {"PYTHONPATH": os.pathsep.join([str(found), str(ROOT / "src")]), "KAFKALOG_PYSPARK": minor}
    values.pop("SPARK_HOME", None)
    # PySpark 4.1 leaves the sockets of results to the garbage collector
    quiet = ["-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    options = ["-q", "-n", "0", "-p", "no:randomly", *quiet, "--basetemp", str(folder)]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    done = subprocess.run(
        command, capture_output=True, text=True, env=values, timeout=LONGEST_SECONDS, check=False, cwd=ROOT
    )
    last = re.search(r"^(\d+) passed(?:, \d+ deselected)? in ", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert last is not None, done.stdout[-3000:]
    return int(last[1]), done.stdout
