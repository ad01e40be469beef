"""Every truncation and every flipped bit of eight segments: the exact expected result, each time.

`KAFKALOG_SWEEP=ci` takes a seeded tenth.  Batches before the damaged one are not walked again for every position: the
walk starts at the batch before it, and whole walks of a seeded sample must say the same.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import Finding, FindingCode, StopReason
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.model import BATCH, MESSAGE_V0, BatchHeader
from kafkalog.codec.plain.scanner import Scanner, scan
from kafkalog.codec.rules.batches import Continuity
from kafkalog.recovery.damage.bit_repair import Neighbors, repair_batch
from testkit.made.segments import KINDS, segment
from testkit.recorded.fixture_data import recovery_case
from testkit.running.command import kafkalog

SEED = int(os.environ.get("KAFKALOG_SWEEP_SEED", "1"))
SHARE = 10 if os.environ.get("KAFKALOG_SWEEP") == "ci" else 1
WHOLE_EVERY = 1000
pytestmark = pytest.mark.sweep

OFFSET_BYTES = range(8)
EPOCH_BYTES = range(BATCH.position("partition_leader_epoch"), BATCH.end("partition_leader_epoch"))
MAGIC_BYTE = BATCH.position("magic")


class Layout:
    """A segment and where its batches begin."""

    def __init__(self, kind: str) -> None:
        self.data = segment(kind)
        self.batches = scan(self.data).batches
        self.starts = [batch.position for batch in self.batches]

    def at(self, position: int) -> int:
        """Number of the batch that holds a byte."""
        return bisect_right(self.starts, position) - 1


def walk(data: bytes, start: int) -> tuple[int, StopReason, list[Finding]]:
    """Valid bytes, stop reason and findings of a walk that starts at a batch."""
    scanner = Scanner(BufferSource(data), position=start)
    continuity = Continuity(None)
    findings: list[Finding] = []
    for batch in scanner:
        findings.extend(continuity.check(batch))
    assert scanner.stop is not None
    return scanner.valid_bytes, scanner.stop, findings + scanner.findings


def chosen(count: int, seed: str) -> list[int]:
    """All numbers below `count`, or a seeded tenth."""
    if SHARE == 1:
        return list(range(count))
    return sorted(random.Random(f"{SEED}/{seed}").sample(range(count), count // SHARE))


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation(kind: str, compared: Callable[[str, int], None]) -> None:
    layout = Layout(kind)
    positions = chosen(len(layout.data), f"cut {kind}")
    for length in positions:
        number = layout.at(length) if length else 0
        start = layout.starts[max(number - 1, 0)] if length else 0
        boundary = layout.starts[number] if length else 0
        rest = layout.data[boundary:length]
        valid, stop, _ = walk(layout.data[:length], start)
        expected = StopReason.END if not rest else StopReason.TORN_TAIL if any(rest) else StopReason.ZERO_TAIL
        assert (valid, stop) == (boundary, expected), (kind, length)
        if length % WHOLE_EVERY == 0:
            assert scan(layout.data[:length]).valid_bytes == boundary
    compared("truncations, each with exactly the batches before it", len(positions))


def expect_flip(layout: Layout, number: int, place: int, found: tuple[int, StopReason, list[Finding]]) -> str:
    """What is wrong with the result of a flip at byte `place` of batch `number`; empty if nothing is."""
    valid, stop, findings = found
    start, end = layout.starts[number], len(layout.data)
    batch = layout.batches[number]
    is_v2 = isinstance(batch.header, BatchHeader)
    codes = {finding.code for finding in findings}
    if place in OFFSET_BYTES:
        if (valid, stop) != (end, StopReason.END):
            return f"an offset lies outside the checksum, but the walk ended at {valid}"
        seen = codes & {FindingCode.OFFSET_GAP, FindingCode.OFFSET_NOT_INCREASING}
        return "" if seen or not is_v2 or len(layout.batches) == 1 else "a wrong offset was not found"
    if is_v2 and place in EPOCH_BYTES:
        return "" if (valid, stop) == (end, StopReason.END) else "a leader epoch lies outside the checksum"
    if is_v2 and place == MAGIC_BYTE and valid == end:
        return "" if FindingCode.MAGIC_UNKNOWN in codes else "a wrong magic was not found"
    if valid != start:
        return f"the walk ended at {valid}, the damaged batch begins at {start}"
    return "" if stop in (StopReason.CORRUPT, StopReason.TORN_TAIL) else f"the walk ended with {stop}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit(kind: str, compared: Callable[[str, int], None]) -> None:
    layout = Layout(kind)
    data = bytearray(layout.data)
    places = chosen(8 * len(data), f"flip {kind}")
    located = 0
    for place in places:
        position, bit = divmod(place, 8)
        number = layout.at(position)
        batch = layout.batches[number]
        inside = position - batch.position
        data[position] ^= 1 << bit
        window_end = layout.starts[number + 2] if number + 2 < len(layout.starts) else len(data)
        start = layout.starts[max(number - 1, 0)]
        wrong = _flip_in_window(layout, bytes(data[start:window_end]), start, number, inside, window_end)
        assert not wrong, (kind, position, bit, wrong)
        if isinstance(batch.header, BatchHeader) and inside >= BATCH.position("crc"):
            found = repair_batch(bytes(data[batch.position : batch.position + batch.size]), Neighbors())
            assert found is not None
            assert (found[0].position, found[0].bit) == (inside, bit)
            located += 1
        data[position] ^= 1 << bit
    compared("flipped bits, each with the exact expected result", len(places))
    compared("flipped bits under the checksum or in it, located exactly", located)


def _flip_in_window(layout: Layout, window: bytes, start: int, number: int, inside: int, window_end: int) -> str:
    """Judge a walk over the batch before, the damaged one and the one after: nothing further can differ."""
    valid, stop, findings = walk(window, 0)
    valid += start
    if valid == window_end and stop is StopReason.END:
        valid = len(layout.data)
    if stop is StopReason.TORN_TAIL and valid == layout.starts[number] and inside not in range(8, 12):
        return "torn, though its length is whole"
    return expect_flip(layout, number, inside, (valid, stop, findings))


def test_a_sample_through_the_whole_command(tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    """A flipped bit in a log directory, recovered by the command: exactly the batches before it are there."""
    case = recovery_case("undamaged/crash-single")
    template = case.unpack_before(tmp_path / "template")
    relative = next(template.glob("t-0/*.log")).relative_to(template)
    original = (template / relative).read_bytes()
    batches = scan(original).batches
    seeded = random.Random(SEED)
    count = 60 // SHARE + 5
    for number in range(count):
        root = case.unpack_before(tmp_path / str(number))
        data = bytearray(original)
        position = seeded.randrange(len(data))
        victim = batches[bisect_right([batch.position for batch in batches], position) - 1]
        while position - victim.position < BATCH.position("crc"):
            position += 1
        data[position] ^= 1 << seeded.randrange(8)
        (root / relative).write_bytes(data)
        words = ("--config", "segment.index.bytes=1536", "--at", "1700000100000")
        finished = kafkalog("recover", "--yes", "--accept-loss", root, *words)
        assert finished.code == 2, finished.err
        assert (root / relative).read_bytes() == original[: victim.position]
    compared("flipped bits through the whole command", count)


def test_the_first_bytes_of_a_message_are_where_the_sweep_thinks() -> None:
    assert MESSAGE_V0.position("magic") == MAGIC_BYTE
