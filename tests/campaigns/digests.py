"""Digests of what compiled code makes of recorded logs: `digests.py ROOT...` prints a line for each partition.

Two machines that print the same lines read, count and write alike.  `aarch64.py` compares one with another.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kafkalog.codec.columnar.schema import COLUMNS, COPY, VIEW
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.native import functions, thresholds
from kafkalog.log import open_partition
from kafkalog.log.disk.files import FileSource

NAMES = sorted(name for name, column in COLUMNS.items() if not column.is_place)


def of_checksums() -> Iterator[str]:
    """Both checksums, of sizes around every step of their loops."""
    content = np.frombuffer(np.arange(20_000, dtype=np.uint16).tobytes(), np.uint8)
    for size in (*range(400), 4_608, 5_000, 40_000):
        for ieee in (False, True):
            yield str(functions.crc_of(content.ctypes.data, size, ieee=ieee))


def of_partition(directory: Path) -> str:
    """Headers and columns, in both layouts, of a partition."""
    digest = hashlib.sha256()
    for path in sorted(directory.glob("*.log")):
        with FileSource(path) as source:
            for run in RunScanner(source).all_runs():
                digest.update(np.ascontiguousarray(run.table).tobytes() if isinstance(run, BatchRun) else b"-")
    partition = open_partition(directory)
    for layout in (COPY, VIEW):
        for batch in partition.to_arrow(NAMES, layout=layout):
            digest.update(repr(batch.to_pylist()).encode())
    return digest.hexdigest()


def main() -> None:
    """Print the digests."""
    thresholds.ENOUGH_BYTES = 0
    print("checksums", hashlib.sha256("".join(of_checksums()).encode()).hexdigest())
    for root in map(Path, sys.argv[1:]):
        for directory in sorted({path.parent for path in root.rglob("*.log")}):
            print(directory.relative_to(root), of_partition(directory))


if __name__ == "__main__":
    main()
