"""A stream of a consumer: an iterator over the records of some partitions, which ends or waits for more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog.codec.common.errors import UsageError
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.reading.consumer_view import Telling
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.walk.on_damage import STOP, raised
from kafkalog.producer.offset_store import TopicPartition
from kafkalog.producer.streams import MessageAndMetadata

if TYPE_CHECKING:
    from kafkalog.producer.positions import Positions

__all__ = ["ConsumerStream"]


class ConsumerStream:
    """Iterates over the records of its partitions, each in offset order, from the consumer's position.

    Only one thread may iterate at a time. A new iteration continues after the last record returned. At damage it raises
    `FormatError`; if the consumer follows, only if valid batches come after the damage.
    """

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._reading = threading.Lock()
        self._reader = 0
        self._telling = Telling()
        self.owned: dict[TopicPartition, None] = {}

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The (topic, partition) of all partitions of this stream."""
        with self._positions.guard:
            return tuple(self.owned)

    def __iter__(self) -> Iterator[MessageAndMetadata]:
        if not self._reading.acquire(blocking=False):
            raise UsageError(self._why_not())
        self._reader = threading.get_ident()
        try:
            yield from self._records()
        finally:
            self._reading.release()

    def _why_not(self) -> str:
        if self._positions.closed.is_set():
            return "the consumer is shut down, and its streams are closed"
        if self._reader == threading.get_ident():
            return "an iterator of this stream is unfinished: continue it, or close it"
        return "a stream is read by one thread at a time, and another thread is reading this one"

    def _records(self) -> Iterator[MessageAndMetadata]:
        positions = self._positions
        waiting_since = time.monotonic()
        while not positions.closed.is_set():
            for key in self.partitions:
                for message in self._of(key):
                    yield message
                    waiting_since = time.monotonic()
                    if positions.closed.is_set():
                        return
            timeout = positions.consumer_timeout_ms
            is_over = timeout is not None and (time.monotonic() - waiting_since) * 1000 >= timeout
            is_over = is_over or not positions.follow
            positions.tell_of_open(self.partitions, patient=not is_over)
            if is_over:
                return
            positions.closed.wait(positions.poll_ms / 1000)
            positions.refresh()

    def _of(self, key: TopicPartition) -> Iterator[MessageAndMetadata]:
        positions = self._positions
        try:
            to_read = positions.to_read(key)
            if to_read is None:
                return
            partition, start, end = to_read
            reader = partition.records(
                RecordFilter(start_offset=start, end_offset=end, isolation_level=positions.isolation_level),
                on_damage=STOP,
                limits=positions.limits,
            )
            for record in reader:
                positions.consumed(key, record.offset + 1)
                yield MessageAndMetadata(*key, record)
        except MissingFileError:
            if not positions.follow:
                raise
            return  # retention or a compaction took a file since the directory was listed; the next look tells
        for finding in reader.findings:
            if finding is not reader.ended_by:
                self._telling(finding)
        if reader.ended_by is not None:
            raise raised(reader.ended_by)
        if end is not None:
            positions.consumed(key, end)
        elif reader.open_transaction is not None:
            positions.ended(key, partition, partition.last_stable_offset(), reader.open_transaction)
