"""Map from each key to its latest offset (`SkimpyOffsetMap`), as digests of the keys in one piece of memory. It has
Kafka's limits: a slot is 24 bytes, the buffer size determines the number of slots, and only a share of them is used. As
in Kafka, two keys with the same digest would be treated as one.
"""

from __future__ import annotations

import hashlib
import struct
import sys

__all__ = ["FULL", "SLOT_BYTES", "OffsetMap"]

_OFFSET = struct.Struct("=q")
_DIGEST_BYTES = hashlib.md5(usedforsecurity=False).digest_size
SLOT_BYTES = _DIGEST_BYTES + _OFFSET.size
"""Bytes of memory for a key."""
_EMPTY = bytes(SLOT_BYTES)
_FIRST_SLOTS = 1024
FULL = 0.75
"""Share of used slots above which the table grows, up to its limit."""


class OffsetMap:
    """Map of at most `limit` keys in at most `slots` slots, whose memory grows as needed."""

    def __init__(self, slots: int, limit: int) -> None:
        self._largest = slots
        self._limit = limit
        self._slots = min(slots, _FIRST_SLOTS)
        self._table = bytearray(self._slots * SLOT_BYTES)
        self._used = 0
        self.latest_offset = -1
        """last offset that was put in or processed; all records after it are kept"""

    def __len__(self) -> int:
        return self._used

    @property
    def is_full(self) -> bool:
        """Whether the map accepts no more records, even of keys that it already has."""
        return self._used >= self._limit

    def _position(self, digest: bytes) -> int:
        """Return the byte position in the table of the slot with a digest. If the digest is missing, return the
        position of the free slot for it, or -1 if all slots are used.
        """
        slot = int.from_bytes(digest[:8], sys.byteorder) % self._slots
        table = self._table
        for _ in range(self._slots):
            slot_position = slot * SLOT_BYTES
            stored = table[slot_position : slot_position + _DIGEST_BYTES]
            if stored == digest or table[slot_position : slot_position + SLOT_BYTES] == _EMPTY:
                return slot_position
            slot = slot + 1 if slot + 1 < self._slots else 0
        return -1

    def put(self, key: bytes, offset: int) -> None:
        """Set the offset of a key, even if its present offset is larger, and set `latest_offset` to `offset`. The table
        may grow. Call only if `is_full` is False.
        """
        digest = hashlib.md5(key, usedforsecurity=False).digest()
        position = self._position(digest)
        if self._table[position : position + SLOT_BYTES] == _EMPTY:
            self._used += 1
        self._table[position : position + SLOT_BYTES] = digest + _OFFSET.pack(offset)
        self.latest_offset = offset
        if self._used > self._slots * FULL and self._slots < self._largest:
            self._grow()

    def get(self, key: bytes) -> int:
        """Return the offset stored for a key; -1 if the map does not have the key."""
        position = self._position(hashlib.md5(key, usedforsecurity=False).digest())
        if position < 0 or self._table[position : position + SLOT_BYTES] == _EMPTY:
            return -1
        offset: int = _OFFSET.unpack_from(self._table, position + _DIGEST_BYTES)[0]
        return offset

    def _grow(self) -> None:
        old = self._table
        self._slots = min(2 * self._slots, self._largest)
        self._table = bytearray(self._slots * SLOT_BYTES)
        self._take_over(old)

    def _take_over(self, old: bytearray) -> None:
        """Insert all entries of `old`, a smaller table, into the present table, which must be empty."""
        for start in range(0, len(old), SLOT_BYTES):
            entry = old[start : start + SLOT_BYTES]
            if entry != _EMPTY:
                position = self._position(bytes(entry[:_DIGEST_BYTES]))
                self._table[position : position + SLOT_BYTES] = entry
