"""Result of a recovery for a log directory, and for each partition directory in it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from kafkalog.codec.findings import Finding
from kafkalog.codec.names import PartitionName
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.changed_files import ChangedFiles
from kafkalog.recovery.broker.manager import LoadedPartition
from kafkalog.recovery.damage.soundness import Cut
from kafkalog.recovery.safe.normalize import Change

__all__ = ["RecoveredPartition", "SafeResult"]


class RecoveredPartition(Struct):
    """Result of a recovery for one partition directory; nothing is changed if there is a `refusal`."""

    directory: str
    name: PartitionName
    refusal: str | None = None
    """why it is left as it is"""
    changes: list[Change] = []
    """what was put out of the way in it"""
    cut: Cut | None = None
    repeat: Cut | None = None
    """the first batch that is kept although its offset was there before"""
    repairs: list[Finding] = []
    """bits that were turned over"""
    lost: list[tuple[int, int]] = []
    """first and last offset of ranges that are gone inside the log that is kept"""
    loaded: LoadedPartition | None = None
    """the directory as a start loads it afterwards; None if there is a refusal"""
    files: ChangedFiles = msgspec.field(default_factory=ChangedFiles)
    removed_directories: list[str] = []
    """inside it"""
    log_start: int = 0
    is_whole: bool = False
    """all of its log was examined"""

    def put(self, tree: Tree) -> None:
        """Let the directory of a tree, which is as it was before, be as it is afterwards."""
        if self.loaded is not None:
            for path in self.removed_directories:
                tree.remove_directory(path)
            self.files.put(tree, self.loaded)


class SafeResult(Struct):
    """Result of a recovery for a log directory: the tree that it leaves, and why."""

    tree: Tree
    recovered: list[RecoveredPartition] = []
    """partition directories, in the order of a broker's start"""
    changes: list[Change] = []
    """what was put out of the way, and why; that in partition directories too"""
    helped: frozenset[str] = frozenset()
    """partition directories that hold what several copies held, or leave damaged segments to the remote tier"""

    def add(self, recovered: RecoveredPartition) -> None:
        """Add the result for a partition directory, and change the tree accordingly."""
        self.recovered.append(recovered)
        self.changes += recovered.changes
        recovered.put(self.tree)

    @property
    def partitions(self) -> dict[str, LoadedPartition]:
        """Partition directories as a start loads them afterwards, without those that are left as they are."""
        return {each.directory: each.loaded for each in self.recovered if each.loaded is not None}

    @property
    def refusals(self) -> dict[str, str]:
        """Partition directory -> why it is left as it is."""
        return {each.directory: each.refusal for each in self.recovered if each.refusal is not None}

    @property
    def cuts(self) -> dict[str, Cut]:
        """Partition directory -> where its log is cut."""
        return {each.directory: each.cut for each in self.recovered if each.cut is not None}

    @property
    def lost(self) -> dict[str, list[tuple[int, int]]]:
        """Partition directory -> first and last offset of ranges that are gone inside the log that is kept."""
        return {each.directory: each.lost for each in self.recovered if each.lost}

    @property
    def repairs(self) -> list[Finding]:
        """Bits that were turned over."""
        return [finding for each in self.recovered for finding in each.repairs]

    def findings(self) -> list[Finding]:
        """The reasons of cuts and changes."""
        repeats = (each.repeat for each in self.recovered if each.repeat is not None)
        found = [_finding(cut, cut.detail) for cut in self.cuts.values()]
        found += [_finding(repeat, f"{repeat.detail}; it stays") for repeat in repeats]
        found += self.repairs
        found += [Finding(each.code, each.severity, None, None, each.reason, each.path) for each in self.changes]
        return found


def _finding(cut: Cut, detail: str) -> Finding:
    return Finding(cut.code, cut.severity, cut.position, None, detail, cut.path)
