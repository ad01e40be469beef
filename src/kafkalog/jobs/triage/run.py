"""Predict the next start of a cluster after a power failure, from the disks of all its nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from math import factorial

from msgspec import Struct

from kafkalog.cluster.transactions.producer_ids import used_again
from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.wording import counted
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.copies.volumes import Shelf, gather
from kafkalog.jobs.triage.flaws import Flaws, flaws_of
from kafkalog.jobs.triage.logs import BrokerDisks, ReplicaLog, empty_log, read_brokers, unread
from kafkalog.jobs.triage.memory import KnownReplicas, Memory
from kafkalog.jobs.triage.outcome import PartitionTriage, advised, judged
from kafkalog.jobs.triage.sources import memory_of
from kafkalog.jobs.triage.unknown import UnknownPartition, unknown_partitions
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.inventory import is_missing
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.workers import OnProgress
from kafkalog.log.disk.files import PathLike, absolute
from kafkalog.recovery.act.lock import refuse_if_locked
from kafkalog.recovery.broker.node.answer import EmptyVoters
from kafkalog.recovery.broker.node.leader import empty_majority
from kafkalog.recovery.broker.node.older_copies import sentence_of_older_metadata, sentence_of_reused

__all__ = ["Triage", "best_order", "triage"]

Key = tuple[str, int]
_MOST_ORDERS = 64
"""most orders of starts that are compared, if they differ in the first broker only"""
_MOST_PERMUTED = 5
"""most brokers of which every order of starts is compared: 120 orders"""


class Triage(Struct, frozen=True, kw_only=True):
    """Prediction of a cluster's next start."""

    cluster_id: str | None
    source: str
    """path of the metadata that it is based on"""
    order: tuple[int, ...] | None
    """order of starts that was asked about; None: any order"""
    partitions: list[PartitionTriage]
    best_order: tuple[int, ...]
    """order of starts in which the fewest offsets of best copies are lost: brokers one after another, once the
    controllers alone have fenced all. Brokers that an advice holds back come last, if a controller can be elected
    without them
    """
    orders_compared: int = 0
    """number of orders of starts among which `best_order` is the best"""
    are_all_compared: bool = False
    """whether these are all orders of the brokers that can be started"""
    worse_in_best_order: int
    """number of partitions that even then may have no leader, or one whose copy is not the best"""
    not_starting: dict[int, str] = {}
    """broker id -> why it does not start"""
    without_disks: tuple[int, ...] = ()
    """ids of registered brokers without a given directory; they are assumed to stay down"""
    first_step: str = ""
    """what to do before the first broker of `best_order` is started; a sentence without its full stop"""
    elected: str = ""
    """which controllers can be elected, as a sentence; empty if it makes no difference"""
    unclean_election: str = ""
    """how to ask for an unclean election, if an advice names one"""
    lost_by_start: list[str] = []
    """what starts lose apart from elections, in sentences"""
    unknown: list[UnknownPartition] = []
    """partitions in the brokers' directories that the metadata does not have: lost to the cluster"""
    below_min_isr: list[str] = []
    """partitions of which fewer replicas come up than `min.insync.replicas`, but at least one"""
    empty_voters: EmptyVoters | None = None
    """voters without metadata that would elect an empty cluster; None if they are no majority"""
    findings: list[Finding] = []

    @property
    def at_risk(self) -> list[PartitionTriage]:
        """Partitions that may lose records, may have no leader or a leader with more damage, or have no data left."""
        return [partition for partition in self.partitions if not partition.is_clean]

    @property
    def cut_by_start(self) -> list[PartitionTriage]:
        """Partitions with copies in `PartitionTriage.cut_by_start`."""
        return [partition for partition in self.partitions if partition.cut_by_start]

    @property
    def below_high_watermark(self) -> list[PartitionTriage]:
        """Partitions whose copies all end below a high watermark: committed records are in none of them."""
        return [partition for partition in self.partitions if partition.ends_below_high_watermark]

    @property
    def is_clean(self) -> bool:
        """Whether every possible election has a leader and loses nothing, and no start loses anything. False if voters
        without metadata are a majority.
        """
        return not (self.at_risk or self.unknown or self.lost_by_start or self.empty_voters)


def triage(
    *paths: PathLike,
    start_order: Sequence[int] | None = None,
    select: Selection = ALL,
    config: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    jobs: Count = 1,
    on_progress: OnProgress | None = None,
) -> Triage:
    """Predict the elections after a whole cluster was stopped at one moment; change nothing.

    `paths` are log directories of all brokers and controllers, or their parents, or ZooKeeper's data directory. A
    directory that is missing, cannot be read, or has no data of Kafka, is reported as a finding. A broker is assumed to
    stay down if no directory here names it, or if its logs cannot be read. `start_order` names brokers in the order in
    which they will be started. Controllers run alone until all old sessions have ended; then each broker is started
    when the previous one is up. Without it brokers and controllers start in any order. `config` are settings of the
    controllers and brokers.

    Raises `UsageError` for files and partition directories, if none of the paths exists, or if none has the metadata
    that names the replicas. Raises it also if `start_order` has a broker twice, or one that is unknown or has no
    directory here. Raises it too for an invalid setting, or if everything selected is excluded. Raises `UnknownName`
    for a topic or partition that does not exist. Raises `RecoveryRefused` for a directory that a broker has open, and
    for metadata without topics and brokers. Raises it also for directories of several clusters, and for two that cannot
    be of one broker. Raises `StorageError` if the metadata cannot be read.

    * `paths`: directories of all brokers and controllers
    * `select`: the topic-partitions to judge; all of them without it
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
    up = [node for node, broker_disks in disks.items() if broker_disks.is_up]
    up.sort(key=lambda node: disks[node].lacks_directories)  # it may lead, empty: late
    wanted = {key: known_replicas for key, known_replicas in known.items() if select.takes(*key)}
    flaws = partial(flaws_of, limits=limits)
    partition_triages = [_judged(key, replicas, memory, disks, order, flaws) for key, replicas in wanted.items()]
    best, left, compared = best_order(partition_triages, memory, disks, up)
    for triage in partition_triages:
        key = triage.topic, triage.partition
        leaders = partial(memory.leaders, key, cautious=True)
        triage.advice = advised(triage, leaders, best, memory.eligible(key), memory.elects_a_controller)
    held = {node for each in partition_triages for node in each.advice.hold_back}
    before = tuple(node for node in best if node not in held)
    if held and memory.elects_a_controller(before):
        best = (*before, *(node for node in best if node in held))
        ((_lost, left, _number, _order),) = _scored([best], 0, partition_triages, memory, disks)
    return Triage(
        cluster_id=next((meta.cluster_id for log_dir in shelf.log_dirs if (meta := log_dir.meta_properties)), None),
        source=memory.source,
        order=order,
        partitions=partition_triages,
        best_order=best,
        orders_compared=compared,
        are_all_compared=compared == factorial(len(up)),
        worse_in_best_order=left,
        not_starting={
            node: broker.refusal or "none of its directories is usable"
            for node, broker in disks.items()
            if not broker.is_up
        },
        without_disks=tuple(sorted(memory.brokers - disks.keys())),
        first_step=memory.first_step,
        elected=memory.elected,
        unclean_election=memory.unclean_election,
        lost_by_start=[
            *(sentence for disk in disks.values() for sentence in disk.lost_by_start),
            *_removed_by_start(disks, wanted),
            *_older_metadata(memory, disks, known),
        ],
        unknown=unknown_partitions(shelf.log_dirs, memory, disks, select),
        below_min_isr=[
            f"{triage.topic}-{triage.partition}" for triage in partition_triages
            if 0 < len(triage.up | triage.begin_empty) < memory.min_isr((triage.topic, triage.partition))
        ],
        empty_voters=_empty_voters(shelf, memory),
        findings=_distinct([*findings, *_without_disks(memory, disks)]),
    )


def _empty_voters(shelf: Shelf, memory: Memory) -> EmptyVoters | None:
    """Return the voters without metadata if they are a majority; None if they are not."""
    held = [(node, absolute(root)) for node, root in memory.held]
    roots, holders = {root for _node, root in held}, {node for node, _root in held}
    without: dict[int, list[str | None]] = {}
    for log_dir in shelf.log_dirs:
        meta = log_dir.meta_properties
        if meta is not None and meta.node_id is not None and absolute(log_dir.path) not in roots:
            without.setdefault(meta.node_id, []).append(meta.directory_id)
    without = {node: ids for node, ids in without.items() if node not in holders}
    return empty_majority(held, without, memory.static_voters, memory.ids_registered_by)


def _removed_by_start(disks: Mapping[int, BrokerDisks], keys: Collection[Key]) -> Iterator[str]:
    """Yield sentences about deleted segments that a start removes although they have offsets beyond the end of every
    log here. There is one for each broker that is up and each partition of `keys` with such segments.
    """
    for disk in disks.values():
        for key, deleted in disk.deleted.items():
            end = max((other.logs[key].end for other in disks.values() if key in other.logs), default=0)
            if key in keys and deleted.last_offset >= end and disk.is_up:
                yield (
                    f"broker {disk.node}: its start removes {counted(deleted.records, 'record')} of "
                    f"{deleted.directory} in deleted segments ({deleted.offsets_text}), which a truncation removed, "
                    f"and no log here reaches offset {deleted.last_offset}: `kafkalog plan` says how to keep them"
                )


def _named_partitions(shelf: Shelf) -> list[Key]:
    """Topic and number of every partition directory, in the order of the log directories; a replica's in each
    of them.
    """
    names = (partition.name for log_dir in shelf.log_dirs for partition in log_dir.partitions)
    return [(name.topic, name.partition) for name in names if name is not None]


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings in order, without those that repeat an earlier one: equal code, absolute file, position,
    offset and detail. Findings that a file cannot be read repeat each other even if their details differ.
    """
    distinct: dict[object, Finding] = {}
    for finding in findings:
        place = None if finding.file is None else absolute(finding.file)
        detail = None if finding.code is FindingCode.UNREADABLE else finding.detail
        distinct.setdefault((finding.code, place, finding.position, finding.offset, detail), finding)
    return list(distinct.values())


def _unread(path: str, why: str) -> Finding:
    return Finding.of(FindingCode.UNREADABLE, None, None, why, path)


def _refuse_live(shelf: Shelf, findings: list[Finding]) -> dict[int, str]:
    """Raise `RecoveryRefused` if a broker is running on one of the directories. If the lock of a directory cannot be
    examined, append a finding to `findings`. Return the errors of such directories by broker id: the last one if a
    broker has several, none for a directory without a broker id.
    """
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
    """Raise `UsageError` for a partition directory that was named without its log directory, because a start reads
    whole log directories.
    """
    roots = {copy.path for copy in shelf.log_dirs}
    for copies in shelf.copies.values():
        for copy in copies:
            if os.path.dirname(copy.path) not in roots:
                raise UsageError(f"{copy.path} is the directory of one topic-partition: give the one around it")


def _refuse_twins(shelf: Shelf) -> None:
    """Raise `RecoveryRefused` for two directories with which no broker starts. Either both have the same directory id,
    or they belong to one broker and both have the same partition. In the second case one is a copy of the other, or has
    the other's `meta.properties`.
    """
    first: dict[str, LogDir] = {}
    for log_dir in shelf.log_dirs:
        known = None if log_dir.meta_properties is None else log_dir.meta_properties.directory_id
        if known is not None and (other := first.setdefault(known, log_dir)) is not log_dir:
            raise RecoveryRefused(_twins(other, log_dir, f"both are directory {known}"))
    for copies in shelf.copies.values():
        holders: dict[int, LogDir] = {}
        for copy in copies:
            if copy.node_id is None or copy.log_dir is None:
                continue
            other = holders.setdefault(copy.node_id, copy.log_dir)
            if other is not copy.log_dir:
                raise RecoveryRefused(_twins(other, copy.log_dir, f"both hold {copy.name}"))


def _twins(first: LogDir, second: LogDir, what: str) -> str:
    node = None if first.meta_properties is None else first.meta_properties.node_id
    return (
        f"no node starts with {first.path} and {second.path}: by meta.properties both are of node {node}, and {what}; "
        f"give the one that node {node} will be started with, or mend both first (`kafkalog plan`)"
    )


def _by_broker(shelf: Shelf, memory: Memory, findings: list[Finding]) -> dict[int, list[LogDir]]:
    log_dirs: dict[int, list[LogDir]] = {}
    for log_dir in shelf.log_dirs:
        node = None if log_dir.meta_properties is None else log_dir.meta_properties.node_id
        if node is None:
            detail = "it does not say which broker it is of: its logs are left out"
            findings.append(Finding.of(FindingCode.META_PROPERTIES_INVALID, None, None, detail, log_dir.path))
        elif node in memory.brokers:
            log_dirs.setdefault(node, []).append(log_dir)
        elif any(
            partition.name is not None and partition.name.topic != CLUSTER_METADATA_TOPIC
            for partition in log_dir.partitions
        ):
            detail = f"it is of node {node}, which the metadata does not know as a broker: its logs are left out"
            findings.append(
                Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, None, detail, log_dir.path)
            )
    return log_dirs


def _nameless(shelf: Shelf, by_broker: Mapping[int, Sequence[LogDir]], memory: Memory) -> dict[int, list[str]]:
    """Assign directories that are missing, are empty or name no broker to the only broker that can own them. Return its
    broker id -> their paths; empty if there are none or the owner is not certain. `by_broker` has the directories that
    name a broker.

    The owner is the broker that lacks a registered directory; if none lacks one, the only broker. The owner is not
    certain if there are several such brokers, or if a registered broker has no directory here.
    """
    metas = {log_dir.path: log_dir.meta_properties for log_dir in shelf.log_dirs}
    roots = [path for path, meta in metas.items() if meta is None or meta.node_id is None]
    roots += [finding.file or "" for finding in shelf.findings
              if finding.code is FindingCode.UNREADABLE and finding.file and _may_be_missing(finding.file)]  # fmt: skip
    inside = tuple(f"{log_dir.path}{os.sep}" for log_dir in shelf.log_dirs)
    roots += [path for path, _why in shelf.unreadable if not path.startswith(inside) and _may_be_missing(path)]
    lacking = []
    for node, log_dirs in by_broker.items():
        ids = {meta.directory_id for log_dir in log_dirs if (meta := metas[log_dir.path]) is not None}
        lacking += [node] if memory.directories_of(node) - ids else []
    owners = lacking or [*by_broker]
    is_sure = len(owners) == 1 and memory.brokers <= by_broker.keys()
    return {owners[0]: roots} if roots and is_sure else {}


def _may_be_missing(path: str) -> bool:
    try:
        return is_missing(path)
    except StorageError:
        return False


def _checked_order(order: Sequence[int], disks: Mapping[int, BrokerDisks], memory: Memory) -> tuple[int, ...]:
    for number, node in enumerate(order):
        if node in order[:number]:
            raise UsageError(f"broker {node} is twice in the order of starts")
        if node not in memory.brokers:
            there = ", ".join(map(str, sorted(memory.brokers))) or "none"
            raise UsageError(
                f"node {node} in the order of starts is not a broker of this cluster; its brokers: {there}"
            )
        if node not in disks:
            raise UsageError(f"broker {node} is in the order of starts, and none of the directories is its")
    return tuple(order)


def _missing_volumes(disks: BrokerDisks, memory: Memory) -> list[Finding]:
    """Return one finding about directories with which a broker has registered and that are not here, and set
    `disks.is_whole` to False. Empty if none is missing, or if a directory here has no id, because it may be the missing
    one.
    """
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


def _older_metadata(memory: Memory, disks: Mapping[int, BrokerDisks], known: Mapping[Key, KnownReplicas]) -> list[str]:
    """Return the sentences about metadata that is older than the logs: producer ids that the controllers hand out
    again, and later leader epochs of the partitions `known`. Empty if nothing shows that it is older.
    """
    logs = [(key, log) for broker in disks.values() for key, log in broker.logs.items()]
    next_block = memory.next_producer_id
    ids = [(f"{topic}-{number}", log.producer_id) for (topic, number), log in logs]
    used = [] if next_block is None else used_again(ids, next_block)
    later: dict[str, tuple[str, int, int]] = {}
    for (topic, number), log in logs:
        replicas, last = known.get((topic, number)), log.lineage.last_epoch
        if replicas is None or last is None or last <= replicas.leader_epoch:
            continue
        if replicas.topic_id is None or log.topic_id in (None, replicas.topic_id):
            name = f"{topic}-{number}"
            later.setdefault(name, (name, last, replicas.leader_epoch))
    reused = [sentence_of_reused(used, next_block, memory.page)] if used and next_block is not None else []
    older = [sentence_of_older_metadata([*later.values()], next_block, memory.page)] if used or later else []
    return [*reused, *older]


def _without_disks(memory: Memory, disks: Mapping[int, BrokerDisks]) -> list[Finding]:
    missing = sorted(memory.brokers - disks.keys())
    if not missing:
        return []
    names = ", ".join(map(str, missing))
    detail = f"no directory of {counted(len(missing), 'registered broker')} is given ({names}): taken to stay down"
    return [Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail, None)]


def _logs_of(key: Key, known: KnownReplicas, disks: Mapping[int, BrokerDisks]) -> dict[int, ReplicaLog]:
    """Return the log of each replica by broker id; replicas whose broker is not in `disks` are omitted.

    The log of another topic of the same name does not count, unless it is misidentified (`BrokerDisks`). A replica
    without a log gets an empty one if its broker is up and all the broker's directories are here and online; otherwise
    it is omitted.
    """
    logs = {}
    for node in known.replicas:
        broker = disks.get(node)
        if broker is None:
            continue
        log = broker.logs.get(key)
        is_other = log is not None and None not in (known.topic_id, log.topic_id) and log.topic_id != known.topic_id
        if is_other and key not in broker.misidentified:
            log = None  # the start puts it out of service
        if log is None and broker.is_up and not broker.lacks_directories:
            log = empty_log(node)
        if log is not None:
            logs[node] = log
    return logs


def _judged(
    key: Key,
    known: KnownReplicas,
    memory: Memory,
    disks: Mapping[int, BrokerDisks],
    order: tuple[int, ...] | None,
    flaws: Callable[[Mapping[int, ReplicaLog]], Flaws],
) -> PartitionTriage:
    logs = _logs_of(key, known, disks)
    started = disks.keys() if order is None else set(order)
    up = frozenset(node for node in logs if node in started and disks[node].is_up)
    begin_empty = frozenset(
        node
        for node in known.replicas
        if node in started and node not in logs and disks[node].is_up and disks[node].directory_ids
    )
    return judged(*key, known, memory.leaders(key, order), logs, up, begin_empty, flaws_of=flaws)


def best_order(
    found: Sequence[PartitionTriage], memory: Memory, disks: Mapping[int, BrokerDisks], up: Sequence[int]
) -> tuple[tuple[int, ...], int, int]:
    """Choose the order of starts that loses the fewest offsets of best copies. Among several such orders, choose the
    one with the fewest partitions that may not get a best leader. Return the order, the number of these partitions, and
    the number of orders that were compared. `up` are the brokers that can be started; if it is empty, the order is
    empty.

    At most 64 orders that differ in the first broker are compared. If each of them loses something or leaves such a
    partition, and at most five brokers can be started, all other orders are compared too.
    """
    orders = [(first, *(node for node in up if node != first)) for first in up[:_MOST_ORDERS]] or [()]
    scored = _scored(orders, 0, found, memory, disks)
    if min(scored)[:2] > (0, 0) and len(up) <= _MOST_PERMUTED:
        others = [order for order in permutations(up) if order not in orders]
        scored += _scored(others, len(orders), found, memory, disks)
    _, left, _, order = min(scored)
    return order, left, len(scored)


def _scored(
    orders: Sequence[tuple[int, ...]],
    first: int,
    found: Sequence[PartitionTriage],
    memory: Memory,
    disks: Mapping[int, BrokerDisks],
) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """Return a tuple for each order of starts, in the order of `orders`. The first number is of offsets that may be
    lost, the sum of each partition's largest loss. The second is of partitions that may not get a best leader or are
    better merged. Then follow the order's number, counted from `first`, and the order.
    """
    scored = []
    for number, order in enumerate(orders, first):
        left = lost = 0
        for partition in found:
            leaders = memory.leaders((partition.topic, partition.partition), order, cautious=True)
            good = {node for node in partition.best if disks[node].is_up}
            left += leaders is None or partition.is_better_merged or not leaders <= good
            possible = partition.up if leaders is None else leaders
            lost += max((partition.lost_under(leader) for leader in possible), default=0)
        scored.append((lost, left, number, order))
    return scored
