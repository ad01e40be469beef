"""Represent the result of a recovery for a log directory, and for each partition directory in it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.names import PartitionName
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.changed_files import ChangedFiles
from kafkalog.recovery.broker.manager import LoadedPartition
from kafkalog.recovery.damage.soundness import Cut
from kafkalog.recovery.safe.normalize import Change

__all__ = ["FromCopies", "RecoveredPartition", "SafeResult"]


class RecoveredPartition(Struct, frozen=True, kw_only=True):
    """Result of a recovery for one partition directory; nothing is changed if there is a `refusal`."""

    directory: str
    name: PartitionName
    refusal: str | None = None
    """why it is left as it is; None if it is not"""
    changes: list[Change] = []
    """files that were set aside in it, and why"""
    cut: Cut | None = None
    repeat: Cut | None = None
    """first batch that is kept although its offsets are repeated"""
    repairs: list[Finding] = []
    """findings about flipped bits that were corrected"""
    lost: list[tuple[int, int]] = []
    """first and last offset of each range lost inside the log that is kept"""
    loaded: LoadedPartition | None = None
    """the directory as a start loads it afterwards; None if there is a refusal"""
    files: ChangedFiles = msgspec.field(default_factory=ChangedFiles)
    removed_directories: list[str] = []
    """directories inside it"""
    log_start: int = 0
    is_whole: bool = False
    """whether all of its log was examined"""

    def put(self, tree: Tree) -> None:
        """Change the directory in `tree` to this result. The tree must have it unchanged. Does nothing
        after a refusal.
        """
        if self.loaded is not None:
            for path in self.removed_directories:
                tree.remove_directory(path)
            self.files.put(tree, self.loaded)


class FromCopies(Struct, frozen=True):
    """Records of a merged log that this copy lacked."""

    records: int
    first: int
    """first offset that it lacked, else the log start offset"""
    sources: tuple[str, ...]
    """copies that have the merged log from there on; empty if they are not known"""


class SafeResult(Struct, kw_only=True):
    """Result of a recovery for a log directory: the tree that it leaves, and why."""

    tree: Tree
    recovered: list[RecoveredPartition] = []
    """partition directories, in the order of a broker's start"""
    changes: list[Change] = []
    """what was set aside and why, also in partition directories"""
    helped: frozenset[str] = frozenset()
    """partition directories that were merged from several copies, or leave damaged segments to the remote tier"""
    from_copies: Mapping[str, FromCopies] = {}
    """what the log lacked before a merge, by partition directory"""

    def add(self, recovered: RecoveredPartition) -> None:
        """Add the result for a partition directory, and change the tree accordingly."""
        self.recovered.append(recovered)
        self.changes += recovered.changes
        recovered.put(self.tree)

    @property
    def partitions(self) -> dict[str, LoadedPartition]:
        """Partition directories as a start loads them afterwards, without those that are left as they are."""
        return {partition.directory: partition.loaded for partition in self.recovered if partition.loaded is not None}

    @property
    def refusals(self) -> dict[str, str]:
        """Why a partition directory is left as it is, by name."""
        return {partition.directory: partition.refusal for partition in self.recovered if partition.refusal is not None}

    @property
    def cuts(self) -> dict[str, Cut]:
        """Place at which a log is cut, by partition directory."""
        return {partition.directory: partition.cut for partition in self.recovered if partition.cut is not None}

    @property
    def lost(self) -> dict[str, list[tuple[int, int]]]:
        """First and last offset of each range lost inside the log that is kept, by partition directory."""
        return {partition.directory: partition.lost for partition in self.recovered if partition.lost}

    @property
    def repairs(self) -> list[Finding]:
        """Findings about flipped bits that were corrected."""
        return [finding for partition in self.recovered for finding in partition.repairs]

    def findings(self) -> list[Finding]:
        """Return the findings about all cuts, repeated batches that are kept, corrected bits, and files and directories
        that were set aside or rewritten, in this order. Their paths are relative to the log directory.
        """
        repeats = (partition.repeat for partition in self.recovered if partition.repeat is not None)
        findings = [_finding(cut, cut.detail) for cut in self.cuts.values()]
        findings += [_finding(repeat, f"{repeat.detail}; it stays") for repeat in repeats]
        findings += self.repairs
        findings += [
            Finding(change.code, change.severity, None, None, change.reason, change.path) for change in self.changes
        ]
        return findings


def _finding(cut: Cut, detail: str) -> Finding:
    return Finding(cut.code, cut.severity, cut.position, None, detail, cut.path)
