"""`kafkalog elections`: who was controller, which brokers lived, how leaders and ISRs changed, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from kafkalog.cli.clusters.against import compared
from kafkalog.cli.clusters.departures import print_departures
from kafkalog.cli.clusters.metadata import (
    CHANGE_COLUMNS,
    metadata_log,
    offset_of,
    print_changes,
    refuse_beyond_end,
    zxid_of,
)
from kafkalog.cli.clusters.zookeeper_paths import chosen_chroot
from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import CHROOT, JSON, REPLICA
from kafkalog.cli.options.numbers import BROKER_ID
from kafkalog.cli.options.past import AS_OF_POSITION
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, properties_only_for, settings_in
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.shapes.elections_lines import (
    BrokerLine,
    ControllerLine,
    ZookeeperControllerLine,
    ZookeeperPartitionLine,
    ZookeeperStateLine,
)
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.cross_check import KnownTopic, cluster_ids, known_from_image, known_from_zookeeper
from kafkalog.cluster.kraft.departures import kraft_departures
from kafkalog.cluster.kraft.metadata_history import partition_changes
from kafkalog.cluster.kraft.metadata_image import PartitionImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.rules.departures import Departure
from kafkalog.cluster.transactions.producer_ids import next_block_of_zookeeper
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.cluster_id import bad_cluster_ids
from kafkalog.cluster.zookeeper.departures import zookeeper_departures
from kafkalog.cluster.zookeeper.directory import ZooKeeperDirectory
from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState, chroots
from kafkalog.cluster.zookeeper.timeline import LeaderChange, Span, Timeline, timeline
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.log.directories.selection import Selection

__all__ = ["command"]


def _span(span: Span) -> dict[str, Any]:
    return {name: getattr(span, name) for name in ("from_zxid", "from_time", "to_zxid", "to_time", "ended_by")}


def _lines(found: Timeline) -> Iterator[ZookeeperControllerLine | BrokerLine | ZookeeperPartitionLine]:
    for term in found.terms:
        yield ZookeeperControllerLine(
            chroot=term.chroot, broker=term.broker, epoch=term.epoch, session=term.session, **_span(term.span)
        )
    for life in found.brokers:
        yield BrokerLine(
            chroot=life.chroot, broker=life.broker, epoch=life.epoch, session=life.session, **_span(life.span)
        )
    for change in found.changes:
        yield ZookeeperPartitionLine(
            chroot=change.chroot, zxid=change.zxid, time=change.time, topic=change.topic, partition=change.partition,
            election=change.is_election, cause=change.cause, writer=change.writer,
            before=None if change.before is None else shaped(change.before, ZookeeperStateLine),
            after=None if change.after is None else shaped(change.after, ZookeeperStateLine),
        )  # fmt: skip


def _row(change: LeaderChange) -> list[object]:
    state = change.after or change.before
    shown = [state.leader, state.leader_epoch, " ".join(map(str, state.isr))] if state is not None else ["", "", ""]
    return [f"0x{change.zxid:x}", change.time, change.topic, change.partition, change.cause, *shown,
            change.writer]  # fmt: skip


def _span_cells(span: Span) -> list[object]:
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


def _print_zookeeper(found: Timeline, changes: list[LeaderChange]) -> None:
    cluster = Column("cluster", if_any=True)
    terms = [[each.chroot, each.broker, each.epoch, *_span_cells(each.span)] for each in found.terms]
    print_table("controllers", [cluster, "broker", "epoch", *_SPAN], terms)
    lives = [[each.chroot, each.broker, f"0x{each.epoch:x}", *_span_cells(each.span)] for each in found.brokers]
    print_table("brokers", [cluster, "broker", "epoch", *_SPAN], lives)
    rows = ([each.chroot, *_row(each)] for each in changes)
    print_table("partitions", [cluster, "zxid", *CHANGE_COLUMNS, Column("written by", drop=4)], rows)


def _kraft(log: MetadataLog, *, as_json: bool, chosen: Selection, every: bool, findings: list[Finding]) -> None:
    terms = log.terms(findings)
    changes = list(partition_changes(log, findings))
    known = [(name, number) for name, topic in log.state().image.topics.items() for number in topic.partitions]
    chosen.check([*known, *((each.topic, each.partition) for each in changes)])
    changes = [each for each in changes if (every or each.is_election) and chosen.takes(each.topic, each.partition)]
    if as_json:
        print_lines(terms, ControllerLine)
    else:
        print_table(
            "controllers",
            _TERMS,
            [
                [each.leader, each.epoch, each.from_offset, each.from_time, each.to_offset,
                 each.to_time, " ".join(map(str, each.voters)), " ".join(map(str, each.granting_voters))]
                for each in terms
            ],
        )  # fmt: skip
    print_changes(changes, as_json=as_json)


def _departures(
    paths: tuple[str, ...],
    directory: ZooKeeperDirectory | None,
    brokers: tuple[int, ...],
    chosen: Selection,
    findings: list[Finding],
    given: Mapping[str, Any],
) -> Iterator[Departure[PartitionImage] | Departure[PartitionState]]:
    unclean, as_of, chroot = given["unclean"], given["as_of"], given["chroot"]
    static = settings_in(given["server_properties"])
    if directory is None:
        log = metadata_log(paths, given["replica"], findings)
        at = offset_of(log, as_of)
        state = log.state(at)
        refuse_beyond_end(at, state)
        findings += state.findings
        chosen.check(_keys(known_from_image(state.image)))
        terms = [each for each in log.terms([]) if at is None or each.from_offset < at]
        controller = terms[-1].leader if terms else None
        yield from kraft_departures(state.image, brokers, unclean=unclean, controller=controller, static=static)
        return
    at = zxid_of(directory, as_of)
    found = tree_at(directory, at)
    findings += found.findings
    places = chroots(found.tree.nodes)
    if chroot is not None:
        places = [chosen_chroot(places, chroot)]
    if len(places) != 1:
        names = ", ".join(place or "/" for place in places)
        raise UsageError(f"--without needs one cluster, and there are {len(places)} ({names}); --chroot chooses one")
    chosen.check(_keys(known_from_zookeeper(found.tree, places[0])))
    yield from zookeeper_departures(found.tree, places[0], brokers, unclean=unclean, static=static)


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
    help="Show what would happen to partitions if this broker left; repeat it for several, one after another.",
)
@click.option("--unclean", is_flag=True, help="With --without: allow unclean elections if no replica in sync is left.")
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

    --without shows what the controller would do if brokers left, optionally --as-of some moment and with the settings
    in --server-properties that it was started with.  A partition left without a leader is an answer, not a finding:
    the exit code reports only damage.
    """
    if not brokers:
        properties_only_for(ctx, "--without")
        if given["unclean"] or given["as_of"] is not None:
            raise UsageError("--unclean and --as-of need --without")
    if brokers and (against or given["every"]):
        raise UsageError("--without shows what would be; --against and --all show what was")
    try:
        directory = open_zookeeper(*paths)
    except UsageError:
        directory = None
    if directory is not None and given["replica"] is not None:
        raise UsageError("--replica chooses among log directories, and this is ZooKeeper's directory")
    if directory is None and given["chroot"] is not None:
        raise UsageError("--chroot is a ZooKeeper node, and this is not a directory of its logs")
    findings: list[Finding] = []
    if brokers:
        left = _departures(paths, directory, brokers, chosen, findings, given)
        wanted = [each for each in left if chosen.takes(each.topic, each.partition)]
        print_departures(wanted, as_json=as_json)
        return finish(findings)
    if directory is None:
        log = metadata_log(paths, given["replica"], findings)
        _kraft(log, as_json=as_json, chosen=chosen, every=given["every"], findings=findings)
        if against:
            image = log.state().image
            findings += compared(against, known_from_image(image), image.next_producer_id, {})
        return finish(findings)
    _zookeeper(
        directory, given["chroot"], against, as_json=as_json, chosen=chosen, every=given["every"], findings=findings
    )
    return finish(findings)


def _zookeeper(
    directory: ZooKeeperDirectory,
    chroot: str | None,
    against: tuple[str, ...],
    *,
    as_json: bool,
    chosen: Selection,
    every: bool,
    findings: list[Finding],
) -> None:
    found = timeline(directory)
    findings += found.findings
    known: dict[str, KnownTopic] = {}
    places = chroots(found.tree.nodes)
    if chroot is not None:
        places = [chosen_chroot(places, chroot)]
        found = found.of(places[0])
    if against and len(places) > 1:
        names = ", ".join(place or "/" for place in places)
        raise UsageError(f"ZooKeeper knows several clusters ({names}), and --against is about one; --chroot chooses it")
    for place in places:
        known.update(known_from_zookeeper(found.tree, place))
    chosen.check([*_keys(known), *((each.topic, each.partition) for each in found.changes)])
    changes = [
        each for each in found.changes if chosen.takes(each.topic, each.partition) and (every or each.is_election)
    ]
    if as_json:
        print_lines(_lines(Timeline(terms=found.terms, brokers=found.brokers, changes=changes)))
    else:
        _print_zookeeper(found, changes)
    if against:
        next_block = next_block_of_zookeeper(found.tree, places[0]) if len(places) == 1 else None
        findings += compared(against, known, next_block, cluster_ids(found.tree))
    findings += bad_cluster_ids(found.tree, chroot, directory.paths[0])


def _keys(known: Mapping[str, KnownTopic]) -> list[tuple[str, int]]:
    return [(name, number) for name, topic in known.items() for number in topic.partitions]
