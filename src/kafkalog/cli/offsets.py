"""`kafkalog offsets`: what consumer groups have committed, now or at any earlier moment, and where it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import click

from kafkalog.cli.arguments import PATHS, REPLICA
from kafkalog.cli.cluster_options import AS_OF, JSON_LINES, finish, partitions_with, print_lines
from kafkalog.cli.known_topics import groups_at_hand, known_topics
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cli.zookeeper_paths import AT_ZXID, OldConsumers, old_consumers, told_apart
from kafkalog.cluster.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.cross_check import KnownTopic, known_from_zookeeper
from kafkalog.cluster.group_lines import offset_line
from kafkalog.cluster.groups import Group
from kafkalog.cluster.migration import elsewhere, into_kafka, offsets_partitions, zookeeper_script
from kafkalog.cluster.offsets import CommittedOffset, OffsetKey
from kafkalog.cluster.old_group_lines import old_offsets
from kafkalog.cluster.replay import Until
from kafkalog.cluster.zookeeper.kafka_nodes import chroots
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.log import open_all
from kafkalog.log.partition import Partition

__all__ = ["command"]

_KAFKA, _ZOOKEEPER = "kafka", "zookeeper"


def _row(commit: CommittedOffset) -> list[object]:
    return [
        commit.key.group,
        commit.key.topic,
        commit.key.partition,
        commit.offset,
        commit.metadata,
        commit.commit_timestamp,
        commit.expire_timestamp if commit.expire_timestamp >= 0 else None,
        commit.log_partition if commit.zxid is None else commit.source,
        commit.log_offset if commit.zxid is None else f"0x{commit.zxid:x}",
    ]


_COLUMNS: list[str | Column] = [
    "group",
    "topic",
    "partition",
    "offset",
    Column("metadata", drop=2, wraps=True, if_any=True),
    Column("committed", Kind.TIME, drop=1),
    Column("expires", Kind.TIME, drop=3, if_any=True),
    Column("in", drop=5),
    Column("at", drop=4),
]


def _print(committed: Iterable[CommittedOffset], other: Mapping[tuple[str, OffsetKey], int], *, both: bool) -> None:
    columns = [*_COLUMNS, "elsewhere"] if both else _COLUMNS
    rows = ([*_row(each), other.get((each.source, each.key))] if both else _row(each) for each in committed)
    print_table("committed", columns, rows)


def _chosen(old: OldConsumers | None, chroot: str | None, group: str | None) -> tuple[str, list[CommittedOffset]]:
    """The chroot and the offsets below it; `UsageError` where several chroots hold some and none was named."""
    groups = [each for each in (old.groups if old is not None else ()) if group in (None, each.group)]
    if chroot is not None:
        groups = [each for each in groups if each.chroot == chroot.rstrip("/")]
    places = {each.chroot for each in groups if each.offsets}
    if len(places) > 1:
        names = ", ".join(place or "/" for place in sorted(places))
        raise UsageError(f"ZooKeeper holds offsets of several clusters ({names}); --chroot chooses one")
    place = (chroot or "").rstrip("/") or next(iter(places), "")
    return place, [commit for each in groups for commit in old_offsets(each)]


def _groups(
    at_hand: Sequence[Partition],
    old: OldConsumers | None,
    offsets_partitions: int | None,
    until: Until,
    findings: list[Finding],
) -> Sequence[Group]:
    """The groups in Kafka, by the metadata beside them."""
    places = chroots(old.tree.nodes) if old is not None else []
    if old is not None and len(places) == 1:
        topics: Mapping[str, KnownTopic] = known_from_zookeeper(old.tree, places[0])
    else:
        topics = known_topics(at_hand, None, findings) if at_hand else {}
    return groups_at_hand(at_hand, topics, offsets_partitions, until, findings)


def _migrate_to_kafka(
    old: OldConsumers, chroot: str, offsets: list[CommittedOffset], into: str, partitions: int | None, *, as_json: bool
) -> int:
    done = into_kafka(offsets, into, offsets_partitions(old.tree, chroot, partitions))
    if as_json:
        print_lines({"group": each.group, "logPartition": each.log_partition, "offsets": each.offsets} for each in done)
    else:
        rows = [[each.group, f"{CONSUMER_OFFSETS_TOPIC}-{each.log_partition}", each.offsets] for each in done]
        print_table(f"written into {into}", ["group", "in", "offsets"], rows)
    return Outcome.CHANGED if done else Outcome.CLEAN


@click.command(name="offsets")
@PATHS
@JSON_LINES
@click.option("--group", help="Only this group.")
@click.option("--pending", "only_pending", is_flag=True, help="Commits of transactions that have not ended.")
@click.option("--migrate", type=click.Choice([_KAFKA, _ZOOKEEPER]), help="Carry the offsets of the other one over.")
@click.option("--into", metavar="DIR", help="With --migrate kafka: the new log directory.")
@click.option(
    "--offsets-partitions",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="How many partitions __consumer_offsets has, where no metadata (with --migrate, ZooKeeper) says so [50].",
)
@click.option("--chroot", metavar="ZNODE", help="Only the cluster below this node of ZooKeeper.")
@AS_OF
@AT_ZXID
@REPLICA
def command(
    paths: tuple[str, ...],
    as_json: bool,
    group: str | None,
    only_pending: bool,
    migrate: str | None,
    into: str | None,
    offsets_partitions: int | None,
    chroot: str | None,
    at_offset: int | None,
    at: int | None,
    zxid: int | None,
    replica: str | None,
) -> int:
    """The last committed offset of every group and partition, from `__consumer_offsets`.

    A commit in a transaction counts when the transaction's marker says so; until then `--pending` lists it.

    A path may be a directory of ZooKeeper's, where older consumers stored their offsets.  `--migrate kafka --into DIR`
    writes these into a new log directory; `--migrate zookeeper` prints a script for zkCli.sh.
    """
    logs, zookeeper = told_apart(paths)
    if at_offset is not None and not logs:
        raise UsageError("--at-offset is of __consumer_offsets, and no path is a log directory; --zxid is ZooKeeper's")
    old = old_consumers(zookeeper, zxid, at)
    if (into is not None) is not (migrate == _KAFKA):
        raise UsageError("--into belongs to --migrate kafka, which needs it")
    at_hand = partitions_with(open_all(*logs), CONSUMER_OFFSETS_TOPIC, replica) if logs else ()
    findings = [*old.findings] if old is not None else []
    groups = _groups(at_hand, old, None if migrate == _KAFKA else offsets_partitions, Until(at_offset, at), findings)
    if group is not None:
        groups = [each for each in groups if each.group_id == group]
        if not groups and not any(each.group == group for each in (old.groups if old is not None else ())):
            raise UsageError(f"there is no group {group} here")
    committed = sorted((commit for each in groups for commit in each.offsets), key=lambda commit: commit.key)
    pending = sorted(
        (commit for each in groups for commit in each.pending), key=lambda commit: (commit.key, commit.producer_id)
    )
    if migrate == _KAFKA:
        if old is None or into is None:
            raise UsageError("--migrate kafka needs a directory of ZooKeeper's, which holds the offsets")
        place, offsets = _chosen(old, chroot, group)
        outcome = _migrate_to_kafka(old, place, offsets, into, offsets_partitions, as_json=as_json)
        return max(outcome, finish(findings))
    if migrate == _ZOOKEEPER:
        if not logs:
            raise UsageError(f"--migrate zookeeper needs a log directory with {CONSUMER_OFFSETS_TOPIC}")
        place, _ = _chosen(old, chroot, group)
        with LineWriter() as writer:
            for line in zookeeper_script(committed, old.tree if old is not None else None, place):
                writer.write(line)
        return finish(findings)
    stored = [
        commit
        for each in (old.groups if old is not None else ())
        if group in (None, each.group) and chroot in (None, each.chroot or "/")
        for commit in old_offsets(each)
    ]
    other = {(_KAFKA, key): offset for key, offset in elsewhere(committed, stored).items()}
    other.update({(_ZOOKEEPER, key): offset for key, offset in elsewhere(stored, committed).items()})
    both = sorted([*committed, *stored], key=lambda each: each.key)
    if as_json and only_pending:
        print_lines(offset_line(each, pending=True) for each in pending)
    elif as_json:
        print_lines({**offset_line(each), "elsewhere": other.get((each.source, each.key))} for each in both)
    else:
        if not only_pending:
            _print(both, other, both=old is not None and bool(logs))
        if pending or only_pending:
            print_table("waiting for the end of a transaction", _COLUMNS, map(_row, pending))
    return finish(findings)
