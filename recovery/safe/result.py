"""What mode safe leaves of a log directory, and what led to it."""

from __future__ import annotations

from dataclasses import field

from kafkalog.classes import dataclass
from kafkalog.codec.findings import Finding
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import (
    PartitionResult,
)
from kafkalog.recovery.damage.soundness import (
    Cut,
)
from kafkalog.recovery.safe.normalize import (
    Change,
)

__all__ = ["SafeResult"]


@dataclass(slots=True)
class SafeResult:
    """The tree to leave, and what led to it."""

    tree: Tree
    partitions: list[PartitionResult] = field(default_factory=list)
    cuts: dict[str, Cut] = field(default_factory=dict)
    """partition directory -> where its log is cut"""
    changes: list[Change] = field(default_factory=list)
    """what was put out of the way, and why"""
    repeats: dict[str, Cut] = field(default_factory=dict)
    """partition directory -> the first batch that is kept although its offset was there before"""
    repairs: list[Finding] = field(default_factory=list)
    """bits that were turned over"""
    lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """partition directory -> offset ranges that are gone inside the log that is kept"""
    refusals: dict[str, str] = field(default_factory=dict)
    """partition directory -> why it is left as it is"""
    left_to_remote: frozenset[str] = frozenset()
    """partition directories of which damaged segments go because the remote tier has them"""
    merged: frozenset[str] = frozenset()
    """partition directories that hold what several copies held"""

    def findings(self) -> list[Finding]:
        """The reasons of cuts and changes."""
        found = [
            Finding(cut.code, cut.severity, cut.position, None, cut.detail, cut.path) for cut in self.cuts.values()
        ]
        found += [
            Finding(each.code, each.severity, each.position, None, f"{each.detail}; it stays", each.path)
            for each in self.repeats.values()
        ]
        found += self.repairs
        found += [
            Finding(change.code, change.severity, None, None, change.reason, change.path) for change in self.changes
        ]
        return found
