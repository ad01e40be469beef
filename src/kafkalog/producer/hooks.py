"""What a caller may put into the way of records (`CallbackHandler` of 0.7, `ProducerInterceptor` since 0.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkalog.log.writing.incoming import NewRecord
from kafkalog.producer.batch import ReadyBatch

__all__ = ["CallbackHandler", "EventHandler", "Outgoing"]


class Outgoing(NamedTuple):
    """A record before its partition is chosen; `partition` is the one that the caller requested."""

    topic: str
    record: NewRecord
    partition: int | None = None


class CallbackHandler:
    """Is called at each stage of a record; override the methods that you need.  The producer gets any error they raise.

    `before_enqueue` is called by the thread that sends, the others by the thread that writes, one at a time.
    """

    def before_enqueue(self, outgoing: Outgoing) -> Outgoing | None:
        """Return the record that will be sent, its key and value encoded; None leaves it out."""
        return outgoing

    def after_enqueue(self, outgoing: Outgoing, added: bool) -> None:
        """A record waits to be written, or was dropped."""

    def before_sending(self, batch: ReadyBatch) -> None:
        """A batch is about to be written."""

    def after_sending(self, batch: ReadyBatch, error: BaseException | None) -> None:
        """A batch was written, or could not be."""

    def close(self) -> None:
        """The producer is being closed."""


EventHandler = Callable[[ReadyBatch, Callable[[ReadyBatch], int]], int]
"""Called with a batch and with what writes it; gives the offset of the first record, -1 where nothing was written."""
