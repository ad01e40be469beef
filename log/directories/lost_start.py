"""The start of a log that is gone; or that lies elsewhere, because the log is tiered.

Retention renames a segment's files together (`UnifiedLog.deleteSegmentFiles`) and cuts the leader epochs first, when
the log start offset moves (`LeaderEpochFileCache.truncateFromStart`): indexes or epochs below the first segment show
that segments are gone.  Of a tiered log the first segments are remote, and the epochs stay.  A broker writes the start
of every such log into log-start-offset-checkpoint, at 0 too, where no other log has a line
(`LogManager.checkpointLogStartOffsetsInDir`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafkalog.codec.names import (
    DELETED,
    INDEX_KINDS,
    REMOTE_INDEX_CACHE,
    REMOTE_LOG_METADATA_TOPIC,
    SWAP,
    FileKind,
    SegmentFileName,
    parse_partition_directory,
    parse_segment_file,
    segment_file,
)

__all__ = ["LocalStarts", "lost_start"]

Offsets = Mapping[tuple[str, int], int]


class LocalStarts:
    """Which logs of a log directory begin elsewhere.

    `directories` are the names in it, `log_starts` what log-start-offset-checkpoint says.
    """

    def __init__(self, directories: Iterable[str], log_starts: Offsets) -> None:
        self._log_starts = log_starts
        names = frozenset(directories)
        self._has_cache = REMOTE_INDEX_CACHE in names
        self._are_tiered = self._has_cache or 0 in log_starts.values() or any(map(_is_remote_metadata, names))

    def is_remote(self, key: tuple[str, int], begins: int, epochs: Sequence[int]) -> bool:
        """The records below the first local segment are remote: its log start is there, and its epochs reach it."""
        if self._has_cache and not self._log_starts:
            return True  # nothing tells which
        start = self._log_starts.get(key)
        return self._are_tiered and start is not None and start < begins and min(epochs, default=begins) <= start


def _is_remote_metadata(directory: str) -> bool:
    name = parse_partition_directory(directory)
    return name is not None and name.topic == REMOTE_LOG_METADATA_TOPIC


def lost_start(names: Iterable[str], epochs: Sequence[int], *, is_remote: bool) -> tuple[int, int] | None:
    """First and last offset before the first segment of a directory that were there, and are gone; None if none were.

    `names` are those of its files, `epochs` the first offsets of its leader epochs.
    """
    parsed = {name: each for name in names if (each := parse_segment_file(name)) is not None}
    begins = first_base(parsed)
    if begins is None:
        return None
    left = [base for base in _without_log(parsed) if base < begins]
    if not is_remote and not any(each.pending == DELETED for each in parsed.values()):
        left += [start for start in epochs if 0 <= start < begins]
    return (min(left), begins - 1) if left else None


def first_base(names: Mapping[str, SegmentFileName]) -> int | None:
    """Base offset of the first segment; None without any."""
    logs = (each.base_offset for name, each in names.items() if name == segment_file(each.base_offset, FileKind.LOG))
    return min(logs, default=None)


def _without_log(names: Mapping[str, SegmentFileName]) -> Iterator[int]:
    for parsed in names.values():
        if parsed.pending or parsed.kind not in INDEX_KINDS:
            continue
        log = segment_file(parsed.base_offset, FileKind.LOG)
        if not any(name in names for name in (log, log + DELETED, log + SWAP)):
            yield parsed.base_offset
