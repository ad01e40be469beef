"""Spark's own Kafka source for the tests: pyspark 4.0.0 and its four jars, kept in the checkout's cache.

It is the newest release whose Kafka source the registries hold completely.  What kafkalog uses besides is that of the
environment the tests run in.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_jars import KafkaUnavailableError
from testkit.running import pinned_packages

VERSION = "4.0.0"
HERE = Path(__file__).resolve().parents[3] / "interop" / "spark_kafka"
REQUIREMENTS = HERE / "requirements.txt"
JOB = HERE / "compare_sources.py"
ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{VERSION}",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)
JOB_SECONDS = 300


def _directory() -> Path:
    return kafka_jars.cache_directory() / "spark-kafka" / VERSION


def _pom() -> str:
    one = (
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><exclusions><exclusion>"
        "<groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>\n"
    )
    dependencies = "".join(one.format(*artifact.split(":")) for artifact in ARTIFACTS)
    return (kafka_jars.HARNESS / "pom.xml").read_text().replace("<!-- dependencies -->", dependencies)


def setup() -> Path:
    """Get what is missing and give the folder with `python/` and `lib/`; `KafkaUnavailableError` in one line."""
    directory, pom = _directory(), _pom()
    with kafka_jars._locked(directory):
        if not kafka_jars._stamped(directory / "lib", kafka_jars._digest(pom)):
            if shutil.which("mvn") is None:
                raise KafkaUnavailableError(
                    "Spark's Kafka source was not asked: its jars are missing and there is no mvn"
                )
            made = pinned_packages.fresh(directory / "lib.new")
            (directory / "pom.xml").write_text(pom)
            command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={made}"]
            kafka_jars._run(command, directory, f"Maven did not resolve Spark's Kafka source {VERSION}")
            kafka_jars._replace(directory / "lib", made, kafka_jars._digest(pom))
        pinned_packages.install(directory / "python", REQUIREMENTS, f"pyspark {VERSION}")
    return directory


def compare(job: dict[str, Any]) -> dict[str, Any]:
    """What `compare_sources.py` found: `cases`, an answer for each case of the job, and `streamed`."""
    directory = setup()
    source = Path(__file__).resolve().parents[4] / "src"
    values = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    values |= {"PYTHONPATH": os.pathsep.join([str(directory / "python"), str(source)]), "SPARK_LOCAL_IP": "127.0.0.1"}
    values.pop("SPARK_HOME", None)
    jars = [str(path) for path in sorted((directory / "lib").glob("*.jar"))]
    command = [sys.executable, str(JOB), json.dumps({**job, "jars": jars})]
    done = subprocess.run(command, capture_output=True, text=True, env=values, timeout=JOB_SECONDS, check=False)
    if done.returncode:
        raise AssertionError(f"the comparison ended with {done.returncode}: {done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
