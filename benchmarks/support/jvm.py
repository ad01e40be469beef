"""Kafka's record classes in processes of their own: one for each work and compression, the collector that suits it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from support import jars, timing

COLLECTORS = ("-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseG1GC")
MOST_PASSES = 15
WITHOUT_GAIN = 3
GAIN = 1.02


class Jvm:
    """A process that does one piece of work at a time."""

    def __init__(self, collector: str) -> None:
        self.collector = collector
        flags = (collector, f"-Dcpu={str(timing.use_cpu_time).lower()}")
        self._process = subprocess.Popen(
            jars.java("Peer", flags=flags),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def run(self, mode: str, path: Path) -> timing.Measured:
        """Seconds as the JVM measures them, and records (batches for `shallow` and `recover`)."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{mode} {path}\n")
        self._process.stdin.flush()
        words = self._line().split()
        if len(words) != 3:
            raise SystemExit(f"the JVM could not do {mode} on {path}")
        return float(words[0]), int(words[1])

    def warm(self, mode: str, path: Path, most: int) -> float:
        """Run until the rate no longer rises; the best seconds."""
        best, without = float("inf"), 0
        for _ in range(most):
            seconds, _count = self.run(mode, path)
            without = without + 1 if seconds * GAIN > best else 0
            best = min(best, seconds)
            if without == WITHOUT_GAIN:
                break
        return best

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


class Jvms:
    """The processes of a run; a context manager."""

    def __init__(self, *, quick: bool) -> None:
        self.why_not = jars.why_not()
        self._most = 1 if quick else MOST_PASSES
        self._collectors = COLLECTORS[:1] if quick else COLLECTORS
        self._kept: dict[tuple[str, str], Jvm] = {}

    def warmed(self, mode: str, codec: str, path: Path) -> Jvm:
        """The process for a work and a compression, warm on this file.

        The first time every collector is tried, and the fastest stays.
        """
        found = self._kept.get((mode, codec))
        if found is not None:
            found.warm(mode, path, self._most)
            return found
        tried: list[tuple[float, Jvm]] = []
        for each in self._candidates():
            tried.append((each.warm(mode, path, self._most), each))
            if len(tried) == 2:
                tried.sort(key=lambda pair: pair[0])
                tried.pop()[1].close()
        self._kept[mode, codec] = tried[0][1]
        return tried[0][1]

    def running(self, mode: str, codec: str) -> Jvm:
        """The process that was warmed."""
        return self._kept[mode, codec]

    def _candidates(self) -> Iterator[Jvm]:
        for collector in self._collectors:
            yield Jvm(collector)

    def collectors(self) -> str:
        """Which collector was the fastest for what, in a line."""
        return ", ".join(
            f"{mode} {codec} {jvm.collector.removeprefix('-XX:+Use')}" for (mode, codec), jvm in self._kept.items()
        )

    def __enter__(self) -> Jvms:
        return self

    def __exit__(self, *_: object) -> None:
        for jvm in self._kept.values():
            jvm.close()
