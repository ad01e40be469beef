"""What somebody wants to know first: which broker and topics, what is lost, from when to when."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kafkalog.codec.wording import counted
from kafkalog.inspect.facts import PartitionFacts, Planned, ReportFacts
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.ways import LostRange, RecoveryWay
from kafkalog.reporting.wording import seconds_text
from kafkalog.words.ways import label_of

__all__ = ["summary_of"]

_NAMED = 8


def summary_of(facts: ReportFacts) -> list[tuple[str, str]]:
    """Names and sentences, in the order in which they are asked."""
    rows = [("Broker", _listed(dict.fromkeys(_brokers(facts)), "not told by any meta.properties"))]
    hurt = [each for each in facts.examined.partitions if each.words]
    rows.append(("Affected", _listed(dict.fromkeys(each.name for each in hurt), "no partition")))
    return [*rows, *_losses(facts)]


def _listed(names: dict[str, None], nothing: str) -> str:
    shown = list(names)
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return f"{', '.join(shown[:_NAMED])}{more}" if shown else nothing


def _brokers(facts: ReportFacts) -> Iterator[str]:
    for each in facts.directories:
        if each.node_id is not None:
            yield f"broker {each.node_id}" + ("" if each.cluster_id is None else f" of cluster {each.cluster_id}")


def _losses(facts: ReportFacts) -> Iterator[tuple[str, str]]:
    """What the recommended way of each directory loses, and the time of it."""
    told = [(planned, way) for planned in facts.planned if (way := _way(planned)) is not None]
    unknown = [each for each in facts.planned if each.forecast is None]
    if not told:
        yield "Lost", "unknown: no plan could be made" if unknown else "no record, as far as the logs themselves tell"
        return
    for planned, way in told:
        where = f" in {planned.path}" if len(facts.planned) > 1 else ""
        lost = way.measured.lost
        if way.measured.records_lost is None:
            yield f"Lost{where}", f"unknown, by the way that is recommended ({label_of(way)})"
            continue
        count = counted(way.measured.records_lost, "record")
        least = "" if way.measured.is_exact else "at least "
        ranges = f": {ranges_text(lost, _NAMED)}" if lost else ""
        yield f"Lost{where}", f"{least}{count}, by the way that is recommended ({label_of(way)}){ranges}"
        times = [text for each in lost[:_NAMED] if (text := _time_of(each, planned, facts))]
        if times:
            yield f"Written{where}", "; ".join(times)


def _way(planned: Planned) -> RecoveryWay | None:
    best = planned.choice.recommended
    return best if planned.is_choice else None


def _time_of(lost: LostRange, planned: Planned, facts: ReportFacts) -> str:
    """Between which of the batches around it a lost range was written; nothing where no time is known."""
    path = os.path.join(planned.root, lost.partition)
    for partition in facts.examined.partitions:
        if os.path.realpath(partition.path) == path:
            before, after = _around(lost, partition)
            since = f"after {seconds_text(before)}" if before is not None else ""
            until = f"before {seconds_text(after)}" if after is not None else ""
            told = " and ".join(filter(None, [since, until]))
            return f"{lost.partition} {told}" if told else ""
    return ""


def _around(lost: LostRange, partition: PartitionFacts) -> tuple[int | None, int | None]:
    for hole in partition.holes:
        if hole.last_before < lost.first and (lost.last is None or lost.last < hole.first_after):
            return _time(hole.time_before), _time(hole.time_after)
    if partition.last_offset is not None and lost.first > partition.last_offset:
        return partition.last_timestamp, None
    if partition.first_offset is not None and lost.last is not None and lost.last < partition.first_offset:
        return None, partition.first_timestamp
    return None, None


def _time(milliseconds: int) -> int | None:
    return None if milliseconds < 0 else milliseconds
