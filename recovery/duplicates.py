"""Detect topic-partitions that are live in two log directories of one broker. The broker does not start on these
directories (`LogManager`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from msgspec import Struct, structs

from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.common.findings import Severity
from kafkalog.codec.common.wording import counted
from kafkalog.codec.names import DirectoryState, PartitionName, parse_partition_directory
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.broker.manager import StartResult
from kafkalog.recovery.checks.missing_partitions import topic_id_in
from kafkalog.recovery.decide.better_copies import BetterCopy, Holding
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.facts.topic_facts import directory_id_of, node_id_of
from kafkalog.recovery.modes.spec import Help

__all__ = ["holding", "refuse_duplicates", "roots_with_duplicates", "tell_duplicates", "with_better_copies"]


class _Duplicate(Struct, frozen=True):
    name: PartitionName
    roots: tuple[str, str]

    @property
    def sentence(self) -> str:
        return f"{self.name} is in {self.roots[0]} and in {self.roots[1]}: a broker does not start on that"


def _duplicates(roots: Sequence[str]) -> Iterator[_Duplicate]:
    """Yield topic-partitions that are live in two of the log directories `roots`, with the paths of the two. If a
    partition is live in more directories, each later one is paired with the first that it conflicts with. Directories
    that are known to belong to different brokers are not compared, because they hold replicas. Raises `StorageError` if
    a directory cannot be listed.
    """
    nodes = {root: node_id_of(root) for root in roots}
    seen: dict[tuple[str, int], list[str]] = {}
    for root in nodes:
        for entry in scan_directory(root):
            name = parse_partition_directory(entry.name) if entry.is_dir(follow_symlinks=False) else None
            if name is None or name.state is not DirectoryState.LIVE:
                continue
            others = seen.setdefault((name.topic, name.partition), [])
            for other in others:
                if other != root and (None in (nodes[other], nodes[root]) or nodes[other] == nodes[root]):
                    yield _Duplicate(name, (other, root))
                    break
            others.append(root)


def holding(plan: Plan, name: str) -> Holding | None:
    """Return what a plan keeps of the partition directory `name`: its path, log end offset and number of records (None
    if unknown). The result also tells whether its topic id contradicts the metadata, and whether the metadata places
    the partition in this log directory. Return None if the plan has no counts of it, declines it, or has no log end
    offset for it. Raises `StorageError` if `partition.metadata` cannot be read.
    """
    kept = plan.choice.own_by_partition.get(name)
    end = next((partition.log_end_offset for partition in plan.partitions if partition.name == name), None)
    if kept is None or end is None or name in plan.declined:
        return None
    path = os.path.join(plan.root, name)
    parsed = parse_partition_directory(name)
    known = None if parsed is None else plan.topics.topic_ids.get(parsed.topic)
    is_other = None not in (known, own := topic_id_in(path)) and own != known
    assigned = None if parsed is None else plan.topics.assigned.get((parsed.topic, parsed.partition))
    is_assigned = assigned is not None and directory_id_of(plan.root) == assigned
    return Holding(
        path=path, end=end, records=kept.records_kept, is_of_other_topic=is_other, is_assigned=is_assigned
    )


def with_better_copies(plan: Plan, holding_of: Callable[[str], Holding | None]) -> Plan:
    """Compare several directories of one topic-partition in a log directory. One has the usual, shortest name. The
    others have zeros before the partition number, and a broker ignores them. Return a copy of the plan with a
    `BetterCopy` for each topic-partition of which another directory holds more (`Holding.rank`) than the one with the
    shortest name. If there is none, the plan itself is returned.

    Only topic-partitions with a directory in `plan.asked_for` are compared; if that is empty, those with a surveyed
    directory. `holding_of` examines one directory. If it returns None for any directory of a topic-partition, nothing
    is added for this topic-partition. Raises `StorageError` if the log directory cannot be listed.
    """
    groups: dict[PartitionName, list[str]] = {}
    for entry in scan_directory(plan.root):
        name = parse_partition_directory(entry.name) if entry.is_dir(follow_symlinks=False) else None
        if name is not None and name.state is DirectoryState.LIVE:
            groups.setdefault(name, []).append(entry.name)
    wanted = {*plan.asked_for} or {*plan.survey.directories}
    several = {name: group for name, group in groups.items() if len(group) > 1 and wanted & {*group}}
    better: list[BetterCopy | None] = []
    for name, group in several.items():
        kept, *others = [holding_of(directory) for directory in sorted(group, key=lambda name: (len(name), name))]
        known = [other for other in others if other is not None]
        if kept is not None and len(known) == len(others):
            better.append(_better(name, kept, *known))
    return _with_better(plan, *better)


def _better(name: PartitionName, kept: Holding, *others: Holding) -> BetterCopy | None:
    """The copy that holds more than `kept`; None if none does."""
    best = max((kept, *others), key=lambda copy: copy.rank)
    rest = tuple(copy for copy in (kept, *others) if copy is not best)
    return None if best is kept else BetterCopy(str(name), best, rest)


def _with_better(plan: Plan, *better: BetterCopy | None) -> Plan:
    known = (*plan.choice.better_copies, *(copy for copy in better if copy is not None))
    return replace(plan, choice=structs.replace(plan.choice, better_copies=known)) if known else plan


def roots_with_duplicates(roots: Sequence[str]) -> frozenset[str]:
    """Return the log directories that share a live topic-partition with another one of the same broker. Raises
    `StorageError` if a directory cannot be listed.
    """
    return frozenset(root for duplicate in _duplicates(roots) for root in duplicate.roots)


def refuse_duplicates(roots: Sequence[str]) -> None:
    """Raise `RecoveryRefused` if a topic-partition is live in two of several log directories of one broker. Raise
    `StorageError` if a directory cannot be listed.
    """
    for duplicate in _duplicates(roots):
        refused = RecoveryRefused(f"{duplicate.sentence}; move one of them away", reason="duplicate")
        raise refused.concerning(*duplicate.roots)


def tell_duplicates(plans: Sequence[Plan]) -> list[Plan]:
    """Return the plans, in order. Two plans that may be of one broker are changed if they have a live partition in
    common:

    * Both get a refusal, which compares the two copies of the first such partition. Their ways that need no other
      copies get it too. A refusal that a plan or way already has stays.
    * Their forecasts of a broker's start change from LOADED to START_FAILS.
    * If one copy of a partition holds more, both plans say how to keep it. They also do if the copies hold as much and
      their log directories have different ids. Copies that differ come first.

    The plans passed in are not changed. Raises `StorageError` if a directory cannot be listed or a `partition.metadata`
    cannot be read.
    """
    by_root = {plan.root: plan for plan in plans}
    refused = dict(by_root)
    for duplicate in _duplicates(list(by_root)):
        both = [by_root[root] for root in duplicate.roots]
        if any(refused[plan.root] is plan for plan in both):  # a further partition changes nothing
            states = "; ".join(f"the one in {plan.root} {_state(plan, str(duplicate.name))}" for plan in both)
            why = f"{duplicate.sentence}; {states}; move one of them away"
            refused |= {plan.root: _refused(refused[plan.root], duplicate, why) for plan in both}
        first, other = (holding(plan, str(duplicate.name)) for plan in both)
        ids = {directory_id_of(root) for root in duplicate.roots}
        is_copied = len(ids) == 1 or None in ids  # perhaps a log directory and its backup
        if first is not None and other is not None and (first.held != other.held or not is_copied):
            less, more = sorted((other, first), key=lambda copy: copy.rank)
            better = BetterCopy(str(duplicate.name), more, (less,))
            refused |= {plan.root: _with_better(refused[plan.root], better) for plan in both}
    return [_sorted(refused[plan.root]) for plan in plans]


def _sorted(plan: Plan) -> Plan:
    better = sorted(plan.choice.better_copies, key=lambda copy: copy.is_alike)
    return replace(plan, choice=structs.replace(plan.choice, better_copies=tuple(better))) if better else plan


def _refused(plan: Plan, duplicate: _Duplicate, why: str) -> Plan:
    """Return a copy of the plan with the refusal `why`; its ways that need no other copies get this refusal too. A
    refusal that the plan or a way already has stays. If the forecast of a broker's start was LOADED, it becomes
    START_FAILS with Kafka's exception. It then has no number of lost records and no prediction for the node.
    """
    ways = [
        way if way.spec.help is Help.COPIES else structs.replace(way, refusal=way.refusal or why)
        for way in plan.choice.ways
    ]
    broker = plan.broker
    if broker.outcome == StartResult.LOADED:
        places = " and ".join(os.path.join(root, str(duplicate.name)) for root in duplicate.roots)
        broker = replace(
            broker,
            outcome=StartResult.START_FAILS,
            exception="java.lang.IllegalStateException",
            message=f"Duplicate log directories for {duplicate.name} are found in both {places}",
            valid_records_lost=None,
            node=None,  # it was asked about each directory alone
        )
    return replace(plan, refusal=plan.refusal or why, choice=structs.replace(plan.choice, ways=ways), broker=broker)


def _state(plan: Plan, name: str) -> str:
    """Return text about the copy of partition directory `name` in the plan's log directory, to follow a phrase that
    names it. The text is `could not be examined` if the plan declines the copy or has no counts of it. A copy that is
    damaged or lacks records gets the number of records that can be kept, if it is known. Otherwise the text has the
    codes of the warnings and errors, or says that the copy is sound; then the log end offset follows, if the plan has
    the partition.
    """
    kept = plan.choice.own_by_partition.get(name)
    if kept is None or name in plan.declined:
        return "could not be examined"
    ends = (f" and ends at {partition.log_end_offset}" for partition in plan.partitions if partition.name == name)
    end = next(ends, "")
    held = "" if kept.records_kept is None else f": {counted(kept.records_kept, 'record')} of it can be kept"
    codes = {finding.code for finding in plan.findings
             if finding.severity is not Severity.INFO and (finding.file or "").startswith(f"{name}/")}  # fmt: skip
    if name in plan.choice.by_partition:
        return f"is damaged, or lacks records{held}"
    if codes:
        return f"has {', '.join(sorted(codes))}{end}"
    return f"is sound{end}"
