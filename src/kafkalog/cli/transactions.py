"""`kafkalog transactions`: producers of every partition, transactional ids, and transactions that hang."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kafkalog.cli.arguments import PATHS, REPLICA
from kafkalog.cli.cluster_options import JSON_LINES, finish, print_lines
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.producers import PartitionProducers, read_producers
from kafkalog.cluster.transaction_lines import producer_lines, transaction_partitions, transactional_id_line
from kafkalog.cluster.transactions import OpenTransaction, TransactionalId, open_transactions, read_transactions
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.log import open_all

__all__ = ["command"]


_WORDS = {True: "hanging", False: "ongoing", None: "coordinator not seen"}


def _print(
    ids: Sequence[TransactionalId], places: Sequence[PartitionProducers], opened: Sequence[OpenTransaction]
) -> None:
    print_table(
        "transactional ids",
        [
            "transactional id",
            "state",
            Column("producer", drop=1),
            Column("epoch", drop=2),
            Column("updated", Kind.TIME, drop=3),
            Column("started", Kind.TIME, drop=4, if_any=True),
            Column("partitions", wraps=True),
        ],
        [
            [
                each.transactional_id,
                each.state,
                each.producer_id,
                each.producer_epoch,
                each.last_update_timestamp,
                each.start_timestamp if each.start_timestamp >= 0 else None,
                " ".join(transaction_partitions(each)),
            ]
            for each in ids
        ],
    )
    stable = {
        (place.partition.topic, place.partition.partition): (place.last_stable_offset, place.log_end_offset)
        for place in places
    }
    print_table(
        "open transactions",
        [
            "topic",
            "partition",
            "producer",
            Column("epoch", drop=3),
            "from",
            Column("age", Kind.SPAN, drop=2),
            Column("transactional id", drop=1),
            Column("is", wraps=True),
            Column("LSO", drop=4),
            Column("LEO", drop=5),
        ],
        [
            [
                each.topic,
                each.partition,
                each.producer.producer_id,
                each.producer.producer_epoch,
                each.producer.transaction_start,
                each.age_ms,
                each.transactional_id,
                _WORDS[each.hanging],
                *stable[each.topic, each.partition],
            ]
            for each in opened
        ],
    )


@click.command(name="transactions")
@PATHS
@JSON_LINES
@REPLICA
def command(paths: tuple[str, ...], as_json: bool, replica: str | None) -> int:
    """Producers, transactional ids and open transactions; a transaction hangs if its coordinator has forgotten it.

    With --json a line for every producer of every partition, then one for every transactional id.
    """
    partitions = [each for each in open_all(*paths).readable(replica) if each.topic != CLUSTER_METADATA_TOPIC]
    places = read_producers(partitions)
    coordinator = read_transactions(partitions)
    opened, hanging = open_transactions(places, coordinator)
    if as_json:
        print_lines(producer_lines(places, opened))
        print_lines(map(transactional_id_line, coordinator.ids))
    else:
        _print(coordinator.ids, places, opened)
    return finish([*coordinator.findings, *(found for place in places for found in place.findings), *hanging])
