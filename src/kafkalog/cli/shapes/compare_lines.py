"""Lines of `kafkalog compare`."""

from __future__ import annotations

from msgspec import Struct, field, structs

from kafkalog.cli.shapes.shared_lines import PlaceLine, UnreadableLine
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.findings import FindingJson
from kafkalog.copies.comparison import Comparison, CopyReport, PartitionComparison
from kafkalog.inspect.group_losses import GroupLoss

__all__ = ["Line", "group_line", "partition_line", "summary_line"]


class DifferenceLine(Struct, frozen=True, kw_only=True):
    """What a copy and the best one do not have in common."""

    other_bytes_here: PlaceLine | None = field(name="other_bytes_at")
    """the first batch whose bytes differ, in this copy; null if there is none"""
    other_bytes_there: PlaceLine | None = field(name="other_bytes_there_at")
    """the same in the best copy; null if there is none"""
    other_batches: int
    """batches whose bytes differ"""
    unreadable_batches: int
    """those of them whose records cannot be read here, though the checksum is right"""
    unreadable_there_batches: int
    """the same in the best copy"""
    only_epoch_differs: bool
    """they differ in the leader epoch only"""
    lacks: PlaceLine | None = field(name="lacks_from")
    """the first batch that is there and not here; null if there is none"""
    lacks_records: int
    """records in such batches"""
    lacks_for_damage: bool
    """they are where this copy is damaged"""
    has_alone: PlaceLine | None = field(name="has_alone_from")
    """the first batch that is here and not there; null if there is none"""
    has_alone_records: int
    """records in such batches"""
    has_alone_for_damage: bool
    """they are where the best copy is damaged"""
    cleaned: int = field(name="batches_cleaned_differently")
    """batches that compaction has changed differently"""


class CopyLine(Struct, frozen=True, kw_only=True):
    """One copy."""

    path: str
    """the partition directory"""
    node_id: int | None
    """its broker; null if not given"""
    cluster_id: str | None
    """its cluster; null if not given"""
    topic_id: str | None
    """of partition.metadata; null if there is none"""
    log_start_offset: int
    """first offset"""
    log_end_offset: int
    """where the log ends"""
    sound_end_offset: int | None
    """where its first damage begins, else where it ends; null if it could not be read"""
    high_watermark: int | None
    """of its checkpoint; null if it has none"""
    last_epoch: int | None
    """the last leader epoch; null if there is none"""
    leader_epochs: tuple[tuple[int, int], ...]
    """pairs of an epoch and its first offset"""
    batches: int
    """how many are sound"""
    records: int
    """in them, from the log start on"""
    bytes: int
    """of its logs"""
    damage: FindingJson | None
    """the first damage; null if there is none"""
    damaged_places: int
    """number of them"""
    records_behind_damage: int
    """sound records after the first damage"""
    in_sync: bool | None
    """its broker is in the ISR; null if unknown"""
    led: bool | None
    """its broker was the leader; null if unknown"""
    common_epoch: int | None = None
    """the last epoch that it shares with the best copy; null for the best one"""
    cut_at_offset: int | None = None
    """where Kafka would truncate it to follow the best; null for the best one"""
    records_cut: int
    """records that it would lose there"""
    difference: DifferenceLine | None
    """against the best copy, by content; null for the best one"""
    findings: list[FindingJson]
    """about the directory"""
    error: str | None
    """why it could not be read; null otherwise"""
    differs: bool = False
    """from the best copy"""


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """A topic-partition."""

    topic: str
    """its topic"""
    partition: int
    """its number"""
    clean: bool
    """all copies are equal and complete, and none is missing"""
    best: str | None
    """directory of the best copy; null if none can be read"""
    best_node_id: int | None
    """its broker; null if not given"""
    why: str
    """why it is the best"""
    best_may_be_elected: bool | None
    """the controller may elect it; null if unknown"""
    replicas: tuple[int, ...] | None
    """brokers that should hold it; null if unknown"""
    isr: tuple[int, ...] | None
    """brokers in sync; null if unknown"""
    elr: tuple[int, ...] | None
    """eligible leader replicas; null if unknown"""
    leader: int | None
    """the leader; null if unknown"""
    leader_epoch: int | None
    """its epoch; null if unknown"""
    missing_on: list[int]
    """brokers that should hold it and do not"""
    copies: list[CopyLine]
    """copy by copy"""


class GroupLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="group"):
    """What a group lost, with `--groups`."""

    group: str
    """the group"""
    topic: str
    """the topic that it read"""
    partition: int
    """its number"""
    committed_offset: int
    """the next offset that the group reads"""
    leader_epoch: int | None
    """of the last record that it read; null if its client did not say"""
    gone: tuple[int, int]
    """first and last offset that it read and whose records are gone"""
    unseen: tuple[int, int] | None
    """first and last offset of records of the best copy that it passes over; null if there are none"""
    certain: bool
    """false: it is unknown which of two logs the group has read"""
    held_by: str | None
    """a copy that still has what was read; null if none of those given"""


class SummaryLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="summary"):
    """The summary."""

    paths: tuple[str, ...]
    """as they were given"""
    clean: bool
    """everything can be read, is undamaged and equal"""
    partitions: int
    """number of them"""
    partitions_not_clean: int
    """of those"""
    copies: int
    """number of them"""
    damaged_copies: int
    """of those"""
    memory: str | None
    """where the ISRs were read from; null if unknown"""
    memory_problem: str | None
    """why they could not be read, or not all that is about them; null otherwise, or if there are none"""
    left_out: list[str]
    """directories that a broker would not serve"""
    unreadable: list[UnreadableLine]
    """what could not be read"""
    findings: list[FindingJson]
    """of log directories, and of copies that do not belong together"""


Line = PartitionLine | GroupLine | SummaryLine
"""One line for each topic-partition, one for each loss of a group if asked for, and one that sums up."""


def partition_line(found: PartitionComparison) -> PartitionLine:
    """Line of the copies of one topic-partition."""
    state, best = found.replica_state, found.best
    return PartitionLine(
        topic=found.topic,
        partition=found.partition,
        clean=found.is_clean,
        best=None if best is None else best.path,
        best_node_id=None if best is None else best.node_id,
        why=found.why,
        best_may_be_elected=found.is_elected,
        replicas=None if state is None else state.replicas,
        isr=None if state is None else state.isr,
        elr=None if state is None else state.eligible,
        leader=None if state is None else state.leader,
        leader_epoch=None if state is None else state.leader_epoch,
        missing_on=found.missing,
        copies=[_copy_line(copy, differs=found.differs(copy)) for copy in found.copies],
    )


def _copy_line(copy: CopyReport, *, differs: bool) -> CopyLine:
    line, past = shaped(copy, CopyLine), copy.past
    if past is None:
        return structs.replace(line, differs=differs)
    return structs.replace(line, common_epoch=past.epoch, cut_at_offset=past.offset, differs=differs)


def group_line(loss: GroupLoss) -> GroupLine:
    """Line of what a group lost."""
    return GroupLine(
        group=loss.group,
        topic=loss.topic,
        partition=loss.partition,
        committed_offset=loss.committed_offset,
        leader_epoch=loss.leader_epoch,
        gone=(loss.gone_first, loss.committed_offset - 1),
        unseen=None if loss.unseen_last is None else (loss.gone_first, loss.unseen_last),
        certain=loss.is_certain,
        held_by=loss.held_by,
    )


def summary_line(found: Comparison) -> SummaryLine:
    """Line that sums up a comparison."""
    return SummaryLine(
        paths=found.paths,
        clean=found.is_clean,
        partitions=len(found.partitions),
        partitions_not_clean=sum(not partition.is_clean for partition in found.partitions),
        copies=sum(len(partition.copies) for partition in found.partitions),
        damaged_copies=sum(copy.damage is not None for partition in found.partitions for copy in partition.copies),
        memory=found.memory,
        memory_problem=found.memory_problem,
        left_out=found.left_out,
        unreadable=[UnreadableLine(*each) for each in found.unreadable],
        findings=shaped(found.findings, list[FindingJson]),
    )
