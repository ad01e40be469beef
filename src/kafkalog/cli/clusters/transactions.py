"""`kafkalog transactions`: producers of every partition, transactional ids, and transactions that hang."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import JSON, REPLICA
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.questions.transactions import ClusterTransactions, transactions
from kafkalog.cluster.transactions.abort_command import abort_command, abort_command_before_3_0
from kafkalog.cluster.transactions.transaction_lines import (
    producer_lines,
    transaction_partitions,
    transactional_id_line,
)
from kafkalog.cluster.transactions.transactions import OpenTransaction
from kafkalog.log.directories.selection import Selection
from kafkalog.words.escapes import escape_controls

__all__ = ["command"]


_AT_START = {"PrepareCommit": "committed", "PrepareAbort": "aborted"}
_WORDS = {True: "hanging", False: "ongoing", None: "coordinator not seen"}


def _state_of(opened: OpenTransaction) -> str:
    """Return the state of an open transaction for the table. If its marker is lost, the text says so, and how the
    transaction was decided if that is known. If its coordinator has lost the decision too, the text adds that it aborts
    the transaction. Otherwise, if a later transaction of the producer will end it, the text adds how, or that the later
    one is ongoing. If no marker is lost, the state is what the coordinator will write at its next start; if that is
    nothing, it is `hanging`, `ongoing` or `coordinator not seen`.
    """
    will = None if opened.hanging is not False else _AT_START.get(opened.coordinator_state or "")
    if opened.decision is not None:
        decided = opened.decision.decided
        lost = "marker lost" if decided is None else f"{decided} marker lost"
        if opened.decision.is_forgotten:
            return f"{lost}; its coordinator aborts it"
        later = f"a start counts it as {will}" if will else "a later one is ongoing"
        return lost if opened.hanging else f"{lost}; {later}"
    return f"{will}; its coordinator writes the marker when it starts" if will else _WORDS[opened.hanging]


def _print(cluster_transactions: ClusterTransactions) -> None:
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
                transactional_id.transactional_id,
                transactional_id.state,
                transactional_id.producer_id,
                transactional_id.producer_epoch,
                transactional_id.last_update_timestamp,
                transactional_id.start_timestamp if transactional_id.start_timestamp >= 0 else None,
                " ".join(transaction_partitions(transactional_id)),
            ]
            for transactional_id in cluster_transactions.transactional_ids
        ],
    )
    stable = {
        (place.partition.topic, place.partition.partition): (place.last_stable_offset, place.log_end_offset)
        for place in cluster_transactions.producers
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
                open_transaction.topic,
                open_transaction.partition,
                open_transaction.producer.producer_id,
                open_transaction.producer.producer_epoch,
                open_transaction.producer.transaction_start,
                open_transaction.age_ms,
                open_transaction.transactional_id,
                _state_of(open_transaction),
                *stable[open_transaction.topic, open_transaction.partition],
            ]
            for open_transaction in cluster_transactions.open_transactions
        ],
    )


def _print_commands(opened: Sequence[OpenTransaction], server: str | None) -> None:
    """Print the commands that abort each hanging transaction: one for brokers of 3.0 and later, and one for older
    brokers. Transactions that must not be aborted are skipped: those that do not hang, and those that were or may have
    been committed. `server` is the bootstrap server in the commands; if it is None, they have a placeholder.
    """
    with SentenceWriter() as writer:
        for open_transaction in opened:
            if not open_transaction.may_be_aborted:
                continue
            producer = open_transaction.producer.producer_id
            place = escape_controls(f"{open_transaction.topic}-{open_transaction.partition}")
            what = f"to abort the hanging transaction of producer {producer} in {place}"
            writer.write(f"{what}, with brokers of 3.0 and later:")
            writer.write(f"  {escape_controls(abort_command(open_transaction, server))}")
            writer.write("with older brokers:")
            writer.write(f"  {escape_controls(abort_command_before_3_0(open_transaction, server))}")


@click.command(name="transactions")
@PATHS
@selection_options
@click.option("--transactional-id", "names", metavar="ID", multiple=True,
              help="Only this transactional id: a name or a pattern with *, ? and [...]; may be repeated.")  # fmt: skip
@click.option("--bootstrap-server", metavar="HOST:PORT",
              help="HOST:PORT of a broker, for the printed commands that abort hanging transactions.")  # fmt: skip
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

    Exit code 0 if all is well, 1 if something was found, 4 if something could not be read.
    """
    found = transactions(*paths, select=chosen, transactional_ids=names, replica=replica)
    if as_json:
        print_lines(producer_lines(found.producers, found.open_transactions, bootstrap_server))
        print_lines(map(transactional_id_line, found.transactional_ids))
    else:
        _print(found)
        _print_commands(found.open_transactions, bootstrap_server)
    return finish(found.findings)
