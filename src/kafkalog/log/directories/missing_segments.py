"""Report segments that are missing from a log, for every command that looks for them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from kafkalog.codec.common.findings import Finding, FindingCode, Severity, Unread
from kafkalog.codec.names import FileKind, segment_file

__all__ = ["missing_segments", "removed_batches"]


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

    `bases` are the base offsets of existing segments. The finding names the segment that begins at the first missing
    offset: it is empty, or its first batches are missing. If there is none, it names the segment that begins after the
    range. Pass ranges of missing first batches only if the topic is known not to be compacted. `is_compacted` says that
    the log is compacted and that the cleaner has not reached these ranges. In both cases the finding says so.
    Otherwise, if there is one range and a segment 0, it says that no other offsets are missing. This shows that the log
    was not compacted.
    """
    begun = frozenset(bases)
    has_heads = any(first in begun and last + 1 not in begun for first, last in missing)
    sure = ", and no others in this log are" if len(missing) == 1 and 0 in begun else ""
    sure = ", and this topic is not compacted" if has_heads else sure
    sure = ", where the cleaner has not been" if is_compacted else sure
    for first, last in missing:
        if last >= log_start:
            begins = first in begun
            why = "the first batches of this segment are gone" if begins and last + 1 not in begun else (
                "this segment holds none of them" if begins else "a segment before this one is gone, or the end of it"
            )  # fmt: skip
            detail = f"offsets {max(first, log_start)} to {last} are missing{sure}: {why}"
            path = f"{directory}/{segment_file(first if begins else last + 1, FileKind.LOG)}"
            unread = Unread(max(first, log_start), last)
            yield Finding.of(FindingCode.SEGMENT_MISSING, None, unread.first_offset, detail, path,
                          unread=unread)  # fmt: skip


def removed_batches(
    directory: str, missing: Iterable[tuple[int, int]], log_start: int, bases: Iterable[int]
) -> Iterator[Finding]:
    """Yield a SEGMENT_MISSING finding of severity INFO for each range of offsets that is missing between two batches of
    one segment. The topic must be known not to be compacted. A crash does not make such gaps; a recovery with `--mode
    salvage` does. The arguments are as in `missing_segments`. Ranges below the first segment are ignored.
    """
    there = sorted(bases)
    for first, last in missing:
        if last >= log_start and there and there[0] <= first:
            base = there[bisect_right(there, first) - 1]
            detail = (
                f"offsets {max(first, log_start)} to {last} are missing, and this topic is not compacted: something "
                "removed batches from this segment, as `--mode salvage` does"
            )
            path = f"{directory}/{segment_file(base, FileKind.LOG)}"
            yield Finding(FindingCode.SEGMENT_MISSING, Severity.INFO, None, max(first, log_start), detail, path)
