"""Commits of negative offsets, as clients for other languages have made (-1001): Kafka's clients take them for none.

`OffsetFetchResponse.INVALID_OFFSET` is -1; `ConsumerCoordinator` and `KafkaAdminClient` treat every offset below 0 so.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC, TOPICS
from kafkalog.cluster.records.messages import encode
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType
from testkit.running.command import kafkalog


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A group `g` that has committed offset 7 of partition 0, and negative ones of two others."""
    directory = tmp_path / f"{CONSUMER_OFFSETS_TOPIC}-0"
    directory.mkdir()
    _, key, values = TOPICS[CONSUMER_OFFSETS_TOPIC][1]
    records = []
    for partition, offset in enumerate((7, -1001, -2)):
        names = {"group": "g", "topic": "orders", "partition": partition}
        place = struct.pack(">h", 1) + encode(key, key.versions[-1], names)
        commit = {"offset": offset, "leader_epoch": -1, "metadata": "", "commit_timestamp": 1}
        value = struct.pack(">h", 3) + encode(values[0], 3, commit)
        records.append(Record(partition, 1, TimestampType.CREATE_TIME, place, value))
    (directory / f"{0:020}.log").write_bytes(build_batch(records))
    return tmp_path


def test_a_negative_offset_is_no_commit(data: Path) -> None:
    head, row = kafkalog("groups", data, "--offsets-partitions", "1").lines[1:3]
    assert row[: head.index("offsets") + len("offsets")].split()[-1] == "1", "of three"
    rows = [line.split() for line in kafkalog("offsets", data).lines if line.startswith("g ")]
    assert [each[2:4] for each in rows] == [["0", "7"], ["1", "none"], ["2", "none"]]
    assert kafkalog("offsets", data, "--group", "g", "--format", "reset-csv").lines == ["orders,0,7"]


def test_json_has_them_as_they_are(data: Path) -> None:
    lines = kafkalog("offsets", data, "--json").objects
    assert [line["offset"] for line in lines] == [7, -1001, -2]
    assert [line["lag"] for line in lines] == [None, None, None]
