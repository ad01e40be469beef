"""Assemble the records of log batches to Arrow batches of bounded rows and bytes. Small log batches are collected and
decoded together; one that exceeds the bounds becomes several Arrow batches. Compiled code is used if there is enough
work, see `codec.native.thresholds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.columnar.pieces import Fault, Part, Piece
from kafkalog.codec.columnar.plain_decoder import PlainDecoder
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.model import BATCH, NO_END, BatchHeader, Codec, RecordBatch
from kafkalog.codec.native.handed_back import HandedBack
from kafkalog.codec.native.thresholds import kernel_is_worth_it
from kafkalog.codec.plain.records import open_payload
from kafkalog.codec.rules.framing import BATCH_MAGIC, MAGIC_POSITION

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.columnar.batch_decoder import BatchDecoder
    from kafkalog.codec.columnar.message_decoder import MessageDecoder
    from kafkalog.codec.columnar.run_decoder import Order
    from kafkalog.codec.columnar.runs_to_arrow import RunsToArrow
    from kafkalog.codec.headers.message_runs import MessageRun
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["NO_END", "ArrowAssembler", "Bounds", "Fault", "Piece"]

_MOST_HELD = 16 * MIB
"""Most record bytes that may wait to be requested: a compressed window can expand a thousandfold."""
_LARGE = 4 * MIB
"""Least record bytes of a large batch. By default brokers accept no batch above 1 MiB."""
_ABOUT = 1.25
"""Factor by which an Arrow batch may exceed the bound before it is cut, because Arrow's buffers add to the record
bytes.
"""
_END_AND_NULL = 32 + 1
"""Bits for the end of a key or value and for its null flag."""


class Bounds(Struct, frozen=True, kw_only=True):
    """Bounds of Arrow batches, in rows and bytes. The first one has at most `first_rows` rows; that bound doubles with
    each batch until it reaches `rows`. A single record larger than `bytes` makes a batch of its own.
    """

    rows: int = 10_000
    bytes: int = 8 * MIB
    first_rows: int = 1_000
    most_collected: int | None = None
    """most record bytes to collect for one Arrow batch, if less than `bytes`: several threads share the memory"""

    @property
    def collected(self) -> int:
        """Most record bytes to collect for one Arrow batch: the lower of `bytes` and `most_collected`."""
        return self.bytes if self.most_collected is None else min(self.bytes, self.most_collected)


class ArrowAssembler:
    """Converter of consecutive log batches to Arrow batches. It yields a `Fault` for a log batch with records that
    cannot be decoded. The bytes of the log batches must not change until their records were yielded.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        topic: str | None,
        partition: int | None,
        bounds: Bounds,
        limits: Limits = DEFAULT_LIMITS,
        work_bytes: int = 0,
    ) -> None:
        self._plain = PlainDecoder(schema, topic, partition, limits)
        self._limits = limits
        self.await_turn: Callable[[], None] | None = None
        """function called before a large batch is decompressed, so that only one of many threads holds one; None: not
        called
        """
        self._bounds = bounds
        self._rows_bound = min(bounds.first_rows, bounds.rows)
        self._parts: list[Part] = []
        self._rows = self._bytes = 0
        self._to_decode = (schema, topic, partition, limits, bounds.rows, bounds.collected)
        self._runs: RunsToArrow | None = None
        self._messages: MessageDecoder | None = None
        self._batches: BatchDecoder | None = None
        self._collecting: RunsToArrow | MessageDecoder | None = None
        """the decoder that may hold collected records"""
        self._views = [number for number, kind in enumerate(schema.types) if pa.types.is_binary_view(kind)]
        self._others = [number for number in range(len(schema)) if number not in self._views]
        widths = [_bits_of_row(arrow_type) for arrow_type in schema.types]
        self._bits_of_row = sum(width or 0 for width in widths)
        self._unmeasured = [number for number, width in enumerate(widths) if width is None]
        self.has_views = bool(self._views)
        """whether memory passed in must be kept as long as the Arrow batches, which point into it"""
        self.takes_runs = kernel_is_worth_it(work_bytes)
        """whether `add_run` may be called: compiled code saves time"""

    def add_run(self, run: BatchRun | MessageRun, low: npt.NDArray[np.int64], high: int = NO_END) -> Iterator[Piece]:
        """Add the batches of a run: consecutive log batches in one window. Yield each Arrow batch that becomes
        complete. Yield a `Fault` for each log batch that cannot be decompressed or decoded, or exceeds the limits.
        Records with offsets from `low` (one bound for each batch) to `high` (exclusive) are kept; those that do not
        fill an Arrow batch stay collected for the next call or `flush`. An Arrow batch ends early around a log batch
        that compiled code does not decode. It also ends early before a run that follows `add` or a run of the other
        type. Raises `TypeError` on the first step of the iterator if `takes_runs` is False, `StorageError` if compiled
        code cannot be loaded.
        """
        if not self.takes_runs:
            raise TypeError("this assembler takes one batch at a time")
        from kafkalog.codec.headers.runs import BatchRun

        handed_back: Iterator[HandedBack | None]
        decoder: RunsToArrow | MessageDecoder
        if isinstance(run, BatchRun):
            decoder = self._decoder_of_runs()
            handed_back = decoder.decode_run(run, low, high)
        else:
            decoder = self._decoder_of_messages()
            handed_back = decoder.decode_run(run, low, high)
        if self._parts or self._collecting is not decoder:
            yield from self.flush()
            self._collecting = decoder
            decoder.rows_bound = self._rows_bound
        for handed in handed_back:
            yield from self.flush()
            for number in handed or ():
                yield from self.add(run.batch(number), int(low[number]), high)
                yield from self.flush()

    def add_window(self, window: bytes | memoryview, order: Order) -> tuple[int, bool, list[Piece]]:
        """Decode v2 batches from the start of a window. `order` names the wanted offsets and the conditions for
        batches. Return the number of bytes decoded, a flag, and the pieces completed so far. The number is 0 if the
        window does not begin with a v2 batch that compiled code can decode. The pieces are Arrow batches, also with the
        records of earlier calls, and a `Fault` for each faulty batch that `add` collected. The flag is True if decoding
        paused because `_MOST_HELD` record bytes were completed in this call. Otherwise it is False: the window or
        `order` ended, or the next batch must be examined in Python.

        Sets `order.next_offset` to the offset after the decoded batches, and `order.leader_epoch` to the epoch of the
        last. Records that do not fill an Arrow batch stay collected for the next call or `flush`. Arrow batches contain
        copies; only view columns point into the window. Raises `StorageError` if compiled code cannot be loaded.
        """
        done: list[Piece] = []
        if len(window) < BATCH.size or window[MAGIC_POSITION] != BATCH_MAGIC:
            return 0, False, done
        decoder = self._decoder_of_runs()
        if self._parts or self._collecting is not decoder:
            done += self.flush()
            self._collecting = decoder
            decoder.rows_bound = self._rows_bound
        position, held, is_full = 0, 0, True
        while is_full and order.next_offset < order.end and held < _MOST_HELD:
            position, is_full = decoder.decode_window(window, position, order)
            if is_full:
                held += decoder.record_bytes
                done += self.flush()
        return position, held >= _MOST_HELD, done

    def _decoder_of_runs(self) -> RunsToArrow:
        if self._runs is None:
            from kafkalog.codec.columnar.runs_to_arrow import RunsToArrow

            self._runs = RunsToArrow(*self._to_decode)
        return self._runs

    def _decoder_of_messages(self) -> MessageDecoder:
        if self._messages is None:
            from kafkalog.codec.columnar.message_decoder import MessageDecoder

            self._messages = MessageDecoder(*self._to_decode)
        return self._messages

    def add(self, batch: RecordBatch, low: int, high: int = NO_END) -> Iterator[Piece]:
        """Add one log batch and keep its records with offsets from `low` to `high` (exclusive). Yield each Arrow batch
        that becomes complete. Yield a `Fault` for a v2 batch that cannot be decompressed, exceeds the limits or has a
        negative number of records. A record that cannot be decoded gives a `Fault` when its batch is decoded. The
        records of a v2 batch are yielded at once if `takes_runs` is True. They are too if the batch is large and
        compiled code is worth loading for it. Others stay collected for a later call or `flush`. Before a large
        compressed v2 batch is decompressed, all collected records are yielded and the function `await_turn`, if set, is
        called. Raises `StorageError` if compiled code cannot be loaded.
        """
        header = batch.header
        if isinstance(header, BatchHeader):
            opened = self._opened_unless_large(batch)
            if opened is None:
                yield from self.flush()
                opened = self._opened_in_turn(batch)
            payload, finding = opened
            del opened
            if payload is None:
                if finding is not None:
                    yield from self.flush()
                    yield Fault(batch, finding)
                return
            part = Part(batch, low, high, payload)
            del payload
            if self.takes_runs or (len(part.payload) > _LARGE and kernel_is_worth_it(len(part.payload))):
                yield from self.flush()
                # as Python objects the records of a large batch would take many times as much
                for piece in self._decoder_of_batches().decode(part):
                    yield from self._bounded(piece)
                    del piece
                return
            rows, size = header.records_count, len(part.payload)
        else:
            part = Part(batch, low, high)
            rows, size = 1, batch.size
        full = self._rows + rows > self._rows_bound or self._bytes + size > self._bounds.collected
        if full or (self._collecting is not None and not self._collecting.is_empty):
            yield from self.flush()
        self._parts.append(part)
        self._rows += rows
        self._bytes += size

    def _decoder_of_batches(self) -> BatchDecoder:
        if self._batches is None:
            from kafkalog.codec.columnar.batch_decoder import BatchDecoder

            self._batches = BatchDecoder(*self._to_decode)
        return self._batches

    def _opened_unless_large(self, batch: RecordBatch) -> tuple[bytes | memoryview | None, Finding | None] | None:
        """Return the decompressed payload and the finding of `open_payload`; at least one is None. Return None instead
        of the pair if the batch is compressed and exceeds a limit or the size of a small batch.
        """
        if batch.header.codec == Codec.NONE:
            return open_payload(batch, self._limits)
        most = min(self._limits.decompressed_batch_bytes, 2 * self._bounds.collected, _LARGE)
        opened = open_payload(batch, replace(self._limits, decompressed_batch_bytes=most))
        finding = opened[1]
        return None if finding is not None and finding.code == FindingCode.LIMIT_EXCEEDED else opened

    def _opened_in_turn(self, batch: RecordBatch) -> tuple[bytes | memoryview | None, Finding | None]:
        if self.await_turn is not None:
            self.await_turn()
        from kafkalog.codec.common.buffer_pool import give_back_free_memory

        give_back_free_memory()
        return open_payload(batch, self._limits)

    @property
    def is_full(self) -> bool:
        """Whether the log batches that `add` collected have as many bytes as one Arrow batch may have; what `add_run`
        and `add_window` collected is not counted. If so, call `flush` before more is decompressed.
        """
        return self._bytes >= self._bounds.collected

    def flush(self) -> Iterator[Piece]:
        """Yield all collected records in order as Arrow batches, none of them empty, and a `Fault` for each log batch
        that cannot be decompressed or decoded. Nothing remains collected once the iterator ends.
        """
        if self._collecting is not None and not self._collecting.is_empty:
            record_bytes = self._collecting.record_bytes
            piece = self._collecting.build()
            if piece.num_rows:
                yield from self._cut(piece, record_bytes)
            self._collecting.rows_bound = self._rows_bound
        parts, self._parts = self._parts, []
        self._rows = self._bytes = 0
        if not parts:
            return
        for piece in self._plain.decode(parts):
            yield from self._bounded(piece)
            del piece

    def _bounded(self, piece: Piece) -> Iterator[Piece]:
        """Yield a `Fault` unchanged, and an Arrow batch whole or, if it exceeds the bounds, as consecutive slices.
        Yield nothing for an Arrow batch without rows.
        """
        if isinstance(piece, Fault):
            yield piece
        elif piece.num_rows:
            yield from self._cut(piece)

    def _cut(self, piece: pa.RecordBatch, record_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the piece in consecutive slices of at most `_rows_bound` rows; one slice is the piece itself. If the
        piece has more than `_ABOUT` times `bounds.bytes` bytes, each slice has at most `bounds.bytes` bytes, counted as
        in `_byte_ends`, or is one row. Yield nothing for a piece without rows. `_rows_bound` doubles with each slice,
        up to `bounds.rows`. `record_bytes` is the size of the records from which the piece was made, None if unknown.
        """
        start = 0
        ends = _byte_ends(piece) if self._is_larger(piece, _ABOUT * self._bounds.bytes, record_bytes) else None
        while start < piece.num_rows:
            end = min(start + self._rows_bound, piece.num_rows)
            if ends is not None:
                before = ends[start - 1] if start else 0
                enough = int(ends.searchsorted(before + self._bounds.bytes, "right"))
                end = max(start + 1, min(end, enough))
            self._rows_bound = min(self._rows_bound * 2, self._bounds.rows)
            yield piece if end - start == piece.num_rows else piece.slice(start, end - start)
            start = end

    def _is_larger(self, piece: pa.RecordBatch, size: float, record_bytes: int | None) -> bool:
        """Whether the columns of `piece` hold more than `size` bytes. `record_bytes`, the size of the records from
        which it was made, allows a quick estimate; None: measure the columns. A view column shares its buffers with
        other pieces, so the sizes of its values are added up.
        """
        if record_bytes is not None:  # all keys and values are in them, and counting those takes longer
            most = record_bytes + piece.num_rows * self._bits_of_row // 8 + len(self._others)
            if most + sum(piece.column(number).nbytes for number in self._unmeasured) <= size:
                return False
        if not self._views:
            return int(piece.nbytes) > size
        others = sum(piece.column(number).nbytes for number in self._others)
        return bool(size < others + sum(int(_viewed_sizes(piece.column(number)).sum()) for number in self._views))


def _bits_of_row(kind: pa.DataType) -> int | None:
    """Return an upper bound of the bits per row that a column takes beside the bytes of keys and values: an end offset
    and a validity bit in a binary column, the width and a validity bit in a column of numbers. A view column has 0,
    because only the bytes of its values are counted. Return None for other types: their size must be measured.
    """
    if pa.types.is_binary_view(kind):
        return 0
    if pa.types.is_binary(kind):
        return _END_AND_NULL
    return kind.bit_width + 1 if pa.types.is_primitive(kind) else None


def _viewed_sizes(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the size in bytes of each value of a view column, 0 for null. pyarrow has no function for it."""
    import numpy as np

    sizes = np.frombuffer(column.buffers()[1], np.int32, 4 * len(column), 16 * column.offset)[::4].astype(np.int64)
    return np.where(column.is_valid(), sizes, 0) if column.null_count else sizes


def _byte_ends(piece: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return, for each row, the total size in bytes of the values of all columns from the first row through this one.
    Every element of a list counts the average size of the column's elements. End offsets and validity bits of other
    columns are not counted.
    """
    import numpy as np
    import pyarrow.compute as pc  # takes a while to load, and is seldom needed

    total = pa.array(np.zeros(piece.num_rows, np.int64))
    for column in piece.columns:
        if pa.types.is_binary_view(column.type):
            sizes = pa.array(_viewed_sizes(column))
        elif pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            sizes = pc.fill_null(pc.binary_length(column), 0)
        elif pa.types.is_list(column.type):
            element_bytes = column.values.nbytes // max(len(column.values), 1)
            sizes = pc.multiply(pc.fill_null(pc.list_value_length(column), 0), element_bytes)
        else:
            sizes = column.type.bit_width // 8
        total = pc.add(total, sizes)
    return np.asarray(pc.cumulative_sum(total))
