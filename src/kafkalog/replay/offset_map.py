"""Map from source offsets to target offsets, stored as runs of consecutive records; used to translate committed
offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.extras import needed

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OffsetMap", "Run", "read_parquet", "runs_of", "write_parquet"]

_ROWS = 65_536
_NUMBERS = ("partition", "offset", "target_offset")
"""columns of a map that are read, besides the topic"""


class Run(Struct, frozen=True):
    """`count` records that are consecutive in the source and in the target, with the offsets of the first."""

    source: int
    target: int
    count: int


def runs_of(pairs: Iterable[tuple[int, int]]) -> list[Run]:
    """Combine pairs of (source offset, target offset), ascending, into as few runs as possible, in order. A run
    continues only while both offsets grow by one; no pairs give an empty list.
    """
    runs: list[Run] = []
    for source, target in pairs:
        last = runs[-1] if runs else None
        if last is not None and (source, target) == (last.source + last.count, last.target + last.count):
            runs[-1] = Run(last.source, last.target, last.count + 1)
        else:
            runs.append(Run(source, target, 1))
    return runs


class OffsetMap:
    """The offset map of one partition: its runs, ascending."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs: list[Run] = []
        self._sources: list[int] = []
        for run in runs:
            self.add(run)

    def add(self, run: Run) -> None:
        """Append a run, whose offsets must be above all others in the map. If it continues the last run in source and
        target, both become one.
        """
        last = self._runs[-1] if self._runs else None
        if last is not None and (run.source, run.target) == (last.source + last.count, last.target + last.count):
            self._runs[-1] = Run(last.source, last.target, last.count + run.count)
            return
        self._runs.append(run)
        self._sources.append(run.source)

    @property
    def runs(self) -> Sequence[Run]:
        """All runs of the map."""
        return self._runs

    @property
    def records(self) -> int:
        """Number of records in the map."""
        return sum(run.count for run in self._runs)

    def moved(self, offset: int, *, empty: int = 0) -> int:
        """Return the target offset for a consumer that has read everything below `offset` in the source. It is the
        target offset of the first record at or after `offset`. If there is no such record, it is the target offset of
        the last record plus one. It is `empty` if the map has no records.
        """
        number = bisect_right(self._sources, offset) - 1
        if number >= 0:
            run = self._runs[number]
            if offset < run.source + run.count:
                return run.target + offset - run.source
        if number + 1 < len(self._runs):
            return self._runs[number + 1].target
        return self._runs[-1].target + self._runs[-1].count if self._runs else empty


def read_parquet(path: str, wanted: Collection[tuple[str, int]]) -> dict[tuple[str, int], OffsetMap]:
    """Read offset maps from a file of `write_parquet`. Return a map for each (source topic, partition) in `wanted`; it
    is empty if the file has no rows for it. Other rows are ignored.

    Raises `UsageError` if the file is not such a map or pyarrow is not installed. Raises `StorageError` if it cannot be
    read or is missing.
    """
    with needed("the offset map", "replay"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    maps = {key: OffsetMap() for key in wanted}
    try:
        with open(path, "rb"), pq.ParquetFile(path) as file:  # the first for its error about a directory
            for name in _NUMBERS:
                if not pa.types.is_integer(file.schema_arrow.field(name).type):
                    raise TypeError(f"its column {name} has no integers")
            for batch in file.iter_batches(_ROWS, columns=["topic", *_NUMBERS]):
                columns = [batch.column(name) for name in ("topic", *_NUMBERS)]
                if any(column.null_count for column in columns):
                    raise TypeError("a row is not complete")
                for topic, partition, source, target in zip(*(column.to_pylist() for column in columns), strict=True):
                    if (topic, partition) in maps:
                        maps[topic, partition].add(Run(source, target, 1))
    except (OSError, pa.ArrowException, KeyError, TypeError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError.wrap(error, path) from None
        why = error.args[0] if isinstance(error, KeyError) else error
        raise UsageError(f"{path} is not the map of a replay: {why}") from None
    return maps


def write_parquet(path: str, maps: Mapping[tuple[str, int], OffsetMap], renamed: Mapping[str, str]) -> None:
    """Write a new Parquet file with one row per record: `topic`, `partition`, `offset`, `target_topic`,
    `target_offset`.

    Rows are ordered by source topic, partition and offset. The partition number is the same in source and target;
    `renamed` has the target's name of renamed topics. Raises `UsageError` if the path exists or is in a log directory,
    if its folder does not exist, or if pyarrow is not installed. Raises `StorageError` for I/O. After an error no file
    is left.
    """
    with needed("the offset map", "replay"):
        import pyarrow as pa

    from kafkalog.log.writing.columns_file import ColumnsFile

    words = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema(
        [("topic", words), ("partition", pa.int32()), ("offset", pa.int64()), ("target_topic", words),
         ("target_offset", pa.int64())]
    )  # fmt: skip
    with ColumnsFile(path, schema, parquet=True) as file:
        for (topic, partition), offset_map in sorted(maps.items()):
            for source, target in _columns(offset_map.runs):
                rows = len(source)
                columns = [
                    pa.repeat(pa.scalar(topic), rows).dictionary_encode().cast(words),
                    pa.repeat(pa.scalar(partition, pa.int32()), rows),
                    source,
                    pa.repeat(pa.scalar(renamed.get(topic, topic)), rows).dictionary_encode().cast(words),
                    target,
                ]
                file.write(pa.RecordBatch.from_arrays(columns, schema=schema))


def _columns(runs: Iterable[Run]) -> Iterator[tuple[pa.Array, pa.Array]]:
    import pyarrow as pa

    held: list[Run] = []
    rows = 0

    def made() -> tuple[pa.Array, pa.Array]:
        return (
            pa.array([run.source + each for run in held for each in range(run.count)], pa.int64()),
            pa.array([run.target + each for run in held for each in range(run.count)], pa.int64()),
        )

    for run in runs:
        for start in range(0, run.count, _ROWS):
            part = Run(run.source + start, run.target + start, min(_ROWS, run.count - start))
            held.append(part)
            rows += part.count
            if rows >= _ROWS:
                yield made()
                held, rows = [], 0
    if held:
        yield made()
