"""`kafkalog transactions`: producers of every partition, transactional ids, and transactions that hang."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click
from msgspec.structs import replace

from kafkalog.cli.lines import finish, partitions_at, print_lines
from kafkalog.cli.options.common import JSON, REPLICA
from kafkalog.cli.options.names import chosen_names
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.selection import selected, selection_options
from kafkalog.cli.output import LineWriter
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.transactions.abort_command import abort_command, abort_command_before_3_0
from kafkalog.cluster.transactions.producers import PartitionProducers, read_producers
from kafkalog.cluster.transactions.transaction_lines import (
    producer_lines,
    transaction_partitions,
    transactional_id_line,
)
from kafkalog.cluster.transactions.transactions import (
    OpenTransaction,
    TransactionalId,
    open_transactions,
    read_transactions,
)
from kafkalog.codec.findings import Finding
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.words.escapes import escape_controls

__all__ = ["command"]


_AT_START = {
    "PrepareCommit": "committed; its coordinator writes the marker when it starts",
    "PrepareAbort": "aborted; its coordinator writes the marker when it starts",
}
_WORDS = {True: "hanging", False: "ongoing", None: "coordinator not seen"}


def _state_of(opened: OpenTransaction) -> str:
    """For the table: whether it hangs, how it was decided if its marker is lost, what its coordinator will write."""
    if opened.decision is None:
        will = _AT_START.get(opened.coordinator_state or "") if opened.hanging is False else None
        return will or _WORDS[opened.hanging]
    return f"{opened.decision.decided} marker lost"


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
                _state_of(each),
                *stable[each.topic, each.partition],
            ]
            for each in opened
        ],
    )


def _print_commands(opened: Sequence[OpenTransaction], server: str | None) -> None:
    """Write the command that ends each transaction that hangs, but for those that were committed."""
    with LineWriter() as writer:
        for each in opened:
            if not each.may_be_aborted:
                continue
            producer = each.producer.producer_id
            place = escape_controls(f"{each.topic}-{each.partition}")
            what = f"to abort the hanging transaction of producer {producer} in {place}"
            writer.write(f"{what}, with brokers of 3.0 and later:")
            writer.write(f"  {escape_controls(abort_command(each, server))}")
            writer.write("with older brokers:")
            writer.write(f"  {escape_controls(abort_command_before_3_0(each, server))}")


@click.command(name="transactions")
@PATHS
@selection_options
@click.option("--transactional-id", "names", metavar="ID", multiple=True,
              help="Only this transactional id: a name or a pattern with *, ? and [...]; may be repeated.")  # fmt: skip
@click.option("--bootstrap-server", metavar="HOST:PORT",
              help="A broker's address, for the commands that abort hanging transactions.")  # fmt: skip
@paths_in_properties
@REPLICA
@JSON
def command(
    paths: tuple[str, ...],
    chosen: Selection,
    names: tuple[str, ...],
    bootstrap_server: str | None,
    replica: str | None,
    as_json: bool,
) -> int:
    """Show producers, transactional ids and open transactions, and the commands that abort hanging ones.

    A transaction hangs if its coordinator has forgotten it.  With --topic, --partition or --exclude, shows only
    producers of the chosen partitions, and transactional ids with such a partition in their transaction.

    With --json, prints a line for every producer of every partition, then one for every transactional id.
    """
    left_out: list[Finding] = []
    at_hand = [each for each in partitions_at(paths, replica, left_out) if each.topic != CLUSTER_METADATA_TOPIC]
    coordinator = read_transactions(at_hand)
    findings = [*left_out, *coordinator.findings]
    known = [each.transactional_id for each in coordinator.ids]
    is_meant = chosen_names("transactional id", names, known, coordinator.why_unknown, findings)
    places = read_producers(selected(chosen, at_hand))
    chosen_paths = {each.partition.path for each in places}
    opened, hanging = open_transactions(
        places, coordinator, lambda: read_producers(each for each in at_hand if each.path not in chosen_paths)
    )
    ids = [
        each
        for each in coordinator.ids
        if is_meant(each.transactional_id) and (chosen == ALL or any(chosen.takes(*place) for place in each.partitions))
    ]
    if names:
        opened = [each for each in opened if each.transactional_id is not None and is_meant(each.transactional_id)]
        hanging = [finding for finding in hanging if _is_of(finding, opened)]
        places = _of_producers(places, {each.producer_id for each in ids})
    if as_json:
        print_lines(producer_lines(places, opened, bootstrap_server))
        print_lines(map(transactional_id_line, ids))
    else:
        _print(ids, places, opened)
        _print_commands(opened, bootstrap_server)
    of_places = [found for place in places for found in place.findings]
    return finish([*findings, *of_places, *hanging])


def _is_of(finding: Finding, opened: Sequence[OpenTransaction]) -> bool:
    begun = [each for each in opened if each.producer.transaction_start == finding.offset]
    return os.path.basename(finding.file or "") in {f"{each.topic}-{each.partition}" for each in begun}


def _of_producers(places: Sequence[PartitionProducers], ids: set[int]) -> list[PartitionProducers]:
    return [
        replace(place, producers=tuple(each for each in place.producers if each.producer_id in ids)) for place in places
    ]
