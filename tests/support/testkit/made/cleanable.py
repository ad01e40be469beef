"""Logs from a seed for the log cleaner, settings for it, and what two passes leave."""

from __future__ import annotations

import os
import random
from pathlib import Path

from msgspec.structs import replace

import kafkalog
from kafkalog.codec.encode import (
    ProducerState,
    build_batch,
    build_end_transaction_marker,
    build_messages,
    empty_batch,
)
from kafkalog.codec.model import Codec, ControlType, EndTransactionMarker, Header, Record, TimestampType
from kafkalog.log.storage.cleaning.offset_map import SLOT_BYTES
from testkit.judging.trees import contents
from testkit.made import batches
from testkit.made.compactable import T0

__all__ = ["MadeLog", "Pass", "settings"]

CODECS = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
LATER = 10**9


class MadeLog:
    """A partition of some segments, from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.offset = self.rng.choice([0, 0, 7])
        self.time = T0
        self.keys: list[bytes | None] = [b"k%d" % each for each in range(self.rng.choice([3, 12, 60]))]
        self.keys += [None] * self.rng.choice([0, 0, 1]) + [b"long" * self.rng.choice([1, 13, 14, 15, 16, 40])]
        self.open: set[int] = set()
        self.is_odd = self.rng.random() < 0.3
        self.sizes = [0, 1, 9, 200]
        if self.rng.random() < 0.2:  # long stretches stay as they are
            self.keys += [b"other%d" % each for each in range(1000)]
            self.sizes += [9000]

    def write(self, root: Path) -> Path:
        """The log directory."""
        directory = root / "t-0"
        directory.mkdir(parents=True)
        magics = self.rng.choice([(2,), (2,), (0, 1, 2), (1, 2, 2)])
        for number in range(self.rng.randint(2, 5)):
            path = directory / f"{self.offset:020d}.log"
            path.write_bytes(b"".join(self._batches(magics[min(number, len(magics) - 1)])))
            os.utime(path, ns=(T0 * 1_000_000,) * 2)
            self.offset += self.rng.choice([0, 0, 5])
        last = directory / f"{self.offset:020d}.log"
        last.write_bytes(build_batch(self._records(2)))
        os.utime(last, ns=(T0 * 1_000_000,) * 2)
        if self.rng.random() < 0.2:  # cleaned before, up to there
            (root / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {self.rng.randint(0, self.offset)}\n")
        return root

    def _batches(self, magic: int) -> list[bytes]:
        return [self._batch(magic) for _ in range(self.rng.randint(1, 25))]

    def _records(self, count: int) -> list[Record]:
        made = []
        for _ in range(count):
            self.time += self.rng.choice([-3, 0, 1, 500])
            self.offset += self.rng.random() < 0.05
            value = None if self.rng.random() < 0.2 else b"v" * self.rng.choice(self.sizes)
            headers = (Header("h", b"x"), Header("é", None)) if self.rng.random() < 0.2 else ()
            kind = TimestampType.CREATE_TIME
            made.append(Record(self.offset, self.time, kind, self.rng.choice(self.keys), value, headers))
            self.offset += 1
        return made

    def _batch(self, magic: int) -> bytes:
        rng = self.rng
        if magic < 2:
            records = [replace(record, headers=()) for record in self._records(rng.choice([1, 4]))]
            codec = rng.choice([Codec.NONE, Codec.GZIP, Codec.SNAPPY])
            kind = TimestampType.CREATE_TIME if magic else TimestampType.NO_TIMESTAMP_TYPE
            return build_messages(records, magic=magic, codec=codec, timestamp_type=kind)
        choice = rng.random()
        if choice < 0.15 and self.open:
            return self._marker()
        if choice < 0.2:
            self.offset += 2
            return empty_batch(self.offset - 2, self.offset - 1, max_timestamp=self.time, producer=self._producer(0.5))
        if choice < 0.3 and self.is_odd:
            return self._odd()
        first, records = self.offset, self._records(rng.choice([1, 1, 3, 8, 40]))
        self.offset += rng.choice([0, 0, 2])
        append_time = rng.random() < 0.15
        return build_batch(
            records, base_offset=first, last_offset=self.offset - 1, codec=rng.choice(CODECS),
            timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
            log_append_time=self.time if append_time else -1, producer=self._producer(0.4),
            delete_horizon_ms=T0 + rng.choice([-5, LATER // 2]) if rng.random() < 0.15 else None,
        )  # fmt: skip

    def _producer(self, chance: float) -> ProducerState:
        if self.rng.random() > chance:
            return ProducerState()
        producer_id = self.rng.randint(1, 4)
        is_transactional = producer_id > 2
        if is_transactional:
            self.open.add(producer_id)
        return ProducerState(
            producer_id=producer_id, producer_epoch=0, base_sequence=self.offset, is_transactional=is_transactional
        )

    def _marker(self) -> bytes:
        producer_id = self.rng.choice(sorted(self.open))
        self.open.discard(producer_id)
        self.offset += 1
        kind = self.rng.choice([ControlType.ABORT, ControlType.COMMIT])
        horizon = T0 - 5 if self.rng.random() < 0.2 else None
        return build_end_transaction_marker(
            EndTransactionMarker(kind, 0), base_offset=self.offset - 1, timestamp=self.time, producer_id=producer_id,
            producer_epoch=0, delete_horizon_ms=horizon,
        )  # fmt: skip

    def _odd(self) -> bytes:
        """What no producer writes: attributes of records, numbers longer than they need be, what cannot be written."""
        rng = self.rng
        key, value = rng.choice(self.keys), rng.choice([None, b"v" * 70])
        body = bytes([rng.choice([0, 5])]) + batches.varint(3) + longer(0) + batches.sized(key)
        body += longer(-2 if value is None else len(value)) + (value or b"") + longer(0)
        records = longer(len(body)) + body
        count = rng.choice([1, 1, 2])
        if count == 2:
            records += batches.record(rng.choice([0, 1, 1]), key, value, timestamp_delta=rng.choice([0, 0, -T0 - 5]))
        self.offset += count
        return batches.batch(
            records[: -1 if rng.random() < 0.1 else None], count, base_offset=self.offset - count,
            base_timestamp=T0, max_timestamp=T0 + 3,
        )  # fmt: skip


def longer(number: int) -> bytes:
    """A varint with a byte more than it needs."""
    *first, last = batches.varint(number)
    return bytes([*first, last | 0x80, 0])


class Pass:
    """What two passes leave of a log, the second one long after the first."""

    def __init__(self, root: Path, config: dict[str, str]) -> None:
        self.said: list[object] = []
        self.is_cleaned = self.is_given_up = False
        for later in (1000, LATER):
            result = kafkalog.compact(kafkalog.Compaction(config=config, at=T0 + later), root)[0].done
            declined = {name: why.replace(str(root), "ROOT") for name, why in result.declined.items()}
            self.said.append((declined, result.partitions, result.findings))
            self.is_cleaned |= any(each.cleaned_to is not None for each in result.partitions)
            self.is_given_up |= any(each.problem is not None for each in result.partitions)
            (root / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        self.files = {
            path: what
            for path, what in contents(root).items()
            if path.endswith((".log", "index", ".snapshot", ".cleaned"))
        }
        self.times = {path.name: path.stat().st_mtime_ns for path in root.glob("*/*.log")}


def settings(rng: random.Random) -> dict[str, str]:
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "delete.retention.ms": rng.choice(["0", "60000"]),
        "segment.bytes": rng.choice(["3000", "1000000"]),
        "index.interval.bytes": rng.choice(["0", "200", "4096"]),
        "log.cleaner.io.buffer.load.factor": "1.0",
    }
    if rng.random() < 0.3:
        config["log.cleaner.dedupe.buffer.size"] = str(SLOT_BYTES * rng.choice([2, 5, 11, 30]))
    if rng.random() < 0.2:
        config["segment.index.bytes"] = rng.choice(["36", "48", "96"])
    return config
