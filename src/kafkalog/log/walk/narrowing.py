"""Where in a large index that is remote an entry must be, with few reads of a piece each.

A read takes as long as a request, whatever it brings, and entries of an index are spread evenly as a rule: the piece is
read where an entry should be between two that are known, and by halves where that does not lead there.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.codec.limits import KIB
from kafkalog.log.disk.files import FileSource

__all__ = ["is_worth_it", "narrowed"]

_PIECE = 128 * KIB
_LARGE = 2 * _PIECE
_GUESSES = 3


def is_worth_it(index: FileSource) -> bool:
    """Whether an index is remote and so large that it is not read from its start."""
    return index.is_remote and index.size > _LARGE


def narrowed(
    index: FileSource, entry_size: int, key: Callable[[bytes], int], target: int, high: int | None = None
) -> tuple[int, int]:
    """First slot, and the one after the last, of a piece in which the last entry below `target` is.

    What is not in order is not found: whoever uses an entry checks it.

    * `key`: of an entry's bytes; they must not decrease
    * `high`: the key of the last entry; None: it is read
    """
    slots = index.size // entry_size
    low_slot, high_slot = 0, slots

    def at(slot: int) -> int:
        data = index.read(slot * entry_size, entry_size)
        return key(data) if len(data) == entry_size else target

    high_key = at(slots - 1) if high is None else high
    low_key = at(0)
    wide = _PIECE // entry_size
    tries = 0
    while high_slot - low_slot > wide:
        share = (target - low_key) / (high_key - low_key) if high_key > low_key and tries < _GUESSES else 0.5
        tries += 1
        guess = low_slot + int(min(max(share, 0.0), 1.0) * (high_slot - low_slot))
        begin = max(low_slot, min(guess - wide // 2, high_slot - wide))
        data = index.read(begin * entry_size, wide * entry_size)
        if len(data) < wide * entry_size:
            break
        first, last = key(data[:entry_size]), key(data[-entry_size:])
        if first >= target and begin > low_slot:
            high_slot, high_key = begin, first
        elif last < target and begin + wide < high_slot:
            low_slot, low_key = begin + wide - 1, last
        else:
            return begin, begin + wide
    return low_slot, high_slot
