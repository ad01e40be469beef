"""`kafkalog offsets`: committed offsets of consumer groups, at present or at an earlier moment, and where they are
stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from msgspec import structs

from kafkalog.cli.clusters.offset_history import show_history
from kafkalog.cli.clusters.reset_csv import reset_lines
from kafkalog.cli.clusters.share_text import print_share_state
from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import CHROOT, JSON, REPLICA
from kafkalog.cli.options.hints import group_tool_words
from kafkalog.cli.options.names import GROUPS
from kafkalog.cli.options.numbers import PARTITION_COUNT
from kafkalog.cli.options.past import AT_ZXID, as_of_time
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.output import LineWriter
from kafkalog.cli.shapes.offsets_lines import OffsetLine, ShareLine
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.groups.group_lines import offset_line, share_line
from kafkalog.cluster.groups.migration import into_kafka, offsets_partitions, zookeeper_script
from kafkalog.cluster.groups.offsets import CommittedOffset
from kafkalog.cluster.questions.moment import Moment
from kafkalog.cluster.questions.offsets import (
    GroupOffset,
    ShareOffset,
    offset_history,
    offsets,
    refuse_several_clusters,
    refuse_without_logs,
    stored_offsets,
)
from kafkalog.cluster.questions.opening import split_zookeeper
from kafkalog.cluster.questions.zookeeper_groups import old_consumers
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.codec.common.advice import Ask
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.directories.selection import Selection, is_glob

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


def _print(committed: Sequence[GroupOffset], *, in_both_places: bool) -> None:
    rows = [_row(offset.commit) for offset in committed]
    columns = list(_COLUMNS)
    if any(offset.log_end_offset is not None for offset in committed):
        columns[_AFTER_OFFSET:_AFTER_OFFSET] = ["log end", "lag"]
        for row, group_offset in zip(rows, committed, strict=True):
            row[_AFTER_OFFSET:_AFTER_OFFSET] = [group_offset.log_end_offset, group_offset.lag]
    if in_both_places:
        columns.append("elsewhere")
        for row, group_offset in zip(rows, committed, strict=True):
            row.append(group_offset.elsewhere)
    print_table("committed", columns, rows)


@click.command(name="offsets")
@PATHS
@GROUPS
@selection_options
@group_tool_words
@click.option("--pending", "only_pending", is_flag=True, help="Show commits of transactions that have not ended.")
@click.option("--history", is_flag=True, help="Show every commit in the log, oldest first for each partition.")
@click.option("--format", "form", type=click.Choice([_RESET_CSV]),
              help="Write a CSV file for kafka-consumer-groups --reset-offsets --from-file.")  # fmt: skip
@click.option("--migrate", type=click.Choice([_KAFKA, _ZOOKEEPER]), help="Migrate offsets from the other storage to "
    "this one.")
@click.option("--into", metavar="DIR", help="With --migrate kafka: the new log directory.")
@click.option(
    "--offsets-partitions",
    type=PARTITION_COUNT,
    metavar="N",
    help="Number of partitions of __consumer_offsets, if no metadata (with --migrate: ZooKeeper) has it [50].",
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

    Also shows the state of share groups for each partition, from `__share_group_state`.

    If a topic's own log is in the paths too, also shows its end offset and the group's lag.  A commit made in a
    transaction counts once the transaction's marker commits it; until then `--pending` lists it.

    A path may be a ZooKeeper directory, where older consumers stored their offsets.  `--migrate kafka --into DIR`
    writes these to a new log directory; `--migrate zookeeper` prints a script for zkCli.sh.

    `--history` shows every change of the offsets: each commit, when it took effect, and how far it moved the offset.

    `--format reset-csv` prints topic, partition and offset if one --group is named; otherwise the group comes first.

    Exit code 0 if all is well, 1 if something was found, 4 if something could not be read.
    """
    only_pending, form, replica = given["only_pending"], given["form"], given["replica"]
    _refuse_contradictions(only_pending=only_pending, form=form, migrate=migrate, into=given["into"], as_json=as_json)
    as_of = Moment(time=given["as_of"], offset=given["at_offset"], zxid=given["zxid"])
    if given["history"]:
        _refuse_with_history({
            "--pending": only_pending, "--format": form, "--migrate": migrate, "--as-of": as_of.time,
            "--at-offset": as_of.offset, "--zxid": as_of.zxid, "--chroot": chroot,
        })  # fmt: skip
        return show_history(offset_history(*paths, groups=groups, select=chosen, replica=replica), as_json=as_json)
    asked: dict[str, Any] = {"groups": groups, "select": chosen, "as_of": as_of, "chroot": chroot, "replica": replica}
    if migrate is not None:
        return _migrate(migrate, paths, asked, given["into"], given["offsets_partitions"], as_json=as_json)
    found = offsets(*paths, **asked, offsets_partitions=given["offsets_partitions"], log_ends=form is None)
    if form is not None:
        refuse_several_clusters(offset.commit for offset in found.committed if offset.commit.zxid is not None)
        one_group = len(groups) == 1 and not is_glob(groups[0])
        _print_plainly(reset_lines((group_offset.commit for group_offset in found.committed), with_group=not one_group))
    elif as_json and only_pending:
        print_lines(_line(group_offset, pending=True) for group_offset in found.pending)
    elif as_json:
        print_lines(map(_line, found.committed))
        print_lines(map(_share_line, found.share))
    else:
        if not only_pending:
            _print(found.committed, in_both_places=found.in_both_places)
            print_share_state(found.share)
        if found.pending or only_pending:
            print_table("waiting for the end of a transaction", _COLUMNS, [_row(each.commit) for each in found.pending])
    return finish(found.findings)


def _line(offset: GroupOffset, *, pending: bool = False) -> OffsetLine:
    return OffsetLine(
        **structs.asdict(offset_line(offset.commit, pending=pending)),
        log_end_offset=offset.log_end_offset,
        lag=offset.lag,
        elsewhere=offset.elsewhere,
    )


def _share_line(share: ShareOffset) -> ShareLine:
    return ShareLine(**structs.asdict(share_line(share.state)), log_end_offset=share.log_end_offset, lag=share.lag)


def _migrate(
    side: str, paths: Sequence[str], asked: Mapping[str, Any], into: str | None, count: int | None, *, as_json: bool
) -> int:
    """Migrate committed offsets to the storage `side` (`kafka` or `zookeeper`), and return the exit code, which the
    findings determine. `asked` has the other options, by name. `count` is the number of partitions of
    `__consumer_offsets`. If `count` is None, the number for `kafka` is the one in ZooKeeper, else 50. For `zookeeper`
    it is the one in the metadata, else a guess.

    For `kafka`, write the offsets of a ZooKeeper directory into the new log directory `into`, and print one row or JSON
    line per group. For `zookeeper`, print a script for zkCli.sh that stores the offsets of Kafka log directories;
    `into` and `as_json` are ignored. If a ZooKeeper directory is given too, the script only has the changes.

    Raises `UsageError` if the paths do not fit `side` or `count` is wrong. For `kafka` it is also raised for a negative
    offset or an empty group id. For `kafka`, `into` must not be None or in a log directory; if it exists, it must be an
    empty directory. For `zookeeper` it is also raised if a group or topic cannot be the name of a znode or be quoted.
    Raises `UnknownName` for a group, topic or partition that is missing. Raises `StorageError` if a file cannot be read
    or written, and the other errors of `stored_offsets`.
    """
    logs, zookeeper = split_zookeeper(paths)
    refuse_without_logs(logs, {
        Ask.AT_OFFSET: asked["as_of"].offset, Ask.REPLICA: asked["replica"],
        Ask.OFFSETS_PARTITIONS: None if side == _KAFKA else count,
    })  # fmt: skip
    if side == _KAFKA and logs:
        raise UsageError("--migrate kafka reads ZooKeeper directories only, and one path is a log directory")
    old = old_consumers(zookeeper, asked["as_of"], asked["chroot"])
    stored = stored_offsets(logs, old, **asked, offsets_partitions=None if side == _KAFKA else count)
    if side == _ZOOKEEPER:
        if not logs:
            raise UsageError(f"--migrate zookeeper needs a log directory with {CONSUMER_OFFSETS_TOPIC}")
        tree = old.tree if old is not None else None
        _print_plainly(zookeeper_script(stored.committed, tree, stored.place(asked["chroot"])))
        return finish(stored.findings)
    if old is None or into is None:
        raise UsageError("--migrate kafka needs a ZooKeeper directory, which holds the offsets")
    partitions = offsets_partitions(old.tree, stored.place(asked["chroot"]), count)
    done = into_kafka(stored.in_zookeeper, into, partitions)
    if as_json:
        print_lines(done)
    else:
        rows = [[each.group, f"{CONSUMER_OFFSETS_TOPIC}-{each.log_partition}", each.offsets] for each in done]
        print_table(f"written into {into}", ["group", "in", "offsets"], rows)
    return finish(stored.findings)


def _print_plainly(lines: Iterable[str]) -> None:
    with LineWriter() as writer:
        for line in lines:
            writer.write(line)


def _refuse_with_history(options: Mapping[str, object]) -> None:
    given = [name for name, value in options.items() if value not in (None, False)]
    if given:
        raise UsageError(f"--history shows every moment: {', '.join(given)} cannot be used with it")


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
