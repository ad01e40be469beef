"""Logs to be compacted, made up from a seed and written by Kafka: one history, several passes at several times.

A history is a script for `Generate.java`, cut into stretches; between them lie passes, each with its own clock and
settings.  The same keys come again and again; there are tombstones, records without keys, transactions that are
committed, aborted and left open, idempotent producers, gaps, all codecs and all message formats.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import damage
from testkit.made.histories import CODECS, T0, Op, Script

__all__ = ["Compacted", "Pass", "history"]

DAY = 86_400_000
TOPIC_ID = "q83vASNFZ4mrze8BI0VniQ"
_RECENT_SECONDS = 86_400
_OLD_CODECS = (("none", "gzip", "snappy"), ("none", "gzip", "snappy", "lz4"))
_SIZES = (1500, 1500, 2600, 6000)


@dataclass(slots=True)
class Pass:
    """What is appended, and the pass that follows."""

    ops: list[Op]
    params: dict[str, object]
    high_watermark: float | None = None
    """share of the log's end that `replication-offset-checkpoint` holds; None: all of it"""
    checkpoint: int | None = None
    """what is put into `cleaner-offset-checkpoint` before; None: left as it is"""


@dataclass(slots=True)
class Compacted:
    """One history."""

    seed: str
    config: dict[str, object]
    passes: list[Pass] = field(default_factory=list)
    has_copy: bool = False
    """a copy of the partition as it is before the first pass stands beside it, as u-1"""
    _copy_rows: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)

    def steps(self, root: Path, kafka: KafkaOracle) -> Iterator[Pass]:
        """Bring the directory to where each pass begins, one after the other; the caller leaves it as Kafka does."""
        rng = random.Random(f"{self.seed}/times")
        for number, each in enumerate(self.passes):
            for left in root.rglob("*.deleted"):
                left.unlink()
            self._append(root, each, kafka, first=number == 0)
            if each.checkpoint is not None:
                rows = [("t", 0, each.checkpoint), ("gone", 5, 3), *([("u", 1, 2)] if self.has_copy else [])]
                damage.Tree(root).checkpoint("cleaner-offset-checkpoint", rows)
            self._set_times(root, rng)
            yield each

    def _append(self, root: Path, each: Pass, kafka: KafkaOracle, *, first: bool) -> None:
        directory = root / "t-0"
        if first or each.ops:
            ops = [*each.ops, {"op": "close"}]
            script = {"dir": str(directory), "now_ms": T0, "config": self.config, "topic_id": TOPIC_ID, "ops": ops}
            made = kafka.generate({**script, **({} if first else {"log_start": _log_start(root)})})
            end, start = made["log_end_offset"], made["log_start_offset"]
            for left in directory.glob("*.deleted"):
                left.unlink()
            tree = damage.Tree(root)
            self._checkpoint(tree, damage.RECOVERY_POINT, end, copied=end)
            is_told = start > made["segments"][0][0]
            self._checkpoint(tree, damage.LOG_START, start if is_told else None, copied=start if is_told else None)
            watermark = end if each.high_watermark is None else int(end * each.high_watermark)
            self._checkpoint(tree, "replication-offset-checkpoint", watermark, copied=end)
            ids = "cluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\ndirectory.id=AAAAAAAAAAMAAAAAAAAABA\n"
            if not tree.exists("meta.properties"):
                tree.do("create", "meta.properties", text="#\nversion=1\n" + ids)
            if not tree.exists("t-0/partition.metadata"):
                tree.do("create", "t-0/partition.metadata", text=f"version: 0\ntopic_id: {TOPIC_ID}")
        if first and self.has_copy:
            shutil.copytree(directory, root / "u-1")
        (root / damage.MARKER).write_text('{"version":0,"brokerEpoch":42}')

    def _checkpoint(self, tree: damage.Tree, name: str, offset: int | None, *, copied: int | None) -> None:
        """The row of the partition, and that of the copy, which stays as it was first."""
        if name not in self._copy_rows:
            self._copy_rows[name] = [("u", 1, copied)] if self.has_copy and copied is not None else []
        own: list[tuple[object, ...]] = [] if offset is None else [("t", 0, offset)]
        tree.checkpoint(name, [*own, *self._copy_rows[name]])

    def _set_times(self, root: Path, rng: random.Random) -> None:
        """Files were changed when their records were written, about; a pass looks at that."""
        for path in sorted(root.glob("[tu]-[01]/*")):
            if abs(path.stat().st_mtime - time.time()) < _RECENT_SECONDS:  # not yet set
                at = T0 + rng.randint(0, 400_000)
                os.utime(path, ns=(at * 1_000_000 + rng.randint(0, 999_999),) * 2)


def _log_start(root: Path) -> int:
    lines = (root / damage.LOG_START).read_text().split("\n")[2:]
    return next((int(line.split()[2]) for line in lines if line.startswith("t 0 ")), 0)


class _Writer:
    """Appends to one log; producers and open transactions live on over the passes."""

    def __init__(self, rng: random.Random, config: dict[str, object]) -> None:
        self.rng = rng
        self.script = Script(rng)
        self.script.config = config
        self.keys: list[bytes | None] = [b"k%d" % n for n in range(rng.choice([3, 8, 8, 25, 80]))]
        self.producers = [(7000 + n, rng.randint(0, 2)) for n in range(3)]
        self.next_producer = 8000
        self.open: set[tuple[int, int]] = set()
        self.old = rng.random() < 0.25
        self.codecs = rng.choice([("none",), ("none",), CODECS, CODECS, ("zstd",), ("gzip", "none")])
        self.tombstones = rng.choice([0.0, 0.1, 0.3, 0.8])
        self.transactional = rng.random() < 0.5
        self.without_key = 0.03 if rng.random() < 0.3 else 0.0

    def records(self, most: int) -> list[Op]:
        made = self.script.records(self.rng.randint(1, most), self.keys)
        for record in made:
            if self.rng.random() < self.tombstones:
                record["v"] = None
            if self.rng.random() < self.without_key:
                record["k"] = None
            if self.rng.random() < 0.1:
                record["h"] = [["h", "eA=="], ["é", None]]
        return made

    def append(self, magic: int) -> None:
        """Something is written, at the time of its records."""
        self.write(magic)
        self.script.ops[-1]["now_ms"] = self.script.timestamp

    def write(self, magic: int) -> None:
        script, rng = self.script, self.rng
        codec = rng.choice(self.codecs)
        records = self.records(rng.choice([1, 3, 3, 9]))
        if magic < 2:
            for record in records:
                record.pop("h", None)
            script.append(records, magic=magic, codec=codec if codec in _OLD_CODECS[magic] else "none")
            return
        choice, producer = rng.random(), rng.choice(self.producers)
        if self.transactional and choice < 0.25 and self.open:
            ended = rng.choice(sorted(self.open))
            script.marker(ended, commit=rng.random() < 0.5)
            self.open.discard(ended)
        elif self.transactional and choice < 0.6:
            script.append(records, producer=producer, txn=True, codec=codec)
            self.open.add(producer)
        elif choice < 0.75 and producer not in self.open:
            script.append(records, producer=producer, codec=codec)
        elif choice < 0.8:
            offset: dict[str, Any] = {"base": self.gap()} if rng.random() < 0.5 else {}
            if offset:
                fetched = {"batches": [{"records": records, "codec": codec, **offset}], **offset}
                script.op("append", role="follower", leader_epoch=script.leader_epoch, **fetched)
            else:
                script.append(records, codec=codec)
        else:
            script.append(records, codec=codec)

    def gap(self) -> int:
        """An offset after the end; only the script's runner knows where that is, so it is far away."""
        self._far = getattr(self, "_far", 10_000) + self.rng.randint(500, 3000)
        return self._far

    def stretch(self, count: int, magics: tuple[int, ...]) -> list[Op]:
        """What is written between two passes, by producers that start over: a broker may have forgotten them."""
        self.script.ops = []
        self.next_producer += 10
        self.producers = [
            (self.next_producer + n, 0) if each in self.open or self.rng.random() < 0.3 else (each[0], each[1] + 1)
            for n, each in enumerate(self.producers)
        ]
        for number in range(count):
            self.append(magics[number * len(magics) // count])
            choice = self.rng.random()
            if choice < 0.05:
                self.script.op("roll")
            elif choice < 0.07:
                self.script.leader_epoch += 1
            elif choice < 0.09:
                self.script.timestamp += self.rng.choice([1000, 100_000, DAY])
        if self.open and self.rng.random() < 0.6:
            for producer in sorted(self.open):
                self.script.marker(producer, commit=self.rng.random() < 0.5)
                self.script.ops[-1]["now_ms"] = self.script.timestamp
            self.open.clear()
        if self.rng.random() < 0.5:
            self.script.op("roll")
            self.append(2)
        return self.script.ops


def history(seed: str) -> Compacted:
    """The history of a seed."""
    rng = random.Random(seed)
    config: dict[str, object] = {
        "segment.bytes": rng.choice(_SIZES),
        "segment.index.bytes": 1536,
        "index.interval.bytes": rng.choice([0, 64, 256, 4096]),
    }
    if rng.random() < 0.1:
        config["message.timestamp.type"] = "LogAppendTime"
    writer = _Writer(rng, config)
    policy = "compact,delete" if rng.random() < 0.2 else "compact"
    kept = rng.choice([0, 1000, 60_000, DAY])
    made = Compacted(seed, config, has_copy=rng.random() < 0.2)
    now = T0 + rng.choice([500_000, 2 * DAY])
    for number in range(rng.choice([1, 2, 3, 3, 4])):
        magics: tuple[int, ...] = (2,)
        if writer.old and number == 0:
            magics = rng.choice([(0,), (1,), (0, 1, 2), (1, 2), (1, 1, 2)])
        count = rng.randint(4, 45) if number == 0 else rng.choice([0, 0, 3, 20])
        now += rng.choice([1, 900, 60_000, 2 * DAY])
        params: dict[str, object] = {
            "now_ms": now,
            "cleanup.policy": policy,
            "segment.bytes": rng.choice([config["segment.bytes"], 1500, 5000, 1 << 20]),
            "segment.index.bytes": 1536,
            "index.interval.bytes": config["index.interval.bytes"],
            "min.cleanable.dirty.ratio": rng.choice(["0.0", "0.0", "0.0", "0.3", "0.5", "0.8"]),
            "delete.retention.ms": kept,
            **_odd_settings(rng, policy),
        }
        each = Pass(writer.stretch(count, magics) if count else [], params)
        if rng.random() < 0.08:
            each.high_watermark = rng.random()
        if rng.random() < 0.08:
            each.checkpoint = rng.choice([0, 3, 10, 30, 1_000_000_000, -1])
        if number == 0 and rng.random() < 0.1 and each.ops:
            each.ops.append({"op": "delete_before", "offset": rng.randint(1, 8), "retention": rng.random() < 0.5})
        made.passes.append(each)
    return made


def _odd_settings(rng: random.Random, policy: str) -> dict[str, object]:
    odd: dict[str, object] = {}
    if rng.random() < 0.15:
        odd["log.cleaner.dedupe.buffer.size"] = 24 * rng.choice([3, 4, 6, 12, 40])
        odd["log.cleaner.io.buffer.load.factor"] = rng.choice(["0.9", "1.0"])
    elif rng.random() < 0.05:
        odd["log.cleaner.threads"] = 2
    if rng.random() < 0.1:
        odd["min.compaction.lag.ms"] = rng.choice([1, 300_000, DAY, 10 * DAY])
    if rng.random() < 0.1:
        odd["max.compaction.lag.ms"] = rng.choice([1, 300_000, DAY])
        odd["min.cleanable.dirty.ratio"] = "0.9"
    if rng.random() < 0.08:
        odd["index.interval.bytes"] = rng.choice([0, 30, 1000])
    if rng.random() < 0.12:
        odd["segment.index.bytes"] = rng.choice([96, 240, 480, 4096])
    if rng.random() < 0.05:
        odd["producer.id.expiration.ms"] = rng.choice([1, 1000])
    if "delete" in policy:
        odd["retention.ms"] = rng.choice([-1, 60_000, DAY, 3 * DAY])
        odd["retention.bytes"] = rng.choice([-1, 0, 500, 2000])
    return odd


def copy_with_times(source: Path, target: Path) -> Path:
    """A copy that a pass cannot tell from the original."""
    shutil.copytree(source, target, symlinks=True, copy_function=shutil.copy2)
    return target
