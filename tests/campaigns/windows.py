"""Random windows through compiled code and through plain Python: `windows.py [--count N] [--seed N] [--only NAME]`.

Each window is made of sound parts, some of which are then changed, with checksums made right again, so that the code
behind a checksum is reached.  Prints how many windows each family had, how many gave another answer, and which compiled
functions were called; exit code 1 if any answer was another one.  A difference is printed with its seed, which makes it
again.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable

import clean_windows as clean
import codec_windows as codec
import log_windows as log
import run_windows as runs

from kafkalog.codec.native import functions

Family = Callable[[random.Random], tuple[object, object]]
FAMILIES: dict[str, Family] = {
    each.__name__: each
    for each in (
        codec.headers, codec.entries, codec.checksums, codec.one_batch, codec.window, codec.run, codec.old_records,
        codec.stream, codec.built, codec.producers, codec.summary, log.order, log.next_ones, log.spans, log.rebuilt,
        log.lines, log.cleaned, clean.compacted, clean.recovered, runs.facts, runs.transactions, runs.places,
        runs.epochs, runs.doubts, runs.chosen, runs.agreement, runs.index_entries, runs.largest_times,
    )
}  # fmt: skip
SLOW = {"rebuilt": 20, "cleaned": 200}
"""Families that get only one window for so many of the others, because each takes so much longer."""


class Calls:
    """Names of the compiled functions that are called while it is entered."""

    def __enter__(self) -> set[str]:
        self._call, names = functions._call, set[str]()

        def call(name: str, *arguments: int) -> int:
            names.add(name)
            return self._call(name, *arguments)

        functions._call = call
        return names

    def __exit__(self, *_: object) -> None:
        functions._call = self._call


def compared(name: str, count: int, seed: int) -> tuple[int, set[str]]:
    """Run a family and print what came of it; the number of differences, and the functions that were called."""
    different = taken = 0
    with Calls() as names:
        for number in range(count):
            window = f"{seed} {name} {number}"
            found, expected = FAMILIES[name](random.Random(window))
            taken += found is not None
            if found != expected:
                different += 1
                if different <= 3:
                    print(f"{name}: seed {window!r}: {found!r:.300} where plain Python has {expected!r:.300}")
    reached = ", ".join(sorted(names))
    print(f"{name}: {count} windows, {taken} taken, {different} differences; {reached}", flush=True)
    return different, names


def main() -> int:
    """Run the families; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2_000, help="windows of each family; fewer of slow ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=FAMILIES)
    given = parser.parse_args()
    chosen = FAMILIES if given.only is None else [given.only]
    wrong, reached = 0, set[str]()
    for name in chosen:
        different, names = compared(name, max(given.count // SLOW.get(name, 1), 1), given.seed)
        wrong += different
        reached |= names
    print(f"{len(reached)} compiled functions, {wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
