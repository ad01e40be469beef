"""However large a directory is, and however odd what is in it, the page stays small and says what it leaves out."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.inspect.stretches import BatchFacts, Kind, segment_maps
from kafkalog.inspect.timeline import Timeline
from kafkalog.log.directories.partition import open_partition
from testkit.made.batches import simple
from testkit.running.page import data_of, parsed, table_named

PAGE_BYTES = 4_000_000


class Nobody:
    """Listens and does nothing."""

    def batch(self, facts: BatchFacts) -> None:
        """Pass over it."""


def many(root: Path, partitions: int, segments: int, damaged: int) -> Path:
    """Partitions of 50 to a topic; the first of them with bytes of a cut batch, or of nothing, at their ends."""
    for number in range(partitions):
        directory = root / f"topic-{number // 50:03d}-{number % 50}"
        directory.mkdir(parents=True)
        for segment in range(segments):
            data = simple(3, 3 * segment)
            if number < damaged and segment == segments - 1:
                data += data[:40] if number % 2 else b"\xff" * 200 + simple(3, 3 * segment + 3)
            (directory / f"{3 * segment:020d}.log").write_bytes(data)
        if number % 50 == 49:
            with (directory / f"{3 * segments:020d}.log").open("wb") as stream:
                stream.truncate(1 << 24)  # a sparse file: nothing but room
    return root


def check(root: Path, partitions: int, damaged: int) -> str:
    made = kafkalog.report(root, deep=False)
    assert made.verdict.code == 1
    page = made.html()
    assert len(page.encode()) < PAGE_BYTES
    parsed_page = parsed(page)
    assert len(table_named(parsed_page, "Partitions").rows()) == min(partitions, 200)
    inventory = parsed_page.one("section", id="inventory").text
    assert f"{partitions - 200:,} partitions are left out of the table" in inventory
    assert "the page would become too large" in parsed_page.one("section", id="map").text
    assert "findings are shown one by one" in parsed_page.one("section", id="damage").text
    drawn = data_of(parsed_page)["map"]["segments"]
    assert len(drawn) <= 360
    worst = [each["name"] for each in drawn if any(row[0] in "CT" for row in each["rows"])]
    assert len(worst) == min(damaged, 120)
    assert len(made.markdown().splitlines()) <= 80
    return page


@pytest.mark.sweep
def test_hundreds_of_partitions(tmp_path: Path) -> None:
    check(many(tmp_path / "logs", 250, 1, 130), 250, 130)


@pytest.mark.sweep
def test_ten_thousand_partitions(tmp_path: Path, measured: Callable[[str, int], None]) -> None:
    page = check(many(tmp_path / "logs", 10_000, 2, 300), 10_000, 300)
    measured("bytes of the report's page of 10,000 partitions", len(page))


def test_damage_in_thousands_of_places_of_one_segment(tmp_path: Path) -> None:
    directory = tmp_path / "logs" / "t-0"
    directory.mkdir(parents=True)
    pieces = [bytearray(simple(1, offset)) for offset in range(3000)]
    for piece in pieces[1::2]:
        piece[-1] ^= 1  # its checksum does not match any more
    (directory / f"{0:020d}.log").write_bytes(b"".join(pieces))
    (made,) = segment_maps(open_partition(directory).segments, {}, Nobody())
    assert len(made.stretches) <= 400
    assert [each.start for each in made.stretches[1:]] == [each.end for each in made.stretches[:-1]]
    assert made.stretches[-1].end == made.segment.size
    assert sum(each.batches for each in made.stretches) == 1500
    assert any(each.kind is Kind.CORRUPT and each.places > 1 for each in made.stretches)


def test_a_finding_of_the_walk_is_told_once(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(simple(1, 0, 5) + simple(1, 1, 2))
    (made,) = segment_maps(open_partition(directory).segments, {}, Nobody())
    assert [each.detail for each in made.stretches] == ["", "leader_epoch_decreases: leader epoch 2 after 5"]


def test_times_of_any_kind_fit_into_few_buckets() -> None:
    for spread in (1, 60_000, 10**12, 2**62):
        timeline = Timeline()
        for number in range(30_000):
            timeline.add(f"t{number % 3}", (number * 7919) % spread, 2, 10)
        series = timeline.series()
        assert series is not None
        assert all(len(buckets) <= 120 for buckets in series.topics.values())
        told = sum(records for buckets in series.topics.values() for records, _size in buckets)
        assert told + series.outside == 60_000
        assert sys.getsizeof(timeline._buckets) < 1 << 20


def test_a_clock_that_is_far_off_hides_nothing() -> None:
    timeline = Timeline()
    timeline.add("t", 0, 1, 1)
    timeline.add("t", 2**63 - 1, 1, 1)
    for number in range(10_000):
        timeline.add("t", 1_700_000_000_000 + 1000 * number, 1, 100)
    timeline.add("t", -1, 5, 100)
    series = timeline.series()
    assert series is not None
    assert series.untimed == 5
    assert 2 <= series.outside < 20
    assert len([records for records, _size in series.topics["t"] if records]) > 20
    assert series.start <= 1_700_000_100_000
    assert series.end >= 1_700_009_900_000


def test_thousands_of_topics_are_a_thousand_and_the_others() -> None:
    timeline = Timeline()
    for number, moment in itertools.product(range(3000), (0, 1000, 10**9)):
        timeline.add(f"t{number}", moment, 1, 10)
    series = timeline.series()
    assert series is not None
    assert len(series.topics) == 1001
    assert sum(records for buckets in series.topics.values() for records, _size in buckets) == 9000
