"""Summary of a report: which brokers and partitions are affected, and which records are lost."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.inspect.facts import ReportFacts
from kafkalog.recovery.broker.node.answer import NodeStart
from kafkalog.recovery.decide.aftermath import BY_AGE
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.losses import lost_beside
from kafkalog.reporting.losses import (
    loss_of_run,
    lost_for_good,
    recommended_of,
    records_text,
    runs_that_lost,
    total_by_start,
    total_for_good,
    with_skipped,
)
from kafkalog.words.outlook import partitions_that_lose
from kafkalog.words.seeking import is_inside_batch, seeks_past, unread_text
from kafkalog.words.ways import label_of

__all__ = ["summary_of"]

_NAMED = 8
_NOT_COUNTED = codes_with(Trait.HIDES_DIRECTORY) | {FindingCode.PARTITION_MISSING}
"""Findings about records whose number is unknown."""


def summary_of(facts: ReportFacts) -> list[tuple[str, str]]:
    """Return (name, sentence) pairs in the order of a reader's questions. First come the brokers, the affected
    partitions and the losses. If there are any, the unreadable offsets with advice follow, and the paths that are
    missing or unreadable.
    """
    rows = [("Broker", _listed(dict.fromkeys(_brokers(facts)), "not told by any meta.properties"))]
    hurt = [partition.name for partition in facts.examined.partitions if partition.words]
    lost = [name for node in _nodes(facts) for name in (*node.lost, *node.strays, *node.unserved)]
    lost += [os.path.basename(fault.file) for node in _nodes(facts) for fault in node.older_logs]
    rows.append(("Affected", _listed(dict.fromkeys([*hurt, *lost]), "no partition")))
    missing = [finding for finding in facts.findings if finding.code in _NOT_COUNTED]
    rows += _losses(facts)
    unread = unread_text(facts.findings)
    if unread:
        rows.append(("Unreadable", unread))
        rows += [("To pass it", sentence) for sentence in seeks_past(filter(is_inside_batch, facts.findings))]
    if missing:
        places = dict.fromkeys(finding.file or "" for finding in missing)
        rows.append(("Not counted", f"what is missing or cannot be read: {_listed(places, '')}"))
    return rows


def _listed(names: dict[str, None], nothing: str) -> str:
    return first_of(list(names), _NAMED) if names else nothing


def _brokers(facts: ReportFacts) -> Iterator[str]:
    for each in facts.directories:
        if each.node_id is not None:
            yield f"broker {each.node_id}" + ("" if each.cluster_id is None else f" of cluster {each.cluster_id}")


def _nodes(facts: ReportFacts) -> list[NodeStart]:
    """Return the forecasts of the start of the nodes that own these directories; plans without such a forecast are
    skipped.
    """
    return [planned.node for planned in facts.planned if planned.node is not None]


def _losses(facts: ReportFacts) -> Iterator[tuple[str, str]]:
    """Yield (name, sentence) pairs about losses. First come losses beside the logs, by recoveries that are declined,
    and by each recommended way, then these ways in total if there are several. Losses by a simple start of Kafka and by
    earlier recoveries follow. What loses nothing is omitted. If there is none of the first three kinds, one pair in
    their place says that nothing is lost, or that the loss is unknown.
    """
    told = [(planned, way, lost_for_good(facts, planned)) for planned in facts.planned
            if (way := recommended_of(planned)) is not None]
    told = [each for each in told if each[2].may_lose]  # fmt: skip
    unknown = [each for each in facts.planned if each.forecast is None]
    hurt = [name for planned in facts.planned for name in partitions_that_lose(planned.choice)]
    renamed = [paths for planned in facts.planned for paths in planned.choice.renamed]
    nodes = [planned.node_then for planned in facts.planned if planned.node_then is not None]
    beside = "; ".join(lost_beside(nodes, facts.findings, hurt, renamed))
    if beside:
        yield "Lost beside these logs", beside
    declined = [each for each in facts.planned
                if recommended_of(each) is None and each.choice.ways and each.choice.own.may_lose]  # fmt: skip
    for planned in declined:
        where = f" in {planned.path}" if len(facts.planned) > 1 else ""
        own = planned.choice.own
        why = "; ".join(each.sentence for each in planned.choice.better_copies) or "recovery declines"
        yield f"Lost{where}", f"{with_skipped(records_text(own), own)} by a recovery as it is, and {why}"
    if not told and not beside and not declined:
        is_old = any(each.kind in BY_AGE for planned in facts.planned for each in planned.consequences)
        nothing = "nothing more" if runs_that_lost(facts) else "nothing" if is_old else "no record"
        old = " but what retention deletes" if is_old else ""
        if unread_text(facts.findings):
            nothing = f"{nothing} but those that cannot be read"
        told_by = f"{nothing}{old}, as far as the logs themselves tell"
        yield "Lost", "unknown: no plan could be made" if unknown else told_by
    for planned, way, measured in told:
        where = f" in {planned.path}" if len(facts.planned) > 1 else ""
        if measured.records_lost is None:
            yield f"Lost{where}", f"unknown, by the way that is recommended ({label_of(way)})"
            continue
        ranges = ranges_text(measured.lost, _NAMED, named=True)
        lost = with_skipped(records_text(measured), measured)
        words = f"{lost}, by the way that is recommended ({label_of(way)})"
        yield f"Lost{where}", f"{words}: {ranges}" if ranges else words
    for_good, by_start = total_for_good(facts), total_by_start(facts)
    if len(told) > 1:
        yield "Lost in all copies", with_skipped(records_text(for_good), for_good)
    if by_start is not None and by_start.may_lose:
        readable = f", of which {counted(by_start.sound_lost, 'record')} can still be read"
        text = f"{records_text(by_start)}{readable if by_start.records_lost else ''}"
        yield "By a simple start", with_skipped(text, by_start)
    for root, run in runs_that_lost(facts):
        where = f" in {root}" if len(facts.planned) > 1 else ""
        before = loss_of_run(run)
        ranges = ranges_text(before.lost, _NAMED, named=True)
        yield f"Lost before{where}", f"{records_text(before)}, by run {run.run_id} ({run.mode}): {ranges}"
