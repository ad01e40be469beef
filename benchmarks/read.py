"""How fast segments are read, beside kafka-python and aiokafka: `python benchmarks/read.py`.

Writes seeded JSON-like records through the log writer, one partition for each compression, and reads every partition
with each reader in turn, checksums compared; prints the median of the runs in MB of segment a second and in records
a second.  `check` walks the batches and compares checksums, `records` makes Python objects, `to_arrow` Arrow batches.
Both peers are given the whole segment as bytes; their records are made and dropped.  Little data (here a few thousand
records) is decoded in plain Python, because loading the compiled kernels would take longer.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from kafkalog.codec import Codec
from kafkalog.log import Log, LogConfig, open_partition

RECORDS_OF_A_BATCH = 128
Reader = Callable[[Path], int]


def write(directory: Path, codec: Codec, batches: int) -> None:
    source = random.Random(20)
    with Log.open(directory, LogConfig(segment_bytes=2**31 - 1)) as log:
        for _ in range(batches):
            values = [
                f'{{"user": {source.randrange(10**6)}, "action": "see", "page": "/p/{source.randrange(500)}"}}'.encode()
                for _ in range(RECORDS_OF_A_BATCH)
            ]
            log.append([(b"%08d" % source.randrange(10**8), value) for value in values], compression=codec)


def check(directory: Path) -> int:
    return sum(batch.header.records_count for batch in open_partition(directory).batches())


def records(directory: Path) -> int:
    return sum(1 for _ in open_partition(directory).records())


def to_arrow(directory: Path) -> int:
    return sum(batch.num_rows for batch in open_partition(directory).to_arrow())


def peer(memory_records: type) -> Reader:
    def read(directory: Path) -> int:
        count = 0
        for path in sorted(directory.glob("*.log")):
            found = memory_records(path.read_bytes())
            while found.has_next():
                batch = found.next_batch()
                if not batch.validate_crc():
                    raise SystemExit(f"{path}: a checksum does not match")
                count += sum(1 for _ in batch)
        return count

    return read


READERS: dict[str, Reader] = {
    "kafkalog check": check,
    "kafkalog records": records,
    "kafkalog to_arrow": to_arrow,
    "kafka-python": peer(KafkaPythonRecords),
    "aiokafka": peer(AiokafkaRecords),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    batches = arguments.records // RECORDS_OF_A_BATCH
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
          f"kafka-python {version('kafka-python')}, aiokafka {version('aiokafka')}, "
          f"load {os.getloadavg()[0]:.1f}, median of {arguments.repeat}")  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        for codec in Codec:
            directory = Path(name) / f"{codec.label}-0"
            write(directory, codec, batches)
            size = sum(path.stat().st_size for path in directory.glob("*.log"))
            taken: dict[str, list[float]] = {title: [] for title in READERS}
            for number in range(arguments.repeat + 1):
                for title, read in READERS.items():
                    start = time.perf_counter()
                    count = read(directory)
                    if count != batches * RECORDS_OF_A_BATCH:
                        raise SystemExit(f"{title} read {count} records of {batches * RECORDS_OF_A_BATCH}")
                    if number:  # the first run warms caches and compiled kernels
                        taken[title].append(time.perf_counter() - start)
            print(f"\n{codec.label}: {batches * RECORDS_OF_A_BATCH} records, {size / 1e6:.1f} MB of segment")
            for title, each in taken.items():
                middle = statistics.median(each)
                print(f"  {title:20}{size / middle / 1e6:10.1f} MB/s{count / middle / 1e6:10.2f} M records/s")


if __name__ == "__main__":
    main()
