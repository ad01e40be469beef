"""`kafkalog offsets`: what consumer groups have committed, now or at any earlier moment, and where it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from msgspec import structs

from kafkalog.cli.clusters.known_topics import groups_at_hand, known_topics
from kafkalog.cli.clusters.log_ends import LogEnds
from kafkalog.cli.clusters.offset_history import show_history
from kafkalog.cli.clusters.reset_csv import reset_lines
from kafkalog.cli.clusters.share_text import groups_in, print_share_state, share_lag
from kafkalog.cli.clusters.zookeeper_paths import (
    OldConsumers,
    chosen_chroot,
    old_consumers,
    refuse_without_logs,
    told_apart,
)
from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import CHROOT, JSON, REPLICA
from kafkalog.cli.options.hints import group_tool_words
from kafkalog.cli.options.names import GROUPS, chosen_names
from kafkalog.cli.options.numbers import PARTITION_COUNT
from kafkalog.cli.options.past import AT_ZXID, as_of_time
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.selection import selection_options, topic_names
from kafkalog.cli.output import LineWriter
from kafkalog.cli.shapes.offsets_lines import MigratedLine, OffsetLine, ShareLine
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.cross_check import KnownTopic, known_from_zookeeper
from kafkalog.cluster.groups.group_lines import offset_line, share_line
from kafkalog.cluster.groups.migration import elsewhere, into_kafka, offsets_partitions, zookeeper_script
from kafkalog.cluster.groups.offsets import CommittedOffset, OffsetKey
from kafkalog.cluster.groups.old_group_lines import old_offsets
from kafkalog.cluster.groups.share_state import SharePartition
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.records.replay import Until
from kafkalog.cluster.zookeeper.kafka_nodes import chroots
from kafkalog.cluster.zookeeper.old_consumers import OldGroup
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection, is_glob
from kafkalog.words.exit_codes import ExitCode

__all__ = ["command"]

_KAFKA, _ZOOKEEPER = "kafka", "zookeeper"
_RESET_CSV = "reset-csv"


def _row(commit: CommittedOffset) -> list[object]:
    return [
        commit.key.group,
        commit.key.topic,
        commit.key.partition,
        commit.offset if commit.is_commit else "none",
        commit.metadata,
        commit.commit_timestamp,
        commit.expire_timestamp if commit.expire_timestamp >= 0 else None,
        commit.log_partition if commit.zxid is None else commit.source,
        commit.log_offset if commit.zxid is None else f"0x{commit.zxid:x}",
        commit.chroot,
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
    Column("cluster", drop=0, if_any=True),
]
_AFTER_OFFSET = 4


def _print(
    committed: Sequence[CommittedOffset], other: Mapping[tuple[str, OffsetKey], int], ends: LogEnds, *, both: bool
) -> None:
    rows = [_row(each) for each in committed]
    columns = list(_COLUMNS)
    if any(ends.of(each) is not None for each in committed):
        columns[_AFTER_OFFSET:_AFTER_OFFSET] = ["log end", "lag"]
        for row, each in zip(rows, committed, strict=True):
            row[_AFTER_OFFSET:_AFTER_OFFSET] = [ends.of(each), ends.lag(each)]
    if both:
        columns.append("elsewhere")
        for row, each in zip(rows, committed, strict=True):
            row.append(other.get((each.source, each.key)))
    print_table("committed", columns, rows)


def _place(chroot: str | None, groups: Sequence[OldGroup]) -> str:
    """The chroot that is meant; `UsageError` where several hold offsets and none was named."""
    places = {each.chroot for each in groups if each.offsets}
    if len(places) > 1:
        names = ", ".join(place or "/" for place in sorted(places))
        raise UsageError(f"ZooKeeper holds offsets of several clusters ({names}); --chroot chooses one")
    return (chroot or "").rstrip("/") or next(iter(places), "")


def _in_zookeeper(old: OldConsumers | None, chroot: str | None) -> list[OldGroup]:
    """The groups below a chroot, or all."""
    if old is None:
        return []
    if chroot is None:
        return list(old.groups)
    place = chosen_chroot({each.chroot for each in old.groups} | set(chroots(old.tree.nodes)), chroot)
    return [each for each in old.groups if each.chroot == place]


def _refuse_several_clusters(
    committed: Sequence[CommittedOffset], stored: Sequence[CommittedOffset], form: str | None
) -> None:
    """`UsageError` where offsets of several clusters would be taken for those of one."""
    places = {each.chroot or "/" for each in stored}
    if len(places) > 1 and (committed or form == _RESET_CSV):
        names = ", ".join(sorted(places))
        raise UsageError(f"ZooKeeper holds offsets of several clusters ({names}); --chroot chooses one")


def _topics(
    at_hand: Sequence[Partition], old: OldConsumers | None, until: Until, findings: list[Finding]
) -> Mapping[str, KnownTopic]:
    """The topics of the metadata beside the groups."""
    places = chroots(old.tree.nodes) if old is not None else []
    if old is not None and len(places) == 1:
        return known_from_zookeeper(old.tree, places[0])
    return known_topics(at_hand, None, until, findings) if at_hand else {}


def _keys(
    commits: Iterable[CommittedOffset], at_hand: Iterable[Partition], topics: Mapping[str, KnownTopic]
) -> set[tuple[str, int]]:
    """Every topic-partition that anything here knows."""
    keys = {(each.key.topic, each.key.partition) for each in commits}
    keys.update(topic_names(at_hand))
    return keys | {(name, number) for name, topic in topics.items() for number in topic.partitions}


def _migrate_to_kafka(
    old: OldConsumers, chroot: str, offsets: list[CommittedOffset], into: str, partitions: int | None, *, as_json: bool
) -> int:
    done = into_kafka(offsets, into, offsets_partitions(old.tree, chroot, partitions))
    if as_json:
        print_lines(done, MigratedLine)
    else:
        rows = [[each.group, f"{CONSUMER_OFFSETS_TOPIC}-{each.log_partition}", each.offsets] for each in done]
        print_table(f"written into {into}", ["group", "in", "offsets"], rows)
    return ExitCode.CLEAN


@click.command(name="offsets")
@PATHS
@GROUPS
@selection_options
@group_tool_words
@click.option("--pending", "only_pending", is_flag=True, help="Show commits of transactions that have not ended.")
@click.option("--history", is_flag=True, help="Show every commit that is still in the log, oldest first.")
@click.option("--format", "form", type=click.Choice([_RESET_CSV]),
              help="Write a file for kafka-consumer-groups --reset-offsets --from-file.")  # fmt: skip
@click.option("--migrate", type=click.Choice([_KAFKA, _ZOOKEEPER]), help="Migrate offsets to this side from the other.")
@click.option("--into", metavar="DIR", help="With --migrate kafka: the new log directory.")
@click.option(
    "--offsets-partitions",
    type=PARTITION_COUNT,
    metavar="N",
    help="How many partitions __consumer_offsets has, if no metadata (with --migrate, ZooKeeper) says [50].",
)
@CHROOT
@as_of_time
@AT_ZXID
@paths_in_properties
@REPLICA
@JSON
def command(
    paths: tuple[str, ...],
    groups: tuple[str, ...],
    chosen: Selection,
    migrate: str | None,
    chroot: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Show the last committed offset of every group and partition, from `__consumer_offsets`.

    Also shows what share groups have of each partition, from `__share_group_state`.

    If a topic's own log is in the paths too, also shows its end offset and the group's lag.  A commit made in a
    transaction counts once the transaction's marker commits it; until then `--pending` lists it.

    A path may be a ZooKeeper directory, where older consumers stored their offsets.  `--migrate kafka --into DIR`
    writes these to a new log directory; `--migrate zookeeper` prints a script for zkCli.sh.

    `--history` shows how the offsets came to be: each commit, when it counted, and how far it moved the offset.

    `--format reset-csv` prints topic, partition and offset if one --group is named; otherwise the group comes first.
    """
    only_pending, form, into = given["only_pending"], given["form"], given["into"]
    as_of, at_offset, zxid = given["as_of"], given["at_offset"], given["zxid"]
    _refuse_contradictions(only_pending=only_pending, form=form, migrate=migrate, into=into, as_json=as_json)
    logs, zookeeper = told_apart(paths)
    if given["history"]:
        others = {"--pending": only_pending, "--format": form, "--migrate": migrate, "--as-of": as_of,
                  "--at-offset": at_offset, "--at-zxid": zxid, "--chroot": chroot}  # fmt: skip
        return show_history(logs, zookeeper, others, given["replica"], groups, chosen, as_json=as_json)
    counted = None if migrate == _KAFKA else given["offsets_partitions"]
    refuse_without_logs(logs, at_offset=at_offset, replica=given["replica"], offsets_partitions=counted)
    if migrate == _KAFKA and logs:
        raise UsageError("--migrate kafka reads ZooKeeper directories only, and one path is a log directory")
    if zookeeper is None and chroot is not None and migrate != _ZOOKEEPER:
        raise UsageError("--chroot is a ZooKeeper node, and none of the paths is a directory of its logs")
    old = old_consumers(zookeeper, zxid, as_of, chroot)
    findings = [*old.findings] if old is not None else []
    at_hand = groups_in(logs, given["replica"], findings)
    until = Until(at_offset, as_of)
    known = _topics(at_hand, old, until, findings)
    all_groups, why_unknown = groups_at_hand(at_hand, known, counted, until, findings)
    met = _in_zookeeper(old, None if migrate == _ZOOKEEPER and old is None else chroot)
    names = [*(each.group_id for each in all_groups), *(each.group for each in met)]
    is_meant = chosen_names("group", groups, names, why_unknown, findings)
    found = [each for each in all_groups if is_meant(each.group_id)]
    met = [each for each in met if is_meant(each.group)]
    committed = sorted((commit for each in found for commit in each.offsets), key=lambda commit: commit.key)
    pending = sorted(
        (commit for each in found for commit in each.pending), key=lambda commit: (commit.key, commit.producer_id)
    )
    stored = [commit for each in met for commit in old_offsets(each)]
    share = [state for each in found for state in each.share]
    keys = _keys((*committed, *pending, *stored), at_hand, known)
    chosen.check(keys | {(each.topic, each.partition) for each in share if each.topic is not None})
    share = [each for each in share if chosen.takes(each.topic, each.partition)]
    committed, pending, stored = (
        [each for each in commits if chosen.takes(each.key.topic, each.key.partition)]
        for commits in (committed, pending, stored)
    )
    if migrate == _KAFKA:
        if old is None or into is None:
            raise UsageError("--migrate kafka needs a ZooKeeper directory, which holds the offsets")
        place = _place(chroot, met)
        outcome = _migrate_to_kafka(old, place, stored, into, given["offsets_partitions"], as_json=as_json)
        return max(outcome, finish(findings))
    if migrate == _ZOOKEEPER:
        if not logs:
            raise UsageError(f"--migrate zookeeper needs a log directory with {CONSUMER_OFFSETS_TOPIC}")
        place = _place(chroot, met)
        _print_plainly(zookeeper_script(committed, old.tree if old is not None else None, place))
        return finish(findings)
    _refuse_several_clusters(committed, stored, form)
    both = sorted([*committed, *stored], key=lambda each: (each.key, each.chroot or ""))
    if form == _RESET_CSV:
        one_group = len(groups) == 1 and not is_glob(groups[0])
        _print_plainly(reset_lines(both, with_group=not one_group))
        return finish(findings)
    other = {(_KAFKA, key): offset for key, offset in elsewhere(committed, stored).items()}
    other.update({(_ZOOKEEPER, key): offset for key, offset in elsewhere(stored, committed).items()})
    is_now = as_of is None and at_offset is None and zxid is None
    ends = LogEnds(at_hand if is_now else (), given["replica"], findings)
    ends.note_beyond(both)
    if as_json and only_pending:
        print_lines(_line(each, other, ends, pending=True) for each in pending)
    elif as_json:
        print_lines(_line(each, other, ends) for each in both)
        print_lines(_share_line(each, ends) for each in share)
    else:
        if not only_pending:
            _print(both, other, ends, both=old is not None and bool(logs))
            print_share_state(share, ends)
        if pending or only_pending:
            print_table("waiting for the end of a transaction", _COLUMNS, map(_row, pending))
    return finish(findings)


def _line(
    commit: CommittedOffset, other: Mapping[tuple[str, OffsetKey], int], ends: LogEnds, *, pending: bool = False
) -> OffsetLine:
    return OffsetLine(
        **structs.asdict(offset_line(commit, pending=pending)),
        log_end_offset=ends.of(commit),
        lag=ends.lag(commit),
        elsewhere=other.get((commit.source, commit.key)),
    )


def _share_line(state: SharePartition, ends: LogEnds) -> ShareLine:
    end = None if state.topic is None else ends.of_partition(state.topic, state.partition)
    return ShareLine(**structs.asdict(share_line(state)), log_end_offset=end, lag=share_lag(state, end))


def _print_plainly(lines: Iterable[str]) -> None:
    with LineWriter() as writer:
        for line in lines:
            writer.write(line)


def _refuse_contradictions(
    *, only_pending: bool, form: str | None, migrate: str | None, into: str | None, as_json: bool
) -> None:
    if (into is not None) is not (migrate == _KAFKA):
        raise UsageError("--into belongs to --migrate kafka, which needs it")
    if migrate is not None and only_pending:
        raise UsageError("--pending lists what is not committed, and --migrate carries over what is")
    if migrate == _ZOOKEEPER and as_json:
        raise UsageError("--migrate zookeeper prints a script, not JSON")
    if form is not None and (migrate is not None or only_pending or as_json):
        raise UsageError(
            f"--format {form} is a form of its own: --json, --pending and --migrate cannot be used with it"
        )
