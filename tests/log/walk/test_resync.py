"""Where a log goes on after damage: nothing sound is given up for how the log ends, and nothing comes from a value."""

from __future__ import annotations

import random

import pytest

from kafkalog.codec.common.source import BufferSource
from kafkalog.log.walk.resync import Expected, Resync
from testkit.made import damage


def log_of(count: int, *, epoch: int = 3, value: bytes = b"v" * 20) -> list[bytes]:
    return [
        damage.batch(number, [damage.record(0, value=value)], damage.Header(leader_epoch=epoch))
        for number in range(count)
    ]


def broken(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def found(batches: list[bytes], number: int, tail: bytes = b"") -> int | None:
    """Where the log goes on after batch `number`."""
    data = b"".join(batches) + tail
    at = sum(map(len, batches[:number]))
    return Resync(BufferSource(data)).next_batch(at, Expected.in_segment(number, None))


JUNK = random.Random(1).randbytes(40)


@pytest.mark.parametrize("tail", [b"", JUNK, bytes(40), log_of(1)[0][:30], JUNK * 50])
@pytest.mark.parametrize("damaged", [[20], [20, 21], [20, 21, 40, 60], [97]])
def test_the_end_of_a_log_does_not_decide_about_its_middle(tail: bytes, damaged: list[int]) -> None:
    batches = log_of(100)
    for number in damaged:
        batches[number] = broken(batches[number])
    following = next(number for number in range(20, 100) if number > damaged[0] and number not in damaged)
    assert found(batches, damaged[0], tail) == sum(map(len, batches[:following]))


@pytest.mark.parametrize("epoch", [0, 2**31 - 1, -(2**31)])
def test_an_epoch_never_disproves(epoch: int) -> None:
    batches = log_of(100)
    batches[20] = broken(damage.put(batches[20], "partition_leader_epoch", epoch))
    batches[21] = damage.put(batches[21], "partition_leader_epoch", epoch)
    assert found(batches, 20) == sum(map(len, batches[:21]))


@pytest.mark.parametrize("bit", range(31))
@pytest.mark.parametrize("tail", [b"", JUNK])
def test_a_flipped_bit_of_a_length_hides_nothing(bit: int, tail: bytes) -> None:
    batches = log_of(100)
    length = damage.get(batches[20], "batch_length")
    batches[20] = damage.put(batches[20], "batch_length", length ^ 1 << bit)
    assert found(batches, 20, tail) == sum(map(len, batches[:21]))


LONG = damage.batch(100, [damage.record(0, value=b"v" * 300)], damage.Header(leader_epoch=3))
TORN = {
    "end": b"",
    "torn": LONG[:100],
    "zeros": bytes(900),
    "torn, then zeros": LONG[:100] + bytes(900),
    "torn, then garbage": LONG[:100] + random.Random(2).randbytes(900),
}


@pytest.mark.parametrize("tail", TORN.values(), ids=TORN)
@pytest.mark.parametrize("next_segment", [None, 2000])
@pytest.mark.parametrize("content_too", [False, True])
def test_a_length_that_leads_beyond_the_file_hides_nothing(
    tail: bytes, next_segment: int | None, content_too: bool
) -> None:
    """Whether the file ends in order, in an unfinished batch, or in zeros or garbage behind one."""
    batches = log_of(100)
    batches[20] = damage.put(batches[20], "batch_length", 0x13370C)
    if content_too:
        batches[20] = broken(batches[20])
    data, at = b"".join(batches) + tail, sum(map(len, batches[:20]))
    found = Resync(BufferSource(data)).next_batch(at, Expected.in_segment(20, next_segment))
    assert found == at + len(batches[20])


def embedding(choose: random.Random, first: int, depth: int = 1) -> bytes:
    """A value that is a log itself, whose offsets are about those of the log that it is stored in."""
    offset, data = max(first + choose.randint(-2, 6), 0), bytearray(choose.randbytes(choose.choice([0, 0, 7])))
    for _ in range(choose.randrange(1, 6)):
        value = embedding(choose, offset, depth - 1) if depth and choose.random() < 0.3 else b"w" * choose.randrange(30)
        data += damage.batch(offset, [damage.record(0, value=value)], damage.Header(leader_epoch=3))
        offset += choose.choice([1, 1, 1, 2])
    return bytes(data) + choose.randbytes(choose.choice([0, 0, 5, 30]))


def one_round(choose: random.Random) -> None:
    count = choose.randrange(2, 9)
    batches = [
        damage.batch(number, [damage.record(0, value=embedding(choose, number))], damage.Header(leader_epoch=3))
        for number in range(count)
    ]
    number = choose.randrange(count)
    victim = bytearray(batches[number])
    kind = choose.choice(["value", "value", "header", "length", "zeros"])
    if kind == "zeros":
        size = choose.randrange(1, 62)
        victim[:size] = bytes(size)
    elif kind == "length":
        victim[8 + choose.randrange(4)] ^= 1 << choose.randrange(8)
    else:
        at = choose.randrange(61, len(victim)) if kind == "value" else choose.randrange(12, 61)
        victim[at] ^= 1 << choose.randrange(8)
    if damage.with_crc(bytes(victim)) == bytes(victim) and kind != "length":
        return  # a field outside of the checksum: that is no damage to a walk
    batches[number] = bytes(victim)
    tail = choose.choice([b"", b"", choose.randbytes(40), bytes(20), batches[0][:80] + bytes(400)])
    if kind in ("zeros", "header") and number == count - 1:
        return  # nothing behind it, and its own header tells nothing: it may as well have been several batches
    place = found(batches, number, tail)
    starts = [sum(map(len, batches[:each])) for each in range(number + 1, count)]
    assert place is None or place in starts, f"{kind}: {place} lies inside of a value; batches begin at {starts}"
    if kind == "value" and number < count - 2:
        assert place == starts[0]


@pytest.mark.parametrize("seed", range(4))
def test_no_batch_comes_from_inside_a_value(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(100):
        one_round(choose)


@pytest.mark.sweep
def test_no_batch_comes_from_inside_a_value_of_many_logs() -> None:
    for seed in range(30_000):
        one_round(random.Random(f"many {seed}"))
