"""`kafkalog elections --without`: what the controller would do if brokers left the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkalog.cli.lines import print_lines
from kafkalog.cli.shapes.elections_lines import LeaderAndIsrLine, WithoutLine, ZookeeperWithoutLine
from kafkalog.cli.tables import Column, print_table
from kafkalog.cluster.kraft.metadata_image import PartitionImage
from kafkalog.cluster.kraft.metadata_json import partition_json
from kafkalog.cluster.rules.departures import Departure
from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState
from kafkalog.codec.common.shapes import shaped

__all__ = ["print_departures"]

AnyDeparture = Departure[PartitionImage] | Departure[PartitionState]


def _line(departure: AnyDeparture) -> WithoutLine | ZookeeperWithoutLine:
    about: dict[str, Any] = {
        "without": departure.broker,
        "topic": departure.topic,
        "partition": departure.partition,
        "outcome": departure.outcome,
        "unclean_allowed": departure.unclean_allowed,
    }
    if isinstance(departure.before, PartitionImage) and isinstance(departure.after, PartitionImage):
        return WithoutLine(**about, before=partition_json(departure.before), after=partition_json(departure.after))
    before, after = shaped(departure.before, LeaderAndIsrLine), shaped(departure.after, LeaderAndIsrLine)
    return ZookeeperWithoutLine(chroot=departure.chroot, **about, before=before, after=after)


def _leader(number: int) -> object:
    return number if number >= 0 else "none"


def _brokers(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def _row(each: AnyDeparture) -> list[object]:
    before, after = each.before, each.after
    cells = [each.broker, each.topic, each.partition, each.outcome, _leader(before.leader), _brokers(before.isr),
             _leader(after.leader), _brokers(after.isr)]  # fmt: skip
    if isinstance(after, PartitionImage):
        cells += [_brokers(after.elr), _brokers(after.last_known_elr)]
    return cells


def print_departures(departures: Iterable[AnyDeparture], *, as_json: bool) -> None:
    """Print on standard output what the controller would do if brokers left the cluster one after another. There is one
    table row, or with `as_json` one JSON line, for each departing broker and each partition that it led or was in sync
    for. Consumes the iterator `departures`.
    """
    if as_json:
        print_lines(map(_line, departures))
        return
    rows = list(map(_row, departures))
    columns: list[str | Column] = [
        "without",
        "topic",
        "partition",
        Column("outcome", wraps=True),
        Column("leader", drop=2),
        Column("ISR", drop=3),
        "new leader",
        "new ISR",
        Column("ELR", drop=4, if_any=True),
        Column("last known", drop=5, if_any=True),
    ]
    width = max(map(len, rows), default=len(columns))
    print_table("if these brokers left, one after another", columns[:width], rows)
