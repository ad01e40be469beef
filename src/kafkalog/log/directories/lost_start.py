"""Detect that the first segments of a log are missing. Retention renames all files of a segment together
(`UnifiedLog.deleteSegmentFiles`), and truncates the leader epochs before that, when the log start offset moves
(`LeaderEpochFileCache.truncateFromStart`). So indexes or epochs below the first segment show that segments are missing.
The first segments of a tiered log are remote, while its epochs stay; callers know which logs are tiered
(`kafkalog.tiers.tiering`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafkalog.codec.names import (
    DELETED,
    INDEX_KINDS,
    SWAP,
    FileKind,
    SegmentFileName,
    parse_segment_file,
    segment_file,
)

__all__ = ["first_base", "lost_start"]


def lost_start(names: Iterable[str], epochs: Sequence[int], *, is_remote: bool) -> tuple[int, int] | None:
    """Return first and last offset (both inclusive) of the range that is missing before a directory's first segment.
    Return None if nothing is missing, or if there is no segment. Two signs show a lost segment: an index whose log is
    not among `names`, the directory's files, and a leader epoch that begins below the first segment. A log with the
    suffix `.deleted` or `.swap` counts as present; indexes with a suffix are ignored.

    `epochs` are the first offsets of the leader epochs. Negative ones are ignored. All are ignored if the log may begin
    in a remote tier (`is_remote`), or if a file waits for deletion (`.deleted`).
    """
    parsed = {name: segment_file_name for name in names if (segment_file_name := parse_segment_file(name)) is not None}
    begins = first_base(parsed)
    if begins is None:
        return None
    left = [base for base in _without_log(parsed) if base < begins]
    if not is_remote and not any(segment_file_name.pending == DELETED for segment_file_name in parsed.values()):
        left += [start for start in epochs if 0 <= start < begins]
    return (min(left), begins - 1) if left else None


def first_base(names: Mapping[str, SegmentFileName]) -> int | None:
    """Return the lowest base offset of a segment whose log file is among `names`; None if there is none. Files with a
    suffix such as `.deleted` do not count.
    """
    logs = (
        parsed.base_offset
        for name, parsed in names.items()
        if name == segment_file(parsed.base_offset, FileKind.LOG)
    )
    return min(logs, default=None)


def _without_log(names: Mapping[str, SegmentFileName]) -> Iterator[int]:
    for parsed in names.values():
        if parsed.pending or parsed.kind not in INDEX_KINDS:
            continue
        log = segment_file(parsed.base_offset, FileKind.LOG)
        if not any(name in names for name in (log, log + DELETED, log + SWAP)):
            yield parsed.base_offset
