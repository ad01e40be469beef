"""Report segments that are missing from a log, for every command that looks for them."""

from __future__ import annotations

from bisect import bisect_right
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
    lost its first batches, and the finding names it. If it ends where a segment begins, the finding names that one.
    Otherwise batches inside a segment are missing, which callers pass only if the topic is known not to be compacted,
    and the finding names this segment. `is_compacted` says that the log is compacted and that the cleaner has not
    reached these ranges.
    """
    there = sorted(bases)
    begun = frozenset(there)

    def is_inside(last: int) -> bool:
        return last + 1 not in begun and bool(there) and there[0] < last

    has_inside = any(is_inside(last) for _first, last in missing)
    sure = "and this topic is not compacted" if has_inside else "and no others in this log are"
    sure = "where the cleaner has not been" if is_compacted else sure
    for first, last in missing:
        if last >= log_start:
            begins = first in begun
            why = "the first batches of this segment are gone" if begins and is_inside(last) else (
                "this segment holds none of them" if begins
                else "batches inside this segment are gone" if is_inside(last)
                else "a segment before this one is gone, or the end of it"
            )  # fmt: skip
            base = there[bisect_right(there, first) - 1] if begins or is_inside(last) else last + 1
            detail = f"offsets {max(first, log_start)} to {last} are missing, {sure}: {why}"
            path = f"{directory}/{segment_file(base, FileKind.LOG)}"
            unread = Unread(max(first, log_start), last)
            yield Finding.of(FindingCode.SEGMENT_MISSING, None, unread.first_offset, detail, path,
                          unread=unread)  # fmt: skip
