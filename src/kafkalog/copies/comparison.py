"""What a comparison of several brokers' volumes found; plain values, for programs and for the command."""

from __future__ import annotations

from msgspec import Struct, field

from kafkalog.codec.findings import Finding, Severity
from kafkalog.codec.text import LeaderEpoch
from kafkalog.copies.cluster_memory import ReplicaState
from kafkalog.copies.common_history import CommonPast
from kafkalog.copies.difference import CopyDifference

__all__ = ["Comparison", "CopyReport", "PartitionComparison"]


class CopyReport(Struct, kw_only=True):
    """One copy of a topic-partition; offsets are Kafka's, sizes are bytes of logs."""

    path: str
    node_id: int | None
    """of meta.properties; None if it is not known whose copy it is"""
    cluster_id: str | None
    topic_id: str | None
    log_start_offset: int = 0
    log_end_offset: int = 0
    """after the last sound batch, damage passed by"""
    sound_end_offset: int | None = None
    """where the first damage comes; None if there is none"""
    high_watermark: int | None = None
    """of replication-offset-checkpoint"""
    leader_epochs: tuple[LeaderEpoch, ...] = ()
    """of leader-epoch-checkpoint"""
    last_epoch: int | None = None
    """leader epoch of the log's end; None if no epoch is known"""
    batches: int = 0
    records: int = 0
    """sound ones from the log start on, markers of transactions left out"""
    bytes: int = 0
    damage: Finding | None = None
    """the first place that is not sound"""
    damaged_places: int = 0
    records_behind_damage: int = 0
    """sound records after it"""
    in_sync: bool | None = None
    """the cluster's metadata says that this broker may lead without loss; None if it says nothing"""
    led: bool | None = None
    """it says that this broker was the leader"""
    past: CommonPast | None = None
    """where Kafka would cut this copy when it follows the best one; None for the best one, and without epochs"""
    records_cut: int = 0
    """records that such a cut takes"""
    difference: CopyDifference | None = None
    """against the best copy; None for the best one"""
    findings: list[Finding] = field(default_factory=list)
    """about the directory, more than information"""
    error: str | None = None
    """why it could not be read"""

    @property
    def diverges(self) -> bool:
        """Whether it has a tail that the best copy's lineage does not have."""
        return self.past is not None and self.past.offset < self.log_end_offset


class PartitionComparison(Struct, kw_only=True):
    """The copies of one topic-partition."""

    topic: str
    partition: int
    copies: list[CopyReport]
    """in the order of the paths"""
    best: CopyReport | None
    why: str
    """why the best one is the best"""
    replica_state: ReplicaState | None
    """what the cluster's metadata says"""
    missing: list[int]
    """brokers whose volumes were given and that should hold a copy, and do not"""

    @property
    def is_elected(self) -> bool | None:
        """An election without loss could choose the best copy; None if nothing is known of that."""
        return None if self.best is None else self.best.in_sync

    def label(self, copy: CopyReport) -> str:
        """Whose copy it is, for a sentence: its broker, if that is known and has no other one."""
        alone = sum(each.node_id == copy.node_id for each in self.copies) == 1
        return f"broker {copy.node_id}" if alone and copy.node_id is not None else copy.path

    @property
    def findings(self) -> list[Finding]:
        """About the copies' directories."""
        return [finding for copy in self.copies for finding in copy.findings]

    def differs(self, copy: CopyReport) -> bool:
        """A copy is not as the best one: other bytes, another start or another end."""
        best = self.best
        if best is None or copy.error is not None:
            return True
        if copy is best or copy.difference is None:
            return False
        same_ends = (copy.log_start_offset, copy.log_end_offset) == (best.log_start_offset, best.log_end_offset)
        return not copy.difference.is_none or copy.diverges or not same_ends

    @property
    def is_clean(self) -> bool:
        """All copies can be read, are undamaged and equal, and none is missing."""
        return not self.missing and not any(
            copy.damage is not None or copy.findings or self.differs(copy) for copy in self.copies
        )


class Comparison(Struct, kw_only=True):
    """All topic-partitions of the compared volumes."""

    paths: tuple[str, ...]
    partitions: list[PartitionComparison]
    memory: str | None
    """where the ISRs were read from; None if nowhere"""
    memory_problem: str | None
    left_out: list[str]
    """directories that are not copies a broker would serve: waiting for deletion, moving, stray"""
    unreadable: list[tuple[str, str]]
    """path and reason"""
    findings: list[Finding]
    """of log directories, and of directories that do not belong together"""

    @property
    def is_clean(self) -> bool:
        """Whether everything can be read, is undamaged and equal."""
        serious = any(finding.severity is not Severity.INFO for finding in self.findings)
        return not serious and not self.unreadable and all(each.is_clean for each in self.partitions)

    def __getitem__(self, key: tuple[str, int]) -> PartitionComparison:
        """The comparison of (topic, partition); `KeyError` if no volume has it."""
        for each in self.partitions:
            if (each.topic, each.partition) == key:
                return each
        raise KeyError(key)
