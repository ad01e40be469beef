"""Lines of `kafkalog triage`."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.jobs.triage.logs import ReplicaLog
from kafkalog.jobs.triage.outcome import FollowerLoss, PartitionTriage, StartAdvice
from kafkalog.jobs.triage.run import Triage
from kafkalog.jobs.triage.unknown import UnknownPartition

__all__ = ["Line", "partition_line", "refused_line", "summary_line"]


class LogLine(Struct, frozen=True, kw_only=True):
    """A broker's log, as its start leaves it."""

    node: int
    """the broker"""
    path: str | None
    """its directory; null if the broker will make an empty one"""
    start: int
    """log start offset"""
    end: int
    """log end offset, after a torn end was cut"""
    last_epoch: int | None
    """its last leader epoch; null if it has none"""
    high_watermark: int | None
    """as last written down; null if never"""
    best: bool
    """no other log goes further, and none that goes as far has fewer flaws"""
    flaws: int | None
    """places that consumers do not read in it: damage, and records that cannot be read in batches that another copy has
    otherwise; null where it is the only log that goes furthest, or does not"""
    cut_bytes: int
    """bytes that the broker's own start removes from its segments, beginning at `end`: damage, and all that comes after
    it"""


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """A topic-partition."""

    topic: str
    """its topic"""
    partition: int
    """its number"""
    leaders: tuple[int, ...]
    """brokers that may lead in the end, -1 for none; without an order of starts, all that any order can lead to"""
    outcomes: dict[str, dict[str, int]]
    """leader -> broker -> log end offset once the broker has followed; under -1 as they are when the brokers are up"""
    loses: dict[str, dict[str, FollowerLoss]]
    """leader -> broker -> what its log loses for that; brokers that lose nothing are left out"""
    foreseen: bool
    """false if there are too many ways to try; `leaders` are then all that come up"""
    replicas: tuple[int, ...]
    """brokers that hold it, in the order of the assignment"""
    isr: tuple[int, ...]
    """brokers in sync, as the metadata has it"""
    elr: tuple[int, ...]
    """eligible leader replicas"""
    last_known_elr: tuple[int, ...]
    """the last leader, noted when nobody was in sync any more"""
    leader: int
    """the leader in the metadata, -1 for none"""
    logs: list[LogLine]
    """the logs on the given disks, by broker"""
    best: tuple[int, ...]
    """brokers whose logs go furthest: the highest last leader epoch, then the largest end, then the fewest flaws"""
    better_copy: bool
    """a leader is possible whose log is not one of the best"""
    advice: StartAdvice
    """what to do before the first start"""


class BrokerLine(Struct, frozen=True):
    """A broker that does not come up."""

    node: int
    """its id"""
    reason: str
    """why"""


class SummaryLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="summary"):
    """Summary of all topic-partitions; the last line."""

    cluster_id: str | None
    """of meta.properties"""
    metadata: str | None
    """from which the elections are foreseen; null with a refusal"""
    start_order: tuple[int, ...] | None
    """the order that was given; null for any"""
    partitions: int
    """how many there are"""
    at_risk: int
    """how many may lose records or have no leader"""
    cut_by_start: int
    """of how many a broker's own start cuts a copy that no other goes beyond, before anybody leads"""
    may_lose: int
    """how many may lose records of a replica"""
    may_have_no_leader: int
    """how many may end without a leader"""
    best_order: tuple[int, ...]
    """of the orders of starts that begin with each of the brokers, the one under which the most partitions are led by a
    best copy"""
    worse_in_best_order: int
    """how many partitions are not, or not certainly, even then"""
    not_starting: list[BrokerLine]
    """brokers that do not come up"""
    without_disks: tuple[int, ...]
    """registered brokers of which no directory was given: they are taken to stay down"""
    unknown: list[UnknownPartition]
    """partitions in the brokers' directories that the metadata does not know: nobody will lead them"""
    refusal: str | None
    """why nothing was foreseen; null otherwise"""


Line = PartitionLine | SummaryLine
"""One line for each topic-partition, and one that sums up."""


def partition_line(found: PartitionTriage) -> PartitionLine:
    """Line of one partition; keys of objects are texts."""
    known = found.known
    return PartitionLine(
        topic=found.topic,
        partition=found.partition,
        leaders=found.leaders,
        outcomes={
            str(leader): {str(node): end for node, end in sorted(ends.items())}
            for leader, ends in found.outcomes.items()
        },
        loses={
            str(leader): {str(node): loss for node, loss in sorted(losses.items())}
            for leader, losses in found.losses.items()
        },
        foreseen=found.is_foreseen,
        replicas=known.replicas,
        isr=known.isr,
        elr=known.elr,
        last_known_elr=known.last_known_elr,
        leader=known.leader,
        logs=[_log_line(log, found) for _, log in sorted(found.logs.items())],
        best=found.best,
        better_copy=found.may_be_led_worse,
        advice=found.advice,
    )


def _log_line(log: ReplicaLog, found: PartitionTriage) -> LogLine:
    return LogLine(
        node=log.node,
        path=log.path,
        start=log.start,
        end=log.end,
        last_epoch=log.lineage.last_epoch,
        high_watermark=log.high_watermark,
        best=log.node in found.best,
        flaws=found.flaws.get(log.node),
        cut_bytes=log.cut_bytes,
    )


def summary_line(found: Triage, refusal: str | None = None) -> SummaryLine:
    """Line that sums up; `refusal` is why nothing was foreseen."""
    return SummaryLine(
        cluster_id=found.cluster_id,
        metadata=found.source if refusal is None else None,
        start_order=found.order,
        partitions=len(found.partitions),
        at_risk=len(found.at_risk),
        cut_by_start=len(found.cut_by_start),
        may_lose=sum(partition.may_lose for partition in found.partitions),
        may_have_no_leader=sum(partition.may_have_none for partition in found.partitions),
        best_order=found.best_order,
        worse_in_best_order=found.worse_in_best_order,
        not_starting=[BrokerLine(node, why) for node, why in sorted(found.not_starting.items())],
        without_disks=found.without_disks,
        unknown=found.unknown,
        refusal=refusal,
    )


def refused_line(why: str) -> SummaryLine:
    """Line that sums up what was not foreseen."""
    return summary_line(Triage(None, "", None, [], (), 0), why)
