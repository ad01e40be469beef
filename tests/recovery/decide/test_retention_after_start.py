"""A plan says what retention deletes soon after the start: of an older copy that may be all there is.

Kafka 4.3.0, started with `log.retention.ms=60000` on a directory that was older, deleted every record within seconds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

LATER = ("--at", "2100-01-01T00:00:00Z")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's directory, stopped in order."""
    return own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")


def test_what_retention_takes_is_what_the_command_about_it_foresees(data: Path) -> None:
    limit = "retention.ms=60000"
    (planned,) = kafkalog("plan", "--json", data, "--config", limit, *LATER).objects
    told = {each["partition"]: each["detail"] for each in planned["consequences"] if each["kind"] == "retention"}
    foreseen = kafkalog("retention", "--json", data, "--config", limit, *LATER).objects
    going = {Path(each["path"]).name: each["segments_going"] for each in foreseen if each.get("bytes_going")}
    assert going
    assert told.keys() == going.keys()
    for name, count in going.items():
        assert told[name].startswith(f"retention deletes {count} of ")


def test_it_stands_where_nothing_else_is_lost(data: Path) -> None:
    printed = " ".join(kafkalog("plan", data, "--config", "retention.ms=60000", *LATER).out.split())
    assert "lost with this plan: nothing but what retention deletes" in printed
    assert "retention.ms=" not in kafkalog("plan", data, *LATER).out.replace("retention.ms=-1", ""), "nobody has set it"
