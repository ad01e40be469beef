"""Records of one partition that become one batch (`ProducerBatch`, `MemoryRecordsBuilder.hasRoomFor`)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from msgspec import Struct

from kafkalog.codec.encode.sizes import MAX_RECORD_OVERHEAD, content_size, record_size
from kafkalog.codec.model import BATCH, Record
from kafkalog.log.writing.incoming import NewRecord

__all__ = ["OpenBatch", "ReadyBatch", "RecordMetadata", "Waiting"]


class RecordMetadata(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """ms; -1 where the log sets it (LogAppendTime), or has none (magic 0)"""


class ReadyBatch(Struct, frozen=True):
    """Records that are about to be written as one batch of a partition."""

    topic: str
    partition: int
    records: tuple[NewRecord, ...]


class Waiting:
    """A record on its way: what is written, its size, and who wants to know."""

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
        """Bytes that the record can take at most."""
        return MAX_RECORD_OVERHEAD + self.content


class OpenBatch:
    """A batch that still takes records; sizes are those before compression."""

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
        """Whether it takes nothing more."""
        enough = self._most is not None and len(self.waiting) >= self._most
        return self._closed or enough or self.size >= self._limit

    def add(self, waiting: Waiting) -> int | None:
        """Bytes that a record adds; None if there is no room, and then the batch is full."""
        delta = waiting.record.timestamp - self.waiting[0].record.timestamp
        size = record_size(waiting.content, len(self.waiting), delta)
        if self.is_full or self.size + size > self._limit:
            self._closed = True
            return None
        self.waiting.append(waiting)
        self.size += size
        return size

    def ready(self) -> ReadyBatch:
        """What is written."""
        records = (each.record for each in self.waiting)
        return ReadyBatch(
            self.topic,
            self.partition,
            tuple(NewRecord(each.value, each.key, each.timestamp, each.headers) for each in records),
        )
