"""Who an idempotent or transactional producer is, and which partitions its transaction has reached."""

from __future__ import annotations

from kafkalog.codec.encode import ProducerState
from kafkalog.codec.encode.batch import NO_PRODUCER
from kafkalog.codec.errors import UsageError
from kafkalog.codec.model import NO_PRODUCER_ID
from kafkalog.log.writing.writer import Log

__all__ = ["Identity"]


class Identity:
    """A producer's id and epoch; sequences are those that each log expects next."""

    def __init__(self, producer_id: int | None, producer_epoch: int, transactional: bool) -> None:
        if producer_id is None:
            if transactional:
                raise UsageError("a transactional producer needs a producer_id")
        elif not producer_id >= 0 or not 0 <= producer_epoch < 2**15 - 1:
            raise UsageError(f"producer_id {producer_id} with producer_epoch {producer_epoch} is impossible")
        self.producer_id = NO_PRODUCER_ID if producer_id is None else producer_id
        self.producer_epoch = producer_epoch
        self.transactional = transactional
        self.in_transaction = False
        self.is_ending = False
        self.failed: BaseException | None = None
        """why a record of the transaction was not written"""
        self.reached: dict[tuple[str, int], None] = {}
        """the partitions with records of the transaction, in the order in which they were reached"""

    def begin(self) -> None:
        """A transaction begins."""
        if not self.transactional:
            raise UsageError("the producer is not transactional")
        if self.in_transaction:
            raise UsageError("a transaction has begun already")
        self.in_transaction, self.failed = True, None

    def check_sending(self) -> None:
        """`UsageError` for a record outside of a transaction."""
        if self.is_ending:
            raise UsageError("the transaction is being ended: send after the next begin_transaction")
        if self.transactional and not self.in_transaction:
            raise UsageError("a transactional producer sends within a transaction: begin_transaction comes first")

    def begin_ending(self) -> None:
        """Send nothing from now on; `UsageError` where there is nothing to end."""
        if not self.in_transaction:
            raise UsageError("no transaction has begun")
        self.is_ending = True

    def state(self, log: Log) -> ProducerState:
        """What the next batch in a log says of its producer."""
        if self.producer_id == NO_PRODUCER_ID:
            return NO_PRODUCER
        sequence = log.next_sequence(self.producer_id, self.producer_epoch)
        return ProducerState(self.producer_id, self.producer_epoch, sequence, self.transactional)

    def ended(self) -> None:
        """The transaction is over."""
        self.in_transaction = False
        self.reached.clear()
