"""Update producer state from runs of batch headers: with one summary for each stretch of batches without control
batches, and control batches one by one. The result is the same as from `ProducerAppendInfo.append` for every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkalog.codec.common.errors import PortableError
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.native.tables import HeaderColumn
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.log_file import LogBatch

if TYPE_CHECKING:
    from kafkalog.codec.headers.rebuild_segment import ProducerBatches
    from kafkalog.codec.headers.table import HeaderRun

__all__ = ["Appends", "ProducerError", "StretchEnd", "take_producers"]


class StretchEnd(NamedTuple):
    """Summary of a stretch for one producer: its last batches, and its first transactional batch."""

    headers: Sequence[BatchHeader]
    """headers of its last batches in order, at least one and at most `Appends.remembered`"""
    first_transactional: int
    """number of its first transactional batch, -1 for none"""
    transactional_from: int | None
    """base offset of that batch; None for none"""


class Appends(Protocol):
    """Receiver of the batches of producers."""

    remembered: int
    """number of last batches of a producer that it needs from a stretch"""

    def open_since(self, producer_id: int) -> int | None:
        """Return the first offset of a producer's open transaction; None if none is open."""

    def stretch(self, ends: Sequence[StretchEnd]) -> None:
        """Add a stretch, with its producers in the order of their first batches."""

    def batch(self, batch: LogBatch) -> None:
        """Add one batch of a producer, of any kind."""


class ProducerError(PortableError):
    """The exception that the broker would throw for a batch, with the number of the batch in its run."""

    def __init__(self, number: int, error: JavaError) -> None:
        super().__init__(number)
        self.number = number
        self.error = error


def take_producers(run: HeaderRun, first: int, end: int, batch_of: Callable[[int], LogBatch], appends: Appends) -> None:
    """Pass the batches of a run with numbers from `first` to `end` (exclusive) to `appends`, in order. Batches without
    a producer id are skipped. Consecutive data batches are summarized, and the summary is passed to its method
    `stretch`. Control batches, and data batches that cannot be summarized, are passed to its method `batch`; `batch_of`
    returns the batch with a number.

    Raises `ProducerError` with the number of the first batch for which the broker would throw. All batches before it
    were then passed. Raises `StorageError` if a batch cannot be read.
    """
    from kafkalog.codec.headers.rebuild_segment import ProducersOfRun

    stretches = ProducersOfRun(run)
    while first < end:
        stopped, producers = stretches.next(first, end)
        outside = [number for producer in producers if (number := _outside_transaction(producer, appends)) >= 0]
        if outside:
            wrong = min(outside)
            stopped, producers = stretches.next(first, wrong)
        if producers:
            appends.stretch(_ends_of(run, first, stopped, producers, appends.remembered))
        if stopped < end:
            try:
                appends.batch(batch_of(stopped))
            except JavaError as error:
                raise ProducerError(stopped, error) from error.__cause__
        first = stopped + 1


def _outside_transaction(producer: ProducerBatches, appends: Appends) -> int:
    """Return the number of the producer's first batch that is not transactional although a transaction is open; -1 if
    there is none. Such a batch is an error.
    """
    if producer.first_plain < 0:
        return -1
    is_open = appends.open_since(producer.producer_id) is not None
    return producer.first_plain if is_open else producer.plain_behind_transactional


def _ends_of(
    run: HeaderRun, first: int, end: int, producers: Sequence[ProducerBatches], remembered: int
) -> list[StretchEnd]:
    """Return a summary of the batches with numbers from `first` to `end` (exclusive) for each of `producers`, in their
    order. A summary contains at most the last `remembered` batches of its producer.
    """
    if remembered == 1:
        return [_end_of(run, producer, [producer.last]) for producer in producers]
    ids = run.row(HeaderColumn.PRODUCER_ID)
    last: dict[int, list[int]] = {producer.producer_id: [] for producer in producers}
    missing = len(last)
    for number in reversed(range(first, end)):
        numbers = last.get(ids[number])
        if numbers is not None and len(numbers) < remembered:
            numbers.append(number)
            missing -= len(numbers) == remembered
            if not missing:
                break
    return [_end_of(run, producer, last[producer.producer_id][::-1]) for producer in producers]


def _end_of(run: HeaderRun, producer: ProducerBatches, last: Sequence[int]) -> StretchEnd:
    number = producer.first_transactional
    offset = None if number < 0 else run.value(HeaderColumn.BASE_OFFSET, number)
    return StretchEnd([run.v2_header(batch_number) for batch_number in last], number, offset)
