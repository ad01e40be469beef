"""Conversion of producers and transactional ids to JSON objects, one per line, with the field names of Kafka's admin
client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from kafkalog.cluster.transactions.abort_command import abort_command, abort_command_before_3_0
from kafkalog.cluster.transactions.producers import PartitionProducers
from kafkalog.cluster.transactions.transactions import OpenTransaction, TransactionalId

__all__ = ["producer_lines", "transaction_partitions", "transactional_id_line"]

class ProducerLine(Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="producer"):
    """A producer in a partition."""

    topic: str | None
    """its topic"""
    partition: int | None
    """its number"""
    producer_id: int
    """of the producer"""
    producer_epoch: int
    """of the producer"""
    last_sequence: int
    """of its last batch"""
    last_timestamp: int
    """of its last batch, in ms since 1970"""
    coordinator_epoch: int | None
    """of its last marker; null if there is none"""
    current_txn_start: int | None
    """where its open transaction begins; null if there is none"""
    transactional_id: str | None
    """of the open transaction; null if no coordinator's log has it"""
    hanging: bool | None
    """the coordinator has forgotten the open transaction; null if there is none, or if the coordinator's log does not
    show that for certain"""
    age_ms: int | None
    """from the last batch of the transaction's producer until now, in ms; null if no transaction is open, or if the
    time of that batch is unknown"""
    last_stable_offset: int
    """up to which read_committed consumers read"""
    log_end_offset: int
    """where the log ends"""
    decided: str | None
    """how a transaction ended whose marker is lost here, `commit` or `abort`; null if that is not known, or if none is
    lost"""
    decided_by: str | None = field(name="decided_by")
    """where that is written: the coordinator's log, or a marker in another partition; with `decided` null, where more
    than one transaction fits, or none does; null if no marker is lost"""
    abort_command: str | None = field(name="abort_command")
    """Kafka's command that ends a hanging transaction, for brokers of 3.0 and later, quoted for a shell; null if none
    hangs, or if it was or may have been committed"""
    abort_command_before_3_0: str | None = field(name="abort_command_before_3_0")
    """the same for older brokers"""


class TransactionalIdLine(Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="transactional_id"):
    """A transactional id."""

    transactional_id: str
    """the id"""
    state: str
    """`Ongoing`, `CompleteCommit` …"""
    producer_id: int
    """of its producer"""
    producer_epoch: int
    """of its producer"""
    partitions: str
    """in the transaction, as Kafka's command prints them"""
    timeout_ms: int
    """of its transactions, in ms"""
    last_update_timestamp: int
    """when it last changed, in ms since 1970"""
    start_timestamp: int | None
    """of the transaction, in ms since 1970; null if there is none"""
    log_partition: int
    """partition of __transaction_state"""
    log_offset: int
    """offset of the record there"""


Line = ProducerLine | TransactionalIdLine
"""One line for each producer of each partition, then one for each transactional id; under the names of Kafka's admin
client."""


def transaction_partitions(transactional_id: TransactionalId) -> list[str]:
    """Return the `topic-number` names of the partitions in the transaction, in the order of `partitions`."""
    return [f"{topic}-{number}" for topic, number in transactional_id.partitions]


def producer_lines(
    places: Sequence[PartitionProducers], opened: Sequence[OpenTransaction], bootstrap_server: str | None = None
) -> Iterator[ProducerLine]:
    """Yield one JSON object per producer of every partition, with its open transaction and the commands that abort it.

    `opened` are the open transactions of these partitions. Fields about a transaction are None if none is open. The
    commands are None unless the transaction may be aborted. `bootstrap_server` is put into the commands; None leaves a
    placeholder.
    """
    by_place = {(each.topic, each.partition, each.producer.producer_id): each for each in opened}
    for place in places:
        for producer in place.producers:
            open_here = by_place.get(
                (place.partition.topic or "", place.partition.partition or 0, producer.producer_id)
            )
            abortable = open_here if open_here is not None and open_here.may_be_aborted else None
            decision = open_here.decision if open_here is not None else None
            yield ProducerLine(
                topic=place.partition.topic,
                partition=place.partition.partition,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start=producer.transaction_start,
                transactional_id=open_here.transactional_id if open_here is not None else None,
                hanging=open_here.hanging if open_here is not None else None,
                age_ms=open_here.age_ms if open_here is not None else None,
                last_stable_offset=place.last_stable_offset,
                log_end_offset=place.log_end_offset,
                decided=None if decision is None or decision.decided is None else str(decision.decided),
                decided_by=None if decision is None else decision.source,
                abort_command=None if abortable is None else abort_command(abortable, bootstrap_server),
                abort_command_before_3_0=None
                if abortable is None
                else abort_command_before_3_0(abortable, bootstrap_server),
            )


def transactional_id_line(transactional_id: TransactionalId) -> TransactionalIdLine:
    """Convert the newest state of one transactional id in the coordinator's log to its JSON object.

    `partitions` is one text in brackets; `start_timestamp` is null if no transaction has begun.
    """
    return TransactionalIdLine(
        transactional_id=transactional_id.transactional_id,
        state=transactional_id.state,
        producer_id=transactional_id.producer_id,
        producer_epoch=transactional_id.producer_epoch,
        partitions=f"[{', '.join(transaction_partitions(transactional_id))}]",
        timeout_ms=transactional_id.timeout_ms,
        last_update_timestamp=transactional_id.last_update_timestamp,
        start_timestamp=None if transactional_id.start_timestamp < 0 else transactional_id.start_timestamp,
        log_partition=transactional_id.log_partition,
        log_offset=transactional_id.log_offset,
    )
