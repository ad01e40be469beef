"""The records of one partition that form a batch (`ProducerBatch`, `MemoryRecordsBuilder.hasRoomFor`)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from msgspec import Struct

from kafkalog.codec.encode.sizes import MAX_RECORD_OVERHEAD, content_size, record_size
from kafkalog.codec.model import BATCH, Record
from kafkalog.log.writing.incoming import NewRecord

__all__ = ["OpenBatch", "ReadyBatch", "RecordMetadata", "Waiting"]


class RecordMetadata(Struct, frozen=True, kw_only=True):
    """Where a record was written."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """in ms; -1 if the log sets it (LogAppendTime) or has none (magic 0)"""


class ReadyBatch(Struct, frozen=True):
    """Records about to be written as one batch."""

    topic: str
    partition: int
    records: tuple[NewRecord, ...]


class Waiting:
    """A record to be written, its size, and its future and callback."""

    __slots__ = ("callback", "content", "future", "record")

    def __init__(
        self, record: Record, callback: Callable[[RecordMetadata | None, BaseException | None], object] | None
    ) -> None:
        self.record = record
        self.callback = callback
        self.future: Future[RecordMetadata] = Future()
        self.future.set_running_or_notify_cancel()  # a record that waits cannot be withdrawn
        self.content = content_size(record.key, record.value, record.headers)

    @property
    def upper_bound(self) -> int:
        """Maximum size of the encoded record."""
        return MAX_RECORD_OVERHEAD + self.content


class OpenBatch:
    """A batch of one partition that still accepts records. Sizes are in bytes, before compression. It is full at
    `limit` bytes or `most` records (None: any number); a larger first record is alone in its batch.
    """

    def __init__(self, topic: str, partition: int, first: Waiting, limit: int, most: int | None, now_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.waiting = [first]
        self.created_ms = now_ms
        self.size = BATCH.size + record_size(first.content, 0, 0)
        self._limit = max(limit, BATCH.size + first.upper_bound)
        self._most = most
        self._closed = False

    @property
    def is_full(self) -> bool:
        """Whether it accepts no more records."""
        enough = self._most is not None and len(self.waiting) >= self._most
        return self._closed or enough or self.size >= self._limit

    def add(self, waiting: Waiting) -> int | None:
        """Append a record and return its encoded size in bytes.

        If the batch is full or the record does not fit, return None. The record is not added then, and the batch
        accepts no further records.
        """
        delta = waiting.record.timestamp - self.waiting[0].record.timestamp
        size = record_size(waiting.content, len(self.waiting), delta)
        if self.is_full or self.size + size > self._limit:
            self._closed = True
            return None
        self.waiting.append(waiting)
        self.size += size
        return size

    def ready(self) -> ReadyBatch:
        """Return the batch's topic, partition and records in the order of `add`, as a `ReadyBatch` for the log. The
        batch itself is unchanged.
        """
        records = (waiting.record for waiting in self.waiting)
        return ReadyBatch(
            self.topic,
            self.partition,
            tuple(NewRecord(record.value, record.key, record.timestamp, record.headers) for record in records),
        )
