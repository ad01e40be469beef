"""`kafkalog metadata`: what a KRaft cluster knew, from its metadata log and snapshots."""

from __future__ import annotations

import os

import click

from kafkalog.cli.arguments import PATHS, REPLICA
from kafkalog.cli.cluster_options import SHOW_SECRETS, finish, print_lines
from kafkalog.cli.output import print_json, print_table
from kafkalog.cli.times import time_text
from kafkalog.cluster.metadata_history import PartitionChange, partition_changes
from kafkalog.cluster.metadata_json import partition_json, state_json
from kafkalog.cluster.metadata_log import MetadataLog, MetadataState
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.log import open_all

__all__ = ["command", "metadata_log"]


def metadata_log(paths: tuple[str, ...], replica: str | None) -> MetadataLog:
    """The one metadata partition below the paths; `UsageError` if there is none, or several without a choice."""
    found = [each for each in open_all(*paths).readable(replica) if each.topic == CLUSTER_METADATA_TOPIC]
    if len(found) != 1:
        raise UsageError(f"{', '.join(paths)} holds {len(found) or 'no'} partitions of {CLUSTER_METADATA_TOPIC}")
    return MetadataLog(found[0])


def _numbers(values: object) -> str:
    return " ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)


def _print_state(state: MetadataState, *, show_secrets: bool) -> None:
    shown = state_json(state, show_secrets=show_secrets)
    at = f"as of offset {state.next_offset}, epoch {state.epoch}, {time_text(state.timestamp)}"
    base = os.path.basename(state.snapshot) if state.snapshot is not None else "no snapshot"
    print_table(
        f"topics {at} (from {base} on)",
        ["topic", "partition", "leader", "epoch", "replicas", "ISR", "ELR", "state", "topic id"],
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
        ["broker", "epoch", "listeners", "rack", "state", "incarnation"],
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
                each.incarnation_id,
            ]
            for number, each in sorted(state.image.brokers.items())
        ],
    )
    print_table("features", ["feature", "level"], list(shown["features"].items()))
    rows = [[resource, name, value] for resource, values in shown["configs"].items() for name, value in values.items()]
    print_table("configurations", ["resource", "name", "value"], rows)
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
            each.offset, time_text(each.timestamp), each.topic, each.partition, each.cause, state.leader,
            state.leader_epoch, _numbers(state.isr), _numbers(state.elr), _numbers(state.replicas),
        ])  # fmt: skip
    columns = ["offset", "time", "topic", "partition", "what", "leader", "epoch", "ISR", "ELR", "replicas"]
    print_table("history", columns, rows)


@click.command(name="metadata")
@PATHS
@click.option("--json", "as_json", is_flag=True, help="One JSON object; with --history JSON lines.")
@click.option("--until", type=click.IntRange(min=0), metavar="OFFSET", help="As of this offset of the metadata log.")
@click.option("--history", is_flag=True, help="Every change of the partitions, in order.")
@click.option("--topic", help="With --history: only this topic.")
@click.option("--partition", type=click.IntRange(min=0), help="With --history: only partitions of this number.")
@SHOW_SECRETS
@REPLICA
def command(
    paths: tuple[str, ...],
    as_json: bool,
    until: int | None,
    history: bool,
    topic: str | None,
    partition: int | None,
    show_secrets: bool,
    replica: str | None,
) -> int:
    """The image of a KRaft cluster: topics, partitions, brokers, configurations, features, quotas, credentials, ACLs.

    From the newest whole snapshot of `__cluster_metadata` and the log after it.
    """
    log = metadata_log(paths, replica)
    if history:
        findings: list[Finding] = []
        print_changes(list(partition_changes(log, findings, topic=topic, partition=partition)), as_json=as_json)
        return finish(findings)
    state = log.state(until)
    if as_json:
        shown = state_json(state, show_secrets=show_secrets)
        print_json({**shown, "quorum_state": log.quorum_state(state.findings)})
    else:
        _print_state(state, show_secrets=show_secrets)
    return finish(state.findings)
