"""The public call: all disks of a cluster after a power cut, and what the next start will make of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from kafkalog.codec.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.codec.wording import counted
from kafkalog.copies.common_history import Lineage
from kafkalog.copies.volumes import Shelf, gather
from kafkalog.jobs.triage.flaws import flaws_of
from kafkalog.jobs.triage.logs import BrokerDisks, ReplicaLog, read_brokers, unread
from kafkalog.jobs.triage.memory import KnownReplicas, Memory
from kafkalog.jobs.triage.outcome import PartitionTriage, advised, judged
from kafkalog.jobs.triage.sources import memory_of
from kafkalog.jobs.triage.unknown import UnknownPartition, unknown_partitions
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.workers import OnProgress
from kafkalog.log.disk.files import PathLike, absolute
from kafkalog.recovery.act.lock import refuse_if_locked

__all__ = ["Triage", "triage"]

Key = tuple[str, int]
_MOST_ORDERS = 64
"""of starts that are compared"""


class Triage(Struct):
    """What a start will make of a cluster."""

    cluster_id: str | None
    source: str
    """the metadata from which it is foreseen"""
    order: tuple[int, ...] | None
    """the order of starts that was asked about; None: any order"""
    partitions: list[PartitionTriage]
    best_order: tuple[int, ...]
    """of starts, one after the other once the controllers alone have fenced all, under which most are led best"""
    worse_in_best_order: int
    """partitions that even then may be led by a copy that is not the best, or by nobody"""
    not_starting: dict[int, str] = {}
    """broker -> why it does not start"""
    without_disks: tuple[int, ...] = ()
    """registered brokers of which no directory was given: they are taken to stay down"""
    first_step: str = ""
    """what comes before the first broker of `best_order`; a sentence without its end"""
    unclean_election: str = ""
    """how an unclean election is asked for, where an advice names one"""
    lost_by_start: list[str] = []
    """what brokers' own starts take before any election, in sentences"""
    unknown: list[UnknownPartition] = []
    """partitions in the brokers' directories that the metadata does not know: lost to the cluster"""
    findings: list[Finding] = []

    @property
    def at_risk(self) -> list[PartitionTriage]:
        """Partitions that may lose something or end without a leader."""
        return [each for each in self.partitions if not each.is_clean]

    @property
    def cut_by_start(self) -> list[PartitionTriage]:
        """Partitions of which a broker's own start cuts a best copy, whoever leads then."""
        return [each for each in self.partitions if each.cut_by_start]

    @property
    def is_clean(self) -> bool:
        """No election loses anything and everybody leads, whatever happens."""
        return not self.at_risk and not self.unknown and not self.lost_by_start


def triage(
    *paths: PathLike,
    start_order: Sequence[int] | None = None,
    select: Selection = ALL,
    config: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> Triage:
    """Foresee the elections after all of a cluster was stopped at one moment; changes nothing.

    The paths are the log directories of all brokers and controllers, or directories of such, or ZooKeeper's data
    directory.  A directory that cannot be read, or that holds nothing of Kafka, is among the findings, and its broker
    is taken to stay down.  `start_order` names brokers in the order in which they will be started, each when the one
    before it is up, after the controllers alone have ended all old sessions; without it brokers and controllers come in
    any order.
    `config` are the settings that the controllers are started with.

    Raises `UsageError` for paths that do not exist and for brokers that are not there, `RecoveryRefused` for a live
    directory, for directories of several clusters and for two that cannot be of one broker, `StorageError` for I/O.

    * `paths`: directories of all brokers and controllers
    * `select`: the topic-partitions to take; all of them without it
    * `limits`: what a batch or file may hold at most (`Limits`)
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    """
    shelf = gather(paths, limits=limits, at_least=0, notes_empty=True)
    if shelf.several_clusters is not None:
        raise RecoveryRefused(f"{shelf.several_clusters}; give the directories of one cluster")
    _refuse_parts(shelf)
    findings: list[Finding] = []
    unexamined = _refuse_live(shelf, findings)
    _refuse_twins(shelf)
    findings += [*shelf.findings, *(_unread(path, why) for path, why in shelf.unreadable)]
    memory = memory_of(shelf, config or {}, findings)
    known = memory.partitions()
    select.check([*known, *_named_partitions(shelf)])
    by_broker = _by_broker(shelf, memory, findings)
    beside = _nameless(shelf, by_broker, memory)
    disks = read_brokers(by_broker, beside, config=config, jobs=jobs, on_progress=on_progress, findings=findings)
    for broker in disks.values():
        broker.refusal = unexamined.get(broker.node, broker.refusal)
        findings += _missing_volumes(broker, memory)
    order = None if start_order is None else _checked_order(start_order, disks, memory)
    memory.begin(disks)
    up = [node for node, each in disks.items() if each.is_up]
    wanted = {key: each for key, each in known.items() if select.takes(*key)}
    flaws = partial(flaws_of, limits=limits)
    found = [_judged(key, each, memory, disks, order, flaws) for key, each in wanted.items()]
    best, left = _best_order(found, memory, disks, up)
    for each in found:
        key = each.topic, each.partition
        each.advice = advised(each, partial(memory.leaders, key, cautious=True), best, memory.eligible(key))
    return Triage(
        cluster_id=next((meta.cluster_id for each in shelf.log_dirs if (meta := each.meta_properties)), None),
        source=memory.source,
        order=order,
        partitions=found,
        best_order=best,
        worse_in_best_order=left,
        not_starting={
            node: each.refusal or "none of its directories is usable" for node, each in disks.items() if not each.is_up
        },
        without_disks=tuple(sorted(memory.brokers - disks.keys())),
        first_step=memory.first_step,
        unclean_election=memory.unclean_election,
        lost_by_start=[sentence for each in disks.values() for sentence in each.lost_by_start],
        unknown=unknown_partitions(shelf.log_dirs, memory, disks, select),
        findings=_distinct([*findings, *_without_disks(memory, disks)]),
    )


def _named_partitions(shelf: Shelf) -> list[Key]:
    """The partitions that lie in any of the directories."""
    names = (partition.name for log_dir in shelf.log_dirs for partition in log_dir.partitions)
    return [(name.topic, name.partition) for name in names if name is not None]


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """The first of those that say the same of one file: two rooms may have met it."""
    found: dict[object, Finding] = {}
    for each in findings:
        place = None if each.file is None else absolute(each.file)
        found.setdefault((each.code, place, each.position, each.offset, each.detail), each)
    return list(found.values())


def _unread(path: str, why: str) -> Finding:
    return Finding.of(FindingCode.UNREADABLE, None, None, why, path)


def _refuse_live(shelf: Shelf, findings: list[Finding]) -> dict[int, str]:
    """The brokers of which it cannot be examined whether they are live, and why."""
    unexamined = {}
    for log_dir in shelf.log_dirs:
        try:
            refuse_if_locked(log_dir.path)
        except StorageError as error:
            findings.append(unread(log_dir.path, error))
            if log_dir.meta_properties is not None and log_dir.meta_properties.node_id is not None:
                unexamined[log_dir.meta_properties.node_id] = str(error)
    return unexamined


def _refuse_parts(shelf: Shelf) -> None:
    """A broker's start looks at whole log directories."""
    roots = {each.path for each in shelf.log_dirs}
    for copies in shelf.copies.values():
        for each in copies:
            if os.path.dirname(each.path) not in roots:
                raise UsageError(f"{each.path} is the directory of one topic-partition: give the one around it")


def _refuse_twins(shelf: Shelf) -> None:
    """Two directories that no broker starts with: one is a copy of the other, or has another's meta.properties."""
    first: dict[str, LogDir] = {}
    for log_dir in shelf.log_dirs:
        known = None if log_dir.meta_properties is None else log_dir.meta_properties.directory_id
        if known is not None and (other := first.setdefault(known, log_dir)) is not log_dir:
            raise RecoveryRefused(_twins(other, log_dir, f"both are directory {known}"))
    for copies in shelf.copies.values():
        holders: dict[int, LogDir] = {}
        for each in copies:
            if each.node_id is None or each.log_dir is None:
                continue
            other = holders.setdefault(each.node_id, each.log_dir)
            if other is not each.log_dir:
                raise RecoveryRefused(_twins(other, each.log_dir, f"both hold {each.name}"))


def _twins(one: LogDir, other: LogDir, what: str) -> str:
    node = None if one.meta_properties is None else one.meta_properties.node_id
    return (
        f"{one.path} and {other.path} cannot be volumes of one node: by meta.properties both are of node {node}, and "
        f"{what}; give the one that node {node} will be started with"
    )


def _by_broker(shelf: Shelf, memory: Memory, findings: list[Finding]) -> dict[int, list[LogDir]]:
    found: dict[int, list[LogDir]] = {}
    for log_dir in shelf.log_dirs:
        node = None if log_dir.meta_properties is None else log_dir.meta_properties.node_id
        if node is None:
            detail = "it does not say which broker it is of: its logs are left out"
            findings.append(
                Finding.of(FindingCode.META_PROPERTIES_INVALID, None, None, detail, log_dir.path)
            )
        elif node in memory.brokers:
            found.setdefault(node, []).append(log_dir)
        elif any(each.name is not None and each.name.topic != CLUSTER_METADATA_TOPIC for each in log_dir.partitions):
            detail = f"it is of node {node}, which the metadata does not know as a broker: its logs are left out"
            findings.append(
                Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, None, detail, log_dir.path)
            )
    return found


def _nameless(shelf: Shelf, by_broker: Mapping[int, Sequence[LogDir]], memory: Memory) -> dict[int, list[str]]:
    """The directories that do not say whose they are, or are empty, if they can only be one broker's."""
    said = {each.path: each.meta_properties for each in shelf.log_dirs}
    roots = [path for path, meta in said.items() if meta is None or meta.node_id is None]
    roots += [each.file or "" for each in shelf.findings
              if each.code is FindingCode.UNREADABLE and _is_empty(each.file)]  # fmt: skip
    roots += [path for path, _why in shelf.unreadable if _is_empty(path)]
    lacking = []
    for node, log_dirs in by_broker.items():
        ids = {meta.directory_id for each in log_dirs if (meta := said[each.path]) is not None}
        lacking += [node] if memory.directories_of(node) - ids else []
    owners = lacking or [*by_broker]
    is_sure = len(owners) == 1 and memory.brokers <= by_broker.keys()
    return {owners[0]: roots} if roots and is_sure else {}


def _is_empty(path: str | None) -> bool:
    return path is not None and os.path.isdir(path) and not os.listdir(path)


def _checked_order(order: Sequence[int], disks: Mapping[int, BrokerDisks], memory: Memory) -> tuple[int, ...]:
    for number, each in enumerate(order):
        if each in order[:number]:
            raise UsageError(f"broker {each} is twice in the order of starts")
        if each not in memory.brokers:
            there = ", ".join(map(str, sorted(memory.brokers))) or "none"
            raise UsageError(
                f"node {each} in the order of starts is not a broker of this cluster; its brokers: {there}"
            )
        if each not in disks:
            raise UsageError(f"broker {each} is in the order of starts, and none of the directories is its")
    return tuple(order)


def _missing_volumes(disks: BrokerDisks, memory: Memory) -> list[Finding]:
    """The directories that a broker registered with and that are not here."""
    registered = memory.directories_of(disks.node)
    missing = registered - disks.all_directory_ids
    if not missing or None in disks.all_directory_ids:
        return []
    disks.is_whole = False
    detail = (
        f"{len(missing)} of the {len(registered)} log directories that broker {disks.node} registered with "
        f"{'is' if len(missing) == 1 else 'are'} not here ({', '.join(sorted(missing))}): the logs there are left out"
    )
    return [Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail, disks.directories[0].path)]


def _without_disks(memory: Memory, disks: Mapping[int, BrokerDisks]) -> list[Finding]:
    missing = sorted(memory.brokers - disks.keys())
    if not missing:
        return []
    names = ", ".join(map(str, missing))
    detail = f"no directory of {counted(len(missing), 'registered broker')} is given ({names}): taken to stay down"
    return [Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail, None)]


def _logs_of(key: Key, known: KnownReplicas, disks: Mapping[int, BrokerDisks]) -> dict[int, ReplicaLog]:
    """The log of each replica; one that is missing will be empty."""
    found = {}
    for node in known.replicas:
        each = disks.get(node)
        if each is None:
            continue
        log = each.logs.get(key)
        if log is None and each.is_up and each.is_whole and len(each.online) == len(each.directories):
            log = ReplicaLog(node, None, 0, 0, Lineage((), 0))
        if log is not None:
            found[node] = log
    return found


def _judged(
    key: Key,
    known: KnownReplicas,
    memory: Memory,
    disks: Mapping[int, BrokerDisks],
    order: tuple[int, ...] | None,
    flaws: Callable[[Mapping[int, ReplicaLog]], Mapping[int, int]],
) -> PartitionTriage:
    logs = _logs_of(key, known, disks)
    started = disks.keys() if order is None else set(order)
    up = frozenset(node for node in logs if node in started and disks[node].is_up)
    return judged(*key, known, memory.leaders(key, order), logs, up, flaws)


def _best_order(
    found: Sequence[PartitionTriage], memory: Memory, disks: Mapping[int, BrokerDisks], up: Sequence[int]
) -> tuple[tuple[int, ...], int]:
    """The order, of those that begin with each of the brokers, by which the fewest offsets of best copies go.

    Of equals the one that gives the most partitions a best copy to lead.
    """
    orders = [(first, *(each for each in up if each != first)) for first in up[:_MOST_ORDERS]] or [()]
    scored = []
    for number, order in enumerate(orders):
        left = lost = 0
        for each in found:
            leaders = memory.leaders((each.topic, each.partition), order, cautious=True)
            good = {node for node in each.best if disks[node].is_up}
            left += leaders is None or not leaders <= good
            lost += max((each.lost_under(leader) for leader in (each.up if leaders is None else leaders)), default=0)
        scored.append((lost, left, number, order))
    _, left, _, order = min(scored)
    return order, left
