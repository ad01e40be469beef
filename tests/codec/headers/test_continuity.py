"""Runs are judged as their batches are judged one by one, up to the highest offset of 64 bits."""

from __future__ import annotations

import random

import pytest

from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.walk.cursor import Cursor
from testkit.made.batches import batch, record

pytestmark = pytest.mark.compiled

HIGHEST = 2**63 - 1
GAP = "offset_gap"


def made(first: int, last: int) -> bytes:
    return batch(record(), 1, base_offset=first, last_offset_delta=last - first)


def both(data: bytes, base: int, next_base: int | None = None) -> tuple[list[list[str]], list[list[str]]]:
    """Codes of the findings about each batch, without gaps: of runs, and of batches one by one."""
    source = BufferSource(data)
    many, plain = (Cursor(source, base, next_base) for _ in range(2))
    by_runs: list[list[str]] = []
    for run in many.judged(RunScanner(source), gaps=True):
        codes = [] if isinstance(run, BatchRun) else [each.code.value for each in run.findings]
        by_runs += [codes] * len(run)
    singly = [[each.code.value for each in plain.one(each).findings] for each in Scanner(source)]
    return [[code for code in codes if code != GAP] for codes in by_runs], [
        [code for code in codes if code != GAP] for codes in singly
    ]


def test_nothing_comes_after_the_highest_offset() -> None:
    base = HIGHEST - 100
    rest = made(HIGHEST - 50, HIGHEST - 50) + made(HIGHEST - 10, HIGHEST - 10) + made(HIGHEST - 9, HIGHEST - 9)
    by_runs, singly = both(made(base, HIGHEST) + rest, base)
    assert by_runs == singly
    assert singly[1] == ["offset_not_increasing"]


@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.sweep)])
def test_offsets_near_the_highest_one(count: int) -> None:
    for seed in range(count):
        rng = random.Random(seed)
        firsts = [HIGHEST - rng.choice([0, 0, 1, 2, 3, 4, 6, 9, 100]) for _ in range(rng.randrange(1, 6))]
        if rng.random() < 0.7:
            firsts.sort()
        data = b"".join(made(first, first + rng.choice([0, 0, 1, 2, 100])) for first in firsts)
        by_runs, singly = both(data, HIGHEST - rng.choice([0, 5, 100, 2**31]), rng.choice([None, HIGHEST]))
        assert by_runs == singly, seed
