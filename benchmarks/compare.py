"""kafkalog beside its peers, interleaved in one run: `python benchmarks/compare.py`.

Every row does the same work with each of them in turn on the same file, several times; medians, and the ratio of
kafkalog's to each peer's.  A peer that cannot be had is named and not counted.  `--quick` is for correctness only:
small files, two rounds, counts compared.  `--results FILE` writes the table as a page, `--json FILE` as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from kafkalog.codec import Codec
from kafkalog.codec.limits import MIB
from kafkalog.log import open_partition
from support import peers
from support.corpora import Shape, partition

Run = Callable[[], tuple[float, int]]
COLUMNS = ["key", "value", "offset", "timestamp", "headers"]
OURS = "kafkalog"


@dataclass
class Row:
    """One line of the table: what is done, by whom, on how many bytes, and what performance.md asks for."""

    title: str
    runs: dict[str, Run]
    size: int
    unit: str = "records"
    goals: dict[str, float] = field(default_factory=dict)
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
        start = time.perf_counter()
        count = work()
        return time.perf_counter() - start, count

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

    def decode(self, title: str, shape: Shape, least_java: float, least_aiokafka: float | None = None) -> Row:
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
        goals = {"Java": least_java} | ({"aiokafka": least_aiokafka} if least_aiokafka else {})
        return Row(f"decode to Arrow, {title}", runs, opened.size, goals=goals)

    def rows(self) -> list[Row]:
        """All rows, in the order of performance.md."""
        found = [
            self.decode("100 B plain", Shape(), 2.5, 6),
            self.decode("100 B lz4", Shape(codec=Codec.LZ4), 2),
            self.decode("100 B zstd", Shape(codec=Codec.ZSTD), 2),
            self.decode("100 B snappy", Shape(codec=Codec.SNAPPY), 2),
            self.decode("100 B gzip", Shape(codec=Codec.GZIP), 1.2),
            self.decode("100 B, two headers", Shape(headers=2), 2),
            self.decode("1 KB plain", Shape(value_bytes=1000, records=16), 2.5),
        ]
        return found


def machine() -> str:
    """One line about where this ran."""
    model = ""
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return (f"{os.cpu_count()} cores {model or platform.machine()}, {platform.system()}, "
            f"Python {platform.python_version()}, numba {version('numba')}, pyarrow {pa.__version__}; "
            f"{peers.versions()}; load {os.getloadavg()[0]:.1f}")  # fmt: skip


def table(rows: list[Row]) -> list[str]:
    """The rows as lines of a Markdown table."""
    lines = ["| work | kafkalog | peers | kafkalog is | at least |", "|---|---|---|---|---|"]
    for row in rows:
        others = [name for name in row.taken if name != OURS]
        rates = "; ".join(f"{name} {amount(row.rate(name))}" for name in others)
        ratios = "; ".join(f"{row.ratio(name):.1f} × {name}" for name in others)
        goals = "; ".join(
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
    parser.add_argument("--only", default="", help="rows whose title holds this")
    parser.add_argument("--results", type=Path, help="write the table into this page")
    parser.add_argument("--json", type=Path, help="write everything that was measured")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else arguments.rounds
    with peers.Java() as java, tempfile.TemporaryDirectory() as scratch:
        if java.why_not is not None:
            print(f"Java is not measured: {java.why_not}")
        place = machine()
        print(place)
        rows = [row for row in Suite(java, Path(scratch), quick=arguments.quick).rows() if arguments.only in row.title]
        for row in rows:
            row.measure(rounds)
            print(table([row])[2], flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": place, "rows": [row.as_dict() for row in rows]}, indent=1))
    if arguments.results:
        arguments.results.write_text("\n".join(["# Results", "", place, "", *table(rows), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
