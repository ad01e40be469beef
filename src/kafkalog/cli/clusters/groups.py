"""`kafkalog groups`: groups, their members and what each is assigned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
from msgspec.structs import replace

from kafkalog.cli.clusters.known_topics import groups_at_hand, known_topics
from kafkalog.cli.clusters.old_groups_text import AS_DERIVED, old_row, print_old_groups
from kafkalog.cli.clusters.share_text import groups_in, print_share_state
from kafkalog.cli.clusters.zookeeper_paths import chosen_chroot, old_consumers, refuse_without_logs, told_apart
from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import CHROOT, JSON, REPLICA
from kafkalog.cli.options.hints import group_tool_words
from kafkalog.cli.options.names import GROUPS, chosen_names
from kafkalog.cli.options.numbers import PARTITION_COUNT
from kafkalog.cli.options.past import AT_ZXID, as_of_time
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.assignors.assignors import Assignment
from kafkalog.cluster.cross_check import KnownTopic, known_from_zookeeper
from kafkalog.cluster.groups.group_lines import group_line, names_by_member, names_of
from kafkalog.cluster.groups.groups import STABLE, Group
from kafkalog.cluster.groups.growth import Growth
from kafkalog.cluster.groups.old_group_lines import as_group, old_group_line
from kafkalog.cluster.groups.rederive import assignment_of, partition_counts, verdict
from kafkalog.cluster.records.replay import Until
from kafkalog.cluster.zookeeper.kafka_nodes import chroots
from kafkalog.cluster.zookeeper.old_consumers import OldGroup
from kafkalog.codec.errors import UnknownName, UsageError
from kafkalog.codec.names import parse_java_long
from kafkalog.codec.unknown import unknown
from kafkalog.log.directories.selection import ALL, Selection

__all__ = ["command"]


_MOST_PARTITIONS = 100_000


def _print_what_if(title: str, found: Iterable[tuple[str, Assignment | None]]) -> None:
    rows = [
        [group, member, " ".join(names or [])]
        for group, assignment in found
        for member, names in (names_by_member(assignment) or {}).items()
    ]
    print_table(title, ["group", "member", Column("assignment", wraps=True)], rows)


def _only_offsets(group: Group) -> bool:
    """Whether nothing but commits is known of a group: consumers that met in ZooKeeper leave no more in Kafka."""
    return not group.protocol_type and not group.members


def _print(
    groups: list[Group],
    counts: Mapping[str, int],
    without: str | None,
    joining: str | None,
    growth: Growth | None,
    old: Sequence[OldGroup],
) -> None:
    _print_groups(groups, counts, old)
    _print_members([*groups, *map(as_group, old)])
    print_share_state([state for each in groups for state in each.share])
    if without is not None:
        leaving = [each for each in groups if without in {one.member_id for one in each.members}]
        found = [(each.group_id, assignment_of(each, counts, without=without)) for each in leaving]
        if found:
            _print_what_if(f"without {without}", found)
    if joining is not None:
        found = [(each.group_id, assignment_of(each, counts, joining=joining)) for each in groups if each.members]
        if found:
            _print_what_if(f"with {joining}", found)
    if growth is not None:
        found = [(each.group_id, growth.assignment_of(each, counts)) for each in groups if growth.concerns(each)]
        _print_what_if("with these topics and partitions", found)
    print_old_groups(old, without, joining)


def _print_groups(groups: Sequence[Group], counts: Mapping[str, int], old: Sequence[OldGroup]) -> None:
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
                each.group_id,
                each.type,
                each.state,
                each.state_timestamp,
                each.assignor,
                each.generation if each.epoch is None else each.epoch,
                len(each.members),
                sum(commit.is_commit for commit in each.offsets),
                each.log_partition if each.log_partition >= 0 else None,
                each.coordinator,
                AS_DERIVED[verdict(each, counts).same],
            ]
            for each in groups
        ]
        + [old_row(each) for each in old],
    )


def _print_members(groups: Sequence[Group]) -> None:
    members = [(each, member) for each in groups for member in each.members]
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


def _growth(partitions: tuple[str, ...], topics: tuple[str, ...], counts: Mapping[str, int]) -> Growth | None:
    if not partitions and not topics:
        return None
    wanted = {}
    for text in partitions:
        topic, separator, number = text.rpartition("=")
        count = parse_java_long(number, 32) if separator and topic else None
        if count is None or not 1 <= count <= _MOST_PARTITIONS:
            raise UsageError(f"--partitions needs TOPIC=N with N from 1 to {_MOST_PARTITIONS}, not {text!r}")
        wanted[topic] = count
    growth = Growth(wanted, topics)
    growth.check(counts)
    return growth


def _refuse_unknown_topics(growth: Growth | None, counts: Mapping[str, int], groups: Iterable[Group]) -> None:
    """A topic that nobody knows does not grow, whatever it is called."""
    if growth is None:
        return
    subscribed = {
        topic
        for each in groups
        for member in each.members
        if member.subscription
        for topic in member.subscription.topics
    }
    for topic in growth.partitions:
        if topic not in counts and topic not in growth.topics and topic not in subscribed:
            error = unknown("topic", topic, {*counts, *subscribed})
            raise UnknownName(f"{error}; for a new topic give --subscribe {topic} too")


@click.command(name="groups")
@PATHS
@GROUPS
@selection_options
@group_tool_words
@click.option("--without", metavar="MEMBER", help="Show what the others would be assigned if this member left.")
@click.option(
    "--with", "joining", metavar="MEMBER", help="Show what all would be assigned if a member with this id joined."
)
@click.option(
    "--partitions",
    multiple=True,
    metavar="TOPIC=N",
    help="Show what all would be assigned if a topic had N partitions.",
)
@click.option("--subscribe", multiple=True, metavar="TOPIC",
              help="Show what all would be assigned if they also subscribed to this topic.")  # fmt: skip
@click.option(
    "--offsets-partitions",
    type=PARTITION_COUNT,
    metavar="N",
    help="How many partitions __consumer_offsets has, if no metadata says [50].",
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
    metadata: str | None,
    chroot: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Show groups with members, generation, protocol and assignment, from `__consumer_offsets`.

    Also shows whether the stored assignment is what the group's assignor computes from the stored subscriptions.  With
    --topic, --partition or --exclude, shows only groups with commits or assignments for the chosen partitions.  A path
    may be a ZooKeeper directory, which the old consumers of 2.x and earlier used.
    """
    logs, zookeeper = told_apart(paths)
    refuse_without_logs(
        logs, metadata=metadata,
        **{name: given[name] for name in ("at_offset", "replica", "offsets_partitions", "partitions", "subscribe")},
    )  # fmt: skip
    until = Until(given["at_offset"], given["as_of"])
    if chroot is not None and zookeeper is None and metadata is None:
        raise UsageError("--chroot is a ZooKeeper node, and none of the paths is a directory of its logs")
    old = old_consumers(zookeeper, given["zxid"], given["as_of"], chroot)
    findings = [*old.findings] if old is not None else []
    at_hand = groups_in(logs, given["replica"], findings)
    places = [] if old is None else chroots(old.tree.nodes)
    if old is not None and chroot is not None:
        places = [chosen_chroot({*places, *(each.chroot for each in old.groups)}, chroot)]
    if metadata is None and old is not None and len(places) == 1:
        known: Mapping[str, KnownTopic] = known_from_zookeeper(old.tree, places[0])
    else:
        known = known_topics(at_hand, metadata, until, findings, None if old is not None else chroot)
    counts = partition_counts(at_hand)
    for name, topic in known.items():
        counts[name] = max(counts.get(name, 0), len(topic.partitions))
    growth = _growth(given["partitions"], given["subscribe"], counts)
    every, why_unknown = groups_at_hand(at_hand, known, given["offsets_partitions"], until, findings)
    in_zookeeper = old.groups if old is not None else ()
    if chroot is not None:
        in_zookeeper = tuple(each for each in in_zookeeper if each.chroot == places[0])
    alive = {each.group for each in in_zookeeper if each.consumers}
    every = [replace(each, state=STABLE) if _only_offsets(each) and each.group_id in alive else each for each in every]
    _refuse_unknown_topics(growth, counts, every)
    names = [each.group_id for each in every] + [each.group for each in in_zookeeper]
    is_meant = chosen_names("group", given["groups"], names, why_unknown, findings)
    concerned = _concerned(chosen, [*every, *map(as_group, in_zookeeper)], counts)
    found = [each for each in every if is_meant(each.group_id) and concerned(each)]
    met = [each for each in in_zookeeper if is_meant(each.group) and concerned(as_group(each))]
    _refuse_unknown_member(given["without"], [*found, *map(as_group, met)])
    if as_json:
        print_lines(group_line(each, counts, given["without"], given["joining"], growth) for each in found)
        print_lines(old_group_line(each, given["without"], given["joining"]) for each in met)
    else:
        _print(found, counts, given["without"], given["joining"], growth, met)
    return finish(findings)


def _concerned(chosen: Selection, groups: Iterable[Group], counts: Mapping[str, int]) -> Callable[[Group], bool]:
    """Whether a group has to do with what is chosen; `UnknownName` for a topic that neither it nor the cluster has."""
    if chosen == ALL:
        return lambda group: True
    known = {(topic, number) for topic, count in counts.items() for number in range(count)}
    chosen.check(known.union(*map(_places, groups)))
    return lambda group: any(chosen.takes(*place) for place in _places(group))


def _places(group: Group) -> set[tuple[str, int]]:
    """Partitions for which a group has a committed offset, an assignment, or share state."""
    assigned = {place for member in group.members for place in member.assignment or ()}
    committed = {(each.key.topic, each.key.partition) for each in group.offsets}
    return assigned | committed | {(each.topic, each.partition) for each in group.share if each.topic is not None}


def _refuse_unknown_member(without: str | None, groups: Iterable[Group]) -> None:
    if without is None:
        return
    members = {member.member_id for each in groups for member in each.members}
    if without not in members:
        raise unknown("member", without, members)
