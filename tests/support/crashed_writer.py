"""A process that writes a log until it is killed, and says on standard output what it knows to be durable.

    python crashed_writer.py DIRECTORY SEED

Lines: ``appended END`` after each append, ``flushed END`` after each flush; the records' values are their offsets, so
that a reader can tell a prefix.  Segments are small, so that a kill often meets a roll.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import kafkalog

CONFIG = kafkalog.LogConfig(segment_bytes=2000, index_interval_bytes=100, flush_messages=40)


def value(offset: int) -> bytes:
    """What the record of an offset holds."""
    return b"%d" % offset * (offset % 7 + 1)


def main(directory: Path, seed: int) -> None:
    """Append forever."""
    rng = random.Random(seed)
    with kafkalog.Log.open(directory / "t-0", CONFIG) as log:
        while True:
            end = log.end_offset
            count = rng.randint(1, 6)
            log.append([value(end + n) for n in range(count)], compression=rng.choice(["none", "lz4", "zstd"]))
            print("appended", log.end_offset, flush=True)
            choice = rng.random()
            if choice < 0.1:
                log.flush()
            elif choice < 0.15:
                log.roll()
            print("flushed", log.recovery_point, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
