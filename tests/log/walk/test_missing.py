"""Offsets that are missing between segments are the same whether batches are recorded as runs or one by one."""

from __future__ import annotations

import random

import pytest

from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.log.walk.missing import MissingOffsets
from testkit.made.batches import batch, record

pytestmark = pytest.mark.compiled

Segment = tuple[int, int | None, list[list[bytes]]]


def made(first: int, offsets: int = 1, records: int | None = None) -> bytes:
    count = offsets if records is None else records
    payload = b"".join(record(number) for number in range(count))
    return batch(payload, count, base_offset=first, last_offset_delta=offsets - 1)


def found(segments: list[Segment], *, by_runs: bool, cleaned_until: int = 0) -> tuple[object, object]:
    missing = MissingOffsets(cleaned_until)
    for base, next_base, runs in segments:
        missing.segment(base, next_base)
        for batches in runs:
            (run,) = RunScanner(BufferSource(b"".join(batches)))
            assert isinstance(run, BatchRun)
            for each in [run] if by_runs else map(OneBatch, run):
                missing.run(each)
    return missing.found, [*missing.found_if_uncleaned, *missing.inside_if_uncleaned]


def test_a_wrong_offset_at_the_end_of_a_run_is_no_gap() -> None:
    segments: list[Segment] = [
        (0, 8, [[made(0), made(1)]]),
        (8, None, [[made(8), made(20, 3)], [made(9)]]),  # 20 is wrong: 9 follows
    ]
    assert found(segments, by_runs=False) == ([(2, 7)], [(2, 7)])
    assert found(segments, by_runs=True) == ([(2, 7)], [(2, 7)])


def some_segments(rng: random.Random) -> list[Segment]:
    bases = [0]
    for _ in range(rng.randrange(1, 4)):
        bases.append(bases[-1] + rng.choice([4, 6, 10]))
    segments: list[Segment] = []
    for number, base in enumerate(bases[:-1]):
        offset, batches = base, []
        for _ in range(rng.randrange(6)):
            offset, taken = max(offset + rng.choice([0, 0, 0, 1, 2, -3, 5]), 0), rng.choice([1, 1, 2, 3])
            batches.append(made(offset, taken, rng.choice([taken, taken, 1])))
            offset += taken
        runs = []
        while batches:
            count = rng.randrange(1, 4)
            runs.append(batches[:count])
            batches = batches[count:]
        segments.append((base, bases[number + 1] if number + 2 < len(bases) else None, runs))
    return segments


@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.sweep)])
def test_runs_and_batches_give_the_same(count: int) -> None:
    for seed in range(count):
        rng = random.Random(seed)
        segments, cleaned_until = some_segments(rng), rng.choice([0, 0, 4, 9])
        expected = found(segments, by_runs=False, cleaned_until=cleaned_until)
        assert found(segments, by_runs=True, cleaned_until=cleaned_until) == expected, seed
