"""Topics to export, and the rows of tables, read by the libraries of their formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import kafkalog
from kafkalog.tables.parquet import MANIFEST

FORMATS = ("parquet", "iceberg", "delta")
DAY = 86_400_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
START = 1_700_000_000_000


def records(count: int, first: int = 0, every: int = 1000) -> list[kafkalog.NewRecord]:
    """With values that tell their number, and times that go on."""
    return [
        kafkalog.NewRecord(json.dumps({"n": n}).encode(), b"k%d" % (n % 7), START + n * every)
        for n in range(first, first + count)
    ]


def topic(folder: Path, counts: Sequence[int], name: str = "orders", in_a_batch: int = 10, every: int = 1000) -> Path:
    """A log directory with a topic of so many records in each partition."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, count in enumerate(counts):
        with kafkalog.Log.open(folder / f"{name}-{number}", kafkalog.LogConfig(segment_bytes=4000)) as log:
            add(log, records(count, every=every), in_a_batch)
        (folder / f"{name}-{number}" / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    return folder


def add(log: kafkalog.Log, some: Sequence[kafkalog.NewRecord], in_a_batch: int = 10) -> None:
    for begin in range(0, len(some), in_a_batch):
        log.append(some[begin : begin + in_a_batch])


def table(root: Path, format: str, topic: str = "orders") -> pa.Table:
    """All rows of a topic's table; of Parquet those of all its files, whatever its manifest says."""
    if format == "parquet":
        return _parquet(root / f"topic={topic}", None)
    if format == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(root / topic)).to_pyarrow_table()
    return iceberg(root, topic).scan().to_arrow()


def of_manifest(root: Path, topic: str = "orders") -> pa.Table:
    folder = root / f"topic={topic}"
    return _parquet(folder, [each["path"] for each in json.loads((folder / MANIFEST).read_text())["files"]])


def _parquet(folder: Path, names: Iterable[str] | None) -> pa.Table:
    paths = sorted(folder.rglob("*.parquet")) if names is None else [folder / each for each in names]
    some = []
    for path in paths:
        found = pq.ParquetFile(path).read()
        number = int(path.relative_to(folder).parts[0].removeprefix("partition="))
        some.append(found.append_column("partition", pa.array([number] * len(found), pa.int32())))
    return pa.concat_tables(some, promote_options="permissive")


def iceberg(root: Path, topic: str = "orders") -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("kafkalog", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    found = catalog.load_table(("kafka", topic))
    catalog.engine.dispose()
    return found


def places(root: Path, format: str, topic: str = "orders") -> list[tuple[int, int]]:
    """Partition and offset of every row."""
    found = table(root, format, topic)
    return sorted(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))


def in_log(folder: Path, topic: str = "orders", level: str = "read_committed") -> list[tuple[int, int]]:
    """The same of the log, as a consumer reads it."""
    return sorted(
        (each.partition or 0, record.offset)
        for each in kafkalog.open_all(folder).partitions
        if each.topic == topic
        for record in each.records(kafkalog.RecordFilter(isolation_level=level))
    )
