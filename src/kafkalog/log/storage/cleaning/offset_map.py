"""Which offset is the latest of each key (`SkimpyOffsetMap`): digests of keys, in one piece of memory.

Kafka's own limit holds: a slot is 24 bytes, there are as many as the buffer holds, and the map takes keys up to a share
of them.  Two keys of one digest would be taken for one, as there.
"""

from __future__ import annotations

import hashlib
import struct
import sys

__all__ = ["FULL", "SLOT_BYTES", "OffsetMap"]

_OFFSET = struct.Struct("=q")
_DIGEST_BYTES = hashlib.md5(usedforsecurity=False).digest_size
SLOT_BYTES = _DIGEST_BYTES + _OFFSET.size
"""of memory for a key"""
_EMPTY = bytes(SLOT_BYTES)
_FIRST_SLOTS = 1024
FULL = 0.75
"""from which share of used slots on the table grows, as long as it may"""


class OffsetMap:
    """At most `limit` keys in at most `slots` slots; the memory grows with what is put in."""

    def __init__(self, slots: int, limit: int) -> None:
        self._largest = slots
        self._limit = limit
        self._slots = min(slots, _FIRST_SLOTS)
        self._table = bytearray(self._slots * SLOT_BYTES)
        self._used = 0
        self.latest_offset = -1
        """the last offset that was put in or passed; records after it are kept whatever they are"""

    def __len__(self) -> int:
        return self._used

    @property
    def is_full(self) -> bool:
        """No record with a key is taken any more, not even one whose key is known."""
        return self._used >= self._limit

    def _position(self, digest: bytes) -> int:
        """Where the entry of a digest is, or where it goes; -1 if it is not there and all slots are used."""
        slot = int.from_bytes(digest[:8], sys.byteorder) % self._slots
        table = self._table
        for _ in range(self._slots):
            at = slot * SLOT_BYTES
            found = table[at : at + _DIGEST_BYTES]
            if found == digest or table[at : at + SLOT_BYTES] == _EMPTY:
                return at
            slot = slot + 1 if slot + 1 < self._slots else 0
        return -1

    def put(self, key: bytes, offset: int) -> None:
        """The record at an offset is the latest of its key, until a later one is put in."""
        digest = hashlib.md5(key, usedforsecurity=False).digest()
        at = self._position(digest)
        if self._table[at : at + SLOT_BYTES] == _EMPTY:
            self._used += 1
        self._table[at : at + SLOT_BYTES] = digest + _OFFSET.pack(offset)
        self.latest_offset = offset
        if self._used > self._slots * FULL and self._slots < self._largest:
            self._grow()

    def get(self, key: bytes) -> int:
        """The latest offset of a key; -1 if there is none."""
        at = self._position(hashlib.md5(key, usedforsecurity=False).digest())
        if at < 0 or self._table[at : at + SLOT_BYTES] == _EMPTY:
            return -1
        offset: int = _OFFSET.unpack_from(self._table, at + _DIGEST_BYTES)[0]
        return offset

    def _grow(self) -> None:
        old = self._table
        self._slots = min(2 * self._slots, self._largest)
        self._table = bytearray(self._slots * SLOT_BYTES)
        self._take_over(old)

    def _take_over(self, old: bytearray) -> None:
        """Put what a smaller table holds into the new one."""
        for start in range(0, len(old), SLOT_BYTES):
            entry = old[start : start + SLOT_BYTES]
            if entry != _EMPTY:
                at = self._position(bytes(entry[:_DIGEST_BYTES]))
                self._table[at : at + SLOT_BYTES] = entry
