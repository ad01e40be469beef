"""Find an entry in a large remote index with few reads. Each read is a request, which takes the same time for few and
many bytes. Entries are usually spread evenly, so a piece is read at the place interpolated between two known entries;
if that fails, the range is halved.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.codec.common.limits import KIB
from kafkalog.log.disk.files import FileSource

__all__ = ["is_worth_it", "narrowed"]

_PIECE = 128 * KIB
_LARGE = 2 * _PIECE
_GUESSES = 3


def is_worth_it(index: FileSource) -> bool:
    """Whether an index is remote and too large to be read from its start."""
    return index.is_remote and index.size > _LARGE


def narrowed(
    index: FileSource, entry_size: int, key: Callable[[bytes], int], target: int, high: int | None = None
) -> tuple[int, int]:
    """Return the first slot number and the end (exclusive) of a piece of the index. The piece contains the last entry
    with a key below `target`, if there is one. The index must have an entry; of a small one, the piece covers all
    slots. `key` is called with an entry's bytes and returns its key, which must not decrease from entry to entry.
    `high` is the key of the last entry; None: it is read. If the index is not in order the result may be wrong: callers
    must check the entry. Raises `StorageError` if it cannot be read.
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
        guessed_slot = low_slot + int(min(max(share, 0.0), 1.0) * (high_slot - low_slot))
        begin = max(low_slot, min(guessed_slot - wide // 2, high_slot - wide))
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
