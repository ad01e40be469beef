"""Types of the lines of `kafkalog compare --json`."""

from __future__ import annotations

from msgspec import Struct, field, structs

from kafkalog.cli.shapes.shared_lines import PlaceLine, UnreadableLine
from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.common.shapes import shaped
from kafkalog.copies.comparison import Comparison, CopyReport, PartitionComparison
from kafkalog.inspect.group_losses import GroupLoss

__all__ = ["Line", "group_line", "partition_line", "summary_line"]


class DifferenceLine(Struct, frozen=True, kw_only=True):
    """Differences in content between this copy and the best copy, from the higher of the two log start offsets on."""

    other_bytes_here: PlaceLine | None = field(name="other_bytes_at")
    """first batch of this copy that has different bytes than the best copy at the same offsets; null if none"""
    other_bytes_there: PlaceLine | None = field(name="other_bytes_there_at")
    """batch of the best copy that differs from the batch in `other_bytes_at`; null if none"""
    other_batches: int
    """number of batch pairs, one from each copy, that share offsets but differ in their bytes"""
    unreadable_batches: int
    """number of pairs in `other_batches` in which the records of this copy's batch cannot be decoded although its
    checksum matches
    """
    unreadable_there_batches: int
    """number of pairs in `other_batches` in which the records of the best copy's batch cannot be decoded although its
    checksum matches
    """
    only_epoch_differs: bool
    """whether all pairs in `other_batches` differ only in the leader epoch, which no checksum covers; false if no pair
    differs
    """
    lacks: PlaceLine | None = field(name="lacks_from")
    """first batch that the best copy has and this copy lacks; null if none"""
    lacks_records: int
    """number of records in all batches that the best copy has and this copy lacks, without control records"""
    lacks_for_damage: bool
    """whether this copy is damaged at the batch in `lacks_from`; false if it lacks no batch"""
    has_alone: PlaceLine | None = field(name="has_alone_from")
    """first batch that this copy has and the best copy lacks; null if none"""
    has_alone_records: int
    """number of records in all batches that this copy has and the best copy lacks, without control records"""
    has_alone_for_damage: bool
    """whether the best copy is damaged at the batch in `has_alone_from`; false if it lacks no batch"""
    cleaned: int = field(name="batches_cleaned_differently")
    """number of batches that log compaction removed or rewrote differently in the two copies; they do not count as
    differences
    """


class CopyLine(Struct, frozen=True, kw_only=True):
    """One copy of a topic-partition."""

    path: str
    """path of the partition directory"""
    node_id: int | None
    """id of the broker that holds the copy, from meta.properties; null if unknown"""
    cluster_id: str | None
    """cluster id from meta.properties; null if unknown"""
    topic_id: str | None
    """topic id from partition.metadata; null if unknown"""
    log_start_offset: int
    """log start offset: first offset that consumers can read; 0 if the copy cannot be read"""
    log_end_offset: int
    """log end offset: offset after the last sound batch, even if damage precedes that batch; 0 if the copy cannot be
    read
    """
    sound_end_offset: int | None
    """offset at which the first damage begins: the end (exclusive) of the sound part; null if the copy is undamaged or
    cannot be read
    """
    high_watermark: int | None
    """high watermark from replication-offset-checkpoint; null if the checkpoint has no entry"""
    last_epoch: int | None
    """leader epoch at the end of the log; null if unknown"""
    leader_epochs: tuple[tuple[int, int], ...]
    """entries of leader-epoch-checkpoint: pairs of a leader epoch and its start offset"""
    batches: int
    """number of sound batches"""
    records: int
    """number of sound records from the log start offset on, without control records"""
    bytes: int
    """total size of the partition's segments (log files only), in bytes"""
    damage: FindingJson | None
    """first damage in the log; null if none"""
    damaged_places: int
    """number of damaged places in the log; 0 if the log is undamaged"""
    records_behind_damage: int
    """number of sound records after the first damage, without control records"""
    in_sync: bool | None
    """whether the copy's broker can be elected leader without data loss (member of the ISR or, if the ISR is empty, of
    the ELR); null if unknown
    """
    led: bool | None
    """whether the copy's broker was the leader according to the cluster's metadata; null if unknown"""
    common_epoch: int | None = None
    """highest leader epoch that this copy shares with the best copy; null if none or unknown, and for the best copy"""
    cut_at_offset: int | None = None
    """first offset that Kafka removes if this copy becomes a follower of the best copy; the log end offset if Kafka
    removes nothing; null if this copy has no leader epochs, and for the best copy
    """
    records_cut: int
    """number of records that Kafka removes if it truncates this copy at `cut_at_offset`, without control records"""
    difference: DifferenceLine | None
    """differences in content from the best copy; null if this copy cannot be read, and for the best copy"""
    findings: list[FindingJson]
    """warnings and errors about the partition directory"""
    error: str | None
    """reason why the copy cannot be read; null if it can be read"""
    differs: bool = False
    """whether the copy differs from the best copy in bytes, log start offset or log end offset; true if the copy cannot
    be read
    """


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """One topic-partition and the comparison of its copies."""

    topic: str
    """topic"""
    partition: int
    """partition number"""
    clean: bool
    """whether all copies can be read, are equal and have neither damage nor warnings, and no copy is missing"""
    best: str | None
    """path of the best copy's partition directory; null if no copy can be read"""
    best_node_id: int | None
    """id of the broker that holds the best copy; null if unknown or if no copy can be read"""
    why: str
    """reason for the choice of the best copy, as an English clause; or that no copy can be read"""
    best_may_be_elected: bool | None
    """whether the controller can elect the best copy's broker without data loss; null if unknown or if no copy can be
    read
    """
    replicas: tuple[int, ...] | None
    """ids of the brokers to which the partition is assigned, according to the cluster's metadata; null if unknown"""
    isr: tuple[int, ...] | None
    """ids of the in-sync replicas (ISR), according to the cluster's metadata; null if unknown"""
    elr: tuple[int, ...] | None
    """ids of the eligible leader replicas (ELR, KIP-966); empty with ZooKeeper; null if unknown"""
    leader: int | None
    """broker id of the leader, according to the cluster's metadata; null if none or unknown"""
    leader_epoch: int | None
    """leader epoch, according to the cluster's metadata; null if unknown"""
    missing_on: list[int]
    """ids of brokers in `replicas` whose log directories were read but contain no copy; empty if none"""
    copies: list[CopyLine]
    """copies of the topic-partition, in the order of the paths"""


class GroupLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="group"):
    """Records that a consumer group has read and that the best copy does not have (with `--groups`)."""

    group: str
    """consumer group id"""
    topic: str
    """topic"""
    partition: int
    """partition number"""
    committed_offset: int
    """committed offset: the next offset that the group reads"""
    leader_epoch: int | None
    """leader epoch of the last record that the group read, from the commit; null if the client did not send it"""
    gone: tuple[int, int]
    """first and last offset (both inclusive) of the lost records that the group read"""
    unseen: tuple[int, int] | None
    """first and last offset (both inclusive) of records in the best copy that the group skips without reading them;
    null if none
    """
    certain: bool
    """whether the group certainly read the lost records; false if the commit has no leader epoch and the group may have
    read the best copy's records instead
    """
    held_by: str | None
    """path of a compared copy that still has the lost records; null if none has them"""


class SummaryLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="summary"):
    """Summary of the comparison."""

    paths: tuple[str, ...]
    """compared paths: log directories or partition directories"""
    clean: bool
    """whether everything can be read, all copies are undamaged and equal, none is missing, and no finding is a warning
    or error
    """
    partitions: int
    """number of topic-partitions that were compared"""
    partitions_not_clean: int
    """number of topic-partitions whose `clean` is false"""
    copies: int
    """number of copies of all topic-partitions"""
    damaged_copies: int
    """number of copies with damage in their log"""
    memory: str | None
    """source of the ISRs: path of a metadata log and its end offset, or ZooKeeper's directory; null if none was read"""
    memory_problem: str | None
    """reason why the cluster's metadata could not be read or is incomplete; null if the metadata is complete or none
    was found
    """
    left_out: list[str]
    """paths of partition directories that were skipped because a broker does not serve them (`-delete`, `-future` or
    `-stray`)
    """
    unreadable: list[UnreadableLine]
    """files and directories that could not be read"""
    findings: list[FindingJson]
    """findings about log directories, and about copies that do not belong together, such as copies of two clusters"""


Line = PartitionLine | GroupLine | SummaryLine
"""One line for each topic-partition, with `--groups` one for each loss of a consumer group, and one summary."""


def partition_line(partition: PartitionComparison) -> PartitionLine:
    """Return the `--json` line of one topic-partition with all its copies. Fields about the best copy are None if there
    is none. Fields about replicas and leader are None if the metadata does not have the partition.
    """
    state, best = partition.replica_state, partition.best
    return PartitionLine(
        topic=partition.topic,
        partition=partition.partition,
        clean=partition.is_clean,
        best=None if best is None else best.path,
        best_node_id=None if best is None else best.node_id,
        why=partition.why,
        best_may_be_elected=partition.is_elected,
        replicas=None if state is None else state.replicas,
        isr=None if state is None else state.isr,
        elr=None if state is None else state.eligible,
        leader=None if state is None else state.leader,
        leader_epoch=None if state is None else state.leader_epoch,
        missing_on=partition.missing,
        copies=[_copy_line(copy, differs=partition.differs(copy)) for copy in partition.copies],
    )


def _copy_line(copy: CopyReport, *, differs: bool) -> CopyLine:
    line, past = shaped(copy, CopyLine), copy.past
    if past is None:
        return structs.replace(line, differs=differs)
    return structs.replace(line, common_epoch=past.epoch, cut_at_offset=past.offset, differs=differs)


def group_line(loss: GroupLoss) -> GroupLine:
    """Return the `--json` line of one consumer group's loss in a partition. Ranges of offsets are (first, last),
    both inclusive; `unseen` is None if there are none.
    """
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


def summary_line(comparison: Comparison) -> SummaryLine:
    """Return the summary of a comparison of log directories: numbers of partitions and copies, the source of ISRs,
    paths that were skipped or unreadable, and findings.
    """
    return SummaryLine(
        paths=comparison.paths,
        clean=comparison.is_clean,
        partitions=len(comparison.partitions),
        partitions_not_clean=sum(not partition.is_clean for partition in comparison.partitions),
        copies=sum(len(partition.copies) for partition in comparison.partitions),
        damaged_copies=sum(copy.damage is not None for partition in comparison.partitions for copy in partition.copies),
        memory=comparison.memory,
        memory_problem=comparison.memory_problem,
        left_out=comparison.left_out,
        unreadable=[UnreadableLine(*each) for each in comparison.unreadable],
        findings=shaped(comparison.findings, list[FindingJson]),
    )
