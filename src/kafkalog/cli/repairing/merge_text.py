"""Print the result of a merge: the sources of all offsets, missing offsets, and faults of the copies."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.tables import Column, print_table
from kafkalog.codec.common.wording import counted
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY
from kafkalog.copies.merge_result import CopyShare, MergedDirectory, MergeResult
from kafkalog.words.advice import told
from kafkalog.words.escapes import escape_controls

__all__ = ["print_directory", "print_partition"]

_SHOWN_GAPS = 20


def print_partition(result: MergeResult) -> None:
    """Print a table of the offset ranges of a merged partition with their sources. Also print the number of ranges that
    are not shown, and sentences about missing offsets and faults. If the result has no target, also print that nothing
    was written.
    """
    print_table(
        "would be merged" if result.target is None else f"merged into {escape_controls(result.target)}",
        ["first offset", "last offset", Column("from", wraps=True)],
        [[merged_range.first_offset, merged_range.last_offset, merged_range.source] for merged_range in result.ranges],
    )
    with SentenceWriter() as writer:
        if result.range_count > len(result.ranges):
            writer.write(f"and {result.range_count - len(result.ranges)} more ranges")
        for line in _sentences(result):
            writer.write(escape_controls(line))
        if result.target is None:
            writer.write("nothing was written: --into DIR writes it")


def print_directory(merged: MergedDirectory) -> None:
    """Print a table of a merge of log directories with one row per partition. Sentences follow about missing offsets
    and damage, partitions that were not merged, paths that were skipped or are unreadable, and files that the target
    lacks. If nothing was written, the last sentence says so.
    """
    print_table(
        "would be merged" if merged.target is None else f"merged into {escape_controls(merged.target)}",
        [
            "partition",
            Column("start", drop=2),
            "end",
            "records",
            Column("copies", drop=1),
            "offsets missing",
            Column("from", wraps=True),
        ],
        [
            [
                f"{each.topic}-{each.partition}",
                each.log_start_offset,
                each.log_end_offset,
                each.records_kept,
                len(each.copies),
                each.offsets_missing,
                ", ".join(copy.path for copy in each.copies if copy.batches),
            ]
            for each in merged.partitions
        ],
    )
    with SentenceWriter() as writer:
        for partition in merged.partitions:
            for line in _sentences(partition):
                writer.write(escape_controls(f"{partition.topic}-{partition.partition}: {line}"))
        for name, reason in told(merged.refused):
            writer.write(escape_controls(f"{name} was not merged: {reason}"))
        for path in merged.left_out:
            writer.write(escape_controls(f"left out: {path}"))
        for path, reason in merged.unreadable:
            writer.write(escape_controls(f"cannot be read: {path}: {reason}"))
        if merged.target is None:
            writer.write("nothing was written: --into DIR writes it")
            return
        writer.write(
            "there is no meta.properties: before you start a broker on it, copy that broker's meta.properties into it"
        )
        if any(os.path.basename(path) == CLUSTER_METADATA_DIRECTORY for path in merged.left_out):
            writer.write(
                f"there is no {CLUSTER_METADATA_DIRECTORY} either: if the node is a controller too, copy its own, with "
                "bootstrap.checkpoint; without it its metadata begins from nothing, and every partition becomes -stray"
            )


def _sentences(result: MergeResult) -> Iterator[str]:
    for first, last in result.gaps[:_SHOWN_GAPS]:
        yield f"no copy has offsets {first} to {last}"
    if result.gap_count > _SHOWN_GAPS:
        more = result.gap_count - _SHOWN_GAPS
        yield f"and {counted(more, 'more range')} that no copy has; in all {counted(result.offsets_missing, 'offset')}"
    if result.ends_below_high_watermark:
        yield (
            f"the log ends at {result.log_end_offset}, below the high watermark {result.high_watermark}: committed "
            "records are in no copy"
        )
    for copy in result.copies:
        yield from _of_copy(copy)


def _of_copy(copy: CopyShare) -> Iterator[str]:
    if copy.error is not None:
        yield f"{copy.path} cannot be read: {copy.error}"
    if copy.damage is not None:
        damage = copy.damage
        more = f", and {copy.damaged_places - 1} more places" if copy.damaged_places > 1 else ""
        yield f"damaged: {damage.file} at byte {damage.position}: {damage.code} ({damage.detail}){more}"
    if copy.lacks_records:
        yield f"{copy.path} lacks {copy.lacks_records} of these records, the first at offset {copy.lacks_from}"
    if copy.dropped_from is not None:
        place = copy.dropped_from
        yield (
            f"{counted(copy.dropped_batches, 'batch')} ({counted(copy.dropped_records, 'record')}) of {copy.path} "
            f"replaced by a newer leader epoch, the first at offset {place.offset} ({place.path}, byte "
            f"{place.position})"
        )
    if copy.cleaned_batches:
        batches = counted(copy.cleaned_batches, "batch")
        yield f"{batches} of {copy.path} are left out: compaction has cleaned the best copy there"
    if copy.passed_from is not None:
        place = copy.passed_from
        yield (
            f"{counted(copy.passed_batches, 'batch')} of {copy.path} have offsets that another copy has with "
            f"different bytes, the first at offset {place.offset} ({place.path}, byte {place.position})"
        )
