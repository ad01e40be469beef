"""A plan says what retention deletes soon after the start: of an older copy that may be all there is.

Kafka 4.3.0, started with `log.retention.ms=60000` on a directory that was older, deleted every record within seconds.
"""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("given", ["retention.ms=60000", "log.retention.hours=168"])
def test_a_report_says_what_the_plan_says(given: str, data: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"node.id=1\n{given}\n")
    words = (data, "--server-properties", properties, *LATER)
    reported = kafkalog("report", "--format", "text", "--output", "-", *words).out
    planned = " ".join(kafkalog("plan", *words).out.split())
    assert "lost with this plan: nothing but what retention deletes retention deletes" in planned
    assert "lost with this plan: nothing but what retention deletes retention deletes" in " ".join(reported.split())
    assert "no record, as far" not in " ".join(reported.split())


def test_a_broker_whose_file_names_no_limit_has_the_default_one(data: Path, tmp_path: Path) -> None:
    """Kafka 4.1.0, started with such a file on a directory whose newest record was older, deleted all records."""
    properties = tmp_path / "server.properties"
    properties.write_text("node.id=1\n")
    limit = "retention.ms=604800000"  # log.retention.hours=168

    def told(*words: object) -> dict[str, str]:
        (planned,) = kafkalog("plan", "--json", data, *words).objects
        return {each["partition"]: each["detail"] for each in planned["consequences"] if each["kind"] == "retention"}

    by_default = told("--server-properties", properties, *LATER)
    assert by_default == told("--config", limit, *LATER)
    assert not any(name.startswith("__") for name in by_default)
    unlimited = told("--server-properties", properties, "--config", "retention.ms=-1", *LATER)
    assert unlimited.keys() <= told(*LATER).keys()
    newest = kafkalog("retention", "--json", data, "--config", limit).objects
    times = [each["largest_timestamp"] for line in newest for each in line.get("segments", ()) if each["size"]]
    assert not told("--server-properties", properties, "--at", str(min(times) + 604_800_000))


def test_the_time_of_a_log_without_timestamps_is_that_of_its_file(tmp_path: Path) -> None:
    """Kafka 3.6.2 deleted all records of format 0 in files that were older than its limit, 34 s after the start."""
    old = own_copy(brokers("0.9.0.1/segments")[0], tmp_path / "old")
    (planned,) = kafkalog("plan", "--json", old, "--config", "retention.ms=60000", *LATER).objects
    told = {each["partition"]: each["detail"] for each in planned["consequences"] if each["kind"] == "retention"}
    foreseen = kafkalog("retention", "--json", old, "--config", "retention.ms=60000", *LATER).objects
    going = {Path(each["path"]).name: each["segments_going"] for each in foreseen if each.get("bytes_going")}
    assert going
    assert told.keys() == going.keys()
    assert all(told[name].startswith(f"retention deletes {count} of {count} seg") for name, count in going.items())


def test_a_segment_that_holds_no_record_any_more_holds_back_those_after_it(data: Path) -> None:
    """Kafka 4.1.0 deleted only the segments before the one that a salvage had emptied."""
    log = max(data.glob("*-0"), key=lambda directory: len(list(directory.glob("*.log"))))
    emptied = sorted(log.glob("*.log"))[1]
    for path in (emptied, emptied.with_suffix(".timeindex")):
        path.chmod(0o600)
        path.write_bytes(b"")
    os.utime(emptied, (2**33, 2**33))
    (planned,) = kafkalog("plan", "--json", data, "--config", "retention.ms=60000", *LATER).objects
    told = {each["partition"]: each["detail"] for each in planned["consequences"] if each["kind"] == "retention"}
    assert told[log.name].startswith("retention deletes 1 of 6 segments")
    assert f", up to offset {int(emptied.stem)}," in told[log.name]


def test_it_stands_where_nothing_else_is_lost(data: Path) -> None:
    printed = " ".join(kafkalog("plan", data, "--config", "retention.ms=60000", *LATER).out.split())
    assert "lost with this plan: nothing but what retention deletes" in printed
    assert "retention.ms=" not in kafkalog("plan", data, *LATER).out.replace("retention.ms=-1", ""), "nobody has set it"
