"""Logs of batches of ten records each, and bits of them that are turned over."""

from __future__ import annotations

from pathlib import Path

from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH, Record, TimestampType
from kafkalog.codec.plain.scanner import scan

__all__ = ["AT", "flip", "log_of_tens", "ten"]

AT = 1_700_000_100_000


def ten(base: int, epoch: int = NO_PARTITION_LEADER_EPOCH) -> bytes:
    """One batch, from this offset on."""
    records = [Record(base + n, AT, TimestampType.CREATE_TIME, None, b"v%d" % (base + n)) for n in range(10)]
    return build_batch(records, partition_leader_epoch=epoch)


def log_of_tens(
    root: Path, count: int = 6, segments: int = 1, epoch: int = NO_PARTITION_LEADER_EPOCH
) -> list[Path]:
    """The partition t-0, with so many batches in each segment; returns the logs."""
    (root / "t-0").mkdir(parents=True)
    logs = []
    for number in range(segments):
        base = number * count * 10
        logs.append(root / "t-0" / f"{base:020}.log")
        logs[-1].write_bytes(b"".join(ten(at, epoch) for at in range(base, base + count * 10, 10)))
    return logs


def flip(log: Path, *flips: tuple[int, int, int]) -> None:
    """Turn bits over: number of the batch, byte of it, bits."""
    data = bytearray(log.read_bytes())
    batches = scan(bytes(data)).batches
    for batch, place, bits in flips:
        data[batches[batch].position + place] ^= bits
    log.write_bytes(data)
