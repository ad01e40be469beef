"""`kafkalog groups`: groups, their members and what each is assigned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import click

from kafkalog.cli.arguments import PATHS, REPLICA
from kafkalog.cli.cluster_options import AS_OF, JSON_LINES, finish, partitions_with, print_lines
from kafkalog.cli.output import print_table
from kafkalog.cli.times import time_text
from kafkalog.cli.zookeeper_paths import AT_ZXID, old_consumers, told_apart
from kafkalog.cluster.assignors import Assignment
from kafkalog.cluster.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.group_lines import group_line, names_by_member, names_of
from kafkalog.cluster.groups import STABLE, Group, read_groups
from kafkalog.cluster.old_assignors import Owners
from kafkalog.cluster.old_group_lines import as_derived, as_group, by_thread, old_group_line
from kafkalog.cluster.rederive import assignment_of, partition_counts, verdict
from kafkalog.cluster.replay import Until
from kafkalog.cluster.zookeeper.old_consumers import OldGroup, consumer_of_thread
from kafkalog.codec.errors import UsageError
from kafkalog.log import open_all

__all__ = ["command"]


_AS_DERIVED = {True: "yes", False: "no", None: ""}


def _print_what_if(title: str, found: Iterable[tuple[str, Assignment | None]]) -> None:
    rows = [
        [group, member, " ".join(names or [])]
        for group, assignment in found
        for member, names in (names_by_member(assignment) or {}).items()
    ]
    print_table(title, ["group", "member", "assignment"], rows)


def _only_offsets(group: Group) -> bool:
    """Whether nothing but commits is known of a group: consumers that met in ZooKeeper leave no more in Kafka."""
    return not group.protocol_type and not group.members


def _old_row(old: OldGroup) -> list[object]:
    each = as_group(old)
    place = f"zookeeper{old.chroot}"
    return [each.group_id, each.type, each.state, "", each.assignor, None, len(each.members), len(each.offsets), place,
            _AS_DERIVED[as_derived(old)]]  # fmt: skip


def _print_old(groups: Sequence[OldGroup], without: str | None, joining: str | None) -> None:
    rows = []
    for group in groups:
        registered = {each.consumer_id: each for each in group.consumers}
        for thread, names in (by_thread(group.owners) or {}).items():
            consumer = registered.get(consumer_of_thread(thread))
            about = (
                [consumer.pattern, time_text(consumer.timestamp)] if consumer is not None else ["not registered", ""]
            )
            rows.append([group.group, thread, *about, " ".join(names or [])])
    if rows:
        print_table("owners in ZooKeeper", ["group", "thread", "subscribed by", "since", "owns"], rows)
    whatifs: list[tuple[str, str, Owners | None]] = []
    if without is not None:
        leaving = [each for each in groups if without in {one.consumer_id for one in each.consumers}]
        whatifs += [(f"without {without}", each.group, each.without(without)) for each in leaving]
    if joining is not None:
        whatifs += [(f"with {joining}", each.group, each.joined_by(joining)) for each in groups if each.consumers]
    for title, name, owners in whatifs:
        threads = (by_thread(owners) or {}).items()
        print_table(title, ["group", "thread", "assignment"], [[name, each, " ".join(n or [])] for each, n in threads])


def _print(
    groups: list[Group],
    counts: Mapping[str, int],
    without: str | None,
    joining: str | None,
    old: Sequence[OldGroup] = (),
) -> None:
    print_table(
        "groups",
        ["group", "type", "state", "since", "assignor", "generation", "members", "offsets", "in", "as derived"],
        [
            [
                each.group_id,
                each.type,
                each.state,
                time_text(each.state_timestamp),
                each.assignor,
                each.generation if each.epoch is None else each.epoch,
                len(each.members),
                len(each.offsets),
                each.log_partition,
                _AS_DERIVED[verdict(each, counts).same],
            ]
            for each in groups
        ]
        + [_old_row(each) for each in old],
    )
    members = [(each, member) for each in (*groups, *map(as_group, old)) for member in each.members]
    if members:
        print_table(
            "members",
            ["group", "member", "instance", "client", "host", "assignment"],
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
    if without is not None:
        leaving = [each for each in groups if without in {one.member_id for one in each.members}]
        found = [(each.group_id, assignment_of(each, counts, without=without)) for each in leaving]
        if found:
            _print_what_if(f"without {without}", found)
    if joining is not None:
        found = [(each.group_id, assignment_of(each, counts, joining=joining)) for each in groups if each.members]
        if found:
            _print_what_if(f"with {joining}", found)
    _print_old(old, without, joining)


@click.command(name="groups")
@PATHS
@JSON_LINES
@click.option("--group", help="Only this group.")
@click.option("--without", metavar="MEMBER", help="What the others would get if this member left.")
@click.option("--with", "joining", metavar="MEMBER", help="What all would get if a member of this id joined.")
@AS_OF
@AT_ZXID
@REPLICA
def command(
    paths: tuple[str, ...],
    as_json: bool,
    group: str | None,
    without: str | None,
    joining: str | None,
    at_offset: int | None,
    at: int | None,
    zxid: int | None,
    replica: str | None,
) -> int:
    """Groups with members, generation, protocol and assignment, from `__consumer_offsets`.

    And whether the stored assignment is what the group's assignor makes of the stored subscriptions.  A path may be a
    directory of ZooKeeper's, where the consumers of 2.x and older met.
    """
    logs, zookeeper = told_apart(paths)
    if at_offset is not None and not logs:
        raise UsageError("--at-offset is of __consumer_offsets, and no path is a log directory; --zxid is ZooKeeper's")
    old = old_consumers(zookeeper, zxid, at)
    findings = [*old.findings] if old is not None else []
    groups: list[Group] = []
    counts: dict[str, int] = {}
    if logs:
        partitions = partitions_with(open_all(*logs), CONSUMER_OFFSETS_TOPIC, replica)
        found = read_groups(partitions, until=Until(at_offset, at))
        counts = partition_counts(partitions)
        groups = [each for each in found.groups if group in (None, each.group_id)]
        findings += found.findings
    alive = {each.group for each in (old.groups if old is not None else ()) if each.consumers}
    groups = [
        replace(each, state=STABLE) if _only_offsets(each) and each.group_id in alive else each for each in groups
    ]
    met = [each for each in (old.groups if old is not None else ()) if group in (None, each.group)]
    if as_json:
        print_lines(group_line(each, counts, without, joining) for each in groups)
        print_lines(old_group_line(each, without, joining) for each in met)
    else:
        _print(groups, counts, without, joining, met)
    return finish(findings)
