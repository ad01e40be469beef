"""Hooks of a caller for records (`CallbackHandler` of 0.7, `ProducerInterceptor` since 0.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkalog.log.writing.incoming import NewRecord
from kafkalog.producer.batch import ReadyBatch

__all__ = ["CallbackHandler", "EventHandler", "Outgoing"]


class Outgoing(NamedTuple):
    """A record before its partition is chosen. `partition` is the one requested by the caller."""

    topic: str
    record: NewRecord
    partition: int | None = None


class CallbackHandler:
    """Called at each stage of a record. Override the methods you need.

    An error that a method raises reaches the caller of the producer. `before_enqueue` is called by the thread that
    sends, the others by the thread that writes, one at a time.
    """

    def before_enqueue(self, outgoing: Outgoing) -> Outgoing | None:
        """Return the record to send, with key and value encoded. None drops it."""
        return outgoing

    def after_enqueue(self, outgoing: Outgoing, added: bool) -> None:
        """Called when a record waits to be written, or was dropped."""

    def before_sending(self, batch: ReadyBatch) -> None:
        """Called before a batch is written."""

    def after_sending(self, batch: ReadyBatch, error: BaseException | None) -> None:
        """Called after a batch was written, or could not be."""

    def close(self) -> None:
        """Called when the producer is closed."""


EventHandler = Callable[[ReadyBatch, Callable[[ReadyBatch], int]], int]
"""Called with a batch and a function that writes it. Returns the offset of the first record, or -1 if nothing was
written.
"""
