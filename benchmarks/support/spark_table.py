"""What Spark does with kafkalog beside what it does with others: measured in turn, printed as lines of one table.

Wall clock is what the goals are about; the processor time of everything that takes part (JVM, Python workers, a broker)
is told beside it, because it moves less where others use the machine, too.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING

try:
    from support.process_times import tree_seconds
    from support.processor import processor
except ImportError:  # run as a program of this folder
    from process_times import tree_seconds
    from processor import processor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS = "kafkalog"
HEAD = ("| work | kafkalog | others | kafkalog is | by processor time | at least |", "|---|---|---|---|---|---|")


@dataclass
class Work:
    """One line: the same work by kafkalog and by others, each run giving how many rows it was about."""

    title: str
    runs: dict[str, Callable[[], int | tuple[int, float]]]
    """each gives rows, and the seconds if it knows them better than a clock around it"""
    goals: dict[str, float] = field(default_factory=dict)
    little: dict[str, Callable[[], int]] = field(default_factory=dict)
    """the same on few rows: what a query costs whatever it reads"""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)
    fixed: dict[str, list[float]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    few: int = 0

    def measure(self, rounds: int, *, root: int | None = None) -> None:
        """Everyone in turn, `rounds` times and once before to warm up; `root` is above all processes that work."""
        root = os.getpid() if root is None else root
        for number in range(rounds + 1):
            for name, run in self.runs.items():
                used, start = tree_seconds(root), time.perf_counter()
                found = run()
                taken, used_then = time.perf_counter() - start, tree_seconds(root)
                self.rows[name], taken = found if isinstance(found, tuple) else (found, taken)
                if number:
                    self.seconds.setdefault(name, []).append(taken)
                    if used is not None and used_then is not None:
                        self.processor.setdefault(name, []).append(used_then - used)
            for name, run in self.little.items():
                start = time.perf_counter()
                self.few = run()
                if number:
                    self.fixed.setdefault(name, []).append(time.perf_counter() - start)

    def rate(self, name: str) -> float:
        """Rows a second."""
        return self.rows[name] / statistics.median(self.seconds[name])

    def ratio(self, name: str) -> float:
        """How many times as fast kafkalog is."""
        return self.rate(OURS) / self.rate(name)

    def cost(self, name: str) -> str:
        """Seconds of a query without rows, and microseconds of a row; empty if only many rows were read."""
        if name not in self.fixed:
            return ""
        many, few = statistics.median(self.seconds[name]), statistics.median(self.fixed[name])
        each = (many - few) / (self.rows[name] - self.few)
        return f" ({max(few - each * self.few, 0):.2f} s + {each * 1e6:.2f} µs a row)"

    def line(self) -> str:
        """The line of the table."""
        others = [name for name in self.runs if name != OURS]
        busy = {name: statistics.median(each) / self.rows[name] for name, each in self.processor.items()}
        goals = "; ".join(
            f"{goal:g} × {name}: {'reached' if self.ratio(name) >= goal else 'not reached'}"
            for name, goal in self.goals.items()
        )
        columns = (
            self.title,
            f"{self.rate(OURS) / 1e6:.2f} M rows/s{self.cost(OURS)}",
            "; ".join(f"{name} {self.rate(name) / 1e6:.2f} M{self.cost(name)}" for name in others),
            "; ".join(f"{self.ratio(name):.2f} × {name}" for name in others),
            "; ".join(f"{busy[name] / busy[OURS]:.2f} × {name}" for name in others if busy.get(OURS)),
            goals,
        )
        return f"| {' | '.join(columns)} |"


def measured(works: list[Work], rounds: int, *, root: int | None = None) -> None:
    """Measure and print one after the other; `SystemExit` where not everyone had the same rows."""
    print(*HEAD, sep="\n")
    for work in works:
        work.measure(rounds, root=root)
        print(work.line(), flush=True)
    print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)


def place(spark: SparkSession) -> str:
    """One line about the machine and the versions."""
    java = spark._jvm.java.lang.System.getProperty("java.version")  # noqa: SLF001 - Spark does not tell it otherwise
    return (f"{processor()}, Java {java}, Spark "
            f"{spark.version} ({spark.sparkContext.master}), Python {platform.python_version()}, pyarrow "
            f"{version('pyarrow')}; load {os.getloadavg()[0]:.1f}")  # fmt: skip
