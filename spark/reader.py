"""Read a batch query: plan on the driver, and read slices into Arrow batches on the executors.

Spark does not say when it stops a task, so nothing here needs to be cleaned up. Open files are closed with the last
reference.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog.codec.columnar.assembler import ArrowAssembler, Bounds
from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, FindingJson, Severity
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.common.wording import counted
from kafkalog.codec.model import NO_END
from kafkalog.codec.names import without_surrogates
from kafkalog.log.disk.held_files import HeldFiles
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.reading.consumer_view import Telling
from kafkalog.log.reading.lossy import Lossy
from kafkalog.log.reading.slices import Damage, SliceReader
from kafkalog.spark.options import Mode, ReadOptions
from kafkalog.spark.planning import Piece
from kafkalog.spark.query_warnings import tell
from kafkalog.spark.schema import Layout
from kafkalog.spark.worker_memory import set_aside

__all__ = ["LogInputPartition", "LogReader"]

CORRUPT_BYTES = MIB
"""Maximum size of damaged bytes in a row."""


@dataclass(frozen=True)
class LogInputPartition(InputPartition):
    """The input of one task: pieces in order, each a byte range of a file and the requested offsets."""

    pieces: tuple[Piece, ...]
    work_bytes: int
    """size of the whole query, which decides whether to load compiled code"""

    def __repr__(self) -> str:
        """Return one line for each piece: partition, offsets, file and bytes."""
        return "\n".join(map(_piece_text, self.pieces))


def _piece_text(piece: Piece) -> str:
    part = piece.slice
    name = part.path if piece.topic is None else f"{piece.topic}-{piece.partition}"
    upto = "the end" if part.end_offset == NO_END else str(part.end_offset)
    return f"{name}: offsets from {part.start_offset} up to {upto} in bytes {part.start} to {part.end} of {part.path}"


class LogReader(DataSourceReader):
    """The reader of a batch query, which returns the columns of `layout`.

    `pushFilters` is not implemented: Spark 4.1 to 4.3 gives wrong results with it, and 4.0 does not have it.
    """

    def __init__(self, options: ReadOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout

    def partitions(self) -> list[LogInputPartition]:
        """Return one Spark input partition for each task, in the order of partitions and offsets; empty if there is
        nothing to read. Lists the paths and reads indexes and headers. Raises `UsageError` for missing paths or
        partitions, and for bounds that do not fit the logs. Raises `StorageError` if a file cannot be read.

        With FAILFAST, raises `FormatError` also if damage may hide the end of an earlier transaction. Three kinds of
        trouble raise an error with FAILFAST and are warnings with other modes:

        * damage that may hide the first record of a timestamp (`FormatError`)
        * a log start offset above the log end offset (`FormatError`)
        * a link or other entry in place of data (`StorageError`)
        """
        from kafkalog.spark.discovery import plan_read

        tasks = plan_read(self._options)
        work_bytes = sum(piece.slice.size for task in tasks for piece in task)
        return [LogInputPartition(task, work_bytes) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the Arrow batches of one task, with the columns in the order of the schema, read as they are consumed.
        Damage raises `FormatError` with FAILFAST, is a row with PERMISSIVE, and is left out with a warning with
        DROPMALFORMED. A key or value that cannot be decoded raises it too, is null in its row, or leaves its row out. A
        time beyond Spark's range raises it with FAILFAST, and otherwise is null with a warning. A file that no longer
        exists, or missing offsets, raise `StorageError`, or are a warning with failOnDataLoss=false.
        """
        if not isinstance(partition, LogInputPartition):  # Spark passes another one if no task was planned
            return iter(())
        return _Task(self._options, self._layout, partition).read()


class _Task:
    """The reading of one task on an executor."""

    def __init__(self, options: ReadOptions, layout: Layout, partition: LogInputPartition) -> None:
        self._options = options
        self._layout = layout
        self._partition = partition
        self._schema = layout.arrow()
        self._dropped: list[str] = []
        self._undecodable: list[tuple[int, str]] = []
        """for each batch, the number of such records and the first of them"""
        self._telling = Telling(tell)
        self._lossy: dict[tuple[str | None, int | None], Lossy] = {}
        self._files = HeldFiles(dict.fromkeys(piece.slice.path for piece in partition.pieces))

    def read(self) -> Iterator[pa.RecordBatch]:
        schema = record_schema(self._layout.columns)
        assembler, owner, before = None, None, None
        for piece in self._partition.pieces:
            if assembler is None or owner != (piece.topic, piece.partition):
                owner = (piece.topic, piece.partition)
                assembler = ArrowAssembler(
                    schema,
                    topic=without_surrogates(piece.topic),
                    partition=piece.partition,
                    bounds=Bounds(),
                    limits=self._options.limits,
                    work_bytes=self._partition.work_bytes,
                )
            if before is not None and before != piece.slice.path:
                self._files.passed(before)
            before = piece.slice.path
            yield from self._piece(piece, assembler)
        self._files.close()
        set_aside()
        if self._dropped:
            shown = "; ".join(self._dropped[:3])
            tell(f"kafkalog left out {counted(len(self._dropped), 'unreadable range')}: {shown}")
        if self._undecodable:
            records = counted(sum(count for count, _ in self._undecodable), "record")
            tell(f"kafkalog left out {records} that cannot be decoded, first {self._undecodable[0][1]}")

    def _piece(self, piece: Piece, assembler: ArrowAssembler) -> Iterator[pa.RecordBatch]:
        tolerant = self._options.mode is not Mode.FAILFAST
        lossy = self._lossy.setdefault((piece.topic, piece.partition), Lossy(piece.slice.path))
        reader = SliceReader(
            piece.slice, assembler, aborted=piece.aborted, tolerant=tolerant, limits=self._options.limits,
            files=self._files,
        )  # fmt: skip
        try:
            self._check_file(piece)
            for part in reader:
                if isinstance(part, Damage):
                    if part.goes_on:
                        if not part.is_beside:
                            self._telling(part.finding)
                    else:
                        yield from self._damage(piece, part)
                    continue
                self._check(lossy, part)
                if self._layout.decoded.parts:
                    yield self._decoded(piece, part)
                else:
                    yield self._in_order(part, {})
        except MissingFileError as error:
            if self._options.fail_on_data_loss:
                message = f"{piece.slice.path} existed when the query was planned and no longer does; {LOSS}"
                raise StorageError(error.errno, message) from None
            tell(f"{piece.slice.path} no longer exists and is left out")

    def _check_file(self, piece: Piece) -> None:
        """Raise `StorageError` if the file has another size than when it was listed (`Piece.is_replaced`): it was
        replaced, as by compaction, and the bytes of the piece do not hold its offsets any more. With
        failOnDataLoss=false this is a warning. Raises `MissingFileError` if it no longer exists.
        """
        with self._files.open(piece.slice.path) as source:
            size = source.size
        if piece.is_replaced(size):
            message = (
                f"{piece.slice.path} has {size} bytes, and had {piece.size} when the query was planned: it was "
                "replaced, as by compaction"
            )
            if self._options.fail_on_data_loss:
                raise StorageError(f"{message}; {LOSS}")
            tell(message)

    def _check(self, lossy: Lossy, batch: pa.RecordBatch) -> None:
        """Warn about header names that are not UTF-8 and about times that became null, once for each kind in a
        partition (`lossy` finds them). With FAILFAST such a time raises `FormatError`.
        """
        for finding in lossy(batch):
            if self._options.mode is Mode.FAILFAST and finding.severity is Severity.ERROR:
                detail = f"{finding.code}: {finding.detail}; {_CHOICE_OF_TIMES} (offset {finding.offset})"
                raise FormatError(detail, source=finding.file, code=finding.code, finding=finding)
            tell(str(finding))

    def _damage(self, piece: Piece, damage: Damage) -> Iterator[pa.RecordBatch]:
        finding = damage.finding
        if damage.is_missing:
            if self._options.fail_on_data_loss:
                raise StorageError(f"{piece.slice.path}: {finding.detail}; {LOSS}")
            tell(f"{piece.slice.path}: {finding.detail}")
            return
        if self._options.mode is Mode.FAILFAST:
            detail = f"{finding.code}: {finding.detail}; {_CHOICE} (offset {damage.next_offset})"
            raise FormatError(
                detail, position=finding.position, source=finding.file, code=finding.code, finding=finding
            ) from None
        if self._options.mode is Mode.DROPMALFORMED:
            self._dropped.append(str(finding))
            return
        row = {
            "topic": without_surrogates(piece.topic),
            "partition": piece.partition,
            "offset": _offset_in_column(damage),
            self._layout.corrupt: self._corrupt(damage) if self._layout.corrupt else None,
        }
        arrays = [pa.array([row.get(field.name)], field.type) for field in self._schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _corrupt(self, damage: Damage) -> str | bytes:
        path = str(damage.finding.file)
        with self._files.open(path) as source:
            data = source.read(damage.start, min(damage.end - damage.start, CORRUPT_BYTES))
        if self._layout.corrupt_is_binary:
            return data
        row = plain(shaped(damage.finding, FindingJson))
        row |= {"start": damage.start, "end": damage.end, "offset": _offset_in_column(damage)}
        return json.dumps(row | {"bytes_b64": base64.b64encode(data).decode()})

    def _decoded(self, piece: Piece, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with keys and values decoded, and the columns in Spark's order. With FAILFAST, a record that
        cannot be decoded raises `FormatError`. With PERMISSIVE, the key or value that cannot be decoded is null. The
        corrupt column, if requested, then has the finding as JSON if it is text. If it is binary, it has the first
        `CORRUPT_BYTES` of the key, or else of the value. With DROPMALFORMED, the record is removed and counted in
        `_undecodable`.
        """
        columns, problems = self._layout.decoded.decode(batch, piece.topic)
        if not problems:
            return self._in_order(batch, columns)
        if self._options.mode is Mode.PERMISSIVE:
            if self._layout.corrupt is not None:
                reasons: list[str | bytes | None] = [None] * batch.num_rows
                for row, parts in problems.items():
                    reasons[row] = self._undecoded(piece, batch, row, parts)
                kind = pa.binary() if self._layout.corrupt_is_binary else pa.string()
                columns[self._layout.corrupt] = pa.array(reasons, kind)
            return self._in_order(batch, columns)
        row, parts = next(iter(sorted(problems.items())))
        first = _not_decoded(piece, batch, row, parts)
        if self._options.mode is Mode.FAILFAST:
            raise FormatError(f"{first.code}: {first.detail}; {_CHOICE_OF_RECORDS}", source=first.file, code=first.code)
        self._undecodable.append((len(problems), str(first)))
        kept = pa.array([row not in problems for row in range(batch.num_rows)])
        return self._in_order(batch, columns).filter(kept)

    def _undecoded(self, piece: Piece, batch: pa.RecordBatch, row: int, parts: dict[str, str]) -> str | bytes:
        data = {part: batch.column(part)[row].as_py()[:CORRUPT_BYTES] for part in parts}
        if self._layout.corrupt_is_binary:
            return bytes(next(iter(data.values())))
        shown = {f"{part}_b64": base64.b64encode(each).decode() for part, each in data.items()}
        return json.dumps(plain(shaped(_not_decoded(piece, batch, row, parts), FindingJson)) | shown)

    def _in_order(self, batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        """Return a batch with the columns in the order of the schema that Spark expects. A column is taken from
        `columns`, or from `batch` if it is not there; the corrupt column is null unless it is in `columns`. Returns
        `batch` itself if nothing changes.
        """
        if not columns and batch.schema.names == self._schema.names:
            return batch
        arrays = [
            columns[field.name] if field.name in columns
            else pa.nulls(batch.num_rows, field.type) if field.name == self._layout.corrupt
            else batch.column(field.name)
            for field in self._schema
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _offset_in_column(damage: Damage) -> int:
    """Offset after the damage as a column can hold it: the highest number of 64 bits if no offset is left."""
    return min(damage.next_offset, NO_END)


def _not_decoded(piece: Piece, batch: pa.RecordBatch, row: int, parts: dict[str, str]) -> Finding:
    offset = batch.column("offset")[row].as_py()
    detail = f"{'; '.join(parts.values())} (offset {offset})"
    return Finding.of(FindingCode.VALUE_UNDECODABLE, None, offset, detail, piece.slice.path)


LOSS = "the option failOnDataLoss=false reads what is left"
_CHOICE = "the option mode=PERMISSIVE gives such bytes a row of their own, DROPMALFORMED leaves them out"
_CHOICE_OF_TIMES = "the option mode=PERMISSIVE gives such records with null"
_CHOICE_OF_RECORDS = "the option mode=PERMISSIVE gives such records with the reason, DROPMALFORMED leaves them out"
