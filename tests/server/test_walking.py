"""Where there is no index, walks over a log are done by workers, in slices, and what they learn is kept."""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog import Log, LogConfig
from kafkalog.log.walk.sliced import run_slices
from kafkalog.server import served_log, walking
from kafkalog.server.catalog import Catalog
from kafkalog.server.headers import Place
from kafkalog.server.headers import places as real_places
from kafkalog.server.waypoints import Waypoints, WaypointsOfFiles
from testkit.serving.raw_client import RawClient, fetching
from testkit.serving.serving import serving

BATCHES = 5000
EAGER, SLICE = 50, 400


@pytest.fixture
def without_index(tmp_path: Path) -> Path:
    """Many batches of one record, and no index."""
    root = tmp_path / "data"
    root.mkdir()
    with Log.open(root / "t-0", LogConfig(retention_ms=-1)) as log:
        log.append([b"x"])
    (path,) = (root / "t-0").glob("*.log")
    batch = path.read_bytes()
    # a base offset is not under the checksum
    path.write_bytes(b"".join(struct.pack(">q", number) + batch[8:] for number in range(BATCHES)))
    for each in (root / "t-0").glob("*.*index"):
        each.unlink()
    return root


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Headers that each thread has read since it began its latest walk, at most."""
    most: Counter[str] = Counter()

    def counted(*given: Any) -> Iterator[Place]:
        name = threading.current_thread().name
        for count, each in enumerate(real_places(*given), 1):
            most[name] = max(most[name], count)
            most["all"] += 1
            yield each

    monkeypatch.setattr(served_log, "places", counted)
    monkeypatch.setattr(walking, "_EAGER_HEADERS", EAGER)
    monkeypatch.setattr(served_log, "_SLICE_HEADERS", SLICE)
    monkeypatch.setattr(served_log, "_MOST_HEADERS", EAGER)
    return most


def fetched(client: RawClient, offset: int, most: int = 200) -> int:
    """The offset of the first batch that a consumer gets from there."""
    for _ in range(100):
        body = fetching("t", {0: offset}, max_wait_ms=200, most=most)
        (topic,) = client.ask("Fetch", 11, **body)["responses"]
        (found,) = topic["partitions"]
        assert found["error_code"] == 0
        if found["records"]:
            (base,) = struct.unpack_from(">q", found["records"])
            return int(base)
    raise AssertionError("nothing came")


def test_who_serves_clients_walks_no_further_than_a_little(without_index: Path, steps: Counter[str]) -> None:
    with serving(without_index) as server, RawClient(server.address) as client:
        assert fetched(client, BATCHES - 3) == BATCHES - 3
        in_all = steps["all"]
        assert in_all < 4 * BATCHES
        for offset in range(7, BATCHES, 251):  # by what was learned, without another walk
            assert fetched(client, offset) == offset
        assert steps["all"] - in_all < BATCHES // 251 * 4 * EAGER
    serving_threads = [name for name in steps if name[-1].isdigit() and "worker" not in name and "large" not in name]
    assert serving_threads
    for name in serving_threads:
        assert steps[name] <= EAGER + 1, name
    assert max(count for name, count in steps.items() if "worker" in name) <= SLICE + 1


def test_a_large_answer_without_an_index_is_shorter(without_index: Path, steps: Counter[str]) -> None:
    """And the rest comes with the next request."""
    with serving(without_index) as server, RawClient(server.address) as client:
        assert fetched(client, 0, 10 << 20) == 0
        assert fetched(client, BATCHES // 2, 10 << 20) == BATCHES // 2
    assert all(count <= SLICE + 1 for name, count in steps.items() if name != "all")


def test_places_are_one_for_four_kibibytes() -> None:
    found = Waypoints()
    for number in range(10_000):
        found.passed(number * 100, (number + 1) * 100, number)
        found.passed(0, 5, 99)  # what is not the next one teaches nothing
    assert len(found) == 10_000 * 100 // 4100
    for offset in (0, 1, 41, 5000, 9999, 20_000):
        position = found.before(offset)
        assert position <= offset * 100
        assert min(offset, 10_000) * 100 - position <= 4100
    found.skipped(1_000_000, 2_000_000)
    assert found.before(10_000) == 2_000_000


def test_places_of_all_files_are_bounded() -> None:
    every = WaypointsOfFiles(most=100)
    for file in range(50):
        one = every.of(file)
        for number in range(20):
            one.passed(number * 5000, (number + 1) * 5000, number)
    assert len(every.of(49)) == 20
    assert sum(len(every.of(file)) > 0 for file in range(49, 0, -1)) <= 6


def test_a_look_up_of_a_time_is_done_in_slices(without_index: Path) -> None:
    with serving(without_index) as server:
        log = server.topics["t"].partitions[0]
        newest = run_slices(log.of_time(None))
        assert newest is not None
        same = Catalog([without_index]).topics["t"].partitions[0]
        assert sum(1 for _ in same.of_time(newest.timestamp + 1)) >= BATCHES
