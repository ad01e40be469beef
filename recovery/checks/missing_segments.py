"""Find missing segments by the offsets that are missing between batches, unless compaction or damage explains the
gap.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from kafkalog.cluster.records.checkpoints import cleaned_until
from kafkalog.codec.common.findings import Finding, StopReason
from kafkalog.codec.names import DirectoryState
from kafkalog.log.directories.left_out import linked_logs
from kafkalog.log.directories.lost_start import lost_start
from kafkalog.log.directories.missing_segments import missing_segments, removed_batches
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import scan_directory
from kafkalog.log.walk.missing import MissingOffsets
from kafkalog.log.walk.summary import SegmentSummary
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.tiers.tiering import tier_gap

__all__ = ["missing_at_start", "missing_by_summaries", "missing_from", "missing_offsets_of"]


def missing_from(partition: Partition, collected: MissingOffsets) -> list[Finding]:
    """Return the findings about missing segments of a partition. Findings about batches that are missing inside a
    segment follow under two conditions. The topic is known to be never compacted, and the cleaner's checkpoint has no
    offset above 0 of the partition. `collected` has the ranges of missing offsets (`missing_offsets_of`). Parts below
    the log start offset are left out, and so are ranges with the base offset of a log that is a symbolic link.

    Empty if nothing is missing or the partition is not live. Also empty if the topic is compacted and the cleaner's
    checkpoint is missing or cannot be read. Reads the cleaner's checkpoint and the metadata log in the partition's log
    directory, if they exist; if they cannot be read, nothing is raised.
    """
    name = partition.name
    if name is None or partition.state is not DirectoryState.LIVE:
        return []
    if not (collected.found_if_uncleaned or collected.inside_if_uncleaned):
        return []
    facts, cleaned = read_topic_facts([os.path.dirname(partition.path)]), cleaned_until(partition.path, name)
    is_compacted = facts.is_compacted(name.topic)
    if is_compacted and cleaned is None:
        return []
    is_uncleaned = not cleaned and facts.is_never_compacted(name.topic, name.partition)
    missing = collected.found_if_uncleaned if is_uncleaned else collected.found
    removed = collected.inside_if_uncleaned if is_uncleaned else []
    linked = sorted(linked_logs(partition.findings))
    missing = [(first, last) for first, last in missing if bisect_left(linked, first) == bisect_right(linked, last)]
    bases = [segment.base_offset for segment in partition.segments]
    path, start = partition.path, partition.log_start_offset
    lost = missing_segments(path, missing, start, bases, is_compacted=is_compacted)
    return [*lost, *removed_batches(path, removed, start, bases)]


def missing_offsets_of(partition: Partition) -> MissingOffsets:
    """Return a new collector of missing offsets for a walk over the partition. It ignores offsets below the end of the
    cleaned part of the log, according to the cleaner's checkpoint.
    """
    name = partition.name
    return MissingOffsets(0 if name is None else cleaned_until(partition.path, name) or 0)


def missing_at_start(partition: Partition) -> list[Finding]:
    """Return a list with one finding about lost offsets below the first segment of a live partition. Leader epochs or
    an index without its log show the loss. The code is SEGMENT_MISSING, or TIER_GAP if the log is tiered. Empty if
    nothing shows a loss, or if the lost offsets are below the checkpointed log start offset or in the remote tier.
    Lists the partition's directory, and reads the metadata log beside it only if something looks lost. Raises
    `StorageError` if a directory cannot be listed.
    """
    name, begins = partition.name, partition.segments[0].base_offset if partition.segments else 0
    if not begins or name is None or partition.state is not DirectoryState.LIVE:
        return []
    names = [entry.name for entry in scan_directory(partition.path)]
    epochs = [leader_epoch.start_offset for leader_epoch in partition.leader_epochs]
    if lost_start(names, epochs, is_remote=False) is None:
        return []
    root, key = os.path.dirname(partition.path), (name.topic, name.partition)
    checkpointed = partition.checkpointed_log_start_offset
    log_starts = {} if checkpointed is None else {key: checkpointed}
    tiering = read_topic_facts([root]).tiering.with_checkpoint((each.name for each in scan_directory(root)), log_starts)
    local_start = tiering.of(key, names, begins, epochs)
    if local_start.lost is None:
        return []
    if local_start.is_tiered:
        return [tier_gap(partition.path, local_start)]
    bases = (segment.base_offset for segment in partition.segments)
    return list(missing_segments(partition.path, [local_start.lost], checkpointed or 0, bases))


def missing_by_summaries(partition: Partition, segments: Sequence[SegmentSummary]) -> list[Finding]:
    """Return the findings of `missing_from` about missing segments and batches of a partition. `segments` are the
    summaries of all of its segments, in order. Offsets that may have been in damaged bytes do not count as missing.
    Raises `StorageError` if the time index of an empty log cannot be read.
    """
    missing = missing_offsets_of(partition)
    following: list[int | None] = [segment.segment.base_offset for segment in segments[1:]]
    for summary, next_base in zip(segments, [*following, None], strict=False):
        missing.segment(summary.segment.base_offset, next_base, was_emptied=summary.segment.was_emptied())
        if summary.first_offset is not None and summary.last_offset is not None:
            missing.batches(
                summary.first_offset, summary.last_offset, summary.gaps,
                final=summary.final_base, is_cleaned=summary.is_cleaned,
            )  # fmt: skip
        if summary.stop is not StopReason.END:
            missing.damaged()
    return missing_from(partition, missing)
