"""`kafkalog metadata`: what a KRaft cluster knew, from its metadata log and snapshots."""

from __future__ import annotations

import os
from collections.abc import Collection
from itertools import chain

import click

from kafkalog.cli.against import compared
from kafkalog.cli.arguments import PATHS, REPLICA
from kafkalog.cli.cluster_options import SHOW_SECRETS, finish, print_lines, started_with
from kafkalog.cli.effective import Configured, print_effective
from kafkalog.cli.output import print_json
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cli.times import time_text
from kafkalog.cli.zookeeper_paths import Zxid
from kafkalog.cluster.cross_check import known_from_image, known_from_zookeeper
from kafkalog.cluster.metadata_history import PartitionChange, partition_changes
from kafkalog.cluster.metadata_json import partition_json, state_json
from kafkalog.cluster.metadata_log import MetadataLog, MetadataState
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.configs import zookeeper_configs
from kafkalog.cluster.zookeeper.directory import ZooKeeperDirectory
from kafkalog.cluster.zookeeper.kafka_nodes import chroots
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.log import open_all

__all__ = ["command", "metadata_log", "refuse_beyond_end"]


def metadata_log(paths: tuple[str, ...], replica: str | None) -> MetadataLog:
    """The one metadata partition below the paths; `UsageError` if there is none, or several without a choice."""
    found = [each for each in open_all(*paths).readable(replica) if each.topic == CLUSTER_METADATA_TOPIC]
    if len(found) != 1:
        raise UsageError(f"{', '.join(paths)} holds {len(found) or 'no'} partitions of {CLUSTER_METADATA_TOPIC}")
    return MetadataLog(found[0])


def refuse_beyond_end(until: int | None, state: MetadataState) -> None:
    """`UsageError` for a moment that the log has not reached, of which the state as of its end says nothing."""
    if until is not None and until > state.next_offset:
        raise UsageError(f"--until {until} is beyond the end of the metadata log, which is offset {state.next_offset}")


def _numbers(values: object) -> str:
    return " ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)


def _entity(resource: str) -> tuple[str, str]:
    """`broker:` -> ("broker", "(default)")."""
    kind, _, name = resource.partition(":")
    return kind, name or "(default)"


def _print_state(state: MetadataState, *, show_secrets: bool) -> None:
    shown = state_json(state, show_secrets=show_secrets)
    at = f"as of offset {state.next_offset}, epoch {state.epoch}, {time_text(state.timestamp)}"
    base = os.path.basename(state.snapshot) if state.snapshot is not None else "no snapshot"
    print_table(
        f"topics {at} (from {base} on)",
        [
            "topic",
            "partition",
            "leader",
            Column("epoch", drop=3),
            Column("replicas", drop=1),
            "ISR",
            Column("ELR", drop=5, if_any=True),
            Column("state", drop=4, if_any=True),
            Column("topic id", drop=2),
        ],
        [
            [
                name,
                number,
                each.leader if each.leader >= 0 else "none",
                each.leader_epoch,
                _numbers(each.replicas),
                _numbers(each.isr),
                _numbers(each.elr),
                "recovering" if each.recovering else "",
                topic.id,
            ]
            for name, topic in sorted(state.image.topics.items())
            for number, each in sorted(topic.partitions.items())
        ],
    )
    print_table(
        "brokers",
        [
            "broker",
            Column("epoch", drop=3),
            Column("listeners", wraps=True),
            Column("rack", drop=2, if_any=True),
            Column("state", drop=1, if_any=True),
            Column("features", drop=4, wraps=True),
            Column("directories", drop=5, wraps=True),
            Column("incarnation", drop=6),
        ],
        [
            [
                number,
                each.epoch,
                " ".join(f"{name}://{host}:{port}" for name, host, port in each.listeners),
                each.rack,
                " ".join(
                    word
                    for word, is_so in (("fenced", each.fenced), ("shutting down", each.in_controlled_shutdown))
                    if is_so
                ),
                " ".join(f"{name} {least}-{most}" for name, least, most in each.features),
                " ".join(each.directories),
                each.incarnation_id,
            ]
            for number, each in sorted(state.image.brokers.items())
        ],
    )
    print_table("features", ["feature", "level"], list(shown["features"].items()))
    rows = [
        [*_entity(resource), name, value] for resource, values in shown["configs"].items()
        for name, value in values.items()
    ]  # fmt: skip
    print_table("configurations", ["of a", "named", "setting", Column("value", wraps=True)], rows)
    print_table("producer ids", ["next block from"], [[max(state.image.next_producer_id, 0)]])
    quotas = [[who, name, value] for who, values in shown["client_quotas"].items() for name, value in values.items()]
    for title, columns, found in (
        ("client quotas", ["entity", "quota", "value"], quotas),
        ("SCRAM credentials", ["mechanism", "user", "iterations", "salt", "stored key", "server key"], [
            [mechanism, user, each["iterations"], each["salt"], each["stored_key"], each["server_key"]]
            for mechanism, users in shown["scram_credentials"].items() for user, each in users.items()
        ]),
        ("access control", ["resource", "name", "pattern", "principal", "host", "operation", "permission"], [
            [each["resource_type"], each["resource_name"], each["pattern_type"], each["principal"], each["host"],
             each["operation"], each["permission_type"]] for each in state.image.acls.values()
        ]),
    ):  # fmt: skip
        if found:
            print_table(title, columns, found)


def _change_line(change: PartitionChange) -> dict[str, object]:
    return {
        "offset": change.offset,
        "timestamp": change.timestamp,
        "topic": change.topic,
        "topic_id": change.topic_id,
        "partition": change.partition,
        "cause": change.cause,
        "before": None if change.before is None else partition_json(change.before),
        "after": None if change.after is None else partition_json(change.after),
    }


def print_changes(changes: list[PartitionChange], *, as_json: bool) -> None:
    """Changes of partitions as lines or as a table."""
    if as_json:
        print_lines(map(_change_line, changes))
        return
    rows = []
    for each in changes:
        state = each.after or each.before
        assert state is not None  # noqa: S101 - a change has one of them
        rows.append([
            each.offset, each.timestamp, each.topic, each.partition, each.cause, state.leader,
            state.leader_epoch, _numbers(state.isr), _numbers(state.elr), _numbers(state.replicas),
        ])  # fmt: skip
    columns: list[str | Column] = [
        "offset",
        Column("time", Kind.TIME, drop=3),
        "topic",
        "partition",
        Column("what", wraps=True),
        "leader",
        Column("epoch", drop=2),
        Column("ISR", drop=1),
        Column("ELR", drop=5, if_any=True),
        Column("replicas", drop=4),
    ]
    print_table("history", columns, rows)


def _of_zookeeper(directory: ZooKeeperDirectory, until: int | None, findings: list[Finding]) -> Configured:
    found = tree_at(directory, until)
    findings += found.findings
    places = chroots(found.tree.nodes)
    if len(places) != 1:
        raise UsageError(f"there are {len(places)} Kafka clusters: {', '.join(places)}")
    resources = zookeeper_configs(found.tree, places[0])
    topics = _children(found.tree, f"{places[0]}/brokers/topics")
    brokers = {int(each) for each in _children(found.tree, f"{places[0]}/brokers/ids") if _is_number(each)}
    named = {resource.partition(":")[2] for resource in resources if resource.startswith("broker:")}
    brokers.update(int(each) for each in named if _is_number(each))
    known = known_from_zookeeper(found.tree, places[0]).values()
    replicas = frozenset(number for topic in known for each in topic.partitions.values() for number in each.replicas)
    return Configured(resources, tuple(sorted(topics)), tuple(sorted(brokers)), replicas)


def _children(tree: Tree, path: str) -> Collection[str]:
    node = tree.nodes.get(path)
    return node.children if node is not None else ()


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 11


def _of_image(state: MetadataState) -> Configured:
    image = state.image
    replicas = (each.replicas for topic in image.topics.values() for each in topic.partitions.values())
    named = (resource.partition(":")[2] for resource in image.configs if resource.startswith("broker:"))
    others = {*image.controllers, *chain.from_iterable(replicas), *(int(each) for each in named if _is_number(each))}
    return Configured(image.configs, tuple(sorted(image.topics)), tuple(sorted(image.brokers)), frozenset(others))


def _zookeeper(paths: tuple[str, ...]) -> ZooKeeperDirectory | None:
    try:
        return open_zookeeper(*paths)
    except UsageError:
        return None


@click.command(name="metadata")
@PATHS
@click.option("--json", "as_json", is_flag=True, help="One JSON object; with --history and --effective JSON lines.")
@click.option("--until", type=Zxid(), metavar="OFFSET", help="As of this offset of the metadata log.")
@click.option("--history", is_flag=True, help="Every change of the partitions, in order.")
@click.option("--effective", is_flag=True, help="The settings that count, and where each comes from; ZooKeeper too.")
@click.option("--topic", help="With --history and --effective: only this topic.")
@click.option("--partition", type=click.IntRange(min=0), help="With --history: only partitions of this number.")
@click.option(
    "--broker",
    type=click.IntRange(min=0),
    metavar="ID",
    help="With --effective: of this broker; with --topic: of the topic at this broker.",
)
@click.option(
    "--server-properties",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="With --effective: the settings that the broker was started with.",
)
@click.option("--against", multiple=True, metavar="LOG_DIR", help="Compare with a broker's log directory.")
@SHOW_SECRETS
@REPLICA
def command(
    paths: tuple[str, ...],
    as_json: bool,
    until: int | None,
    history: bool,
    effective: bool,
    topic: str | None,
    partition: int | None,
    broker: int | None,
    server_properties: str | None,
    against: tuple[str, ...],
    show_secrets: bool,
    replica: str | None,
) -> int:
    """The image of a KRaft cluster: topics, partitions, brokers, configurations, features, quotas, credentials, ACLs.

    From the newest whole snapshot of `__cluster_metadata` and the log after it.
    """
    if not effective and (broker is not None or server_properties is not None):
        raise UsageError("--broker and --server-properties go with --effective")
    if effective and (history or against):
        raise UsageError("--effective shows settings only: --history and --against do not go with it")
    if topic is not None and not (history or effective):
        raise UsageError("--topic goes with --history or --effective")
    if partition is not None and not history:
        raise UsageError("--partition goes with --history")
    if history and (until is not None or against):
        raise UsageError("--history shows every change: --until and --against do not go with it")
    findings: list[Finding] = []
    directory = _zookeeper(paths) if effective else None
    if directory is not None:
        configured = _of_zookeeper(directory, until, findings)
    else:
        log = metadata_log(paths, replica)
        if history:
            print_changes(list(partition_changes(log, findings, topic=topic, partition=partition)), as_json=as_json)
            return finish(findings)
        state = log.state(until)
        refuse_beyond_end(until, state)
        findings = state.findings
        configured = _of_image(state)
    if effective:
        static = {} if server_properties is None else started_with(server_properties)
        print_effective(configured, static, topic=topic, broker=broker, as_json=as_json, show_secrets=show_secrets)
    elif as_json:
        shown = state_json(state, show_secrets=show_secrets)
        print_json({**shown, "quorum_state": log.quorum_state(findings)})
    else:
        _print_state(state, show_secrets=show_secrets)
    if against:
        findings += compared(against, known_from_image(state.image), state.image.next_producer_id)
    return finish(findings)
