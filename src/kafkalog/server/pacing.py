"""Threads that compute for long leave others their turn: they rest for as long as they have worked.

One thread runs Python at a time.  A thread that serves clients gives that up with each call of the system, and would
get it back only after the interpreter's switch interval each time, if another one never paused.
"""

from __future__ import annotations

import time

from kafkalog.codec.messages.leaves import Input, Output

__all__ = ["Pace", "PacedInput", "PacedOutput"]

_STEPS = 64
_AT_ONCE_S = 0.002
_LONGEST_REST_S = 0.05


class Pace:
    """Called in the course of a computation."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._steps = 0

    def __call__(self) -> None:
        """Take another step; once in a while this rests."""
        self._steps += 1
        if self._steps % _STEPS == 0:
            self.rest()

    def rest(self) -> None:
        """Rest for as long as was worked, if that was long enough."""
        worked = time.perf_counter() - self._begun
        if worked >= _AT_ONCE_S:
            time.sleep(min(worked, _LONGEST_REST_S))
            self._begun = time.perf_counter()


class PacedInput(Input):
    """Bytes that are parsed with rests."""

    def __init__(self, data: bytes, pace: Pace) -> None:
        super().__init__(data)
        self._pace = pace

    def read(self, size: int | None = -1, /) -> bytes:
        """As ever."""
        self._pace()
        return super().read(size)


class PacedOutput(Output):
    """Bytes that are built with rests."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        """As ever."""
        self._pace()
        return super().write(data)
