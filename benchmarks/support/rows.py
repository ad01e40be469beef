"""Rows of a comparison: who does the same work, in turn, how long it took, and the table of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from support.timing import Run

OURS = "kafkalog"


@dataclass
class Row:
    """One line of the table: what is done, by whom, on which corpus, and what is asked of it."""

    title: str
    corpus: str
    runs: dict[str, Run]
    size: int
    unit: str = "records"
    goals: dict[str, float] = field(default_factory=dict)
    any_goal: bool = False
    """Whether one of the goals is enough."""
    warm: list[Callable[[], object]] = field(default_factory=list)
    """What is done before the first round, so that everyone is as warm as in a process that lives long."""
    taken: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def measure(self, rounds: int) -> None:
        """Everyone in turn, `rounds` times and once before to warm up."""
        for each in self.warm:
            each()
        for number in range(rounds + 1):
            for name, run in self.runs.items():
                seconds, count = run()
                self.counts[name] = count
                if number:
                    self.taken.setdefault(name, []).append(seconds)
        if len(set(self.counts.values())) > 1:
            raise SystemExit(f"{self.title}: not everyone found the same: {self.counts}")
        self.runs, self.warm = {}, []  # what they hold is let go of

    def rate(self, name: str) -> float:
        """Units a second, of the median."""
        return self.counts[name] / statistics.median(self.taken[name])

    def best(self, name: str) -> float:
        """Units a second, of the best round."""
        return self.counts[name] / min(self.taken[name])

    def ratio(self, name: str) -> float:
        """How many times as fast kafkalog is, medians compared."""
        return statistics.median(self.taken[name]) / statistics.median(self.taken[OURS])

    def ratio_of_bests(self, name: str) -> float:
        """How many times as fast kafkalog is, best rounds compared."""
        return min(self.taken[name]) / min(self.taken[OURS])

    def spread(self, name: str) -> float:
        """Slowest round over fastest, less one."""
        return max(self.taken[name]) / min(self.taken[name]) - 1

    def as_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "title": self.title, "corpus": self.corpus, "bytes": self.size, "unit": self.unit, "seconds": self.taken,
            "per_second": {name: self.rate(name) for name in self.taken},
            "ratio": {name: self.ratio(name) for name in self.taken if name != OURS}, "goals": self.goals,
        }  # fmt: skip

    def judged(self) -> str:
        """Each goal, and whether it was reached."""
        return (" or " if self.any_goal else "; ").join(
            f"{goal:g} × {name}: "
            + (
                "not measured"
                if name not in self.taken
                else "reached"
                if self.ratio(name) >= goal
                else "**not reached**"
            )
            for name, goal in self.goals.items()
        )

    def line(self) -> str:
        """The row as a line of a Markdown table."""
        others = [name for name in self.taken if name != OURS]
        rates = "; ".join(f"{name} {self._rates(name)}" for name in others)
        ratios = "; ".join(f"{self.ratio(name):.2f} ({self.ratio_of_bests(name):.2f}) × {name}" for name in others)
        ours = f"{self._rates(OURS)} {self.unit}/s, {self.size / 1e6 * self.rate(OURS) / self.counts[OURS]:,.0f} MB/s"
        return f"| {self.title} | {self.corpus} | {ours} | {rates} | {ratios} | {self.judged()} |"

    def _rates(self, name: str) -> str:
        return f"{amount(self.rate(name))} ({amount(self.best(name))}, ±{50 * self.spread(name):.0f} %)"


def amount(rate: float) -> str:
    """A rate for people."""
    return f"{rate / 1e6:.2f} M" if rate >= 1e5 else f"{rate:.2f}" if rate < 100 else f"{rate:.0f}"


def table(rows: list[Row]) -> list[str]:
    """The rows as lines of a Markdown table."""
    head = "| work | corpus | kafkalog | peers | kafkalog is | at least |"
    return [head, "|---|---|---|---|---|---|", *(row.line() for row in rows)]
