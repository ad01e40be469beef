"""Access control entries in words, as Kafka's own client printed them of the cluster that wrote the files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from testkit.recorded.fixture_data import FIXTURES
from testkit.recorded.quorums import node
from testkit.running.command import kafkalog

PRINTED = re.compile(
    r"resourceType=(\w+), name=(.+?), patternType=(\w+)\), entry=\(principal=(.+?), host=(.+?), operation=(\w+), "
    r"permissionType=(\w+)\)"
)


@pytest.mark.parametrize(("name", "path"), [("dynamic", "kafka-4.3.0/dynamic"), ("4.4.0/static", "kafka-4.4.0/static")])
def test_entries_are_named_as_kafka_names_them(name: str, path: str) -> None:
    facts = json.loads((Path(FIXTURES) / "quorum" / path / "expected.json").read_text())["facts"]
    wanted = [PRINTED.search(text) for text in facts["acls"]]
    assert wanted
    lines = kafkalog("metadata", node(name, 1)).lines
    begin = lines.index("access control")
    rows = [line.split() for line in lines[begin + 2 : begin + 2 + len(wanted)]]
    order = ["resource", "name", "pattern", "principal", "host", "operation", "permission"]
    assert lines[begin + 1].split() == order
    assert sorted(rows) == sorted(list(each.groups()) for each in wanted if each is not None)
