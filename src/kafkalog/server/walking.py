"""Walks over log files, limited in threads that serve clients.

If an index leads close to the target, only a few headers are read. Without one, or with a wrong one, a serving thread
stops after a number of headers (`TooFarError`), and another thread continues in slices.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.server.headers import Place
from kafkalog.server.waypoints import Waypoints

__all__ = ["Patience", "TooFarError", "eager", "patient", "walked"]

_EAGER_HEADERS = 2000
_EAGER_BYTES = 1 << 17


class TooFarError(Exception):
    """The target is too far away. Everything before `reached` is known."""

    def __init__(self, reached: int) -> None:
        self.reached = reached
        super().__init__(reached)


class Patience:
    """Limits of a walk over a log file: `headers` is the number of headers that may be read (None: no limit),
    `may_search` says whether many bytes that are not a batch may be searched.
    """

    def __init__(self, headers: int | None, *, may_search: bool) -> None:
        self._left = headers
        self._may_search = may_search

    def step(self, waypoints: Waypoints) -> None:
        """Count a header. Raises `TooFarError` if too many were counted."""
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise TooFarError(waypoints.reached)

    def search(self, waypoints: Waypoints, size: int) -> None:
        """Allow a search through `size` bytes one by one, or raise `TooFarError`."""
        if size > _EAGER_BYTES and not self._may_search:
            raise TooFarError(waypoints.reached)


def eager() -> Patience:
    """For a thread with other clients waiting."""
    return Patience(_EAGER_HEADERS, may_search=False)


def patient() -> Patience:
    """For a worker."""
    return Patience(None, may_search=True)


def walked(places: Iterator[Place], waypoints: Waypoints, patience: Patience) -> Iterator[Place]:
    """Yield the places. Each is recorded in `waypoints` when the next one is found, which shows that its length is
    right. Raises `TooFarError` if `patience` is exhausted.
    """
    before: Place | None = None
    for place in places:
        patience.step(waypoints)
        if before is not None:
            waypoints.passed(before.position, before.end, before.last_offset)
        before = place
        yield place
