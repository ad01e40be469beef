"""What a caller may put into the way of records (`CallbackHandler` of 0.7, `ProducerInterceptor` since 0.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkalog.log.incoming import NewRecord
from kafkalog.log.producing.batch import ReadyBatch

__all__ = ["CallbackHandler", "EventHandler", "Outgoing"]


class Outgoing(NamedTuple):
    """A record before its partition is chosen; `partition` is what the caller asked for."""

    topic: str
    record: NewRecord
    partition: int | None = None


class CallbackHandler:
    """Is told what becomes of records; override what is wanted.  An error that a method raises goes to the producer.

    `before_enqueue` is called by whoever sends, the others by whoever writes, one at a time.
    """

    def before_enqueue(self, outgoing: Outgoing) -> Outgoing | None:
        """A record as it shall be sent, its key and value encoded; None leaves it out."""
        return outgoing

    def after_enqueue(self, outgoing: Outgoing, added: bool) -> None:
        """A record waits to be written, or was dropped."""

    def before_sending(self, batch: ReadyBatch) -> None:
        """A batch is about to be written."""

    def after_sending(self, batch: ReadyBatch, error: BaseException | None) -> None:
        """A batch was written, or could not be."""

    def close(self) -> None:
        """The producer is closed."""


EventHandler = Callable[[ReadyBatch, Callable[[ReadyBatch], int]], int]
"""Called with a batch and with what writes it; gives the offset of the first record, -1 where nothing was written."""
