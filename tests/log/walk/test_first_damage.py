"""The first damage of a log is the same one, whoever walks: one batch after the other, runs, or kept headers."""

from __future__ import annotations

import random

import pytest

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.encode import build_batch, build_messages
from kafkalog.codec.headers.table import HeaderTable, MemoryBudget
from kafkalog.codec.model import Codec, Record, TimestampType
from kafkalog.log.walk.first_damage import first_damage
from testkit.judging.executions import choose_execution
from testkit.made import batches


def some_log(source: random.Random) -> tuple[bytes, list[int]]:
    """Batches of all formats in order, with gaps; and where each begins."""
    data, starts, offset = bytearray(), list[int](), 0
    for _ in range(source.randint(5, 40)):
        magic = source.choice([0, 1, 2, 2, 2, 2])
        kind = TimestampType.CREATE_TIME if magic else TimestampType.NO_TIMESTAMP_TYPE
        offset += source.choice([0, 0, 0, 3])
        records = [Record(offset + n, 5, kind, b"k", b"v" * source.randrange(99)) for n in range(source.randint(1, 4))]
        codec = source.choice([Codec.NONE, Codec.GZIP])
        starts.append(len(data))
        if magic == 2:
            data += build_batch(records, codec=codec, partition_leader_epoch=source.choice([0, 0, 0, 1]))
        else:
            data += build_messages(records, magic=magic, codec=codec, timestamp_type=kind)
        offset += len(records)
    return bytes(data), starts


def damaged(source: random.Random) -> bytes:
    """Nothing wrong, a bit, a cut, a batch there again, or another one in its place."""
    data, starts = some_log(source)
    first, second = sorted(source.sample([*starts, len(data)], 2))
    match source.randrange(6):
        case 0:
            return data
        case 1:
            flipped = bytearray(data)
            flipped[source.randrange(len(data))] ^= 1 << source.randrange(8)
            return bytes(flipped)
        case 2:
            return data[: source.randrange(len(data))] + bytes(source.choice([0, 0, 200]))
        case 3:
            return data[:second] + data[first:]
        case 4:
            return data[:first] + batches.batch(batches.record(), 1, base_offset=10**12) + data[first:]
    return data[:first] + batches.batch(batches.record(), 1, base_offset=3, attributes=7) + data[first:]


@pytest.mark.compiled
@pytest.mark.parametrize("count", [200, pytest.param(20_000, marks=pytest.mark.sweep)])
def test_every_walk_finds_the_same(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[FindingCode | None] = []
    for seed in range(count):
        rng = random.Random(seed)
        source = BufferSource(damaged(rng))
        next_base = rng.choice([None, None, 10**6, 20])

        def walked(headers: HeaderTable | None = None) -> tuple[Finding | None, int]:
            return first_damage(source, 0, next_base, headers)  # noqa: B023

        want = walked()
        assert walked(HeaderTable(source.size, MemoryBudget(1 << 20))) == want, seed
        with monkeypatch.context() as patch:
            choose_execution(patch, 0)
            assert walked() == want, seed
        found.append(None if want[0] is None else want[0].code)
    assert len(set(found)) > 6, set(found)
