"""The settings of a pass, under Kafka's names."""

from __future__ import annotations

import pytest

from kafkalog import UsageError
from kafkalog.recovery.facts.cleaner_settings import CleanerConfig, known_settings


def test_without_any_nothing_is_compacted() -> None:
    made = CleanerConfig.from_names({})
    assert (made.is_compacted, made.deletes_old) == (False, True)
    assert (made.offset_map_slots, made.offset_map_limit) == (5_592_405, 5_033_164)


@pytest.mark.parametrize(
    ("text", "is_compacted", "deletes_old"),
    [("compact", True, False), ("compact,delete", True, True), (" Delete , COMPACT ", True, True), ("", False, False)],
)
def test_the_policy(text: str, is_compacted: bool, deletes_old: bool) -> None:
    made = CleanerConfig.from_names({"cleanup.policy": text})
    assert (made.is_compacted, made.deletes_old) == (is_compacted, deletes_old)


def test_a_topics_own_name_wins_over_the_brokers() -> None:
    given = {"log.segment.bytes": "100", "segment.bytes": "200", "log.cleaner.delete.retention.ms": "5"}
    made = CleanerConfig.from_names(given)
    assert (made.segment_bytes, made.delete_retention_ms) == (200, 5)
    assert CleanerConfig.from_names({**given, "internal.segment.bytes": "300"}).segment_bytes == 300


def test_retention_has_three_names_for_brokers() -> None:
    assert known_settings({"log.retention.hours": "2"})["retention.ms"] == "7200000"
    assert known_settings({"log.retention.hours": "2", "log.retention.minutes": "3"})["retention.ms"] == "180000"
    assert known_settings({"log.retention.minutes": "-1"})["retention.ms"] == "-1"
    assert known_settings({"log.retention.minutes": "3", "log.retention.ms": "4"})["retention.ms"] == "4"


def test_what_changes_no_byte_is_accepted() -> None:
    assert CleanerConfig.from_names({"compression.type": "zstd", "max.message.bytes": "1"}) == CleanerConfig()


def test_the_map_is_a_threads_share() -> None:
    made = CleanerConfig.from_names({"log.cleaner.dedupe.buffer.size": "2400", "log.cleaner.threads": "2"})
    assert (made.offset_map_slots, made.offset_map_limit) == (50, 45)


@pytest.mark.parametrize("name", ["min.cleanable.dirty.ratio", "segment.bytes", "cleanup.policy"])
def test_what_is_no_value_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        CleanerConfig.from_names({name: "none of it"})


@pytest.mark.parametrize("name", ["log.retention.minutes", "log.retention.hours"])
@pytest.mark.parametrize("text", ["none of it", "", "9" * 30])
def test_a_retention_in_other_units_that_is_no_number_is_refused(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=r"retention\.ms needs a number"):
        CleanerConfig.from_names({name: text})
