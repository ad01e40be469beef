"""Define the result of a comparison of several brokers' volumes, as plain values."""

from __future__ import annotations

from msgspec import Struct, field

from kafkalog.codec.common.findings import Finding, Severity
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.copies.cluster_memory import ReplicaState
from kafkalog.copies.common_history import CommonPast
from kafkalog.copies.difference import CopyDifference

__all__ = ["Comparison", "CopyReport", "PartitionComparison"]


class CopyReport(Struct, kw_only=True):
    """One copy of a topic-partition. Offsets are Kafka's, sizes are bytes of logs."""

    path: str
    node_id: int | None
    """from meta.properties; None if it is unknown whose copy this is"""
    cluster_id: str | None
    topic_id: str | None
    log_start_offset: int = 0
    log_end_offset: int = 0
    """offset after the last sound batch, even if that follows damage"""
    sound_end_offset: int | None = None
    """offset at which the first damage begins; None if there is none"""
    high_watermark: int | None = None
    """from replication-offset-checkpoint; None if it has none"""
    leader_epochs: tuple[LeaderEpoch, ...] = ()
    """from leader-epoch-checkpoint"""
    last_epoch: int | None = None
    """leader epoch at the log's end; None if unknown"""
    batches: int = 0
    records: int = 0
    """sound records from the log start on, without control records"""
    bytes: int = 0
    damage: Finding | None = None
    """first damage in the log; None if there is none"""
    damaged_places: int = 0
    records_behind_damage: int = 0
    """number of sound records after the first damage"""
    in_sync: bool | None = None
    """whether this broker may lead without loss according to the cluster's metadata; None if unknown"""
    led: bool | None = None
    """whether this broker was the leader according to the cluster's metadata; None if unknown"""
    past: CommonPast | None = None
    """where Kafka would truncate this copy if it followed the best one; None for the best one, and without epochs"""
    records_cut: int = 0
    """number of records that such a truncation removes"""
    difference: CopyDifference | None = None
    """difference from the best copy; None for the best one"""
    findings: list[Finding] = field(default_factory=list)
    """warnings and errors about the directory"""
    error: str | None = None
    """why the copy could not be read; None if it could"""

    @property
    def diverges(self) -> bool:
        """Whether the copy has a tail that does not belong to the best copy's lineage."""
        return self.past is not None and self.past.offset < self.log_end_offset


class PartitionComparison(Struct, frozen=True, kw_only=True):
    """The copies of one topic-partition."""

    topic: str
    partition: int
    copies: list[CopyReport]
    """copies in the order of the paths"""
    best: CopyReport | None
    why: str
    """why the best copy is the best"""
    replica_state: ReplicaState | None
    """state according to the cluster's metadata; None if unknown"""
    missing: list[int]
    """ids of brokers whose volumes were given and should hold a copy, but do not"""

    @property
    def is_elected(self) -> bool | None:
        """Whether an election without loss could choose the best copy; None if unknown or if there is no best copy."""
        return None if self.best is None else self.best.in_sync

    def label(self, copy: CopyReport) -> str:
        """Name of a copy for a sentence: its broker, if that is known and has no other copy, else its path."""
        alone = sum(other.node_id == copy.node_id for other in self.copies) == 1
        return f"broker {copy.node_id}" if alone and copy.node_id is not None else copy.path

    @property
    def findings(self) -> list[Finding]:
        """Findings about the directories of all copies."""
        return [finding for copy in self.copies for finding in copy.findings]

    def differs(self, copy: CopyReport) -> bool:
        """Whether a copy differs from the best one in its batches, log start offset or log end offset. True also if the
        tail of the copy does not fit the best one's leader epochs. Differences by compaction do not count. True if the
        copy cannot be read or there is no best copy. False for the best copy itself, and for a copy that was not
        compared with it (`difference` is None).
        """
        best = self.best
        if best is None or copy.error is not None:
            return True
        if copy is best or copy.difference is None:
            return False
        same_ends = (copy.log_start_offset, copy.log_end_offset) == (best.log_start_offset, best.log_end_offset)
        return not copy.difference.is_none or copy.diverges or not same_ends

    @property
    def is_clean(self) -> bool:
        """Whether all copies can be read, are undamaged and equal, and none is missing."""
        return not self.missing and not any(
            copy.damage is not None or copy.findings or self.differs(copy) for copy in self.copies
        )


class Comparison(Struct, frozen=True, kw_only=True):
    """All topic-partitions of the compared volumes."""

    paths: tuple[str, ...]
    partitions: list[PartitionComparison]
    memory: str | None
    """where the ISRs were read from; None if nowhere"""
    memory_problem: str | None
    left_out: list[str]
    """directories that a broker does not serve: waiting for deletion, moving or stray"""
    unreadable: list[tuple[str, str]]
    """path and reason"""
    findings: list[Finding]
    """about log directories, and directories that do not belong together"""

    @property
    def is_clean(self) -> bool:
        """Whether everything can be read, is undamaged and equal."""
        serious = any(finding.severity is not Severity.INFO for finding in self.findings)
        return not serious and not self.unreadable and all(partition.is_clean for partition in self.partitions)

    def __getitem__(self, key: tuple[str, int]) -> PartitionComparison:
        """Return the comparison of (topic, partition). Raises `KeyError` if no volume has it."""
        for partition in self.partitions:
            if (partition.topic, partition.partition) == key:
                return partition
        raise KeyError(key)
