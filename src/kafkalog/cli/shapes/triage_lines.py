"""JSON lines of `kafkalog triage`."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.jobs.triage.logs import ReplicaLog
from kafkalog.jobs.triage.outcome import FollowerLoss, PartitionTriage, StartAdvice
from kafkalog.jobs.triage.run import Triage
from kafkalog.jobs.triage.unknown import UnknownPartition

__all__ = ["Line", "partition_line", "refused_line", "summary_line"]


class LogLine(Struct, frozen=True, kw_only=True):
    """One broker's log of a partition, as the broker's own start leaves it."""

    node: int
    """id of the broker"""
    path: str | None
    """path of the partition directory; null if it is missing and the broker would create an empty log"""
    start: int
    """log start offset: first offset of the log"""
    end: int
    """log end offset after the broker's own start has truncated a torn or damaged end"""
    last_epoch: int | None
    """last leader epoch of the log; null if it has none"""
    high_watermark: int | None
    """high watermark from `replication-offset-checkpoint`; null if it has no entry"""
    best: bool
    """whether the log is one of the best copies: highest last leader epoch, then largest end, then fewest flaws"""
    flaws: int | None
    """number of places in the log that consumers cannot read: damage, and batches with unreadable records that differ
    from another copy; null if not counted: only logs are compared that share the highest last leader epoch and largest
    end
    """
    cut_bytes: int
    """size of the data that the broker's own start removes from the segments at and after `end`, in bytes: damage and
    everything after it
    """


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """Prediction for one partition."""

    topic: str
    """name of the topic"""
    partition: int
    """partition number"""
    leaders: tuple[int, ...]
    """ids of the brokers that may be the leader once all are started, -1 if there may be none; without --start-order,
    after any order of starts
    """
    outcomes: dict[str, dict[str, int]]
    """log end offset of each started replica after following a possible leader: leader id -> broker id -> offset;
    leader -1: offsets after the brokers' own starts
    """
    loses: dict[str, dict[str, FollowerLoss]]
    """offsets that each started replica loses by following a possible leader: leader id -> broker id -> loss; without
    brokers that lose nothing
    """
    foreseen: bool
    """whether the leaders could be predicted; false if there are too many cases: `leaders` then has all brokers with a
    replica that start
    """
    replicas: tuple[int, ...]
    """ids of the brokers with a replica, in the order of the assignment"""
    isr: tuple[int, ...]
    """ids of the brokers in the ISR, from the metadata"""
    elr: tuple[int, ...]
    """ids of the eligible leader replicas (ELR), from the metadata"""
    last_known_elr: tuple[int, ...]
    """id of the last leader before the ISR became empty (`LastKnownElr`); empty if it is not recorded"""
    leader: int
    """id of the leader in the metadata; -1 if there is none"""
    logs: list[LogLine]
    """logs of the replicas whose disks were given, sorted by broker id"""
    best: tuple[int, ...]
    """ids of the brokers with the best copies: highest last leader epoch, then largest end, then fewest flaws"""
    better_copy: bool
    """whether a broker may become leader whose log is not one of the best copies"""
    advice: StartAdvice
    """recommended steps before the first start"""


class BrokerLine(Struct, frozen=True):
    """Broker that does not start."""

    node: int
    """id of the broker"""
    reason: str
    """reason why the broker does not start"""


class SummaryLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="summary"):
    """Summary of all partitions; the last line."""

    cluster_id: str | None
    """cluster id from `meta.properties`; null if unknown"""
    metadata: str | None
    """path of the metadata on which the prediction is based; null if triage was refused"""
    start_order: tuple[int, ...] | None
    """ids of the brokers as in --start-order; null without --start-order: any order of starts is considered"""
    partitions: int
    """number of examined partitions"""
    at_risk: int
    """number of partitions that may lose records, may have no leader, may be led by a copy with more flaws than the
    best copies, or have no data left on any replica
    """
    cut_by_start: int
    """number of partitions of which a broker's own start truncates a copy that no other went beyond"""
    may_lose: int
    """number of partitions of which a replica may lose records by following a leader"""
    may_have_no_leader: int
    """number of partitions that may have no leader"""
    best_order: tuple[int, ...]
    """ids of the brokers in the best order of starts: it loses the fewest offsets of best copies, then has the fewest
    partitions without a best copy as leader; compared are orders that differ in the first broker, and of at most five
    brokers all, if none of the former is without a loss
    """
    worse_in_best_order: int
    """number of partitions that may get no leader with a best copy even in `best_order`"""
    not_starting: list[BrokerLine]
    """brokers that do not start, with the reason"""
    without_disks: tuple[int, ...]
    """ids of registered brokers without any given directory; they are assumed to stay down"""
    unknown: list[UnknownPartition]
    """partitions in the brokers' directories that are not in the metadata, so that no broker will lead them"""
    refusal: str | None
    """reason why triage was refused; null if it was not"""


Line = PartitionLine | SummaryLine
"""One line per partition, then one summary line."""


def partition_line(partition: PartitionTriage) -> PartitionLine:
    """Return the `--json` line of one partition. Broker ids in `outcomes` and `loses` are text, because the keys of
    JSON objects are strings.
    """
    known = partition.known
    return PartitionLine(
        topic=partition.topic,
        partition=partition.partition,
        leaders=partition.leaders,
        outcomes={
            str(leader): {str(node): end for node, end in sorted(ends.items())}
            for leader, ends in partition.outcomes.items()
        },
        loses={
            str(leader): {str(node): loss for node, loss in sorted(losses.items())}
            for leader, losses in partition.losses.items()
        },
        foreseen=partition.is_foreseen,
        replicas=known.replicas,
        isr=known.isr,
        elr=known.elr,
        last_known_elr=known.last_known_elr,
        leader=known.leader,
        logs=[_log_line(log, partition) for _, log in sorted(partition.logs.items())],
        best=partition.best,
        better_copy=partition.may_be_led_worse,
        advice=partition.advice,
    )


def _log_line(log: ReplicaLog, partition: PartitionTriage) -> LogLine:
    return LogLine(
        node=log.node,
        path=log.path,
        start=log.start,
        end=log.end,
        last_epoch=log.lineage.last_epoch,
        high_watermark=log.high_watermark,
        best=log.node in partition.best,
        flaws=partition.flaws.get(log.node),
        cut_bytes=log.cut_bytes,
    )


def summary_line(triage: Triage, refusal: str | None = None) -> SummaryLine:
    """Return the summary line of a triage. `refusal` is the reason why triage was refused (other fields are then
    mostly empty); None if it was not.
    """
    return SummaryLine(
        cluster_id=triage.cluster_id,
        metadata=triage.source if refusal is None else None,
        start_order=triage.order,
        partitions=len(triage.partitions),
        at_risk=len(triage.at_risk),
        cut_by_start=len(triage.cut_by_start),
        may_lose=sum(partition.may_lose for partition in triage.partitions),
        may_have_no_leader=sum(partition.may_have_none for partition in triage.partitions),
        best_order=triage.best_order,
        worse_in_best_order=triage.worse_in_best_order,
        not_starting=[BrokerLine(node, why) for node, why in sorted(triage.not_starting.items())],
        without_disks=triage.without_disks,
        unknown=triage.unknown,
        refusal=refusal,
    )


def refused_line(why: str) -> SummaryLine:
    """Return the summary line of a refused triage, with `why` as the reason."""
    return summary_line(
        Triage(cluster_id=None, source="", order=None, partitions=[], best_order=(), worse_in_best_order=0), why
    )
