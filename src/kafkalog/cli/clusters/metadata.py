"""`kafkalog metadata`: topics, brokers, settings and other facts of a KRaft cluster, from its metadata log and
snapshots.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click
from msgspec import structs

from kafkalog.cli.clusters.effective import print_effective
from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import CHROOT, JSON, REPLICA, SHOW_SECRETS
from kafkalog.cli.options.numbers import BROKER_ID
from kafkalog.cli.options.past import AS_OF_POSITION
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, properties_only_for, settings_in
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.output import print_json
from kafkalog.cli.shapes.metadata_lines import PartitionLine
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.kraft.metadata_history import PartitionChange
from kafkalog.cluster.kraft.metadata_json import partition_json, state_json
from kafkalog.cluster.kraft.metadata_log import MetadataState
from kafkalog.cluster.questions.effective import effective_settings
from kafkalog.cluster.questions.metadata import metadata, metadata_history
from kafkalog.cluster.questions.moment import NOW, Moment
from kafkalog.cluster.rules.access_control import named
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.words.times import time_text

__all__ = ["CHANGE_COLUMNS", "command", "print_changes"]


def _numbers(values: object) -> str:
    return " ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)


def _entity(resource: str) -> tuple[str, str]:
    """Split the name of a configuration resource into type and name: `broker:` is ("broker", "(default)")."""
    kind, _, name = resource.partition(":")
    return kind, name or "(default)"


def _print_partitions(state: MetadataState) -> None:
    at = f"as of offset {state.next_offset}, epoch {state.epoch}, {time_text(state.timestamp)}"
    base = f"from {os.path.basename(state.snapshot)} on" if state.snapshot is not None else "there is no snapshot"
    print_table(
        f"topics {at} ({base})",
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
                partition_image.leader if partition_image.leader >= 0 else "none",
                partition_image.leader_epoch,
                _numbers(partition_image.replicas),
                _numbers(partition_image.isr),
                _numbers(partition_image.elr),
                "recovering" if partition_image.recovering else "",
                topic.id,
            ]
            for name, topic in sorted(state.image.topics.items())
            for number, partition_image in sorted(topic.partitions.items())
        ],
    )


def _print_topics(state: MetadataState, *, show_secrets: bool) -> None:
    """Print tables of the partitions of `state` and of the configurations of topics; the second is omitted if it
    would be empty. Values of secret settings are hidden unless `show_secrets`.
    """
    _print_partitions(state)
    rows = [
        [*_entity(resource), name, value]
        for resource, values in state_json(state, show_secrets=show_secrets).configs.items()
        for name, value in values.items() if resource.startswith("topic:")
    ]  # fmt: skip
    if rows:
        print_table("configurations", ["of a", "named", "setting", Column("value", wraps=True)], rows)


def _print_state(state: MetadataState, *, show_secrets: bool) -> None:
    shown = state_json(state, show_secrets=show_secrets)
    _print_partitions(state)
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
                " ".join(f"{one} (cordoned)" if one in each.cordoned_directories else one for one in each.directories),
                each.incarnation_id,
            ]
            for number, each in sorted(state.image.brokers.items())
        ],
    )
    print_table("features", ["feature", "level"], list(shown.features.items()))
    rows = [
        [*_entity(resource), name, value] for resource, values in shown.configs.items()
        for name, value in values.items()
    ]  # fmt: skip
    print_table("configurations", ["of a", "named", "setting", Column("value", wraps=True)], rows)
    print_table("producer ids", ["next block from"], [[max(state.image.next_producer_id, 0)]])
    quotas = [[who, name, value] for who, values in shown.client_quotas.items() for name, value in values.items()]
    for title, columns, found in (
        ("client quotas", ["entity", "quota", "value"], quotas),
        ("SCRAM credentials", ["mechanism", "user", "iterations", "salt", "stored key", "server key"], [
            [mechanism, user, json.iterations, json.salt, json.stored_key, json.server_key]
            for mechanism, users in shown.scram_credentials.items() for user, json in users.items()
        ]),
        ("access control", ["resource", "name", "pattern", "principal", "host", "operation", "permission"], [
            [named(acl, "resource_type"), acl["resource_name"], named(acl, "pattern_type"), acl["principal"],
             acl["host"], named(acl, "operation"), named(acl, "permission_type")]
            for acl in state.image.acls.values()
        ]),
    ):  # fmt: skip
        if found:
            print_table(title, columns, found)


def _change_line(change: PartitionChange) -> PartitionLine:
    return PartitionLine(
        offset=change.offset,
        timestamp=change.timestamp,
        topic=change.topic,
        topic_id=change.topic_id,
        partition=change.partition,
        cause=change.cause,
        before=None if change.before is None else partition_json(change.before),
        after=None if change.after is None else partition_json(change.after),
    )


CHANGE_COLUMNS: list[str | Column] = [
    Column("time", Kind.TIME, drop=3),
    "topic",
    "partition",
    Column("what", wraps=True),
    "leader",
    Column("epoch", drop=2),
    Column("ISR", drop=1),
]
"""What KRaft and ZooKeeper both know of a partition's change."""


def print_changes(changes: Sequence[PartitionChange], *, as_json: bool) -> None:
    """Print changes of partitions in the given order, as one table or, with `as_json`, as one JSON line each. A table
    row shows the state after the change, or before it if the partition was deleted.
    """
    if as_json:
        print_lines(map(_change_line, changes))
        return
    rows = []
    for change in changes:
        state = change.after or change.before
        assert state is not None  # noqa: S101 - a change has one of them
        rows.append([
            change.offset, change.timestamp, change.topic, change.partition, change.cause, state.leader,
            state.leader_epoch, _numbers(state.isr), _numbers(state.elr), _numbers(state.replicas),
        ])  # fmt: skip
    columns = ["offset", *CHANGE_COLUMNS, Column("ELR", drop=5, if_any=True), Column("replicas", drop=4)]
    print_table("history", columns, rows)


def _refuse_together(
    *,
    history: bool,
    effective: bool,
    against: tuple[str, ...],
    as_of: Moment | None,
    broker: int | None,
    no_defaults: bool,
    show_secrets: bool,
    chosen: Selection,
) -> None:
    """Raise `UsageError` for options of `kafkalog metadata` that contradict each other or have no effect together, such
    as `--history` with `--against`. An option that was not used has the value None, False or an empty tuple; `chosen`
    is then `ALL`.
    """
    if not effective and (broker is not None or no_defaults):
        raise UsageError(f"--{'broker' if broker is not None else 'no-defaults'} needs --effective")
    if effective and (history or against):
        raise UsageError("--effective shows settings only: --history and --against cannot be used with it")
    if chosen.partitions and effective:
        raise UsageError("--partition cannot be used with --effective: settings apply to whole topics")
    if against and chosen != ALL:
        raise UsageError("--against compares everything: --topic, --partition and --exclude cannot be used with it")
    if history and (as_of is not None or against):
        raise UsageError("--history shows every change: --as-of and --against cannot be used with it")
    if history and show_secrets:
        raise UsageError("--show-secrets cannot be used with --history, which shows no settings")


@click.command(name="metadata")
@PATHS
@AS_OF_POSITION
@click.option("--history", is_flag=True, help="Show every change of the partitions, in order.")
@click.option("--effective", is_flag=True, help="Show the settings in effect and where each comes from; ZooKeeper too.")
@click.option("--no-defaults", is_flag=True, help="With --effective: leave out settings that have their default.")
@selection_options
@click.option(
    "--broker",
    type=BROKER_ID,
    metavar="ID",
    help="With --effective: settings of this broker; with --topic, of the topic on this broker.",
)
@click.option("--against", multiple=True, metavar="LOG_DIR", help="Compare with a broker's log directory.")
@CHROOT
@SERVER_PROPERTIES
@SHOW_SECRETS
@REPLICA
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: tuple[str, ...],
    as_of: Moment | None,
    history: bool,
    chosen: Selection,
    against: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> int:
    """Show what a KRaft cluster knew: topics, brokers, configurations, features, quotas, credentials, access
    control.

    Reads the newest complete snapshot of `__cluster_metadata` and the log after it.  With --topic, --partition or
    --exclude shows only these partitions and the configurations of their topics.  With --effective,
    --server-properties gives the settings that the broker was started with.

    Exit code 0 if all is well, 1 if something was found, 4 if something could not be read.
    """
    if not given["effective"]:
        properties_only_for(ctx, "--effective")
    effective, show_secrets = given["effective"], given["show_secrets"]
    _refuse_together(
        history=history, effective=effective, against=against, as_of=as_of, broker=given["broker"],
        no_defaults=given["no_defaults"], show_secrets=show_secrets, chosen=chosen,
    )  # fmt: skip
    replica, chroot = given["replica"], given["chroot"]
    if effective:
        settings = effective_settings(
            *paths,
            as_of=as_of or NOW,
            select=chosen,
            broker=given["broker"],
            started_with=settings_in(given["server_properties"]),
            defaults=not given["no_defaults"],
            chroot=chroot,
            replica=replica,
        )
        print_effective(settings.settings, as_json=as_json, show_secrets=show_secrets)
        return finish(settings.findings)
    if chroot is not None:
        raise UsageError("--chroot is a ZooKeeper node, and this is not --effective of a directory of its logs")
    if history:
        found = metadata_history(*paths, select=chosen, replica=replica)
        print_changes(found.changes, as_json=as_json)
        return finish(found.findings)
    known = metadata(*paths, as_of=as_of or NOW, select=chosen, against=against, replica=replica)
    findings = [*known.findings]
    if as_json:
        shown = state_json(known.state, show_secrets=show_secrets)
        print_json(structs.replace(shown, quorum_state=known.log.quorum_state(findings)))
    elif chosen != ALL:
        _print_topics(known.state, show_secrets=show_secrets)
    else:
        _print_state(known.state, show_secrets=show_secrets)
    return finish(findings)
