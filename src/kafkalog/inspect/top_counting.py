"""Count the records of partitions by group, column by column (`pyarrow`), for `top`.

If groups do not fit in memory, only the largest are kept; each remaining count is then too low by at most
`TopGroups.missed_bytes`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.model import NO_TIMESTAMP
from kafkalog.inspect.top_groups import TopBy, TopGroup, TopGroups, TopQuestion
from kafkalog.log import Partition
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.reading.to_arrow import OPEN_TRANSACTION
from kafkalog.log.walk.on_damage import STOP

__all__ = ["count_groups"]

_MOST_GROUPS = 1_000_000
_MOST_BYTES = 256 * MIB
"""Most bytes of values that identify groups; if there are more, the smaller half of the groups is dropped."""
_PENDING_ROWS = 250_000
_COUNTS = [("bytes", "sum"), ("records", "sum"), ("first", "min"), ("last", "max")]


_COLUMN_OF = {
    TopBy.TOPIC: ("topic",),
    TopBy.PARTITION: ("topic", "partition"),
    TopBy.KEY: ("topic", "key"),
    TopBy.PRODUCER: ("producer",),
    TopBy.HOUR: ("time",),
    TopBy.MINUTE: ("time",),
    TopBy.REPEAT: ("topic", "key", "digest"),
}


def count_groups(question: TopQuestion, partitions: Iterable[Partition], threads: int) -> TopGroups:
    """Group the records of partitions, and return the `question.most` largest groups by `question.order`. Reading a
    partition ends at damage, and with `read_committed` at an open transaction; `findings` and `open_transactions` of
    the result name them. Groups that are whole topics or partitions, without a bound of time, also have the size of
    their log files in bytes. The order `bytes` is then by this size.

    `threads` is the number of threads that decode records. Raises `StorageError` if a file cannot be read, `UsageError`
    for an invalid `threads`.
    """
    names = tuple(dict.fromkeys(name for group in question.by for name in _COLUMN_OF[group]))
    counted = _Counted(names=names, is_repeats=TopBy.REPEAT in question.by)
    findings: list[Finding] = []
    open_transactions: list[str] = []
    unit = "minute" if TopBy.MINUTE in question.by else "hour"
    disk_sizes: dict[tuple[str | None, int | None], int] = {}
    for partition in partitions:
        place = partition.topic, partition.partition
        disk_sizes[place] = disk_sizes.get(place, 0) + partition.size
        wanted = ["key", "value", "timestamp", *(["producerId"] if "producer" in names else [])]
        records = RecordFilter(isolation_level=question.isolation_level)
        with partition.to_arrow(wanted, records, on_damage=STOP, findings=findings, threads=threads) as reader:
            why = (reader.schema.metadata or {}).get(OPEN_TRANSACTION.encode())
            if why is not None:
                open_transactions.append(f"{partition.name or partition.path}: {why.decode()}")
            for batch in reader:
                counted.add(_facts(partition, batch, names, unit, question.start_time, question.end_time))
    is_whole = set(question.by) <= {TopBy.TOPIC, TopBy.PARTITION} and question.start_time is question.end_time is None
    top_groups = counted.result(question.order, None if is_whole else question.most, findings)
    if is_whole:
        top_groups = _with_disk_sizes(top_groups, disk_sizes, names, question.order, question.most)
    return replace(top_groups, open_transactions=open_transactions)


def _with_disk_sizes(
    top_groups: TopGroups, sizes: Mapping[tuple[str | None, int | None], int], names: Sequence[str], order: str,
    most: int | None,
) -> TopGroups:  # fmt: skip
    """Return the groups with the size in bytes of their log files (0 if unknown), and the sum of `sizes` as their
    total. If `order` is `bytes`, the largest come first. At most `most` groups are kept (None: all). `sizes` maps topic
    and partition to bytes; `names` are the columns that are grouped by.
    """
    by_group: dict[tuple[str | None, int | None], int] = {}
    for (topic, number), size in sizes.items():
        key = topic, number if "partition" in names else None
        by_group[key] = by_group.get(key, 0) + size
    groups = [replace(group, disk_size=by_group.get((group.topic, group.partition), 0)) for group in top_groups.groups]
    if order == "bytes":
        groups.sort(key=lambda each: each.disk_size or 0, reverse=True)
    return replace(top_groups, groups=groups[:most], disk_size=sum(sizes.values()))


def _facts(
    partition: Partition, batch: Any, names: Sequence[str], unit: str, start: int | None, end: int | None
) -> Any:
    """Return a table with one row per record: the columns in `names`, by which records are grouped; `bytes`, the size
    of key and value; `records`, always 1; and `first` and `last`, both the record's time in ms (null if none).

    Rows with a time before `start`, or at or after `end`, are left out (ms; None: no bound). If there is a bound, rows
    without a time are left out too. `unit` is `hour` or `minute`; its column has the start in ms since 1970, or null
    for a time before 1970.
    """
    time = batch["timestamp"].cast(pa.timestamp("ms", tz="UTC"), safe=False)
    sizes = pc.add(_lengths(batch["key"]), _lengths(batch["value"]))
    columns: dict[str, Any] = {}
    for name in names:
        match name:
            case "topic":
                columns[name] = pa.repeat(pa.scalar(partition.topic, pa.string()), batch.num_rows)
            case "partition":
                columns[name] = pa.repeat(pa.scalar(partition.partition, pa.int32()), batch.num_rows)
            case "key":
                columns[name] = batch["key"]
            case "producer":
                columns[name] = batch["producerId"]
            case "digest":
                columns[name] = pa.array([_digest(value) for value in batch["value"]], pa.binary())
            case _:
                hours = pc.floor_temporal(time, unit=unit).cast(pa.int64())
                columns[name] = pc.if_else(pc.less(hours, 0), pa.scalar(None, pa.int64()), hours)
    ms = time.cast(pa.int64())
    ms = pc.if_else(pc.equal(ms, NO_TIMESTAMP), pa.scalar(None, pa.int64()), ms)
    columns |= {"bytes": sizes, "records": pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)}
    table = pa.table(columns | {"first": ms, "last": ms})
    if start is not None:
        table = table.filter(pc.greater_equal(table["first"], start))
    if end is not None:
        table = table.filter(pc.less(table["first"], end))
    return table


def _lengths(column: Any) -> Any:
    return pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())


def _digest(value: Any) -> bytes | None:
    buffer = value.as_buffer()
    return None if buffer is None else hashlib.blake2b(buffer, digest_size=16).digest()


class _Counted(Struct, kw_only=True):
    """The groups counted so far, as a table with one row for each, and the rows that still have to be grouped."""

    names: tuple[str, ...]
    is_repeats: bool
    pending: list[Any] = []
    pending_rows: int = 0
    pending_bytes: int = 0
    records: int = 0
    size: int = 0
    missed: int = 0

    def add(self, rows: Any) -> None:
        grouped = self._grouped(rows)
        self.records += rows.num_rows
        self.size += pc.sum(rows["bytes"]).as_py() or 0
        self.pending.append(grouped)
        self.pending_rows += grouped.num_rows
        self.pending_bytes += grouped.nbytes
        is_much = self.pending_bytes > 2 * _MOST_BYTES
        if is_much or self.pending_rows >= max(_PENDING_ROWS, 2 * self.pending[0].num_rows):
            self._merge()

    def _grouped(self, rows: Any) -> Any:
        grouped = rows.group_by(list(self.names), use_threads=False).aggregate(_COUNTS)
        return grouped.rename_columns([name.removesuffix("_sum").removesuffix("_min").removesuffix("_max")
                                     for name in grouped.column_names])  # fmt: skip

    def _merge(self) -> None:
        if len(self.pending) > 1:
            self.pending = [self._grouped(pa.concat_tables(self.pending))]
        (groups,) = self.pending
        while groups.num_rows > 1 and (groups.num_rows > _MOST_GROUPS or groups.nbytes > _MOST_BYTES):
            largest = pc.select_k_unstable(groups, k=groups.num_rows // 2 + 1, sort_keys=[("bytes", "descending")])
            dropped = groups.take(largest[-1:])["bytes"][0].as_py()
            groups = groups.take(largest[:-1]).combine_chunks()
            self.missed += dropped
        self.pending = [groups]
        self.pending_rows, self.pending_bytes = groups.num_rows, groups.nbytes

    def result(self, order: str, most: int | None, findings: Sequence[Finding]) -> TopGroups:
        if self.pending:
            self._merge()
        groups = list(self._groups(order, most)) if self.pending else []
        return TopGroups(
            groups=groups,
            records=self.records,
            size=self.size,
            missed_bytes=self.missed,
            findings=tuple(dict.fromkeys(findings)),
        )

    def _groups(self, order: str, most: int | None) -> Iterator[TopGroup]:
        (groups,) = self.pending
        if self.is_repeats:
            groups = groups.filter(pc.greater(groups["records"], 1))
        keys = [(order, "descending"), *((name, "ascending") for name in self.names)]
        groups = groups.take(pc.sort_indices(groups, sort_keys=keys)[:most])
        for row in groups.to_pylist():
            yield TopGroup(
                records=row["records"],
                size=row["bytes"],
                first_timestamp=row["first"],
                last_timestamp=row["last"],
                topic=row.get("topic"),
                partition=row.get("partition"),
                key=row.get("key"),
                producer_id=row.get("producer"),
                time=row.get("time"),
            )
