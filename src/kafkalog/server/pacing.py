"""Pauses in long computations, as long as the work before them.

Only one thread runs Python at a time. A thread serving clients releases the interpreter with each system call, and
without pauses in other threads would get it back only after the switch interval.
"""

from __future__ import annotations

import time

from kafkalog.codec.messages.leaves import Input, Output

__all__ = ["Pace", "PacedInput", "PacedOutput"]

_STEPS = 64
_AT_ONCE_S = 0.002
_LONGEST_REST_S = 0.05


class Pace:
    """Makes a long computation pause from time to time; it must be called for each step."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._steps = 0

    def __call__(self) -> None:
        """Count a step, and pause from time to time."""
        self._steps += 1
        if self._steps % _STEPS == 0:
            self.rest()

    def rest(self) -> None:
        """Pause for as long as the work took, if that was long enough."""
        worked = time.perf_counter() - self._begun
        if worked >= _AT_ONCE_S:
            time.sleep(min(worked, _LONGEST_REST_S))
            self._begun = time.perf_counter()


class PacedInput(Input):
    """Input of a parser, with pauses."""

    def __init__(self, data: bytes, pace: Pace) -> None:
        super().__init__(data)
        self._pace = pace

    def read(self, size: int | None = -1, /) -> bytes:
        """Read bytes, pausing from time to time."""
        self._pace()
        return super().read(size)


class PacedOutput(Output):
    """Output buffer with pauses."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        """Append bytes, pausing from time to time."""
        self._pace()
        return super().write(data)
