"""Paths of which some may be ZooKeeper's directories: told apart, and the tree as of a moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cluster.zookeeper import ZooKeeperDirectory, open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.moments import zxid_at
from kafkalog.cluster.zookeeper.old_consumers import OldGroup, old_groups
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding, FindingCode, Severity

__all__ = ["AT_ZXID", "OldConsumers", "Zxid", "old_consumers", "told_apart"]

if TYPE_CHECKING:
    _NumberType = click.ParamType[int]
else:
    _NumberType = click.ParamType  # not generic before click 8.4


class Zxid(_NumberType):
    """A transaction id: decimal, or hexadecimal after 0x."""

    name = "zxid"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        text = str(value).strip()
        try:
            number = int(text, 16 if text.lower().startswith("0x") else 10)
        except ValueError:
            number = -1
        if not 0 <= number < 1 << 63:
            self.fail(f"{text!r} is not a zxid (decimal, or 0x…)", param, ctx)
        return number


def AT_ZXID(function: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802 - used as the constants beside it
    """`--zxid`: ZooKeeper's tree as it was."""
    return click.option("--zxid", type=Zxid(), metavar="N", help="As of this transaction of ZooKeeper.")(function)


def told_apart(paths: tuple[str, ...]) -> tuple[tuple[str, ...], ZooKeeperDirectory | None]:
    """Kafka's paths, and ZooKeeper's dataDir and dataLogDir if they are among them."""
    kafka, zookeeper = [], []
    for path in paths:
        try:
            open_zookeeper(path)
        except UsageError:
            kafka.append(path)
        else:
            zookeeper.append(path)
    return tuple(kafka), open_zookeeper(*zookeeper) if zookeeper else None


@dataclass(frozen=True, slots=True)
class OldConsumers:
    """What ZooKeeper's directory says of consumers."""

    tree: Tree
    groups: tuple[OldGroup, ...]
    findings: tuple[Finding, ...]


def old_consumers(directory: ZooKeeperDirectory | None, zxid: int | None, at: int | None) -> OldConsumers | None:
    """The old consumers as of a transaction or a time; `UsageError` for `zxid` without a directory of ZooKeeper's."""
    if directory is None:
        if zxid is not None:
            raise UsageError("--zxid is of ZooKeeper's transactions, and none of the paths is a directory of its logs")
        return None
    moment = zxid_at(directory, at) if at is not None else None
    until = moment if zxid is None else zxid if moment is None else min(zxid, moment)
    found = tree_at(directory, until)
    groups = tuple(old_groups(found.tree))
    place = os.path.commonpath([os.path.abspath(each) for each in directory.paths])
    invalid = [
        Finding(FindingCode.ZK_NODE_INVALID, Severity.WARNING, None, None, problem, place)
        for group in groups
        for problem in group.problems
    ]
    return OldConsumers(found.tree, groups, (*found.findings, *invalid))
