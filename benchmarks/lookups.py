"""What a single read costs in logs of many segments: `python benchmarks/lookups.py`.

Reads at random offsets, look-ups of random times, and the log's end, in logs of 400 and of 4,000 segments.  Medians in
microseconds, every kind in turn, over several rounds.  `--beside SRC` runs the same with the package of another
checkout's `src` folder in between, a process for each round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kafkalog.log import Log, LogConfig, open_partition

SIZES = (400, 4000)
OF_A_SEGMENT = 10
READS = 25
START_MS = 1_700_000_000_000
OLD_S = 3600
"""How long ago the files of the logs were changed last: what was changed just now is read again at each look-up."""


def write_log(directory: Path, segments: int) -> None:
    """Segments of a few batches each."""
    directory.parent.mkdir()
    now = START_MS
    with Log.open(directory, LogConfig(), clock=lambda: now) as log:
        for number in range(segments):
            for _ in range(OF_A_SEGMENT):
                now += 1000
                log.append([b"a value of some bytes"])
            if number + 1 < segments:
                log.roll()
    for file in directory.iterdir():
        os.utime(file, (time.time() - OLD_S,) * 2)


def medians(root: Path) -> dict[str, float]:
    """Microseconds by what was done, in this process."""
    found = {}
    for segments in SIZES:
        directory = root / str(segments) / "t-0"
        source = random.Random(segments)
        end = segments * OF_A_SEGMENT
        offsets = [source.randrange(end) for _ in range(READS)]
        partition = open_partition(directory)
        with Log.open(directory, LogConfig()) as log:
            rows: dict[str, Callable[[int], object]] = {
                "Log.read": lambda offset, log=log: log.read(offset, 100),  # type: ignore[misc]
                "Partition.read": lambda offset, of=partition: of.read(offset, 100),  # type: ignore[misc]
                "Partition.log_end_offset": lambda _, of=partition: of.log_end_offset(),  # type: ignore[misc]
                "Partition.offset_for_timestamp": lambda offset, of=partition: of.offset_for_timestamp(  # type: ignore[misc]
                    START_MS + 1000 * offset
                ),
                "Log.offset_for_timestamp": lambda offset, log=log: log.offset_for_timestamp(  # type: ignore[misc]
                    START_MS + 1000 * offset
                ),
            }
            for name, work in rows.items():
                taken = []
                for offset in offsets:
                    start = time.perf_counter()
                    work(offset)
                    taken.append(time.perf_counter() - start)
                found[f"{name}, {segments} segments"] = statistics.median(taken) * 1e6
    return found


def in_a_process(root: Path, package: Path | None) -> dict[str, float]:
    """The same by the package of a folder, or by the one that is installed."""
    environment = dict(os.environ)
    if package is not None:
        environment["PYTHONPATH"] = str(package)
    command = [sys.executable, __file__, "--inside", str(root)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, help="the src folder of another checkout")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside is not None:
        print(json.dumps(medians(given.inside)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for segments in SIZES:
            write_log(root / str(segments) / "t-0", segments)
        packages = {"this": None} if given.beside is None else {"beside": given.beside, "this": None}
        taken: dict[str, dict[str, list[float]]] = {name: {} for name in packages}
        for _ in range(1 if given.quick else given.rounds):
            for name, package in packages.items():
                for row, value in in_a_process(root, package).items():
                    taken[name].setdefault(row, []).append(value)
    print(f"| microseconds, medians | {' | '.join(packages)} |\n|---|{'---|' * len(packages)}")
    for row in taken["this"]:
        print(f"| {row} | {' | '.join(f'{statistics.median(taken[name][row]):,.0f}' for name in packages)} |")


if __name__ == "__main__":
    main()
