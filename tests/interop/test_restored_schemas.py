"""A real broker serves a `_schemas` that was given back, record for record as it was written out."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest

import kafkalog
from testkit.kafka.real_broker import RealBroker
from testkit.recorded.fixture_data import expected_values, unpack_values
from testkit.running.command import kafkalog as run

pytestmark = pytest.mark.interop


def test_a_broker_serves_the_restored_registry(tmp_path: Path) -> None:
    recorded = unpack_values(tmp_path / "recorded")
    (tmp_path / "schemas.jsonl").write_text(run("schemas", "--export", "records", recorded).out)
    assert run("build", tmp_path / "schemas.jsonl", "--into", tmp_path / "restored").code == 0
    with RealBroker("4.1.0", tmp_path / "broker") as broker:
        broker.start()
        broker.create("_schemas", cleanup_policy="compact")
        broker.stop()
        place = broker.log_dir / "_schemas-0"
        for path in place.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in (tmp_path / "restored" / "_schemas-0").iterdir():
            if path.name != "partition.metadata":  # the id of the topic that the broker has made
                shutil.copyfile(path, place / path.name)
        broker.start()
        served = broker.records("_schemas")["_schemas-0"]["records"]
        broker.stop()
        ids = kafkalog.read_schemas(broker.log_dir).ids
    lines = [json.loads(line) for line in (tmp_path / "schemas.jsonl").read_text().splitlines()]
    assert len(lines) > 25
    found = [tuple(base64.b64decode(each[part]) for part in ("key", "value")) for each in served]
    assert found == [(each["key"].encode(), each["value"].encode()) for each in lines]
    places = [(each["offset"], each["timestamp"]) for each in served]
    assert places == [(each["offset"], each["timestamp"]) for each in lines]
    needed = {line["value_schema"]["id"] for line in expected_values()
              if line.get("value_schema") and not line.get("either")}  # fmt: skip
    assert needed <= ids
