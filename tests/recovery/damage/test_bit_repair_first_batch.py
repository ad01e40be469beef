"""A flipped bit in the first batch of a log, before which nothing tells an offset, is corrected like any other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalog import Recovery, open_partition, recover
from kafkalog.recovery.damage.bit_repair import Proof
from testkit.recorded.broker_dirs import brokers, own_copy

CASES = ("4.1.1/groups", "4.1.1/segments", "3.9.1/segments", "2.8.2/codecs")


@pytest.mark.parametrize("case", CASES)
def test_bits_of_the_first_batch(case: str, tmp_path: Path) -> None:
    source = random.Random(case)
    root = brokers(case)[0]
    logs = [
        path
        for path in sorted(root.glob("[a-z]*-0/*.log"))
        if path.stat().st_size > 200 and int(path.stem) == 0 and path.read_bytes()[16] == 2
    ]
    assert logs
    for number, log in enumerate(source.sample(logs, min(4, len(logs)))):
        expected = log.read_bytes()
        size = 12 + int.from_bytes(expected[8:12], "big")
        copy = own_copy(log.parent, tmp_path / f"{number}" / log.parent.name)
        damaged = bytearray(expected)
        damaged[source.randrange(21, size)] ^= 1 << source.randrange(8)
        (copy / log.name).write_bytes(damaged)
        result = recover(Recovery(repair_bits=Proof.STRUCTURE, full=True), copy.parent)[0]
        assert (copy / log.name).read_bytes() == expected
        assert result.plan.choice.own.records_lost == 0
        assert next(iter(open_partition(copy).batches())).position == 0
