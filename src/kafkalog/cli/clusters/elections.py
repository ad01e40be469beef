"""`kafkalog elections`: terms of controllers, lifetimes of brokers, and changes of leaders and ISRs with their
causes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from kafkalog.cli.clusters.departures import print_departures
from kafkalog.cli.clusters.metadata import CHANGE_COLUMNS, print_changes
from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import CHROOT, JSON, REPLICA
from kafkalog.cli.options.numbers import BROKER_ID
from kafkalog.cli.options.past import AS_OF_POSITION
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, properties_only_for, settings_in
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.shapes.elections_lines import (
    BrokerLine,
    ZookeeperControllerLine,
    ZookeeperPartitionLine,
)
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.kraft.metadata_log import QuorumTerm
from kafkalog.cluster.questions.elections import ZooKeeperElections, departures, elections
from kafkalog.cluster.questions.moment import NOW
from kafkalog.cluster.zookeeper.timeline import LeaderChange, ZxidSpan
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.directories.selection import Selection

__all__ = ["command"]


def _span(span: ZxidSpan) -> dict[str, Any]:
    return {name: getattr(span, name) for name in ("from_zxid", "from_time", "to_zxid", "to_time", "ended_by")}


def _lines(history: ZooKeeperElections) -> Iterator[ZookeeperControllerLine | BrokerLine | ZookeeperPartitionLine]:
    for term in history.terms:
        yield ZookeeperControllerLine(
            chroot=term.chroot, broker=term.broker, epoch=term.epoch, session=term.session, **_span(term.span)
        )
    for life in history.brokers:
        yield BrokerLine(
            chroot=life.chroot, broker=life.broker, epoch=life.epoch, session=life.session, **_span(life.span)
        )
    for change in history.changes:
        yield ZookeeperPartitionLine(
            chroot=change.chroot, zxid=change.zxid, time=change.time, topic=change.topic, partition=change.partition,
            election=change.is_election, cause=change.cause, writer=change.writer,
            before=change.before,
            after=change.after,
        )  # fmt: skip


def _row(change: LeaderChange) -> list[object]:
    state = change.after or change.before
    shown = [state.leader, state.leader_epoch, " ".join(map(str, state.isr))] if state is not None else ["", "", ""]
    return [f"0x{change.zxid:x}", change.time, change.topic, change.partition, change.cause, *shown,
            change.writer]  # fmt: skip


def _span_cells(span: ZxidSpan) -> list[object]:
    end = f"0x{span.to_zxid:x}" if span.to_zxid is not None else ""
    return [f"0x{span.from_zxid:x}", span.from_time, end, span.to_time, span.ended_by]


_SPAN: list[str | Column] = [
    Column("from", drop=2),
    Column("since", Kind.TIME),
    Column("to", drop=3),
    Column("until", Kind.TIME, drop=1),
    Column("ended by", drop=4),
]


_TERMS: list[str | Column] = [
    "leader",
    "epoch",
    Column("from", drop=3),
    Column("since", Kind.TIME),
    Column("to", drop=4),
    Column("until", Kind.TIME, drop=1),
    Column("voters", drop=2),
    Column("granting", drop=5),
]


def _print_zookeeper(history: ZooKeeperElections) -> None:
    cluster = Column("cluster", if_any=True)
    terms = [[term.chroot, term.broker, term.epoch, *_span_cells(term.span)] for term in history.terms]
    print_table("controllers", [cluster, "broker", "epoch", *_SPAN], terms)
    lives = [[each.chroot, each.broker, f"0x{each.epoch:x}", *_span_cells(each.span)] for each in history.brokers]
    print_table("brokers", [cluster, "broker", "epoch", *_SPAN], lives)
    rows = ([change.chroot, *_row(change)] for change in history.changes)
    print_table("partitions", [cluster, "zxid", *CHANGE_COLUMNS, Column("written by", drop=4)], rows)


def _print_kraft(terms: Sequence[QuorumTerm]) -> None:
    print_table(
        "controllers",
        _TERMS,
        [
            [term.leader, term.epoch, term.from_offset, term.from_time, term.to_offset,
             term.to_time, " ".join(map(str, term.voters)), " ".join(map(str, term.granting_voters))]
            for term in terms
        ],
    )  # fmt: skip


@click.command(name="elections")
@PATHS
@selection_options
@click.option("--all", "every", is_flag=True, help="Show every change of a partition, not only new leader epochs.")
@click.option(
    "--against", multiple=True, metavar="LOG_DIR", help="Compare the final state with a broker's log directory."
)
@click.option(
    "--without",
    "brokers",
    multiple=True,
    type=BROKER_ID,
    metavar="BROKER",
    help="Show the elections that follow if this broker left; repeat it for several brokers, one after another.",
)
@click.option("--unclean", is_flag=True, help="With --without: allow unclean elections if no in-sync replica is left.")
@CHROOT
@AS_OF_POSITION
@SERVER_PROPERTIES
@REPLICA
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: tuple[str, ...],
    chosen: Selection,
    against: tuple[str, ...],
    brokers: tuple[int, ...],
    as_json: bool,
    **given: Any,
) -> int:
    """Show controllers, brokers, leader elections and ISR changes, from ZooKeeper's dataDir or a KRaft log directory.

    --without shows what the controller would do if brokers left, optionally --as-of some moment.  --server-properties
    gives the settings that the controller was started with.  A partition that would have no leader is not a finding.

    Exit code 0 if all is well, 1 if something was found, 4 if something could not be read.
    """
    if not brokers:
        properties_only_for(ctx, "--without")
        if given["unclean"] or given["as_of"] is not None:
            raise UsageError("--unclean and --as-of need --without")
    if brokers and (against or given["every"]):
        raise UsageError("--without shows what would be; --against and --all show what was")
    replica, chroot = given["replica"], given["chroot"]
    if brokers:
        left = departures(
            *paths,
            brokers=brokers,
            select=chosen,
            unclean=given["unclean"],
            started_with=settings_in(given["server_properties"]),
            as_of=given["as_of"] or NOW,
            chroot=chroot,
            replica=replica,
        )
        print_departures(left.departures, as_json=as_json)
        return finish(left.findings)
    found = elections(
        *paths, select=chosen, every_change=given["every"], against=against, chroot=chroot, replica=replica
    )
    if isinstance(found, ZooKeeperElections):
        if as_json:
            print_lines(_lines(found))
        else:
            _print_zookeeper(found)
        return finish(found.findings)
    if as_json:
        print_lines(found.terms)
    else:
        _print_kraft(found.terms)
    print_changes(found.changes, as_json=as_json)
    return finish(found.findings)
