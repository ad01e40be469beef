"""Find batches whose offsets jump ahead of the log, and use other copies to prove such an offset wrong.

A batch's base offset lies outside its checksum. If damage raises it, the offsets still increase, and the log seems
longer than it is. Offsets of a sound log jump only where compaction removed batches. So a jump that the following
batches do not contradict (`Cursor`) is damage nevertheless if another copy has the batch at an offset before the jump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappush, heapreplace
from typing import Protocol, TypeVar

from msgspec import Struct, field

from kafkalog.codec.common.errors import StorageError
from kafkalog.copies.stretches import Row, Stretch
from kafkalog.copies.volumes import Copy

__all__ = ["Displaced", "Jump", "Jumps", "displaced", "without_disproved"]

_MOST_ROUNDS = 8
"""Most rounds of reading a copy again after another copy disproved one more of its offsets."""
_MOST_JUMPS = 1000
"""Most jumps that are kept of one copy: the widest."""

_Key = tuple[int, int, int]
"""Checksum, size and number of offsets of a batch minus one, which do not depend on its place."""

Displaced = dict[tuple[str, int], str]
"""(file, position) of a batch -> why its offset is wrong"""


class Jump(Struct, frozen=True, order=True, kw_only=True):
    """A batch that begins above the expected offset."""

    width: int
    """number of offsets that are skipped"""
    path: str
    position: int
    row: Row

    @property
    def expected(self) -> int:
        """Offset that the batch should have: the one after the batch before it."""
        return self.row.first - self.width

    @property
    def key(self) -> _Key:
        """Key of the batch, independent of its place."""
        return self.row.crc, self.row.size, self.row.last - self.row.first


class Jumps(Struct, frozen=True):
    """The widest jumps of one copy, at most 1000. A jump is a batch that begins above the expected offset."""

    _found: list[Jump] = field(default_factory=list)

    def note(self, stretch: Stretch, expected: int) -> None:
        """Add the jumps in a stretch, a sequence of sound batches of one file: at its first batch if that begins above
        `expected`, the offset that should come first, and at each gap inside. If there are too many, the narrowest are
        dropped.
        """
        self._add(stretch, 0, stretch.row(0).first - expected)
        for first, last in stretch.gaps(0, len(stretch)):
            width = last - first + 1
            if len(self._found) < _MOST_JUMPS or width > self._found[0].width:
                self._add(stretch, stretch.ending_below(last + 1), width)

    def _add(self, stretch: Stretch, number: int, width: int) -> None:
        if width <= 0 or (len(self._found) >= _MOST_JUMPS and width <= self._found[0].width):
            return
        jump = Jump(width=width, path=stretch.path, position=stretch.position(number), row=stretch.row(number))
        if len(self._found) < _MOST_JUMPS:
            heappush(self._found, jump)
        else:
            heapreplace(self._found, jump)

    def from_offset(self, offset: int) -> list[Jump]:
        """Jumps that skip no offset below `offset`; below it compaction may have removed batches. In no particular
        order.
        """
        return [jump for jump in self._found if jump.expected >= offset]


def displaced(jumps: Iterable[Jump], others: Mapping[str, Iterable[Stretch]]) -> Displaced:
    """Return the jumps of a copy that other copies disprove, as a dict: (file, position) of the batch -> reason. Empty
    if there are none. A jump is disproved if another copy has the same batch exactly once, and all its offsets there
    are among those that the jump skips. If another copy has the batch at the jump's offset too, the jump is right.

    `others` are walks by the path of their copy; they are read to their ends, unless there are no jumps. Equal batches
    in one copy prove nothing: a producer without sequence numbers makes them when it retries. Raises `StorageError` if
    a copy cannot be read.
    """
    wanted: dict[_Key, list[Jump]] = {}
    for jump in jumps:
        wanted.setdefault(jump.key, []).append(jump)
    if not wanted:
        return {}
    right = set[tuple[_Key, int]]()
    disproved: dict[Jump, str] = {}
    for path, walk in others.items():
        seen = _seen(walk, wanted)
        right.update((key, first) for key, firsts in seen.items() for first in firsts)
        for key, firsts in seen.items():
            for jump in wanted[key] if len(firsts) == 1 else ():
                if jump.expected <= firsts[0] < jump.row.first - key[2]:
                    disproved.setdefault(jump, f"but {path} has the same batch at {firsts[0]}")
    return {
        (jump.path, jump.position): why
        for jump, why in disproved.items()
        if (jump.key, jump.row.first) not in right
    }


class _Read(Protocol):
    """Result of reading a copy."""

    copy: Copy
    cleaned_until: int
    jumps: Jumps
    displaced: Displaced


Read = TypeVar("Read", bound=_Read)


def without_disproved(
    read: Read, others: Callable[[], Mapping[str, Iterable[Stretch]]], again: Callable[[Copy, Displaced], Read]
) -> Read:
    """Read a copy again, with the batches that other copies disprove counted as damage. Repeat this until no more are
    found, at most eight times. Return the last result, or `read` itself if no batch is disproved. If another copy
    cannot be read, return the result so far; no exception is raised for this.

    `others` returns walks over the other copies, by path. `again` is called with the copy and all batches disproved so
    far, and returns the new result.
    """
    for _ in range(_MOST_ROUNDS):
        try:
            disproved = displaced(read.jumps.from_offset(read.cleaned_until), others())
        except StorageError:
            return read  # the comparison of the contents reports the error
        if not disproved:
            return read
        read = again(read.copy, {**read.displaced, **disproved})
    return read


def _seen(walk: Iterable[Stretch], wanted: Mapping[_Key, Sequence[Jump]]) -> dict[_Key, list[int]]:
    """Read a walk over a copy to its end. Return, for each wanted batch that the copy has, its first offsets there, in
    the order of the walk; batches that it does not have are left out. A batch is identified by checksum, size and
    number of offsets minus one. All offsets of jumps are included; any other offset only if fewer than two of the batch
    were found before it. Raises `StorageError` if the copy cannot be read.
    """
    checksums = frozenset(crc for crc, _, _ in wanted)
    jumped = {(key, jump.row.first) for key, jumps in wanted.items() for jump in jumps}
    seen: dict[_Key, list[int]] = {}
    for stretch in walk:
        for number in stretch.with_checksums(checksums):
            row = stretch.row(number)
            key = row.crc, row.size, row.last - row.first
            if key in wanted and ((key, row.first) in jumped or len(seen.get(key, ())) < 2):
                seen.setdefault(key, []).append(row.first)
    return seen
