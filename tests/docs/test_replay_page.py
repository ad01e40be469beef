"""What docs/replay.md says: its options are there, its settings are taken, its columns are those of the file."""

from __future__ import annotations

import re
from pathlib import Path

import confluent_kafka
import pyarrow.parquet as pq
import pytest

import kafkalog
from kafkalog.cli.records.replay import command as replay
from kafkalog.replay.offset_map import write_parquet
from kafkalog.replay.retention import settings_for
from kafkalog.replay.target import Target
from testkit.kafka.mock_cluster import made_in_a_mock, mock_cluster
from testkit.running.command import kafkalog as command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "replay.md"
TEXT = PAGE.read_text()
OWN = re.sub(r"```\nkafka-configs.sh.*?```", "", TEXT, flags=re.DOTALL)


def test_every_option_is_one() -> None:
    named = set(re.findall(r"(--[a-z][a-z-]*)", OWN)) - {"--into"}  # of recover
    assert named <= {word for each in replay.params for word in each.opts}
    assert len(named) > 10


def test_the_plan_of_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    with kafkalog.Log.open("data/orders-0") as log:
        log.append([(b"key", b"value")])
    monkeypatch.setattr(Target, "create", made_in_a_mock)
    (line,) = re.findall(r"^kafkalog (replay .*)$", TEXT, re.MULTILINE)
    with mock_cluster(["orders"]) as bootstrap:
        words = line.replace("kafka.example:9092", bootstrap).split()
        asked = command(*words)
        assert asked.code == 3
        assert "orders" in asked.out
        assert command(*words, "--yes").code == 2
    (made,) = Path().glob("replay-*.parquet")
    assert pq.read_schema(made).names == re.findall(r"`([a-z_]+)`", re.findall(r"record: (.*?);", TEXT)[0])


def test_the_settings_of_the_client_are_librdkafkas() -> None:
    lines = re.findall(r"^((?:security|sasl)[a-z.]+)=(\S+)$", TEXT, re.MULTILINE)
    assert len(lines) == 4
    confluent_kafka.Producer(dict(lines))


def test_the_settings_that_keep_everything() -> None:
    for name, value in settings_for({"cleanup.policy": "compact"}, (), 0).written.items():
        if name.startswith("retention"):
            assert f"`{name}={value}`" in TEXT
    assert "`min.compaction.lag.ms`" in TEXT


def test_a_map_without_records_has_the_columns(tmp_path: Path) -> None:
    write_parquet(str(tmp_path / "empty.parquet"), {}, {})
    assert pq.read_table(tmp_path / "empty.parquet").num_rows == 0
