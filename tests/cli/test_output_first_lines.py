"""What a command says first, or in place of nothing: the title of a table, that nothing needs doing, an empty range."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.words.insides import NOT_EXAMINED
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

NOT_NEEDED = "a recovery is not needed"


def test_a_directory_that_was_stopped_cleanly_needs_no_recovery(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    assert f"nothing to do; {NOT_EXAMINED}" in kafkalog("plan", root).lines
    assert NOT_NEEDED in kafkalog("plan", "--full", root).out
    (root / ".kafka_cleanshutdown").unlink()
    assert NOT_NEEDED not in kafkalog("plan", root).out


def test_damage_needs_one_although_the_broker_was_stopped_cleanly(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    log = max(root.glob("orders-23-0/*.log"))
    log.write_bytes(log.read_bytes()[:-7])
    assert NOT_NEEDED not in kafkalog("plan", root).out


def test_a_partition_that_was_named_is_the_title_of_its_table(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    assert kafkalog("ls", root / "clicks-42-0").lines[0] == str(root / "clicks-42-0")
    assert "named by their paths" in kafkalog("ls", root / "clicks-42-0", root / "orders-23-0").lines[0]


@pytest.mark.parametrize("words", [
    ("--start-offset", "10", "--end-offset", "5"), ("--since", "2026-01-01", "--until", "2025-01-01"),
])  # fmt: skip
def test_a_range_that_ends_before_it_begins_is_refused(words: tuple[str, ...]) -> None:
    finished = kafkalog("dump", *words, brokers("4.1.1/segments")[0])
    assert (finished.code, finished.out) == (64, "")
    assert "nothing can lie between them" in finished.err


def test_a_partition_without_records_has_no_range_of_offsets(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    (root / "parcels-24-0").rename(root / f"parcels-24-0.{'0' * 32}-delete")
    shown = kafkalog("undelete", root, "--topic", "parcels-24", "--yes")
    assert shown.code == 2, shown.err
    assert "0 records; no offsets, the next one is 0" in shown.out
