"""Producers and transactional ids as objects under the names of Kafka's admin client: one line of JSON, one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkalog.cluster.transactions.abort_command import abort_command, abort_command_before_3_0
from kafkalog.cluster.transactions.producers import PartitionProducers
from kafkalog.cluster.transactions.transactions import OpenTransaction, TransactionalId

__all__ = ["producer_lines", "transaction_partitions", "transactional_id_line"]

Line = dict[str, object]


def transaction_partitions(found: TransactionalId) -> list[str]:
    """`topic-partition` of each that is in the transaction."""
    return [f"{topic}-{number}" for topic, number in found.partitions]


def producer_lines(
    places: Sequence[PartitionProducers], opened: Sequence[OpenTransaction], bootstrap_server: str | None = None
) -> Iterator[Line]:
    """The producers of every partition, with the transactions that they have open, and how to end one that hangs."""
    by_place = {(each.topic, each.partition, each.producer.producer_id): each for each in opened}
    for place in places:
        for producer in place.producers:
            open_here = by_place.get(
                (place.partition.topic or "", place.partition.partition or 0, producer.producer_id)
            )
            abortable = open_here if open_here is not None and open_here.may_be_aborted else None
            decision = open_here.decision if open_here is not None else None
            yield {
                "topic": place.partition.topic,
                "partition": place.partition.partition,
                "producerId": producer.producer_id,
                "producerEpoch": producer.producer_epoch,
                "lastSequence": producer.last_sequence,
                "lastTimestamp": producer.last_timestamp,
                "coordinatorEpoch": producer.coordinator_epoch,
                "currentTxnStart": producer.transaction_start,
                "transactionalId": open_here.transactional_id if open_here is not None else None,
                "hanging": open_here.hanging if open_here is not None else None,
                "ageMs": open_here.age_ms if open_here is not None else None,
                "lastStableOffset": place.last_stable_offset,
                "logEndOffset": place.log_end_offset,
                "decided": None if decision is None else str(decision.decided),
                "decided_by": None if decision is None else decision.source,
                "abort_command": abortable and abort_command(abortable, bootstrap_server),
                "abort_command_before_3_0": abortable and abort_command_before_3_0(abortable, bootstrap_server),
            }


def transactional_id_line(found: TransactionalId) -> Line:
    """The last that a coordinator wrote of one transactional id."""
    return {
        "transactionalId": found.transactional_id,
        "state": found.state,
        "producerId": found.producer_id,
        "producerEpoch": found.producer_epoch,
        "partitions": f"[{', '.join(transaction_partitions(found))}]",
        "timeoutMs": found.timeout_ms,
        "lastUpdateTimestamp": found.last_update_timestamp,
        "startTimestamp": None if found.start_timestamp < 0 else found.start_timestamp,
        "logPartition": found.log_partition,
        "logOffset": found.log_offset,
    }
