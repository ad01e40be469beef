"""Concatenate pieces of output without ever holding two copies of all of it."""

from __future__ import annotations

from kafkalog.codec.common.limits import MIB
from kafkalog.codec.common.memory import GrowingMemory

__all__ = ["Pieces", "copy_earlier"]

_LARGE = MIB
_ROOM = 4 * MIB


class Pieces:
    """Bytes that are appended piece by piece; `size` is their number. They are written to `target` while they fit."""

    def __init__(self, target: memoryview | None = None) -> None:
        self._parts: list[bytes | memoryview] = []
        self._whole: GrowingMemory | None = None
        self._target = target
        self.size = 0

    def append(self, part: bytes | memoryview) -> None:
        """Append a piece and add its length to `size`. It is copied into `target` if it fits. If not, everything so far
        is copied to memory of its own, and `target` is no longer used. Without a target, pieces are kept without a copy
        until there is more than one and their size exceeds 1 MiB.
        """
        start, self.size = self.size, self.size + len(part)
        if self._whole is not None:
            self._whole.append(part)
        elif self._target is None:
            self._parts.append(part)
            if self.size > _LARGE and len(self._parts) > 1:
                self._move(self._parts)
                self._parts = []
        elif self.size <= len(self._target):
            self._target[start : self.size] = part
        else:
            self._move([self._target[:start], part])
            self._target = None

    def _move(self, parts: list[bytes | memoryview]) -> None:
        self._whole = GrowingMemory(max(2 * self.size, _ROOM))
        for part in parts:
            self._whole.append(part)

    def joined(self) -> bytes | memoryview:
        """Return all pieces as one. If all fitted into `target`, this is a read-only view of it; otherwise it is bytes
        or a read-only view of memory owned by this object. Without a target, a single piece is returned unchanged.
        Without pieces the result is empty. Do not append afterwards.
        """
        if self._whole is not None:
            return self._whole.view()
        if self._target is not None:
            return self._target[: self.size].toreadonly()
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def copy_earlier(out: bytearray, distance: int, length: int, most: int) -> bool:
    """Append a copy of `length` bytes that begins `distance` bytes before the end of `out`; the copy may overlap its
    source, so the bytes repeat. It is cut so that `out` has at most `most` bytes. Return True; or False, with nothing
    appended, if `distance` is 0 or more than `len(out)`.
    """
    if not 0 < distance <= len(out):
        return False
    length = min(length, most - len(out))
    pattern = bytes(out[-distance:])
    out += (pattern * (length // distance + 1))[:length]
    return True
