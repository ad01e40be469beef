"""Read a `.log` file as the broker does (`FileRecords`, `FileLogInputStream`): batches one after another by their size,
and batches by offset. Unlike in `codec.plain.scanner`, magic above 2 is read as version 2, an incomplete batch at the
end ends the file without error, and damage raises the broker's exceptions.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB
from kafkalog.codec.common.source import Source, Window
from kafkalog.codec.compression import decompress
from kafkalog.codec.compression.specs import KAFKA_SPECS
from kafkalog.codec.model import (
    BATCH,
    LOG_OVERHEAD,
    MESSAGE_V0,
    MESSAGE_V1,
    AnyHeader,
    BatchHeader,
    Codec,
    LegacyHeader,
    RecordBatch,
    TimestampType,
)
from kafkalog.codec.native.tables import HeaderColumn
from kafkalog.codec.plain import legacy
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.rules.execution import RawRecord
from kafkalog.codec.rules.framing import BATCH_CRC_START, LEGACY_CRC_START, MAGIC_END, MAGIC_POSITION, SMALLEST_MESSAGE
from kafkalog.log.storage.control_record import read_marker
from kafkalog.log.storage.java import (
    CorruptRecordError,
    IllegalArgumentError,
    IndexOutOfBoundsError,
    InvalidRecordError,
    JavaError,
    KafkaError,
    int64,
)
from kafkalog.log.storage.producers.state import Marker

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderRun, HeaderTable

__all__ = ["LogBatch", "LogFile", "is_passed_over"]

_MAX_FILE = 2**31 - 1
_FIRST_V2_MAGIC = 2
_stored_crc = MESSAGE_V0.reader("crc")
_SINGLE_BATCH_WINDOW = 64 * KIB


class _Bytes(Protocol):
    """Access to bytes of a file."""

    def view(self, position: int, length: int) -> memoryview:
        """Return `length` bytes from a position; fewer at the end."""


class _Own:
    """Access to the bytes of one batch in memory, by their positions in the file."""

    __slots__ = ("_batch",)

    def __init__(self, batch: RecordBatch) -> None:
        self._batch = batch

    def view(self, position: int, length: int) -> memoryview:
        """Return `length` bytes from a position in the file."""
        start = position - self._batch.position
        return memoryview(self._batch.data)[start : start + length]


class LogBatch:
    """One batch of a log file. `offset` is its first header field: the base offset, or for v0 and v1 the last offset of
    the entry. Header and records are read when they are first used; raises `StorageError` if that fails.
    """

    __slots__ = ("_header", "_window", "magic", "offset", "position", "size")

    def __init__(self, window: _Bytes, position: int, offset: int, size: int, magic: int) -> None:
        self._window = window
        self._header: AnyHeader | None = None
        self.position = position
        self.offset = offset
        self.size = size
        self.magic = magic

    @classmethod
    def of(cls, batch: RecordBatch) -> LogBatch:
        """Wrap a batch that was already read; its header and bytes are used without copying."""
        header = batch.header
        offset = header.base_offset if isinstance(header, BatchHeader) else header.offset
        log_batch = cls(_Own(batch), batch.position, offset, batch.size, batch.magic)
        log_batch._header = header
        return log_batch

    @property
    def data(self) -> memoryview:
        """All bytes of the batch."""
        return self._window.view(self.position, self.size)

    @property
    def header(self) -> AnyHeader:
        """Decoded header. The header of a v2 batch is read from the file even if the batch is smaller than a header.
        Raises `KafkaError` if the file is too short.
        """
        if self._header is None:
            self._header = self._load_header()
        return self._header

    def _load_header(self) -> AnyHeader:
        layout = BATCH if self.magic >= _FIRST_V2_MAGIC else MESSAGE_V0 if self.magic == 0 else MESSAGE_V1
        view = self._window.view(self.position, layout.size)
        if len(view) < layout.size:
            raise KafkaError(f"Failed to load record batch at position {self.position}")
        fields = layout.struct.unpack_from(view)
        return BatchHeader(*fields) if layout is BATCH else LegacyHeader(*fields)

    @property
    def last_offset(self) -> int:
        """Last offset according to the header. Raises `KafkaError` if the file ends within a v2 header."""
        return self.offset if self.magic < _FIRST_V2_MAGIC else int64(self.header.last_offset)

    @property
    def base_offset(self) -> int:
        """First offset of the batch. For v2 it is the base offset in the header, which compaction keeps even if it
        removes that record. A compressed v0 or v1 entry is decompressed to find it; raises `InvalidRecordError` or
        `KafkaError` if that fails. For v0 and v1 also raises `IllegalArgumentError` for an unknown codec, and
        `KafkaError` if the file ends within the header.
        """
        if self.magic >= _FIRST_V2_MAGIC:
            return self.offset
        _ensure_kafkas(self.header.codec, self.position)
        try:
            return legacy.first_offset(RecordBatch(self.header, self.position, self.data), DEFAULT_LIMITS, PLAIN)
        except FormatError as error:
            raise _legacy_failure(error).at(self.position) from None

    def ensure_valid(self) -> None:
        """Verify size and checksum of the batch (`RecordBatch.ensureValid`). Raises `CorruptRecordError` if one is
        wrong. Raises `IndexOutOfBoundsError` for a v1 message that has a correct checksum but is shorter than its
        header. Raises `KafkaError` if the file has become shorter than the batch.
        """
        data = self.data
        if len(data) < self.size:
            raise KafkaError(f"Failed to load record batch at position {self.position}")
        if self.magic >= _FIRST_V2_MAGIC:
            if self.size < BATCH.size:
                raise CorruptRecordError(f"Record batch of {self.size} bytes is smaller than its header")
            valid = crc32c(data[BATCH_CRC_START:]) == self.header.crc
        else:
            valid = zlib.crc32(data[LEGACY_CRC_START:]) == _stored_crc(data, 0)
            if valid and self.magic != 0 and self.size < MESSAGE_V1.size:
                raise IndexOutOfBoundsError(f"a message of {self.size} bytes")
        if not valid:
            raise CorruptRecordError(f"Record is corrupt at position {self.position}")

    def first_record(self) -> tuple[RawRecord, int] | None:
        """Return the first record and its timestamp in ms. If the batch has LogAppendTime, this timestamp is the
        batch's largest one. Return None for a v2 batch without records and for any v0 or v1 entry. A compressed batch
        is decompressed, and all its records are parsed. Only the first record of an uncompressed batch is parsed.

        Raises `InvalidRecordError` if the number of records is negative or a parsed record is malformed. If all records
        are parsed, bytes after the last one raise it too. Raises `KafkaError` if the file ends within the header or
        decompression fails. Raises `IllegalArgumentError` for an unknown codec.
        """
        header = self.header
        if not isinstance(header, BatchHeader) or header.records_count == 0:
            return None
        if header.records_count < 0:
            raise InvalidRecordError(f"Found invalid record count {header.records_count}")
        payload: bytes | memoryview = self.data[BATCH.size :]
        if header.codec != Codec.NONE:
            _ensure_kafkas(header.codec, self.position)
            payload = _decompressed(header, payload)
        only_first = header.codec == Codec.NONE and header.records_count > 1
        records, fault = PLAIN.records(payload, 1 if only_first else header.records_count, DEFAULT_LIMITS)
        if fault is not None and not (only_first and fault.code is FindingCode.RECORDS_TRAILING_BYTES):
            raise InvalidRecordError(f"Found invalid record structure: {fault.code}")
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        timestamp = header.max_timestamp if append_time else int64(header.base_timestamp + records[0].timestamp_delta)
        return records[0], timestamp

    def end_transaction_marker(self) -> Marker | None:
        """Return the transaction marker of a control batch and its timestamp in ms; None for a v2 batch without records
        and for any v0 or v1 entry. Raises the `JavaError` of the broker for a marker that cannot be read.
        """
        first = self.first_record()
        if first is None:
            return None
        record, timestamp = first
        return Marker(read_marker(record.key, record.value), timestamp)


def _ensure_kafkas(codec: int, position: int) -> None:
    if codec not in KAFKA_SPECS:
        raise IllegalArgumentError(f"Unknown compression type id: {codec}").at(position)


def _decompressed(header: BatchHeader, payload: bytes | memoryview) -> bytes | memoryview:
    try:
        return decompress(header.codec, payload)
    except FormatError as error:
        raise KafkaError(error.message) from None


def _legacy_failure(error: FormatError) -> JavaError:
    if error.code == FindingCode.DECOMPRESSION_FAILED:
        return KafkaError(error.message)
    return InvalidRecordError(error.message)


class LogFile:
    """The batches of a log file (`FileRecords`). `headers` is a table of its valid batches, or the table of a longer
    file that begins with this one, or None. Creating an instance raises `KafkaError` for a file of 2 GiB or more.
    """

    def __init__(self, source: Source, headers: HeaderTable | None = None) -> None:
        if source.size > _MAX_FILE:
            raise KafkaError(f"The size of the segment ({source.size}) is larger than the maximum allowed")
        self._source = source
        self._headers = headers
        self._single: Window | None = None

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self._source.size

    @property
    def source(self) -> Source:
        """Source of its bytes."""
        return self._source

    def runs(self, start: int = 0, end: int | None = None) -> Iterator[tuple[HeaderRun, int]]:
        """Yield, in order, runs of batches that the header table knows to be valid, from byte position `start` to
        position `end` (exclusive; None: end of file). Each run is paired with the number, within it, of the first batch
        at or after `start`. Yield nothing without a table, or if no known batch begins at `start`. The caller must read
        the batches after the last run with `batches`. Raises `StorageError` if the file cannot be read.
        """
        if self._headers is None:
            return
        for run in self._headers.runs(self._source, self.size if end is None else min(end, self.size)):
            first = run.number_at(start)
            if first is not None:
                yield run, first
                start = run.end
            elif run.end > start:
                return

    def batch(self, run: HeaderRun, number: int) -> LogBatch:
        """Return batch `number` of a run as a `LogBatch`; its bytes are read when used, through a window that all such
        batches share.
        """
        if self._single is None:
            self._single = Window(self._source, _SINGLE_BATCH_WINDOW)
        header = run.header(number)
        position, offset = run.position(number), run.value(HeaderColumn.BASE_OFFSET, number)
        return LogBatch(self._single, position, offset, header.size, header.magic)

    def batches(self, start: int = 0, end: int | None = None) -> Iterator[LogBatch]:
        """Yield the batches from position `start`, which must be the start of a batch, to position `end` (exclusive;
        None: end of file). Checksums are not verified. Iteration stops without an error at a batch that goes beyond
        `end`. Raises `IllegalArgumentError` for a negative `start`. Raises `CorruptRecordError` for a size field that
        is too small. Raises `StorageError` if the file cannot be read or has become shorter.
        """
        if start < 0:
            raise IllegalArgumentError(f"The file channel position cannot be negative, but it is {start}")
        end = self.size if end is None else min(end, self.size)
        window = Window(self._source, DEFAULT_LIMITS.read_window_bytes)
        position = start
        while position < end - MAGIC_END:
            view = window.view(position, MAGIC_END)
            if len(view) < MAGIC_END:
                raise StorageError.became_shorter(position)
            offset, length = LOG_OVERHEAD.struct.unpack_from(view)
            if length < SMALLEST_MESSAGE:
                raise CorruptRecordError(f"Found record size {length} smaller than minimum overhead").at(position)
            size = length + LOG_OVERHEAD.size
            if position + size > end:
                return
            magic = view[MAGIC_POSITION]
            yield LogBatch(window, position, offset, size, magic - 256 if magic > 127 else magic)
            position += size

    def search(self, target: int, start: int) -> LogBatch | None:
        """Return the batch that contains offset `target`, otherwise the first batch after it; None if neither exists.
        Scans from byte position `start`, which must be the start of a batch (`searchForOffsetFromPosition` of 4.1).
        Raises `CorruptRecordError` or another `JavaError` for a malformed batch before the result. Raises
        `StorageError` if the file cannot be read.
        """
        previous: LogBatch | None = None
        for batch in self.batches(start):
            base = batch.base_offset
            if base == target:
                return batch
            if base > target:
                return previous if previous is not None and previous.last_offset >= target else batch
            previous = batch
        return previous if previous is not None and previous.last_offset >= target else None

    def largest_timestamp_after(self, start: int) -> tuple[int, int]:
        """Return the largest timestamp (ms) of the batches from byte position `start` on, and the last offset of the
        first batch with that timestamp. Return (-1, -1) if no batch has a timestamp. `start` must be the start of a
        batch. Raises `JavaError` for a malformed batch, `StorageError` if the file cannot be read.
        """
        largest = (-1, -1)
        for batch in self.batches(start):
            if batch.header.max_timestamp > largest[0]:
                largest = (batch.header.max_timestamp, batch.last_offset)
        return largest

    def last_batch(self, start: int, length: int) -> LogBatch | None:
        """Return the last batch that lies in the `length` bytes from position `start`, which must be the start of a
        batch; None if there is none. Raises the errors of `batches`: a `JavaError` for a malformed batch,
        `StorageError` if the file became shorter.
        """
        last: LogBatch | None = None
        for last in self.batches(start, start + length):  # noqa: B007 - only the last value is used
            pass
        return last


def is_passed_over(source: Source, position: int) -> bool:
    """Whether consumers get past the damage at `position` of a segment that is not the last. If the size field claims a
    batch beyond the end of the file, a broker treats that position as the end of the segment and reads on in the next
    one (`LocalLog.read`). At other damage a consumer stops. Raises `StorageError` if the file cannot be read.
    """
    try:
        return next(LogFile(source).batches(position), None) is None
    except CorruptRecordError:
        return False
