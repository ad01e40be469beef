"""Producer state from runs of headers: what a stretch without control batches leaves, and control batches one by one.

Gives what `ProducerAppend.append` gives when it is fed with batch after batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkalog.codec.errors import PortableError
from kafkalog.codec.model import BatchHeader
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.log_file import LogBatch

if TYPE_CHECKING:
    from kafkalog.codec.headers.rebuild_segment import ProducerBatches
    from kafkalog.codec.headers.table import HeaderRun

__all__ = ["Appends", "ProducerError", "StretchEnd", "take_producers"]


class StretchEnd(NamedTuple):
    """What a stretch leaves of one producer."""

    header: BatchHeader
    """of its last batch"""
    first_transactional: int
    """number of its first batch that is part of a transaction, -1 for none"""
    transactional_from: int | None
    """base offset of that"""


class Appends(Protocol):
    """Who takes in what producers wrote."""

    def open_since(self, producer_id: int) -> int | None:
        """First offset of the transaction that a producer has open."""

    def stretch(self, ends: Sequence[StretchEnd]) -> None:
        """Take in a stretch, its producers in the order of their first batches."""

    def batch(self, batch: LogBatch) -> None:
        """Take in one batch of a producer, whatever it holds."""


class ProducerError(PortableError):
    """An exception of the broker's, and the number of the batch that it comes from."""

    def __init__(self, number: int, error: JavaError) -> None:
        super().__init__(number)
        self.number = number
        self.error = error


def take_producers(run: HeaderRun, first: int, end: int, batch_of: Callable[[int], LogBatch], appends: Appends) -> None:
    """Feed the batches from number `first` up to `end`; `ProducerError` where the broker would throw."""
    from kafkalog.codec.headers.rebuild_segment import ProducersOfRun

    stretches = ProducersOfRun(run)
    while first < end:
        stopped, producers = stretches.next(first, end)
        outside = [number for each in producers if (number := _outside_transaction(each, appends)) >= 0]
        if outside:
            wrong = min(outside)
            stopped, producers = stretches.next(first, wrong)
        if producers:
            appends.stretch([_end_of(run, each) for each in producers])
        if stopped < end:
            try:
                appends.batch(batch_of(stopped))
            except JavaError as error:
                raise ProducerError(stopped, error) from error.__cause__
        first = stopped + 1


def _outside_transaction(producer: ProducerBatches, appends: Appends) -> int:
    """Number of the first batch that is written outside of the transaction which its producer has open, or -1."""
    if producer.first_plain < 0:
        return -1
    is_open = appends.open_since(producer.producer_id) is not None
    return producer.first_plain if is_open else producer.plain_behind_transactional


def _end_of(run: HeaderRun, producer: ProducerBatches) -> StretchEnd:
    number = producer.first_transactional
    offset = None if number < 0 else int(run["base_offset"][number])
    return StretchEnd(run.v2_header(producer.last), number, offset)
