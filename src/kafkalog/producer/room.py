"""Limits for records that wait to be written. At the limit, a sender waits or the record is dropped.

Follows `BufferPool.allocate` for bytes, and `Producer.asyncSend` (up to 1.1) for the number of records.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kafkalog.codec.common.errors import KafkaLogError, UsageError
from kafkalog.producer.config import ProducerConfig

__all__ = ["QueueFullError", "Room"]


class QueueFullError(KafkaLogError):
    """A record was dropped because too much was waiting. `limit` names the setting."""

    def __init__(self, message: str, *, limit: str) -> None:
        self.limit = limit
        super().__init__(message)


class Room:
    """Counts records that wait to be written, and their bytes, within the limits of the configuration. `changed` is the
    producer's lock, which callers hold; it is released while a record waits for room.
    """

    def __init__(self, config: ProducerConfig, changed: threading.Condition) -> None:
        self._config = config
        self._changed = changed
        self._bytes = 0
        self._records = 0
        self.wanted = 0
        """number of records that wait for room; meanwhile no batch lingers"""

    def take(self, size: int, *, may_wait: bool) -> bool:
        """Reserve room for one record of at most `size` bytes; return whether it had to wait. It waits for up to
        `max_block_ms` if there are too many bytes, and for up to `queue_enqueue_timeout_ms` (negative: forever) if
        there are too many records. If others take the room meanwhile, it waits again.

        Raises `QueueFullError` if there is no room in time, or at once if `may_wait` is False; nothing is reserved
        then. Raises `UsageError` if `size` exceeds `buffer_memory`.
        """
        config = self._config
        if size > config.buffer_memory:
            raise UsageError(f"a record of up to {size} bytes; buffer_memory is {config.buffer_memory}")
        waited = False
        while self._await_records(may_wait) | self._await_bytes(size, may_wait):
            waited = True  # while it waited for one, other senders may have taken the room of the other
        self._bytes += size
        self._records += 1
        return waited

    def _await_records(self, may_wait: bool) -> bool:
        most, timeout = self._config.queue_buffering_max_messages, self._config.queue_enqueue_timeout_ms
        if most is None or self._records < most:
            return False
        seconds = None if timeout < 0 else timeout / 1000
        if not self._wait(seconds, may_wait, lambda: self._records < most):
            raise QueueFullError(
                f"{self._records} records wait to be written; queue_buffering_max_messages is {most}",
                limit="queue_buffering_max_messages",
            )
        return True

    def _await_bytes(self, size: int, may_wait: bool) -> bool:
        most = self._config.buffer_memory
        if self._bytes + size <= most:
            return False
        if not self._wait(self._config.max_block_ms / 1000, may_wait, lambda: self._bytes + size <= most):
            raise QueueFullError(
                f"{self._bytes} bytes of records wait to be written, and {size} more do not fit; "
                f"buffer_memory is {most}",
                limit="buffer_memory",
            )
        return True

    def _wait(self, seconds: float | None, may_wait: bool, is_room: Callable[[], bool]) -> bool:
        if not may_wait:
            return False
        self.wanted += 1
        self._changed.notify_all()
        try:
            return self._changed.wait_for(is_room, None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        finally:
            self.wanted -= 1

    def give(self, size: int, records: int) -> None:
        """Release the room of `records` records with `size` bytes in total, and wake the senders that wait."""
        self._bytes -= size
        self._records -= records
        self._changed.notify_all()
