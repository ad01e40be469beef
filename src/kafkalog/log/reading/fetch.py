"""Read a log by offset, as a consumer of Kafka's early documentation does: in chunks of bytes, which are larger if a
message requires it. "In the event of an abnormally large message, the read can be retried multiple times, each time
doubling the buffer size, until the message is read successfully." A chunk never crosses the end of its segment
(`LocalLog.read`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.common.arguments import checked
from kafkalog.codec.common.errors import LimitExceeded, StorageError, UsageError
from kafkalog.codec.common.findings import Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.encode.convert import down_convert
from kafkalog.codec.files.fetch_result import ErrorCode, MessageSetSend
from kafkalog.codec.model import BATCH, NO_PARTITION_LEADER_EPOCH, Record, RecordBatch
from kafkalog.codec.plain.records import iter_records
from kafkalog.codec.plain.scanner import Scanner, scan
from kafkalog.log.disk.files import open_regular
from kafkalog.log.reading.consumer_view import Reset
from kafkalog.log.reading.sending import send, send_file
from kafkalog.log.walk.on_damage import raised
from kafkalog.log.walk.segment import Segment

__all__ = ["Chunk", "FetchableLog", "OffsetOutOfRangeError", "Origin", "fetch"]


class OffsetOutOfRangeError(UsageError):
    """A requested offset is not in the log. The valid range is `start` to `end`, both inclusive; a read at `end`
    returns nothing.
    """

    def __init__(self, offset: int, start: int, end: int) -> None:
        self.offset = offset
        self.start = start
        self.end = end
        super().__init__(f"offset {offset} is out of range: the log holds {start} to {end}")


class Origin(Struct, frozen=True, kw_only=True):
    """Place from which bytes were read: a log file, by its name and identity, and the position in it."""

    path: str
    device: int
    inode: int
    position: int


@checked()
@dataclass(frozen=True, slots=True)
class Chunk:
    """Result of one read. Iteration yields the records from the requested offset on, without control records, and
    raises `FormatError` at a batch whose records cannot be decoded.
    """

    offset: int
    """requested offset"""
    data: bytes
    """whole batches, of which the first holds the offset; empty at the end of the log"""
    max_bytes: int
    """largest size of the chunk in bytes: that of the request, doubled until the first batch fits"""
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    """leader epoch of the first batch, -1 if unknown"""
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """place of the bytes in the log; None if it is not on a disk"""

    @property
    def batches(self) -> tuple[RecordBatch, ...]:
        """Batches of the chunk; positions count from its start."""
        return scan(self.data).batches

    @property
    def next_offset(self) -> int:
        """Offset from which to read next."""
        batches = self.batches
        return batches[-1].header.next_offset if batches else self.offset

    def write_to(self, descriptor: int) -> int:
        """Send the chunk to the socket, pipe or file that is open as `descriptor`. Blocks until all is sent; returns
        the number of bytes. The kernel sends the batches from the log file without copying them into this process
        (`sendfile`), as `FileMessageSet.writeTo` does. If the batches are no longer in the file, or `sendfile` is not
        possible, they are sent from memory. Raises `StorageError` if sending fails, also if a non-blocking descriptor
        accepts no more: a part may be sent then.
        """
        sent = self._sent_from_file(descriptor)
        if sent < len(self.data):
            send(descriptor, memoryview(self.data)[sent:])
        return len(self.data)

    def _sent_from_file(self, descriptor: int) -> int:
        origin = self.origin
        if origin is None or not self.data:
            return 0
        try:
            source, status = open_regular(origin.path)
        except StorageError:
            return 0
        try:
            same = (status.st_dev, status.st_ino) == (origin.device, origin.inode)
            if not same or not all(self._is_there(source, batch) for batch in self.batches):
                return 0
            return send_file(descriptor, source, origin.position, len(self.data))
        finally:
            os.close(source)

    def _is_there(self, source: int, batch: RecordBatch) -> bool:
        """Whether the file still has the batch at its position. Only the header, which contains the checksum, is
        compared.
        """
        assert self.origin is not None  # noqa: S101 - the caller has checked it
        header = bytes(batch.data[: BATCH.size])
        return os.pread(source, len(header), self.origin.position + batch.position) == header

    def to_message_set_send(self, *, magic: int | None = None) -> MessageSetSend:
        """Return the chunk as a fetch result of Kafka's implementation notes, with error code 0. With `magic` 0 or 1,
        batches of a newer format are converted for old consumers, as brokers did. Raises `FormatError` if a batch
        cannot be converted, `UsageError` for an unknown `magic`.
        """
        if magic is None:
            return MessageSetSend(ErrorCode.NO_ERROR, self.data)
        return MessageSetSend(ErrorCode.NO_ERROR, down_convert(self.batches, magic, first_offset=self.offset))

    def __iter__(self) -> Iterator[Record]:
        for batch in self.batches:
            if not batch.header.is_control:
                yield from (record for record in iter_records(batch) if record.offset >= self.offset)


class FetchableLog(Protocol):
    """Offsets and segments of a log that reading by offset needs. Logs on a disk and logs open for writing have this
    interface.
    """

    @property
    def log_start_offset(self) -> int:
        """First offset that consumers can read."""

    def log_end_offset(self, *, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the offset of the next record."""

    def segments_from(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that holds `offset`, if there is one, then all segments after it."""


def fetch(
    log: FetchableLog,
    offset: int,
    max_bytes: int = MIB,
    *,
    end_offset: int | None = None,
    max_chunk_bytes: int = 64 * MIB,
    reset: Reset | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Chunk:
    """Return a chunk of whole batches, all from one segment. It begins with the batch that contains `offset`, or with
    the next one. It has at most `max_bytes` bytes; if the first batch is larger, this size is doubled until the batch
    fits, up to `max_chunk_bytes`. It is empty if no batch follows, in particular at the log end offset. Pass that
    offset as `end_offset` if it is known; otherwise the log may be read to find it.

    An offset outside the log raises `OffsetOutOfRangeError`. With `reset`, reading starts at the start or the end of
    the log instead, and the chunk's `offset` shows where. Damage at the offset raises `FormatError`; damage after it
    ends the chunk. Damage before it raises the error too, unless an index entry lies between them. Without
    `end_offset`, this also holds for an offset above the log end offset. An incomplete batch or zeros at the end of a
    segment do not count: reading goes to the next one, as on a broker. Raises `LimitExceeded` if the first batch has
    more than `max_chunk_bytes` bytes. Raises `UsageError` unless `max_bytes` is positive and at most `max_chunk_bytes`.
    Raises `StorageError` if the log cannot be read.
    """
    if max_bytes < 1 or max_chunk_bytes < max_bytes:
        raise UsageError("max_bytes must be positive, and max_chunk_bytes no less")
    if offset >= log.log_start_offset and (end_offset is None or offset < end_offset):
        for segment in log.segments_from(offset):
            chunk = _read(segment, offset, max_bytes, max_chunk_bytes, limits)
            if chunk is not None:
                return chunk
    start = log.log_start_offset  # read again, because retention may have raised it
    end = log.log_end_offset(limits=limits) if end_offset is None else end_offset
    if start <= offset <= end:
        return Chunk(offset, b"", max_bytes)
    if reset is None:
        raise OffsetOutOfRangeError(offset, start, end)
    again = start if reset == "earliest" else end
    return fetch(log, again, max_bytes, end_offset=end, max_chunk_bytes=max_chunk_bytes, limits=limits)


def _read(segment: Segment, offset: int, max_bytes: int, most: int, limits: Limits) -> Chunk | None:
    """Return a chunk of the segment's batches, beginning with the first that ends at or after `offset`. Return None if
    no batch does. The chunk has at most `max_bytes` bytes. If its first batch is larger, this size is doubled until the
    batch fits, up to `most`.

    Raises `LimitExceeded` if the first batch has more than `most` bytes. Raises `FormatError` if damage comes before
    its first batch. Raises `StorageError` if the file cannot be read.
    """
    with segment.open() as source:
        position = segment.position_of(offset, source, limits=limits)
        scanner = Scanner(source, position=position, limits=limits)
        size, epoch, chunk_data, origin = max_bytes, NO_PARTITION_LEADER_EPOCH, bytearray(), None
        for batch in scanner:
            if batch.last_offset < offset:
                continue
            if not chunk_data:
                if batch.size > most:
                    raise LimitExceeded(
                        f"the batch of {batch.size} bytes with offset {offset} does not fit into a chunk",
                        limit="max_chunk_bytes",
                        position=batch.position,
                        source=segment.path,
                    )
                while size < batch.size:
                    size = min(size * 2, most)
                epoch = batch.header.partition_leader_epoch
                file = source.identity
                if file is not None:
                    device, inode = file
                    origin = Origin(path=segment.path, device=device, inode=inode, position=batch.position)
            if len(chunk_data) + batch.size > size:
                break
            chunk_data += batch.data
        if chunk_data:
            return Chunk(offset, bytes(chunk_data), size, epoch, origin)
        for finding in scanner.findings:
            if finding.severity is Severity.ERROR:
                raise raised(finding.in_file(segment.path))
    return None
