"""Ten-field Avro values into Arrow, as `DecodedValues` decodes them, beside fastavro's own reader in a loop.

Run as `python benchmarks/values.py [ROWS]`.  Each way is run several times; the best is printed.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import fastavro
import pyarrow as pa
from support.orders import ID, SCHEMA

import kafkalog
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.values import arrow_column

ROWS, RUNS, IN_A_BATCH = 200_000, 3, 500


def values(count: int) -> Iterable[bytes]:
    """Payloads in Confluent's wire format."""
    parsed = fastavro.parse_schema(SCHEMA)
    for n in range(count):
        out = io.BytesIO()
        out.write(b"\0" + ID.to_bytes(4, "big"))
        fastavro.schemaless_writer(out, parsed, {
            "id": n, "customer": f"customer {n % 997}", "amount": n / 3, "paid": n % 2 == 0, "count": n % 100,
            "note": None if n % 4 else f"note {n}", "state": ("OPEN", "PAID", "SHIPPED")[n % 3],
            "at": 1_700_000_000_000 + n, "tags": ["a"] * (n % 3), "day": 19_000 + n % 365,
        })  # fmt: skip
        yield out.getvalue()


def topic(folder: Path, count: int) -> kafkalog.Partition:
    """A partition with the values."""
    directory = folder / "orders-0"
    directory.mkdir()
    records = [Record(n, 1000 + n, TimestampType.CREATE_TIME, None, each) for n, each in enumerate(values(count))]
    with (directory / f"{0:020}.log").open("wb") as file:
        for begin in range(0, count, IN_A_BATCH):
            file.write(build_batch(records[begin : begin + IN_A_BATCH]))
    return kafkalog.open_partition(directory)


def best(work: Callable[[], int], count: int) -> float:
    """Seconds of the fastest run."""
    found = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        assert work() == count
        found.append(time.perf_counter() - begun)
    return min(found)


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    text = json.dumps(SCHEMA)
    schema = kafkalog.Schema(subject="orders-value", version=1, id=ID, type="AVRO", text=text)
    registry = kafkalog.SchemaRegistry(schemas={("orders-value", 1): schema})
    with tempfile.TemporaryDirectory() as folder:
        partition = topic(Path(folder), count)
        parsed = fastavro.parse_schema(SCHEMA)

        def ours() -> int:
            reader = partition.to_arrow(["value"], decoding=kafkalog.DecodedValues(schemas=registry))
            return sum(batch.num_rows - batch.column("value").null_count for batch in reader)

        def loop() -> int:
            rows = 0
            for batch in partition.to_arrow(["value"]):
                found = [
                    fastavro.schemaless_reader(io.BytesIO(each[5:]), parsed, None)
                    for each in batch.column("value").to_pylist()
                ]
                rows += len(pa.array(found))
            return rows

        together = best(ours, count)
        arrow_column.TOGETHER = sys.maxsize
        singly = best(ours, count)
        plain = best(loop, count)
    print(f"{count} values of ten fields, best of {RUNS}")
    print(f"to_arrow with DecodedValues         {together:8.3f} s  {count / together:12,.0f} values/s")
    print(f"the same, one value after the other {singly:8.3f} s  {count / singly:12,.0f} values/s")
    print(f"fastavro in a loop, then pa.array   {plain:8.3f} s  {count / plain:12,.0f} values/s")
    print(f"to_arrow with DecodedValues is {plain / together:.1f} x fastavro's loop")
    return 0


if __name__ == "__main__":
    sys.exit(main())
