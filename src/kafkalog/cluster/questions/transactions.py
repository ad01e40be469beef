"""Producers of every partition, transactional ids, and transactions that are open or hanging."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.questions.chosen_names import chosen_names
from kafkalog.cluster.questions.opening import partitions_at
from kafkalog.cluster.transactions.producers import PartitionProducers, read_producers
from kafkalog.cluster.transactions.transactions import (
    OpenTransaction,
    TransactionalId,
    open_transactions,
    read_transactions,
)
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.log.directories.selection import ALL, Selection, is_glob
from kafkalog.log.disk.files import PathLike

__all__ = ["ClusterTransactions", "transactions"]


class ClusterTransactions(Struct, frozen=True, kw_only=True):
    """Producers of the chosen partitions, and transactions in them and in the coordinator's logs."""

    producers: tuple[PartitionProducers, ...]
    """by partition"""
    transactional_ids: tuple[TransactionalId, ...]
    """ascending"""
    open_transactions: tuple[OpenTransaction, ...]
    """transactions without their marker in a partition; one that hangs is a finding too"""
    findings: tuple[Finding, ...]


def transactions(
    *paths: PathLike,
    select: Selection = ALL,
    transactional_ids: Sequence[str] = (),
    replica: PathLike | None = None,
) -> ClusterTransactions:
    """Return producers, transactional ids and open transactions, from partitions and `__transaction_state`. Reads only;
    damage and hanging transactions become findings.

    A transaction hangs if its coordinator no longer has it, so that its end marker will never be written. Ages of
    transactions are in ms up to the present time.

    Raises `UsageError` if a path has no Kafka data; a path that is missing or empty beside a log directory is a
    finding. It is raised too if a partition is in several directories and `replica` chooses none, or if everything
    selected is excluded. Raises `UnknownName` for a transactional id, topic or partition that does not exist,
    `StorageError` for I/O errors.

    * `paths`: log directories or partition directories
    * `select`: only producers of these topic-partitions, and transactional ids with one of them in their transaction
    * `transactional_ids`: names or patterns; empty: all of them, and also producers without a transactional id
    * `replica`: which directory counts if a partition is in several: `"longest"`, or its path, which must exist
    """
    findings: list[Finding] = []
    at_hand = partitions_at(paths, replica, findings, lambda name: name.topic != CLUSTER_METADATA_TOPIC)
    coordinator = read_transactions(at_hand)
    findings += coordinator.findings
    known = [transactional_id.transactional_id for transactional_id in coordinator.ids]
    if not transactional_ids or any(map(is_glob, transactional_ids)):
        findings += coordinator.logs.not_here()
    is_meant = chosen_names("transactional id", transactional_ids, known, coordinator.why_unknown, findings)
    select.check((partition.topic, partition.partition) for partition in at_hand
                 if partition.topic is not None and partition.partition is not None)  # fmt: skip
    producers = read_producers(partition for partition in at_hand if select.takes(partition.topic, partition.partition))
    opened, hanging = open_transactions(producers, coordinator, at_hand)
    ids = tuple(
        each
        for each in coordinator.ids
        if is_meant(each.transactional_id) and (select == ALL or any(select.takes(*place) for place in each.partitions))
    )
    if transactional_ids:
        opened = [each for each in opened if each.transactional_id is not None and is_meant(each.transactional_id)]
        hanging = [finding for finding in hanging if _is_of(finding, opened)]
        producers = _of_producers(producers, {transactional_id.producer_id for transactional_id in ids})
    findings += [finding for producer in producers for finding in producer.findings]
    return ClusterTransactions(
        producers=tuple(producers),
        transactional_ids=ids,
        open_transactions=tuple(opened),
        findings=(*findings, *hanging),
    )


def _is_of(finding: Finding, opened: Sequence[OpenTransaction]) -> bool:
    begun = [transaction for transaction in opened if transaction.producer.transaction_start == finding.offset]
    return os.path.basename(finding.file or "") in {f"{each.topic}-{each.partition}" for each in begun}


def _of_producers(places: Sequence[PartitionProducers], ids: set[int]) -> list[PartitionProducers]:
    return [
        replace(place, producers=tuple(each for each in place.producers if each.producer_id in ids)) for place in places
    ]
