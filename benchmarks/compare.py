"""kafkalog beside its peers, interleaved in one run: `python benchmarks/compare.py`.

Every row does the same work with each of them in turn on the same file, several times; medians, and the ratio of
kafkalog's to each peer's.  A peer that cannot be had is named and not counted.  `--quick` is for correctness only:
small files, two rounds, counts compared.  `--results FILE` writes the table as a page, `--json FILE` as JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support import peers
from support.corpora import START_MS, Shape, partition
from support.machine import machine

import kafkalog
from kafkalog.codec import Codec, thresholds
from kafkalog.codec.encode.columns import build_batches
from kafkalog.codec.limits import MIB
from kafkalog.codec.model import RecordBatch
from kafkalog.log import open_partition

Run = Callable[[], tuple[float, int]]
COLUMNS = ["key", "value", "offset", "timestamp", "headers"]
OURS, DECOMPRESSOR = "kafkalog", "the decompressor alone"


@dataclass
class Row:
    """One line of the table: what is done, by whom, on how many bytes, and what performance.md asks for."""

    title: str
    runs: dict[str, Run]
    size: int
    unit: str = "records"
    goals: dict[str, float] = field(default_factory=dict)
    any_goal: bool = False
    """Whether one of the goals is enough."""
    taken: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def measure(self, rounds: int) -> None:
        """Everyone in turn, `rounds` times and once before to warm up."""
        for number in range(rounds + 1):
            for name, run in self.runs.items():
                seconds, count = run()
                self.counts[name] = count
                if number:
                    self.taken.setdefault(name, []).append(seconds)
        expected = set(self.counts.values())
        if len(expected) > 1:
            raise SystemExit(f"{self.title}: not everyone found the same: {self.counts}")

    def rate(self, name: str) -> float:
        """Units a second."""
        return self.counts[name] / statistics.median(self.taken[name])

    def ratio(self, name: str) -> float:
        """How many times as fast kafkalog is."""
        return statistics.median(self.taken[name]) / statistics.median(self.taken[OURS])

    def as_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "title": self.title, "bytes": self.size, "unit": self.unit, "seconds": self.taken,
            "per_second": {name: self.rate(name) for name in self.taken},
            "ratio": {name: self.ratio(name) for name in self.taken if name != OURS}, "goals": self.goals,
        }  # fmt: skip


def timed(work: Callable[[], int]) -> Run:
    """Seconds and what it counted."""

    def run() -> tuple[float, int]:
        start = peers.clock()
        count = work()
        return peers.clock() - start, count

    return run


class Suite:
    """The rows of one run."""

    def __init__(self, java: peers.Java, scratch: Path, *, quick: bool) -> None:
        self.java = java
        self.scratch = scratch
        self.quick = quick
        self.size = 2 * MIB if quick else 64 * MIB

    def corpus(self, shape: Shape, size: int | None = None) -> tuple[Path, Path]:
        """Partition directory and its log file."""
        directory = partition(shape, size or self.size)
        return directory, next(iter(sorted(directory.glob("*.log"))))

    def decode(self, title: str, shape: Shape, goals: dict[str, float]) -> Row:
        """Every record, checksum compared, values copied out."""
        directory, log = self.corpus(shape)
        opened = open_partition(directory)
        runs: dict[str, Run] = {
            OURS: timed(lambda: sum(batch.num_rows for batch in opened.to_arrow(COLUMNS))),
            "aiokafka": lambda: peers.aiokafka(log),
        }
        if shape.codec == Codec.NONE and shape.magic == 2 and not shape.headers:
            runs["kafka-python"] = lambda: peers.kafka_python(log)
            runs["records()"] = timed(lambda: sum(1 for _ in opened.records()))
        if self.java.why_not is None:
            runs["Java"] = lambda: self.java.run("deepcopy", log)
        packed = shape.codec != Codec.NONE and shape.magic == 2
        if packed:
            payloads, records = [], 0
            for batch in opened.batches():
                payloads.append(bytes(batch.payload))
                records += batch.header.records_count
            runs[DECOMPRESSOR] = lambda: (peers.decompressor(shape.codec, payloads), records)
            goals = {**goals, DECOMPRESSOR: 0.8}
        return Row(f"decode to Arrow, {title}", runs, opened.size, goals=goals, any_goal=packed)

    def walk(self, title: str, shape: Shape) -> Row:
        """The checksum of every batch; counts batches."""
        directory, log = self.corpus(shape)
        opened = open_partition(directory)

        def ours() -> int:
            return sum(1 if isinstance(found, RecordBatch) else len(found) for found in opened.batches().by_run())

        runs: dict[str, Run] = {OURS: timed(ours)}
        if self.java.why_not is None:
            runs["Java"] = lambda: self.java.run("shallow", log)
        return Row(f"walk with checksums, {title}", runs, opened.size, "batches")

    def verify(self, title: str, shape: Shape) -> Row:
        """`kafkalog.verify` without a look into the records; counts batches."""
        directory, log = self.corpus(shape)
        ours = timed(lambda: kafkalog.verify(directory, deep=False).partitions[0].batches)
        runs: dict[str, Run] = {OURS: ours}
        if self.java.why_not is None:
            runs["Java"] = lambda: self.java.run("shallow", log)
        return Row(f"kafkalog.verify(deep=False), {title}", runs, log.stat().st_size, "batches", {"Java": 2})

    def recover(self, title: str, shape: Shape) -> Row:
        """A whole recovery of a directory whose indexes are gone; copying it is not measured.  Counts batches."""
        directory, log = self.corpus(shape)
        batches = sum(1 for _ in open_partition(directory).batches())

        def ours() -> tuple[float, int]:
            root = self._copied("recover", directory, log)
            start = peers.clock()
            kafkalog.recover(root)
            return peers.clock() - start, batches

        runs: dict[str, Run] = {OURS: ours}
        if self.java.why_not is None:
            runs["Java"] = lambda: self.java.run("recover", log)
        return Row(f"recover a segment, indexes rebuilt, {title}", runs, log.stat().st_size, "batches", {"Java": 1.5})

    def recover_cold(self) -> Row:
        """The same on 512 MiB, from the start of a process to its end.

        Kafka loads the log directory as a broker does; Java only does the loop over the segment.
        """
        directory, log = self.corpus(Shape(), self.size if self.quick else 8 * self.size)

        def ours() -> tuple[float, int]:
            root = self._copied("cold", directory, log)
            return peers.process(
                [sys.executable, "-m", "kafkalog", "recover", "--yes", str(root)], self.scratch / "out"
            ), 1

        runs: dict[str, Run] = {OURS: ours}
        if self.java.why_not is None:
            runs["Kafka"] = lambda: (
                peers.recover_log_directory(self._copied("cold", directory, log), self.scratch / "out"), 1
            )  # fmt: skip
            runs["Java"] = lambda: (peers.process(peers.Java.command(), self.scratch / "out", f"recover {log}\n"), 1)
        return Row("recover 512 MiB, whole processes", runs, log.stat().st_size, "runs", {"Kafka": 8})

    def _copied(self, name: str, directory: Path, log: Path) -> Path:
        root = self.scratch / name
        shutil.rmtree(root, ignore_errors=True)
        (root / directory.name).mkdir(parents=True)
        shutil.copy(log, root / directory.name / log.name)
        return root

    def recover_small(self) -> Row:
        """The command on a directory of one small partition, process start included; goal 0.5 s."""
        directory, log = self.corpus(Shape(), 64 * 1024)

        def ours() -> tuple[float, int]:
            root = self._copied("small", directory, log)
            command = [sys.executable, "-m", "kafkalog", "recover", "--yes", str(root)]
            return peers.process(command, self.scratch / "out"), 1

        title = "kafkalog recover on a small directory (goal: 0.5 s, 2 runs/s)"
        return Row(title, {OURS: ours}, log.stat().st_size, "runs")

    def dump(self) -> Row:
        """Every record of a segment of Kafka's default size printed into a file, process start included."""
        directory, log = self.corpus(Shape(), self.size if self.quick else 16 * self.size)
        records = sum(batch.header.records_count for batch in open_partition(directory).batches())
        out = self.scratch / "out"
        command = [sys.executable, "-m", "kafkalog", "dump", "--json", str(log)]

        def ours() -> tuple[float, int]:
            seconds = peers.process(command, out)
            with out.open("rb") as lines:
                return seconds, sum(1 for _ in lines)

        runs: dict[str, Run] = {OURS: ours}
        if self.java.why_not is None:
            runs["kafka-dump-log"] = lambda: (peers.dump_log(log, out), records)
        return Row("dump --json of 1 GiB into a file", runs, log.stat().st_size, goals={"kafka-dump-log": 10})

    def build(self) -> Row:
        """16 KiB batches of records that are in memory already."""
        directory, log = self.corpus(Shape())
        reader = open_partition(directory).to_arrow(["key", "value", "timestamp"], batch_rows=1 << 20)
        rows = reader.read_all().combine_chunks().slice(0, 300_000)
        (columns,) = rows.to_batches()
        items = list(zip(columns["key"].to_pylist(), columns["value"].to_pylist(), strict=True))

        def ours() -> int:
            for _batch in build_batches(columns):
                pass
            return len(items)

        def java() -> tuple[float, int]:
            seconds, count = self.java.run("build-none", log)
            return seconds * len(items) / count, len(items)

        runs: dict[str, Run] = {OURS: timed(ours), "aiokafka": lambda: peers.aiokafka_build(items, 0, START_MS)}
        if self.java.why_not is None:
            runs["Java"] = java
        return Row("build batches from columns", runs, columns.nbytes, goals={"aiokafka": 3, "Java": 1})

    def rows(self) -> Iterator[Row]:
        """All rows, in the order of the goals."""
        yield self.decode("100 B plain", Shape(), {"Java": 2.5, "aiokafka": 6})
        yield self.decode("1 KB plain", Shape(value_bytes=1000, records=16), {})
        yield self.decode("100 B lz4", Shape(codec=Codec.LZ4), {"Java": 2})
        yield self.decode("100 B zstd", Shape(codec=Codec.ZSTD), {"Java": 2})
        yield self.decode("100 B snappy", Shape(codec=Codec.SNAPPY), {"Java": 2})
        yield self.decode("100 B gzip", Shape(codec=Codec.GZIP), {"Java": 1.2})
        yield self.decode("100 B, two headers", Shape(headers=2), {"Java": 2})
        yield self.decode("100 B, magic 1", Shape(magic=1), {"Java": 2})
        yield self.decode("100 B, magic 0", Shape(magic=0), {"Java": 2})
        yield self.decode("100 B lz4, magic 1", Shape(magic=1, codec=Codec.LZ4), {"Java": 2})
        yield self.walk("16 KiB batches", Shape())
        yield self.walk("256 B batches", Shape(records=1, value_bytes=170))
        yield self.verify("16 KiB batches", Shape())
        yield self.verify("256 B batches", Shape(records=1, value_bytes=170))
        yield self.recover("16 KiB batches", Shape())
        yield self.recover("256 B batches", Shape(records=1, value_bytes=170))
        yield self.recover_cold()
        yield self.recover_small()
        yield self.dump()
        yield self.build()


def table(rows: list[Row]) -> list[str]:
    """The rows as lines of a Markdown table."""
    lines = ["| work | kafkalog | peers | kafkalog is | at least |", "|---|---|---|---|---|"]
    for row in rows:
        others = [name for name in row.taken if name != OURS]
        rates = "; ".join(f"{name} {amount(row.rate(name))}" for name in others)
        ratios = "; ".join(f"{row.ratio(name):.1f} × {name}" for name in others)
        goals = (" or " if row.any_goal else "; ").join(
            f"{goal:g} × {name}" + (": not measured" if name not in row.taken else
                                    ": reached" if row.ratio(name) >= goal else ": not reached")
            for name, goal in row.goals.items()
        )  # fmt: skip
        lines.append(f"| {row.title} | {amount(row.rate(OURS))} {row.unit}/s | {rates} | {ratios} | {goals} |")
    return lines


def amount(rate: float) -> str:
    """A rate for people."""
    return f"{rate / 1e6:.2f} M" if rate >= 1e5 else f"{rate:.2f}" if rate < 100 else f"{rate:.0f}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small and for correctness only")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="processor time of the working thread; for busy machines")
    parser.add_argument("--only", default="", help="rows whose title this expression finds")
    parser.add_argument("--results", type=Path, help="write the table into this page")
    parser.add_argument("--json", type=Path, help="write everything that was measured")
    arguments = parser.parse_args()
    peers.use_cpu_time = arguments.cpu
    rounds = 1 if arguments.quick else arguments.rounds
    thresholds.ENOUGH_BATCHES = 0  # everybody is warm, so that what loading takes does not count
    if arguments.quick:
        thresholds.ENOUGH_BYTES = 0  # so that the compiled executions are what is tried
    with peers.Java() as java, tempfile.TemporaryDirectory() as scratch:
        if java.why_not is not None:
            print(f"Java is not measured: {java.why_not}")
        seconds = "processor time of the working thread (processes: of all threads)" if arguments.cpu else "wall clock"
        place = f"{machine()}; median of {rounds}, {seconds}"
        print(place)
        rows = []
        for row in Suite(java, Path(scratch), quick=arguments.quick).rows():
            if re.search(arguments.only, row.title):
                row.measure(rounds)
                rows.append(row)
                print(table([row])[2], flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": place, "rows": [row.as_dict() for row in rows]}, indent=1))
    if arguments.results:
        arguments.results.write_text("\n".join(["# Results", "", place, "", *table(rows), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
