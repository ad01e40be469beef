"""Decoded columns beside Spark's own `from_avro`: the same types and the same values, and the page's example runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog
from testkit.kafka.kafka_jars import further_jars
from testkit.recorded.fixture_data import unpack_values

pytestmark = [pytest.mark.interop, pytest.mark.java]

AVRO, VERSION = "spark-avro_2.13", "4.1.1"
PROGRAM = Path(__file__).parent / "spark_avro" / "decode.py"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-values.md"


@pytest.mark.parametrize("topic", ["primitives-russet", "evolving-onyx"])
def test_the_same_as_sparks_from_avro(topic: str, tmp_path: Path) -> None:
    root = unpack_values(tmp_path)
    for number in range(2):
        if (recorded := root / f"{topic}-{number}").exists():
            recorded.rename(root / f"prices-{number}")
    (block,) = [
        each for each in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        if "from_avro" in each
    ]  # fmt: skip
    source = block.replace('"data"', repr(str(root))).replace("prices-value", f"{topic}-value")
    jars = [str(path) for path in further_jars(VERSION, AVRO, group="org.apache.spark")]
    job = {"jars": jars, "source": source, "path": str(root), "topic": "prices"}
    paths = os.pathsep.join([str(Path(kafkalog.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(job)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    theirs, ours = found["rows"]
    assert len(theirs) > 10
    assert theirs == ours
    assert found["types"][0] == found["types"][1]
