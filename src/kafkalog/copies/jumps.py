"""Batches whose offsets jump ahead of the log, and what proves such an offset wrong.

A batch's base offset lies outside its checksum.  One that damage has raised continues the log as far as "higher than
the one before" goes, and would make the log longer than it is.  Offsets of a sound log jump where compaction took
batches, and nowhere else; so a jump that the batches after it do not contradict (`Cursor`) is damage all the same where
another copy has the same batch before the jump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappush, heapreplace
from typing import Protocol, TypeVar

from msgspec import Struct, field

from kafkalog.codec.errors import StorageError
from kafkalog.copies.stretches import Row, Stretch
from kafkalog.copies.volumes import Copy

__all__ = ["Displaced", "Jump", "Jumps", "displaced", "without_disproved"]

_MOST_ROUNDS = 8
"""How often a copy is read again because another one disproves one more of its offsets."""
_MOST_JUMPS = 1000
"""Jumps that are noted of one copy, the widest of them."""

_Key = tuple[int, int, int]
"""Checksum, bytes and offsets of a batch but for one: what it has wherever it is."""

Displaced = dict[tuple[str, int], str]
"""(file, position) of a batch -> why its offset is wrong"""


class Jump(Struct, frozen=True, order=True, kw_only=True):
    """A batch that begins after the offset that comes next."""

    width: int
    """offsets that are passed over"""
    path: str
    position: int
    row: Row

    @property
    def expected(self) -> int:
        """The offset that would come next."""
        return self.row.first - self.width

    @property
    def key(self) -> _Key:
        """What it is known by."""
        return self.row.crc, self.row.size, self.row.last - self.row.first


class Jumps(Struct):
    """The widest jumps of one copy."""

    _found: list[Jump] = field(default_factory=list)

    def note(self, stretch: Stretch, expected: int) -> None:
        """Look at a stretch before which the offset `expected` would come."""
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
        """The jumps that pass over nothing below an offset, up to which compaction may have taken batches."""
        return [jump for jump in self._found if jump.expected >= offset]


def displaced(jumps: Iterable[Jump], others: Mapping[str, Iterable[Stretch]]) -> Displaced:
    """The jumps of a copy that other copies disprove: one has the same batch, and once, where nothing is missing.

    `others` are walks by the path of their copy.  A batch that another copy has at the same offset too is not wrong;
    and of equal batches, as a producer without a sequence makes when it sends again, nobody knows which is which.
    """
    wanted: dict[_Key, list[Jump]] = {}
    for jump in jumps:
        wanted.setdefault(jump.key, []).append(jump)
    if not wanted:
        return {}
    right = set[tuple[_Key, int]]()
    found: dict[Jump, str] = {}
    for path, walk in others.items():
        seen = _seen(walk, wanted)
        right.update((key, first) for key, firsts in seen.items() for first in firsts)
        for key, firsts in seen.items():
            for jump in wanted[key] if len(firsts) == 1 else ():
                if jump.expected <= firsts[0] < jump.row.first - key[2]:
                    found.setdefault(jump, f"but {path} has the same batch at {firsts[0]}")
    return {(jump.path, jump.position): said for jump, said in found.items() if (jump.key, jump.row.first) not in right}


class _Read(Protocol):
    """What was found in a copy."""

    copy: Copy
    cleaned_until: int
    jumps: Jumps
    displaced: Displaced


Read = TypeVar("Read", bound=_Read)


def without_disproved(
    read: Read, others: Callable[[], Mapping[str, Iterable[Stretch]]], again: Callable[[Copy, Displaced], Read]
) -> Read:
    """What is found in a copy when offsets that others disprove are damage: raising one makes no log longer.

    `others` walks over them, by the path of each, and `again` reads the copy once more with such offsets.
    """
    for _ in range(_MOST_ROUNDS):
        try:
            found = displaced(read.jumps.from_offset(read.cleaned_until), others())
        except StorageError:
            return read  # what can no longer be read is said where contents are compared
        if not found:
            return read
        read = again(read.copy, {**read.displaced, **found})
    return read


def _seen(walk: Iterable[Stretch], wanted: Mapping[_Key, Sequence[Jump]]) -> dict[_Key, list[int]]:
    """Where a copy has the batches that jump elsewhere: offsets of jumps, and the first two others."""
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
