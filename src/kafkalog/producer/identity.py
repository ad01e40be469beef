"""Identity of an idempotent or transactional producer, and the partitions in its transaction."""

from __future__ import annotations

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.encode import ProducerState
from kafkalog.codec.encode.batch import NO_PRODUCER
from kafkalog.codec.model import NO_PRODUCER_ID
from kafkalog.log.writing.writer import Log

__all__ = ["Identity"]


class Identity:
    """Producer id and epoch of a producer, and the state of its transaction. Sequence numbers are read from
    each log.
    """

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
        """partitions with records of the transaction, in the order of their first record"""

    def begin(self) -> None:
        """Begin a transaction and forget the failure of the previous one. Raises `UsageError` if the producer is not
        transactional or a transaction is already open.
        """
        if not self.transactional:
            raise UsageError("the producer is not transactional")
        if self.in_transaction:
            raise UsageError("a transaction has begun already")
        self.in_transaction, self.failed = True, None

    def check_sending(self) -> None:
        """Raise `UsageError` if a record may not be sent now: a transactional producer has no open transaction, or is
        ending it.
        """
        if self.is_ending:
            raise UsageError("the transaction is being ended: send after the next begin_transaction")
        if self.transactional and not self.in_transaction:
            raise UsageError("a transactional producer sends within a transaction: begin_transaction comes first")

    def begin_ending(self) -> None:
        """Stop sending in order to end the transaction. Raises `UsageError` if there is none."""
        if not self.in_transaction:
            raise UsageError("no transaction has begun")
        self.is_ending = True

    def state(self, log: Log) -> ProducerState:
        """Return the producer fields (id, epoch, next sequence) of the next batch in a log; `NO_PRODUCER` without a
        producer id. Raises `UsageError` in a forked child if there is a producer id.
        """
        if self.producer_id == NO_PRODUCER_ID:
            return NO_PRODUCER
        sequence = log.next_sequence(self.producer_id, self.producer_epoch)
        return ProducerState(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=self.transactional,
        )

    def ended(self) -> None:
        """Note that the transaction is over."""
        self.in_transaction = False
        self.reached.clear()
