"""Detect files beside a metadata log that stop a controller of a complete quorum, and that can be repaired from the
log.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.names import QUORUM_STATE
from kafkalog.jobs.quorum.metadata_tree import broken_snapshots

__all__ = ["any_needs_mending", "has_unreadable_state", "needs_mending"]


def has_unreadable_state(log: QuorumLog) -> bool:
    """Whether `quorum-state` exists and cannot be read, which ends a start (`FileQuorumStateStore`)."""
    return log.state is None and any(
        finding.code is FindingCode.CHECKPOINT_INVALID and (finding.file or "").endswith(QUORUM_STATE)
        for finding in log.findings
    )


def needs_mending(log: QuorumLog) -> bool:
    """Whether a file has to be set aside or written before a controller starts on this log and keeps all of it."""
    return has_unreadable_state(log) or bool(broken_snapshots(log))


def any_needs_mending(logs: Iterable[QuorumLog]) -> bool:
    """Whether one of these logs needs such a repair."""
    return any(map(needs_mending, logs))
