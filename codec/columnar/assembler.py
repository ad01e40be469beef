"""Records of many log batches as Arrow batches that are bounded by rows and bytes.

Log batches are collected until there are enough for one Arrow batch, and decoded together; what a single log batch
holds beyond the bounds is cut into several.  Kernels do it where there is enough, see `codec.thresholds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.columnar.pieces import Fault, Part, Piece
from kafkalog.codec.columnar.plain_decoder import PlainDecoder
from kafkalog.codec.findings import Finding, FindingCode
from kafkalog.codec.framing import BATCH_MAGIC, MAGIC_POSITION
from kafkalog.codec.handed_back import HandedBack
from kafkalog.codec.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.model import BATCH, NO_END, BatchHeader, Codec, RecordBatch
from kafkalog.codec.records import open_payload
from kafkalog.codec.thresholds import kernel_is_worth_it

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
"""Record bytes that may wait until they are wanted: a compressed window can hold a thousand times its own."""
_LARGE = 4 * MIB
"""Record bytes of one batch from which on it is large; brokers take no batch above 1 MiB by default."""
_ABOUT = 1.25
"""How far above the bound an Arrow batch may be before it is cut: what Arrow adds to the bytes of records."""
_END_AND_NULL = 32 + 1
"""Bits for where a key or value ends, and whether it is null."""


class Bounds(Struct, frozen=True):
    """How large Arrow batches may be; `first_rows` is the bound of the first, doubled until it reaches `rows`.

    A record that is larger than `bytes` by itself gets a batch of its own.
    """

    rows: int = 10_000
    bytes: int = 8 * MIB
    first_rows: int = 1_000
    most_collected: int | None = None
    """Bytes of records that are collected for one, where that is less than `bytes`: what several threads share"""

    @property
    def collected(self) -> int:
        """Bytes of records from which on nothing more is collected for an Arrow batch."""
        return self.bytes if self.most_collected is None else min(self.bytes, self.most_collected)


class ArrowAssembler:
    """Fed with log batches in order, gives Arrow batches; a `Fault` where records cannot be read.

    The bytes of the batches must not change before what they hold has been given out.
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
        """called before a batch is decompressed that turns out to be large, so that many threads hold one of them"""
        self._bounds = bounds
        self._rows_bound = min(bounds.first_rows, bounds.rows)
        self._parts: list[Part] = []
        self._rows = self._bytes = 0
        self._to_decode = (schema, topic, partition, limits, bounds.rows, bounds.collected)
        self._runs: RunsToArrow | None = None
        self._messages: MessageDecoder | None = None
        self._batches: BatchDecoder | None = None
        self._collecting: RunsToArrow | MessageDecoder | None = None
        """the one of them that may hold something"""
        self._views = [number for number, kind in enumerate(schema.types) if pa.types.is_binary_view(kind)]
        self._others = [number for number in range(len(schema)) if number not in self._views]
        widths = [_bits_of_row(kind) for kind in schema.types]
        self._bits_of_row = sum(each or 0 for each in widths)
        self._unmeasured = [number for number, each in enumerate(widths) if each is None]
        self.has_views = bool(self._views)
        """whether what it is given must stay in memory as long as what it gives"""
        self.takes_runs = kernel_is_worth_it(work_bytes)
        """whether `add_run` may be called, and is worth it"""

    def add_run(self, run: BatchRun | MessageRun, low: npt.NDArray[np.int64], high: int = NO_END) -> Iterator[Piece]:
        """Take many batches, `low` for each of them, and give what that completes."""
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
        """Take batches from the beginning of a window on; how many bytes of it, whether not more because that is
        enough at a time, and what that completes.

        Everything is taken out of the window before this is over, but for views, which keep it.  `order` goes on to the
        offset after what was taken.
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
        """Take a batch of which the offsets from `low` up to, not including, `high` are wanted; what that completes.

        It is taken as that is read: a large batch is opened after all before it was given out.
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
        """The payload as `open_payload` gives it; None where that would be large."""
        if batch.header.codec == Codec.NONE:
            return open_payload(batch, self._limits)
        most = min(self._limits.decompressed_batch_bytes, 2 * self._bounds.collected, _LARGE)
        opened = open_payload(batch, replace(self._limits, decompressed_batch_bytes=most))
        finding = opened[1]
        return None if finding is not None and finding.code == FindingCode.LIMIT_EXCEEDED else opened

    def _opened_in_turn(self, batch: RecordBatch) -> tuple[bytes | memoryview | None, Finding | None]:
        if self.await_turn is not None:
            self.await_turn()
        from kafkalog.codec.buffer_pool import give_back_free_memory

        give_back_free_memory()
        return open_payload(batch, self._limits)

    @property
    def is_full(self) -> bool:
        """What was collected is enough for an Arrow batch: holding it while more is decompressed gains nothing."""
        return self._bytes >= self._bounds.collected

    def flush(self) -> Iterator[Piece]:
        """Give out what was collected."""
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
        """What was decoded, within the bounds."""
        if isinstance(piece, Fault):
            yield piece
        elif piece.num_rows:
            yield from self._cut(piece)

    def _cut(self, piece: pa.RecordBatch, record_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
        """The piece, or slices of it where it is above the bounds; made from so many record bytes if that is known."""
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
        """Whether its fields have more bytes; what views point into has those of others too."""
        if record_bytes is not None:  # all keys and values are in them, and counting those takes longer
            most = record_bytes + piece.num_rows * self._bits_of_row // 8 + len(self._others)
            if most + sum(piece.column(number).nbytes for number in self._unmeasured) <= size:
                return False
        if not self._views:
            return int(piece.nbytes) > size
        others = sum(piece.column(number).nbytes for number in self._others)
        return bool(size < others + sum(int(_viewed_sizes(piece.column(number)).sum()) for number in self._views))


def _bits_of_row(kind: pa.DataType) -> int | None:
    """What counts of a column for each row at most, but for keys and values themselves; None where it is not known."""
    if pa.types.is_binary_view(kind):
        return 0
    if pa.types.is_binary(kind):
        return _END_AND_NULL
    return kind.bit_width + 1 if pa.types.is_primitive(kind) else None


def _viewed_sizes(column: pa.Array) -> npt.NDArray[np.int64]:
    """Bytes of each field; pyarrow has no such function for views."""
    import numpy as np

    sizes = np.frombuffer(column.buffers()[1], np.int32, 4 * len(column), 16 * column.offset)[::4].astype(np.int64)
    return np.where(column.is_valid(), sizes, 0) if column.null_count else sizes


def _byte_ends(piece: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Bytes of all columns up to the end of each row."""
    import numpy as np
    import pyarrow.compute as pc  # takes a while to load, and is seldom needed

    total = pa.array(np.zeros(piece.num_rows, np.int64))
    for column in piece.columns:
        if pa.types.is_binary_view(column.type):
            sizes = pa.array(_viewed_sizes(column))
        elif pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            sizes = pc.fill_null(pc.binary_length(column), 0)
        elif pa.types.is_list(column.type):
            each = column.values.nbytes // max(len(column.values), 1)
            sizes = pc.multiply(pc.fill_null(pc.list_value_length(column), 0), each)
        else:
            sizes = column.type.bit_width // 8
        total = pc.add(total, sizes)
    return np.asarray(pc.cumulative_sum(total))
