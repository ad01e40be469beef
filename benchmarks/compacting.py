"""One pass of the log cleaner over a partition, kafkalog beside Kafka's own cleaner: `python benchmarks/compacting.py`.

The keys come at random, so that most batches lose some of their records and are written again; no batch is repeated.
Whole processes, from their start to their end, each on a fresh copy: `kafkalog compact --yes`, and a JVM in which Kafka
loads the log directory, cleans it and closes it.  Beside them what somebody would write in Python: aiokafka decodes
every record, and a dictionary keeps the latest of each key; it writes nothing.  kafkalog moves the old segments to
quarantine and flushes everything, which Kafka does later or not at all.  What they leave is compared.  "Record by
record" is the same command with its readable cleaner, which compiled code took the place of.

What bounds kafkalog's pass: each key is hashed twice (MD5, as in Kafka's map), the map is larger than a processor's
cache, and kept records of compressed batches are compressed again by the codec's own library.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from support import jars, peers, timing
from support.corpora import CACHE, MIB, START_MS, made_once, scratch_directory
from support.machine import machine
from support.values import values

import kafkalog
from kafkalog.codec import Codec
from kafkalog.codec.encode.columns import build_batches

CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
NOW_MS = START_MS + 10**9
ROWS = 20_000
TOMBSTONES = 0.01
WITH_PEAK = """
import atexit
from kafkalog.__main__ import main
atexit.register(lambda: print(*(line for line in open("/proc/self/status") if line.startswith("VmHWM"))))
main()
"""
BY_RECORDS = """
from kafkalog.log.storage.cleaning import cleaner
from kafkalog.__main__ import main
cleaner.kernel_is_worth_it = lambda _: False
main()
"""


def partition(codec: Codec, size: int, keys: int, batch_bytes: int, segments: int = 8) -> Path:
    """A partition of about `size` bytes of records, of so many keys; made once."""
    name = f"keyed-{codec.label}-{size}-{keys}-{batch_bytes}"
    directory = CACHE / name / "keyed-0"
    with made_once(directory.parent) as is_new:
        if is_new:
            directory.mkdir()
            _fill(directory, codec, size // segments, keys, batch_bytes, segments)
    return directory


def _fill(directory: Path, codec: Codec, size: int, keys: int, batch_bytes: int, segments: int) -> None:
    offset = 0
    for number in range(segments):
        with (directory / f"{offset:020}.log").open("wb") as log:
            written = 0
            for columns in _columns(np.random.default_rng(number), keys, f"{directory.parent.name}{number}"):
                for batch in build_batches(columns, base_offset=offset, codec=codec, batch_bytes=batch_bytes):
                    log.write(batch)
                offset += columns.num_rows
                written += columns.nbytes
                if written >= size:
                    break


def _columns(source: np.random.Generator, keys: int, seed: str) -> Iterator[pa.RecordBatch]:
    some = values("text", 200, seed)
    time = START_MS
    while True:
        sizes, gone = source.integers(100, 200, ROWS).tolist(), (source.random(ROWS) < TOMBSTONES).tolist()
        contents = [None if dead else next(some)[:size] for size, dead in zip(sizes, gone, strict=True)]
        yield pa.RecordBatch.from_pydict(
            {
                "key": pa.array([b"user-%09d" % key for key in source.integers(0, keys, ROWS)], pa.binary()),
                "value": pa.array(contents, pa.binary()),
                "timestamp": pa.array(np.arange(ROWS) // 7 + time),
            }
        )
        time += ROWS // 7


def by_hand(directory: Path) -> int:
    """Decode every record with aiokafka and remember the offset of each key; how many keys there are."""
    from aiokafka.record.memory_records import MemoryRecords

    latest: dict[bytes, int] = {}
    for log in sorted(directory.glob("*.log")):
        found = MemoryRecords(log.read_bytes())
        while found.has_next():
            for record in found.next_batch():
                latest[record.key] = record.offset
    return len(latest)


def _words(root: Path) -> list[str]:
    """Arguments of the command."""
    words = [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
    return ["compact", "--yes", *words, "--at", str(NOW_MS), str(root)]


class Bench:
    """One corpus, and what works on fresh copies of it."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        self._directory = directory
        self._scratch = scratch
        self.bytes = sum(path.stat().st_size for path in directory.glob("*.log"))
        self.records = sum(batch.header.records_count for batch in kafkalog.open_partition(directory).batches())

    def _copy(self, name: str) -> Path:
        root = self._scratch / name
        for old in (root, root.with_name(f"{name}.recovery")):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self._directory, root / self._directory.name, copy_function=shutil.copy2)
        os.sync()  # so that nothing that is measured waits for it
        return root

    def ours(self) -> float:
        """The command."""
        return timing.process([sys.executable, "-m", "kafkalog", *_words(self._copy("ours"))], self._scratch / "out")

    def by_records(self) -> float:
        """The command without compiled code in the cleaner."""
        command = [sys.executable, "-c", BY_RECORDS, *_words(self._copy("by records"))]
        return timing.process(command, self._scratch / "out")

    def peak(self) -> int:
        """KiB of memory that the command has at most; what `wait4` tells begins with that of this process."""
        command = [sys.executable, "-c", WITH_PEAK, *_words(self._copy("ours"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return int(done.stdout.split()[-2])

    def kafka(self) -> float:
        """Kafka's own cleaner."""
        return peers.compact_log_directory(self._copy("kafka"), CONFIG, NOW_MS, self._scratch / "out")

    def by_hand(self) -> float:
        """In this process."""
        return timing.timed(lambda: by_hand(self._directory))()[0]

    def difference(self) -> str:
        """What is different in what both leave; compressed bytes apart."""
        found = [
            [(record.offset, record.timestamp, record.key, record.value) for record in kafkalog.open_partition(
                self._scratch / name / self._directory.name
            ).records()]
            for name in ("ours", "by records", "kafka") if (self._scratch / name).exists()
        ]  # fmt: skip
        counts = ", ".join(str(len(each)) for each in found)
        return "" if all(each == found[0] for each in found) else f"not the same records are left: {counts}"


def main() -> None:
    """Print a line for each codec and each way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=256, help="MiB of records in a partition")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batch-bytes", type=int, default=16_384)
    parser.add_argument("--cpu", action="store_true", help="processor time of all threads; for busy machines")
    arguments = parser.parse_args()
    timing.use_cpu_time = arguments.cpu
    seconds = "processor time" if arguments.cpu else "wall clock"
    print(f"{machine()}; {arguments.rounds} rounds, {seconds}, medians")
    why_not = jars.why_not()
    if why_not is not None:
        print(f"Kafka is not measured: {why_not}")
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        directory = partition(codec, arguments.size * MIB, arguments.keys, arguments.batch_bytes)
        with scratch_directory() as scratch:
            bench = Bench(directory, Path(scratch))
            ways: dict[str, Callable[[], float]] = {
                "kafkalog compact": bench.ours,
                "record by record": bench.by_records,
                "aiokafka and a dict": bench.by_hand,
            }
            if why_not is None:
                ways["Kafka's cleaner"] = bench.kafka
            taken: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(arguments.rounds):
                for name, way in ways.items():
                    taken[name].append(way())
            if found := bench.difference():
                raise SystemExit(found)
            print(f"{codec.label}, {bench.bytes / 1e6:.0f} MB, {bench.records} records, {arguments.keys} keys")
            for name, each in taken.items():
                middle = statistics.median(each)
                rates = f"{bench.bytes / middle / 1e6:7.1f} MB/s  {bench.records / middle / 1e6:6.2f} million records/s"
                print(f"  {name:20} {middle:7.2f} s  {rates}", flush=True)
            before, now = (statistics.median(taken[name]) for name in ("record by record", "kafkalog compact"))
            print(f"  {before / now:.2f} x as fast as record by record; at most {bench.peak() >> 10} MiB of memory")


if __name__ == "__main__":
    main()
