"""What a user writes around aiokafka to read a log file: WORK LOG TARGET, where WORK is json, parquet or verify."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any

from aiokafka.record.memory_records import MemoryRecords


def records(path: str) -> Iterator[Any]:
    with open(path, "rb") as file:
        found = MemoryRecords(file.read())
    while found.has_next():
        batch = found.next_batch()
        if not batch.validate_crc():
            raise SystemExit("a checksum does not match")
        yield from batch


def text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def main() -> None:
    work, path, target = sys.argv[1:]
    if work == "verify":
        print(sum(1 for _ in records(path)))
    elif work == "json":
        for record in records(path):
            headers = [[name, text(value)] for name, value in record.headers]
            key, value = text(record.key), text(record.value)
            fields = {"offset": record.offset, "timestamp": record.timestamp, "key": key, "value": value}
            print(json.dumps(fields | {"headers": headers}))
    else:
        import pyarrow as pa
        from pyarrow import parquet

        schema = pa.schema({"offset": pa.int64(), "timestamp": pa.int64(), "key": pa.binary(), "value": pa.binary()})
        rows = [(each.offset, each.timestamp, each.key, each.value) for each in records(path)]
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)]
        parquet.write_table(pa.Table.from_arrays(columns, schema=schema), target)


if __name__ == "__main__":
    main()
