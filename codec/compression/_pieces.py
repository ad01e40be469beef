"""Putting together what comes in pieces, without ever holding all of it twice."""

from __future__ import annotations

from kafkalog.codec.limits import MIB
from kafkalog.codec.memory import GrowingMemory

__all__ = ["Pieces"]

_LARGE = MIB
_ROOM = 4 * MIB


class Pieces:
    """Bytes that are appended, few or many; `size` of them."""

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []
        self._whole: GrowingMemory | None = None
        self.size = 0

    def append(self, part: bytes | memoryview) -> None:
        """Put a piece behind those before."""
        self.size += len(part)
        if self._whole is not None:
            self._whole.append(part)
            return
        self._parts.append(part)
        if self.size > _LARGE and len(self._parts) > 1:
            parts, self._parts = self._parts, []
            self._whole = GrowingMemory(max(2 * self.size, _ROOM))
            for each in parts:
                self._whole.append(each)

    def joined(self) -> bytes | memoryview:
        """All of them; nothing can be appended afterwards."""
        if self._whole is not None:
            return self._whole.view()
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
