"""Kafka's command that ends a hanging transaction (`TransactionsCommand.AbortTransactionCommand`, KIP-664)."""

from __future__ import annotations

from kafkalog.cluster.transactions.transactions import OpenTransaction
from kafkalog.codec.common.shell import shell_line, shell_option

__all__ = ["PLACEHOLDER", "abort_command", "abort_command_at", "abort_command_before_3_0"]

PLACEHOLDER = "HOST:PORT"


def abort_command(transaction: OpenTransaction, bootstrap_server: str | None = None) -> str:
    """Command line that aborts the transaction on brokers of 3.0 and later, which find the producer by the
    transaction's first offset; quoted for a shell. If `bootstrap_server` is None, it has a placeholder.
    """
    return abort_command_at(
        transaction.topic, transaction.partition, transaction.producer.transaction_start, bootstrap_server
    )


def abort_command_at(topic: str, partition: int, first_offset: int | None, bootstrap_server: str | None = None) -> str:
    """Command for brokers of 3.0 and later that aborts the transaction that begins at `first_offset`."""
    return shell_line([*_beginning(topic, partition, bootstrap_server), "--start-offset", str(first_offset)])


def abort_command_before_3_0(transaction: OpenTransaction, bootstrap_server: str | None = None) -> str:
    """Command line that aborts the transaction on brokers before 3.0, which need all ids and epochs; quoted for a
    shell.

    If the coordinator epoch is unknown, 0 is used, as in Kafka's own command for a producer whose first transaction
    hangs. If `bootstrap_server` is None, the command has a placeholder.
    """
    producer = transaction.producer
    named = {
        "--producer-id": producer.producer_id,
        "--producer-epoch": producer.producer_epoch,
        "--coordinator-epoch": producer.coordinator_epoch or 0,
    }
    words = [word for name, value in named.items() for word in (name, str(value))]
    return shell_line([*_beginning(transaction.topic, transaction.partition, bootstrap_server), *words])


def _beginning(topic: str, partition: int, bootstrap_server: str | None) -> list[str]:
    return [
        "kafka-transactions.sh", "--bootstrap-server", bootstrap_server or PLACEHOLDER, "abort",
        *shell_option("--topic", topic), "--partition", str(partition),
    ]  # fmt: skip
