"""What retention will take is what `Log` takes, whose deletions are compared with Kafka's own `UnifiedLog`."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from kafkalog import Log, LogConfig, NewRecord, UsageError
from kafkalog.cli.looking.retention import _held
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.files.index_files import TIME_ENTRY
from kafkalog.inspect.retention import PartitionRetention, SegmentRetention, foresee_retention
from kafkalog.log import open_log_dir
from kafkalog.recovery.facts.topic_facts import NO_FACTS, read_topic_facts
from testkit.made.scenes import SCENES
from testkit.recorded.broker_dirs import brokers
from testkit.running.command import kafkalog

HOUR = 3_600_000
START = 1_700_000_000_000


def written(folder: Path, times: list[int], config: LogConfig | None = None) -> Path:
    """A log with one segment for each time."""
    folder.mkdir(exist_ok=True)
    with Log.open(folder / "t-0", config or LogConfig(), clock=lambda: START) as log:
        for number, time in enumerate(times):
            if number:
                log.roll()
            log.append([NewRecord(key=b"k", value=b"value" * (1 + number % 7), timestamp=time)])
    return folder


def foreseen(folder: Path, at: int, **config: int | str) -> PartitionRetention:
    given = {name.replace("_", "."): str(value) for name, value in config.items()}
    (found,) = foresee_retention(open_log_dir(folder), at=at, facts=NO_FACTS, instead=given)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_what_goes_when_is_what_a_log_deletes_then(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    times = [START + chance.randrange(-200, 200) * HOUR for _ in range(chance.randrange(1, 9))]
    retention_ms = chance.choice([-1, 10 * HOUR, 100 * HOUR])
    retention_bytes = chance.choice([-1, 200, 500])
    folder = written(tmp_path, times)
    found = foreseen(folder, START, retention_ms=retention_ms, retention_bytes=retention_bytes)
    assert [each.base_offset for each in found.segments] == list(range(len(times)))
    moments = sorted({START, *(each.goes_at for each in found.segments if each.goes_at is not None)})
    checked = count()
    for at in [moment for moment in moments if moment >= START]:
        for moment in (at - 1, at) if at > START else (at,):
            goes = [(each.base_offset, each.goes_at) for each in found.segments if each.goes_at is not None]
            wanted = [base for base, time in goes if time <= moment]
            config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes, file_delete_delay_ms=0)
            copy = written(tmp_path / f"{moment}", times)
            with Log.open(copy / "t-0", config, clock=lambda now=moment: now) as log:  # type: ignore[misc]
                deleted = log.delete_old_segments()
            assert list(range(deleted)) == wanted, (seed, moment)
            next(checked)
    assert next(checked) > 0


def test_a_record_of_the_future_holds_what_comes_after_it(tmp_path: Path) -> None:
    folder = written(tmp_path, [START, START + 1000 * HOUR, START + 1, START + 2])
    found = foreseen(folder, START + 20 * HOUR, retention_ms=10 * HOUR)
    assert [each.goes_at for each in found.segments] == [START + 10 * HOUR + 1] + [START + 1010 * HOUR + 1] * 3
    assert [each.held_by for each in found.segments] == [None, None, 1, 1]
    assert [each.base_offset for each in found.going] == [0]
    assert found.next_at == found.last_at == START + 1010 * HOUR + 1


def test_a_record_of_1970_is_as_old_as_it_says(tmp_path: Path) -> None:
    """`LogSegment.largestTimestamp` takes 0 for a time; only a negative one leaves the time of the file."""
    found = foreseen(written(tmp_path, [0, START]), START, retention_ms=10 * HOUR)
    assert [each.base_offset for each in found.going] == [0]
    with Log.open(tmp_path / "t-0", LogConfig(retention_ms=10 * HOUR), clock=lambda: START) as log:
        assert log.delete_old_segments() == 1


@pytest.mark.parametrize(
    ("recovery_point", "is_marked", "held"),
    [
        (2, False, [None, None, None]),
        (1, False, [None, None, 1]),
        (3, True, [None, None, None]),
    ],
)
def test_the_age_of_a_segment_that_is_not_recovered_is_that_of_its_time_index(
    recovery_point: int, is_marked: bool, held: list[int | None], tmp_path: Path
) -> None:
    """A real 4.1.1 deleted segments below its recovery point by stale time indexes, in spite of a record of 2100."""
    folder = written(tmp_path, [START, START + 1000 * HOUR, START + 1])
    (folder / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {recovery_point}\n")
    if not is_marked:
        (folder / ".kafka_cleanshutdown").unlink()
    (folder / "t-0" / f"{1:020}.timeindex").write_bytes(TIME_ENTRY.struct.pack(START, 0))
    found = foreseen(folder, START + 20 * HOUR, retention_ms=10 * HOUR)
    assert [each.held_by for each in found.segments] == held
    is_stale = held[2] is None
    assert [each.base_offset for each in found.going] == ([0, 1, 2] if is_stale else [0])
    assert [each.code for each in found.findings] == [FindingCode.INDEX_ENTRY_MISMATCH] * is_stale
    if is_marked:
        return  # a plan makes the index again
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={folder}\nlog.retention.ms={10 * HOUR}\n")
    planned = kafkalog("plan", "--server-properties", properties, "--at", START + 20 * HOUR)
    said = " ".join(planned.out.split())
    assert f"retention deletes {len(found.going)} of 3 segments of t-0" in said
    assert ("retention deletes 3 segments before that, 1 after it" in said) == is_stale


@pytest.mark.parametrize(
    ("size", "words"), [(0, "which is empty, and whose file is of"), (9, "whose newest record is of")]
)
def test_an_empty_segment_that_holds_others_has_no_record(size: int, words: str) -> None:
    last = SegmentRetention(
        base_offset=761, size=size, largest_timestamp=1000, goes_at=2000, reason="time", held_by=None
    )
    held: Any = SimpleNamespace(segments=[last, structs.replace(last, base_offset=800, held_by=761)])
    assert f"by segment 761, {words} 1970-01-01" in (_held(held) or "")


def test_a_compacted_topic_loses_nothing_to_its_age(tmp_path: Path) -> None:
    folder = written(tmp_path, [START, START + 1])
    found = foreseen(folder, START + 10**12, cleanup_policy="compact", retention_ms=1, retention_bytes=1)
    assert (found.going, found.next_at, found.last_at, found.policy) == ([], None, None, "compact")


def test_settings_are_those_of_the_cluster_unless_others_are_tried() -> None:
    (directory,) = brokers("4.1.1/segments")
    facts = read_topic_facts([str(directory)])
    by_topic = {
        each.topic: each for each in foresee_retention(open_log_dir(directory), at=START, facts=facts, instead={})
    }
    assert by_topic["orders-23"].origins["retention.bytes"] == "topic"
    assert by_topic["orders-23"].retention_bytes == int(facts.cleaner_configs["orders-23"]["retention.bytes"])
    assert set(by_topic["stock-41"].origins.values()) == {"default"}
    assert "__cluster_metadata" not in by_topic
    tried = kafkalog("retention", "--json", "--config", "retention.bytes=-1", "-t", "orders-23", directory)
    assert tried.code == 0
    (line,) = tried.objects
    assert (line["retention_bytes"], line["origins"]["retention.bytes"]) == (-1, "--config")


def test_what_kafka_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"retention\.days"):
        foreseen(written(tmp_path, [START]), START, retention_days=3)
    refused = kafkalog("retention", "--config", "retention.ms=soon", tmp_path)
    assert (refused.code, refused.out) == (64, "")
    segment = next((tmp_path / "t-0").glob("*.log"))
    assert kafkalog("retention", segment).code == 64


def test_what_was_deleted_before_and_goes_at_the_next_start_is_said(tmp_path: Path) -> None:
    SCENES["retention-mistake"](tmp_path)
    said = kafkalog("retention", tmp_path / "data")
    deleted = sorted((tmp_path / "data").glob("*/*.log.deleted"))
    assert deleted
    assert f"removed at the next start: {len(deleted)} segments, the first {deleted[0]}" in said.err
    assert "deleted before" not in kafkalog("retention", tmp_path / "data", "--topic", "sessions-20").err
