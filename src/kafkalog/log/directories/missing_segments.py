"""Report segments that are missing from a log, for every command that looks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkalog.codec.common.findings import Finding, FindingCode, Unread
from kafkalog.codec.names import FileKind, segment_file

__all__ = ["missing_segments"]


def missing_segments(
    directory: str,
    missing: Sequence[tuple[int, int]],
    log_start: int,
    bases: Iterable[int],
    *,
    is_compacted: bool = False,
) -> Iterator[Finding]:
    """Yield a SEGMENT_MISSING finding for each range of missing offsets in a partition directory. `missing` has first
    and last offset (inclusive) of each range, from `MissingOffsets`. Offsets below `log_start` are ignored.

    `bases` are the base offsets of existing segments. If a range begins at one of them, that segment is empty or has
    lost its first batches, and the finding names it. Otherwise the finding names the segment after the range.
    `is_compacted` says that the log is compacted and that the cleaner has not reached these ranges.
    """
    why_sure = "where the cleaner has not been" if is_compacted else "and no others in this log are"
    there = frozenset(bases)
    for first, last in missing:
        if last >= log_start:
            is_head = first in there and last + 1 not in there
            is_emptied = first in there and not is_head
            gone = "a segment before this one is gone, or the end of it"
            why = "the first batches of this segment are gone" if is_head else (
                "this segment holds none of them" if is_emptied else gone
            )  # fmt: skip
            sure = "and this topic is not compacted" if is_head else why_sure
            detail = f"offsets {max(first, log_start)} to {last} are missing, {sure}: {why}"
            path = f"{directory}/{segment_file(last + 1 if why is gone else first, FileKind.LOG)}"
            unread = Unread(max(first, log_start), last)
            yield Finding.of(FindingCode.SEGMENT_MISSING, None, unread.first_offset, detail, path,
                          unread=unread)  # fmt: skip
