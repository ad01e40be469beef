"""`kafkalog groups`: groups, their members and the assignment of each member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from kafkalog.cli.clusters.old_groups_text import AS_DERIVED, old_row, print_old_groups
from kafkalog.cli.clusters.share_text import print_share_state
from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import CHROOT, JSON, REPLICA
from kafkalog.cli.options.hints import group_tool_words
from kafkalog.cli.options.names import GROUPS
from kafkalog.cli.options.numbers import PARTITION_COUNT
from kafkalog.cli.options.pairs import pairs_of
from kafkalog.cli.options.past import AT_ZXID, as_of_time
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.assignors.assignors import Assignment
from kafkalog.cluster.groups.group_lines import group_line, names_by_member, names_of
from kafkalog.cluster.groups.groups import Group
from kafkalog.cluster.groups.old_group_lines import as_group, old_group_line
from kafkalog.cluster.questions.groups import ClusterGroups, Rebalance, groups
from kafkalog.cluster.questions.moment import Moment
from kafkalog.cluster.questions.offsets import ShareOffset
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.names import parse_java_long
from kafkalog.log.directories.selection import Selection

__all__ = ["command"]


_MOST_PARTITIONS = 100_000


def _print_what_if(title: str, groups: Iterable[Group], assignment: Callable[[Group], Assignment | None]) -> None:
    rows = [
        [group.group_id, member, " ".join(names or [])]
        for group in groups
        for member, names in (names_by_member(assignment(group)) or {}).items()
    ]
    print_table(title, ["group", "member", Column("assignment", wraps=True)], rows)


def _print(found: ClusterGroups) -> None:
    change = found.rebalance
    _print_groups(found)
    _print_members([*found.groups, *map(as_group, found.old_groups)])
    print_share_state([
        ShareOffset(state=state, log_end_offset=None, lag=None) for group in found.groups for state in group.share
    ])  # fmt: skip
    if change.without is not None:
        leaving = [group for group in found.groups if change.without in {member.member_id for member in group.members}]
        if leaving:
            _print_what_if(f"without {change.without}", leaving, found.after_leaving)
    if change.joining is not None and any(group.members for group in found.groups):
        members = [group for group in found.groups if group.members]
        _print_what_if(f"with {change.joining}", members, found.after_joining)
    if change.growth is not None:
        concerned = [group for group in found.groups if change.growth.concerns(group)]
        _print_what_if("with these topics and partitions", concerned, found.after_growth)
    print_old_groups(found.old_groups, change.without, change.joining)


def _print_groups(cluster_groups: ClusterGroups) -> None:
    print_table(
        "groups",
        [
            "group",
            Column("type", drop=3),
            "state",
            Column("since", Kind.TIME, drop=4),
            Column("assignor", drop=2),
            Column("generation", drop=5),
            "members",
            Column("offsets", drop=1),
            Column("in", drop=7),
            Column("coordinator", drop=8, if_any=True),
            Column("as derived", drop=6),
        ],
        [
            [
                group.group_id,
                group.type,
                group.state,
                group.state_timestamp,
                group.assignor,
                group.generation if group.epoch is None else group.epoch,
                len(group.members),
                sum(commit.is_commit for commit in group.offsets),
                group.log_partition if group.log_partition >= 0 else None,
                group.coordinator,
                AS_DERIVED[cluster_groups.verdict(group).same],
            ]
            for group in cluster_groups.groups
        ]
        + [old_row(old_group) for old_group in cluster_groups.old_groups],
    )


def _print_members(groups: Sequence[Group]) -> None:
    members = [(group, member) for group in groups for member in group.members]
    if members:
        print_table(
            "members",
            [
                "group",
                Column("member", wraps=True),
                Column("instance", drop=3, if_any=True),
                Column("client", drop=2),
                Column("host", drop=1),
                Column("assignment", wraps=True),
            ],
            [
                [
                    group.group_id,
                    member.member_id + (" (leader)" if member.member_id == group.leader else ""),
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    " ".join(names_of(member.assignment) or []),
                ]
                for group, member in members
            ],
        )


def _new_counts(texts: tuple[str, ...]) -> dict[str, int]:
    """Return the number of partitions by topic, from the texts `TOPIC=N` of the option `--partitions`. Raises
    `UsageError` if a text has another form, N is not from 1 to `_MOST_PARTITIONS`, or a topic is given two different
    values.
    """
    form = f"TOPIC=N with N from 1 to {_MOST_PARTITIONS}"
    counts = {}
    for topic, number in pairs_of("--partitions", texts, form).items():
        count = parse_java_long(number, 32)
        if count is None or not 1 <= count <= _MOST_PARTITIONS:
            raise UsageError(f"--partitions needs {form}, not {f'{topic}={number}'!r}")
        counts[topic] = count
    return counts


@click.command(name="groups")
@PATHS
@GROUPS
@selection_options
@group_tool_words
@click.option("--without", metavar="MEMBER", help="Show the assignment if this member left.")
@click.option(
    "--with", "joining", metavar="MEMBER", help="Show the assignment if a member with this id joined."
)
@click.option(
    "--partitions",
    multiple=True,
    metavar="TOPIC=N",
    help="Show the assignment if a topic had N partitions.",
)
@click.option("--subscribe", multiple=True, metavar="TOPIC",
              help="Show the assignment if all members also subscribed to this topic.")  # fmt: skip
@click.option(
    "--offsets-partitions",
    type=PARTITION_COUNT,
    metavar="N",
    help="Number of partitions of __consumer_offsets, if no metadata has it [50].",
)
@click.option(
    "--metadata",
    "metadata",
    metavar="PATH",
    type=click.Path(exists=True, file_okay=False, readable=False),
    help="A KRaft log directory or ZooKeeper dataDir with the cluster's topics.",
)
@CHROOT
@as_of_time
@AT_ZXID
@paths_in_properties
@REPLICA
@JSON
def command(
    paths: tuple[str, ...],
    chosen: Selection,
    as_json: bool,
    **given: Any,
) -> int:
    """Show groups with members, generation, protocol and assignment, from `__consumer_offsets`.

    Also shows whether the stored assignment is the one that the group's assignor computes from the stored
    subscriptions.  With --topic, --partition or --exclude, shows only groups with commits, assignments or the state of
    a share group for the chosen partitions.  A path may be a ZooKeeper directory, which the old consumers of 2.x and
    earlier used.

    Exit code 0 if all is well, 1 if something was found, 4 if something could not be read.
    """
    cluster_groups = groups(
        *paths,
        groups=given["groups"],
        select=chosen,
        rebalance=Rebalance(
            without=given["without"],
            joining=given["joining"],
            partitions=_new_counts(given["partitions"]),
            topics=given["subscribe"],
        ),
        as_of=Moment(time=given["as_of"], offset=given["at_offset"], zxid=given["zxid"]),
        metadata=given["metadata"],
        chroot=given["chroot"],
        replica=given["replica"],
        offsets_partitions=given["offsets_partitions"],
    )
    if as_json:
        change = cluster_groups.rebalance
        print_lines(
            group_line(group, cluster_groups.partition_counts, change.without, change.joining, change.growth)
            for group in cluster_groups.groups
        )
        print_lines(old_group_line(group, change.without, change.joining) for group in cluster_groups.old_groups)
    else:
        _print(cluster_groups)
    return finish(cluster_groups.findings)
