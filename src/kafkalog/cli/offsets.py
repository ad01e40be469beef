"""`kafkalog offsets`: what consumer groups have committed, now or at any earlier moment."""

from __future__ import annotations

import click

from kafkalog.cli.arguments import PATHS, REPLICA
from kafkalog.cli.cluster_options import AS_OF, JSON_LINES, finish, partitions_with, print_lines
from kafkalog.cli.output import print_table
from kafkalog.cli.times import time_text
from kafkalog.cluster.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.group_lines import offset_line
from kafkalog.cluster.offsets import CommittedOffset, read_offsets
from kafkalog.cluster.replay import Until
from kafkalog.log import open_all

__all__ = ["command"]


def _row(commit: CommittedOffset) -> list[object]:
    return [
        commit.key.group,
        commit.key.topic,
        commit.key.partition,
        commit.offset,
        commit.metadata,
        time_text(commit.commit_timestamp),
        time_text(commit.expire_timestamp) if commit.expire_timestamp >= 0 else "",
        commit.log_partition,
        commit.log_offset,
    ]


_COLUMNS = ["group", "topic", "partition", "offset", "metadata", "committed", "expires", "in", "at"]


@click.command(name="offsets")
@PATHS
@JSON_LINES
@click.option("--group", help="Only this group.")
@click.option("--pending", "only_pending", is_flag=True, help="Commits of transactions that have not ended.")
@AS_OF
@REPLICA
def command(
    paths: tuple[str, ...],
    as_json: bool,
    group: str | None,
    only_pending: bool,
    at_offset: int | None,
    at: int | None,
    replica: str | None,
) -> int:
    """The last committed offset of every group and partition, from `__consumer_offsets`.

    A commit in a transaction counts when the transaction's marker says so; until then `--pending` lists it.
    """
    partitions = partitions_with(open_all(*paths), CONSUMER_OFFSETS_TOPIC, replica)
    found = read_offsets(partitions, until=Until(at_offset, at))
    committed = [each for each in found.committed if group in (None, each.key.group)]
    pending = [each for each in found.pending if group in (None, each.key.group)]
    if as_json:
        print_lines(offset_line(each, pending=only_pending) for each in (pending if only_pending else committed))
    else:
        if not only_pending:
            print_table("committed", _COLUMNS, map(_row, committed))
        if pending or only_pending:
            print_table("waiting for the end of a transaction", _COLUMNS, map(_row, pending))
    return finish(found.findings)
