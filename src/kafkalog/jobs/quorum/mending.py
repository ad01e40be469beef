"""Detect files beside a metadata log that stop a controller of a complete quorum, and that can be repaired from the
log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.names import QUORUM_STATE
from kafkalog.jobs.quorum.metadata_tree import broken_snapshots
from kafkalog.log.directories.partition import open_partition

__all__ = ["any_needs_mending", "has_lost_all", "has_unreadable_state", "image_of", "needs_mending"]


def has_unreadable_state(log: QuorumLog) -> bool:
    """Whether `quorum-state` exists and cannot be read, which ends a start (`FileQuorumStateStore`)."""
    return log.state is None and any(
        finding.code is FindingCode.CHECKPOINT_INVALID and (finding.file or "").endswith(QUORUM_STATE)
        for finding in log.findings
    )


def needs_mending(log: QuorumLog) -> bool:
    """Whether a file must be set aside or written so that a controller starts on this log and keeps all of it."""
    return has_unreadable_state(log) or bool(broken_snapshots(log))


def any_needs_mending(logs: Iterable[QuorumLog]) -> bool:
    """Whether `needs_mending` is True for any of these logs."""
    return any(map(needs_mending, logs))


def image_of(log: QuorumLog, until: int | None = None) -> MetadataImage:
    """Return the image of the metadata below offset `until` (None: up to the log's end). Reading stops at damage; this
    is not an error. Only snapshots that a recovery leaves are used. Raises `StorageError` if the log cannot be read.
    """
    metadata_log = MetadataLog(open_partition(log.directory))
    stay = {snapshot.file for snapshot in log.snapshots if snapshot.counts}
    snapshots = metadata_log.snapshots
    metadata_log.snapshots = tuple(snapshot for snapshot in snapshots if os.path.basename(snapshot[2]) in stay)
    return metadata_log.state(until).image


def has_lost_all(log: QuorumLog, image: MetadataImage) -> bool:
    """Whether a log is damaged and `image`, its metadata before the damage, is empty, so that a controller treats it as
    a new log.
    """
    is_damaged = bool(log.records_behind_damage) or log.ends_in_damage
    return is_damaged and not (image.features or image.topics or image.brokers or image.controllers)
