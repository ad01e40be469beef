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
    lost its first batches, and the finding names it. If it ends where a segment begins, the finding names that one.
    Otherwise batches inside a segment are missing, which callers pass only if the topic is known not to be compacted,
    and the finding names this segment. `is_compacted` says that the log is compacted and that the cleaner has not
    reached these ranges.
    """
    there = sorted(bases)
    has_inside = any(last + 1 not in there and any(base < last for base in there) for _first, last in missing)
    sure = "and this topic is not compacted" if has_inside else "and no others in this log are"
    sure = "where the cleaner has not been" if is_compacted else sure
    for first, last in missing:
        if last >= log_start:
            begins, is_inside = first in there, last + 1 not in there and any(base < last for base in there)
            why = "the first batches of this segment are gone" if begins and is_inside else (
                "this segment holds none of them" if begins
                else "batches inside this segment are gone" if is_inside
                else "a segment before this one is gone, or the end of it"
            )  # fmt: skip
            base = max(base for base in there if base <= first) if begins or is_inside else last + 1
            detail = f"offsets {max(first, log_start)} to {last} are missing, {sure}: {why}"
            path = f"{directory}/{segment_file(base, FileKind.LOG)}"
            unread = Unread(max(first, log_start), last)
            yield Finding.of(FindingCode.SEGMENT_MISSING, None, unread.first_offset, detail, path,
                          unread=unread)  # fmt: skip
