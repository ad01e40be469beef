"""The ranges that answer fetches, beside a walk over all batches, where indexes are longer than what is read of one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkalog import Log, LogConfig, NewRecord
from kafkalog.log import open_partition
from kafkalog.server.files import OpenLogs
from kafkalog.server.served_log import ServedLog

BATCHES = 3000
Batch = tuple[int, int, int, int]
"""Position, size, first offset, last offset."""


def written(directory: Path, count: int, first: int = 0) -> list[Batch]:
    """Batches of several sizes, each with an entry in the index; where each of them is, as it was appended."""
    chance = random.Random(first)
    found: list[Batch] = []
    with Log.open(directory, LogConfig(index_interval_bytes=1)) as log:
        for _ in range(count):
            records = [NewRecord(value=bytes(chance.randrange(40)), timestamp=5) for _ in range(chance.randrange(1, 4))]
            begin, path = log.end_offset, directory / f"{0:020d}.log"
            log.flush()
            size = path.stat().st_size
            log.append(records)
            log.flush()
            found.append((size, path.stat().st_size - size, begin, begin + len(records) - 1))
    return found


def expected(batches: Sequence[Batch], offset: int, most: int, upper: int) -> tuple[int, int] | None:
    """Position and size of the whole batches that a broker gives, the first one whatever its size."""
    rest = [each for each in batches if each[3] >= offset and each[3] < upper]
    if not rest:
        return None
    size = rest[0][1]
    for _, more, _, _ in rest[1:]:
        if size + more > most:
            break
        size += more
    return rest[0][0], size


def check(log: ServedLog, batches: Sequence[Batch], chance: random.Random, count: int) -> None:
    end = batches[-1][3] + 1
    starts = [each[2] for each in batches]
    for _ in range(count):
        offset, most = chance.randrange(end), chance.choice((1, 100, 1000, 20_000, 1 << 20))
        upper = chance.choice((end, end, chance.choice(starts)))
        if offset >= upper:
            continue
        found = log.read(offset, most, upper, at_least_one=True)
        wanted = expected(batches, offset, most, upper)
        assert (None if found.range is None else (found.range.position, found.range.size)) == wanted
        if found.range is not None:
            behind = found.range.position + found.range.size
            following = next((each[2] for each in batches if each[0] == behind), end)
            assert found.next_offset == min(following, upper)


@pytest.mark.parametrize("seed", range(3))
def test_ranges_are_those_of_a_walk_over_all_batches(tmp_path: Path, seed: int) -> None:
    directory = tmp_path / "t-0"
    batches = written(directory, BATCHES)
    log = ServedLog(open_partition(directory), OpenLogs())
    check(log, batches, random.Random(seed), 400)
    # one after the other, as a consumer asks, and again
    for _ in range(2):
        offset = 0
        while offset <= batches[-1][3]:
            found = log.read(offset, 5000, batches[-1][3] + 1, at_least_one=True)
            assert found.range is not None
            assert (found.range.position, found.range.size) == expected(batches, offset, 5000, batches[-1][3] + 1)
            offset = found.next_offset


def test_what_was_found_is_forgotten_where_the_log_has_grown(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    batches = written(directory, 700)
    log = ServedLog(open_partition(directory), OpenLogs())
    check(log, batches, random.Random(1), 200)
    batches += written(directory, 700, first=7)
    assert log.update(open_partition(directory))
    check(log, batches, random.Random(1), 200)


def test_an_index_that_lies_changes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    batches = written(directory, 700)
    index = directory / f"{0:020d}.index"
    data = bytearray(index.read_bytes())
    chance = random.Random(5)
    for _ in range(300):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    index.write_bytes(data)
    for _ in range(3):
        check(ServedLog(open_partition(directory), OpenLogs()), batches, chance, 100)


@pytest.mark.parametrize("is_listed_between", [True, False])
def test_what_was_found_is_forgotten_where_the_log_was_truncated(tmp_path: Path, is_listed_between: bool) -> None:
    directory = tmp_path / "t-0"
    batches = written(directory, 700)
    log = ServedLog(open_partition(directory), OpenLogs())
    check(log, batches, random.Random(1), 200)
    del batches[100:]
    for path in directory.iterdir():
        if path.suffix != ".log":
            path.unlink()
    with (directory / f"{0:020d}.log").open("r+b") as file:
        file.truncate(batches[-1][0] + batches[-1][1])
    if is_listed_between:
        assert log.update(open_partition(directory))
    batches += written(directory, 400, first=7)
    assert log.update(open_partition(directory))
    check(log, batches, random.Random(1), 200)
