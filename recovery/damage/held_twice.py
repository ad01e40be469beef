"""Find segments that do not fit the segments around them: those whose last batches are also the first batches of the
following segments, and empty ones that hide records of the segments before them.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.codec.common.limits import MIB
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.storage.tree import Tree

__all__ = ["hiding_segments", "sizes_without_copies"]


def sizes_without_copies(tree: Tree, directory: str) -> dict[str, int]:
    """Find segments whose last batches are repeated, byte for byte, at the beginning of the following segments. Return
    path -> size in bytes without these batches; segments without such copies are left out. The repeated batches begin
    with the first batch that reaches the next segment's base offset. Raises `StorageError` if a log cannot be read.
    """
    sizes: dict[str, int] = {}
    after: list[tuple[str, int]] = []
    next_base: int | None = None
    for base, path in reversed(tree.logs(directory)):
        size = tree.files[path].size
        batches = () if next_base is None else Scanner(tree.source(path), check_crc=False)
        position = next((batch.position for batch in batches if batch.last_offset >= (next_base or 0)), None)
        if position is not None and _begins_with(tree, after, path, position):
            sizes[path] = size = position
        after.insert(0, (path, size))
        next_base = base
    return sizes


def hiding_segments(tree: Tree, directory: str) -> set[int]:
    """Return the base offsets of empty segments that are at or below the highest offset of the segments before them;
    empty if there are none. Such a segment hides the records of earlier segments from its base offset on. A broker
    reads from the segment with the greatest base offset at or below the requested one, and continues in the next
    segment (`LocalLog.read`). Reads the headers of the segments before the last empty one; raises `StorageError` if
    this fails.
    """
    hiding: set[int] = set()
    unread: list[str] = []
    highest = -1
    for base, path in tree.logs(directory):
        if tree.files[path].size:
            unread.append(path)
            continue
        highest = max([highest, *(_highest_offset(tree, earlier) for earlier in unread)])
        unread = []
        if base <= highest:
            hiding.add(base)
    return hiding


def _highest_offset(tree: Tree, path: str) -> int:
    return max((batch.last_offset for batch in Scanner(tree.source(path), check_crc=False)), default=-1)


def _begins_with(tree: Tree, logs: Iterable[tuple[str, int]], path: str, position: int) -> bool:
    """Whether the joined contents of `logs` begin with the bytes of the file at `path` from byte `position` to its end.
    `logs` has path and size in bytes of each. True if the file has no bytes there. Raises `StorageError` if a log
    cannot be read.
    """
    source = tree.source(path)
    for log, size in logs:
        other, start = tree.source(log), 0
        while start < size and position < source.size:
            length = min(MIB, size - start, source.size - position)
            if bytes(source.read(position, length)) != bytes(other.read(start, length)):
                return False
            start, position = start + length, position + length
    return position >= source.size
