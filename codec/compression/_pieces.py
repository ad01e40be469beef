"""Putting together what comes in pieces, without ever holding all of it twice."""

from __future__ import annotations

from io import BytesIO

from kafkalog.codec.limits import MIB

__all__ = ["Pieces"]

_LARGE = MIB


class Pieces:
    """Bytes that are appended, few or many; `size` of them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._whole: BytesIO | None = None
        self.size = 0

    def append(self, part: bytes) -> None:
        """Put a piece behind those before."""
        self.size += len(part)
        if self._whole is not None:
            self._whole.write(part)
            return
        self._parts.append(part)
        if self.size > _LARGE and len(self._parts) > 1:
            self._whole = BytesIO()
            self._whole.writelines(self._parts)
            self._parts = []

    def joined(self) -> bytes:
        """All of them."""
        if self._whole is not None:
            return self._whole.getvalue()  # the buffer itself, not a copy
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
