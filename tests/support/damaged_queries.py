"""Recorded partitions, damaged at random, and queries whose offsets lie near the damage: Spark's batch reader beside
`Partition.to_arrow`.

Both read the same bytes. With FAILFAST an error of one is an error of the other, with the same code; the other modes
give the offsets that `to_arrow` gives when it skips damage.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kafkalog import RecordFilter
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.log import open_all, open_partition
from kafkalog.log.walk.header_walk import batch_spans
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import Layout
from testkit.made import damage
from testkit.recorded.broker_dirs import STOPPED, brokers

LEVELS = ("read_uncommitted", "read_committed")
MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
CASES = ("txn", "codecs")
SPLITS: tuple[dict[str, str], ...] = (
    {},
    {"maxPartitionBytes": "300"},
    {"maxPartitionBytes": "2000"},
    {"maxRecordsPerPartition": "3"},
    {"minPartitions": "5"},
)
_CORRUPT = "_corrupt"
_QUERIES = 8
"""of each damaged log, in each mode"""
_MANY_OFFSETS = 2_000
_LONG_AGO_NS = 1_600_000_000 * 10**9
"""A log whose last segment was written just now may still be appended to."""


@dataclass(frozen=True)
class Answer:
    """The offsets that a reader gives, in order, or the code of the finding for which it fails."""

    offsets: tuple[int, ...] = ()
    code: str | None = None

    def __str__(self) -> str:
        return f"error {self.code}" if self.code else f"{len(self.offsets)} offsets {_short(self.offsets)}"


def _short(offsets: tuple[int, ...]) -> str:
    return str(list(offsets)) if len(offsets) < 12 else f"{offsets[0]} to {offsets[-1]}"


@dataclass(frozen=True)
class Query:
    """Which offsets are asked for, and how."""

    start: int
    end: int
    level: str
    mode: str
    split: dict[str, str]


@cache
def partitions() -> list[Path]:
    """Directories of recorded partitions that hold batches, of every Kafka version."""
    found = []
    for case in STOPPED:
        if case.name in CASES:
            there = open_all(*brokers(f"{case.version}/{case.name}"), tolerant=True).partitions
            found += [Path(each.path) for each in there if each.size]
    return found


def _place(choose: random.Random, data: bytes) -> tuple[int, int]:
    """Position and size of a random batch."""
    return choose.choice(damage.walk(data))


def _flipped(choose: random.Random, data: bytes) -> tuple[int, bytes]:
    at, size = _place(choose, data)
    within = at + choose.randrange(min(size, 61) if choose.random() < 0.7 else size)
    return at, data[:within] + bytes([data[within] ^ 1 << choose.randrange(8)]) + data[within + 1 :]


def _deleted(choose: random.Random, data: bytes) -> tuple[int, bytes]:
    at, size = _place(choose, data)
    begin = at + choose.randrange(size)
    return at, data[:begin] + data[begin + choose.choice([1, 7, 60, 200, 1000]) :]


def _inserted(choose: random.Random, data: bytes) -> tuple[int, bytes]:
    at, size = _place(choose, data)
    begin = at + choose.choice([0, choose.randrange(size)])
    return at, data[:begin] + choose.randbytes(choose.choice([1, 12, 61, 300])) + data[begin:]


def _zeroed(choose: random.Random, data: bytes) -> tuple[int, bytes]:
    at, size = _place(choose, data)
    begin = at + choose.choice([0, choose.randrange(size)])
    end = min(begin + choose.choice([8, 61, 512, size]), len(data))
    return at, data[:begin] + bytes(end - begin) + data[end:]


def _claimed(choose: random.Random, data: bytes) -> tuple[int, bytes]:
    """A header that claims something else: its offset, how many offsets it has, or its length."""
    at, size = _place(choose, data)
    is_legacy = data[at + damage.MAGIC_AT] < 2
    name = choose.choice(["offset", "size"] if is_legacy else ["base_offset", "batch_length", "last_offset_delta"])
    batch = data[at : at + size]
    step = choose.choice([-100, -7, -1, 1, 2, 5, 30, 1000, 10**6, 2**30])
    lowest, highest = (-(2**63), 2**63 - 1) if name in ("offset", "base_offset") else (-(2**31), 2**31 - 1)
    value = min(max(damage.get(batch, name) + step, lowest), highest)
    return at, data[:at] + damage.put(batch, name, value) + data[at + size :]


def _moved(choose: random.Random, data: bytes) -> tuple[int, bytes]:
    """A batch that is gone, or there twice, or elsewhere."""
    at, size = _place(choose, data)
    batch, without = data[at : at + size], data[:at] + data[at + size :]
    other = choose.choice([0, *(begin for begin, _ in damage.walk(without)), len(without)])
    return at, choose.choice([without, data[:at] + batch + data[at:], without[:other] + batch + without[other:]])


def _cut(choose: random.Random, data: bytes) -> tuple[int, bytes]:
    at, size = _place(choose, data)
    return at, data[: at + choose.randrange(size)]


DAMAGES: tuple[Callable[[random.Random, bytes], tuple[int, bytes]], ...] = (
    _flipped, _flipped, _deleted, _inserted, _zeroed, _claimed, _claimed, _claimed, _moved, _cut,
)  # fmt: skip


def damaged(choose: random.Random, source: Path, root: Path) -> tuple[Path, str, list[int], int]:
    """A damaged copy of a partition below `root`, what was done to it, offsets near that, and where the log ended."""
    end_offset = open_partition(source).log_end_offset()
    directory = root / source.name
    shutil.copytree(source, directory)
    told, near = [], []
    for _ in range(choose.choice([1, 1, 1, 2])):
        logs = [path for path in sorted(directory.glob("*.log")) if path.stat().st_size]
        path = choose.choice(logs) if logs else None
        data = path.read_bytes() if path else b""
        if path is None or not damage.walk(data):
            continue
        kind = choose.choice(DAMAGES)
        at, changed = kind(choose, data)
        (offset,) = struct.unpack_from(">q", data, at)
        near.append(offset)
        told.append(f"{kind.__name__} {path.name} at {at} (offset {offset})")
        path.write_bytes(changed)
    if choose.random() < 0.3:
        for index in directory.glob("*.index"):
            index.unlink()
    for path in directory.iterdir():
        os.utime(path, ns=(_LONG_AGO_NS, _LONG_AGO_NS))
    return directory, "; ".join(told), near, end_offset


def by_arrow(path: Path, query: Query) -> Answer:
    """The offsets that `to_arrow` gives, or its error; damage that it skips is not warned of."""
    partition = open_partition(path)
    way = "raise" if query.mode == "FAILFAST" else "skip"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = partition.to_arrow(
                ["offset"],
                RecordFilter(start_offset=query.start, end_offset=query.end, isolation_level=query.level),
                on_damage=way,
            ).read_all()
    except FormatError as error:
        return Answer(code=str(error.code))
    return Answer(tuple(table["offset"].to_pylist()))


def by_spark(path: Path, query: Query) -> Answer:
    """The offsets of all tasks that Spark would run, one after another, or the first error."""
    name = open_partition(path).name
    assert name is not None
    corrupt = _CORRUPT if query.mode == "PERMISSIVE" else None
    options = {
        "path": str(path), "kafka.isolation.level": query.level, "mode": query.mode, "failOnDataLoss": "false",
        "startingOffsets": json.dumps({name.topic: {str(name.partition): query.start}}),
        "endingOffsets": json.dumps({name.topic: {str(name.partition): query.end}}),
        **query.split, **({"columnNameOfCorruptRecord": corrupt} if corrupt else {}),
    }  # fmt: skip
    reader = LogReader(
        parse_options(options), Layout(names=("offset", *([corrupt] if corrupt else [])), corrupt=corrupt)
    )
    offsets: list[int] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for batch in (batch for task in reader.partitions() for batch in reader.read(task)):
                rows = batch.filter(batch[corrupt].is_null()) if corrupt else batch
                offsets += rows["offset"].to_pylist()
    except FormatError as error:
        return Answer(code=str(error.code))
    return Answer(tuple(offsets))


def _claims_much(path: Path) -> bool:
    """Whether headers claim so many offsets that a task for every few of them would take long."""
    segments = open_partition(path).segments
    spans = (span for segment in segments for span in batch_spans(segment))
    return any(span.next_offset - span.expected > _MANY_OFFSETS for span in spans)


def queries(choose: random.Random, near: list[int], log_end: int, splits: Sequence[dict[str, str]]) -> Iterable[Query]:
    """Queries that start and end near an offset of damage, each in the three modes.

    They start below the end of the log: at the end nothing is wanted, so Spark plans to read nothing.
    """
    for _ in range(_QUERIES):
        offset = choose.choice(near)
        start = max(offset + choose.choice([-40, -9, -3, -2, -1, 0, 1, 1, 2, 3, 5, 9, 20, 60]), 0)
        start = min(start, log_end - 1)
        end = start + choose.choice([1, 1, 2, 3, 6, 12, 25, 90])
        level, split = choose.choice(LEVELS), choose.choice(splits)
        for mode in MODES:
            yield Query(start, end, level, mode, split)


def alike(found: Answer, expected: Answer) -> bool:
    """Whether two readers agree: `to_arrow` ends before a transaction whose marker may be lost, Spark at the damage."""
    if expected.code == FindingCode.TRANSACTION_UNDECIDED:
        return found.code is not None
    return found == expected


def run(seeds: Iterable[int], wrong: Callable[[str], None]) -> Counter[str]:
    """Compare the two for a damaged copy of each seed; how many logs, queries and errors there were.

    Of `silent` queries only `to_arrow` said that something is damaged.
    """
    counts: Counter[str] = Counter()
    for seed in seeds:
        choose = random.Random(seed)
        source = choose.choice(partitions())
        with tempfile.TemporaryDirectory(prefix="kafkalog-queries-") as root:
            path, told, near, log_end = damaged(choose, source, Path(root))
            if not near:
                continue
            counts["logs"] += 1
            splits = [each for each in SPLITS if "maxRecordsPerPartition" not in each or not _claims_much(path)]
            for query in queries(choose, near, log_end, splits):
                expected, found = by_arrow(path, query), by_spark(path, query)
                counts["queries"] += 1
                counts["errors"] += expected.code is not None
                counts["silent"] += expected.code is not None and found.code is None
                if not alike(found, expected):
                    wrong(f"{seed} {source.parent.parent.name} {source.name}: {told}; {query}: {found}, not {expected}")
    return counts
