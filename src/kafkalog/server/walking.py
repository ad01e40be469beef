"""Walks over log files that would hold up others.

Where an index leads close to what is looked for, a few headers are read.  Where there is none, or it is wrong, whoever
serves clients stops after so many (`TooFarError`), and another thread goes on from there in slices.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.server.headers import Place
from kafkalog.server.waypoints import Waypoints

__all__ = ["Patience", "TooFarError", "eager", "patient", "walked"]

_EAGER_HEADERS = 2000
_EAGER_BYTES = 1 << 17


class TooFarError(Exception):
    """What is looked for is further away than was to be walked; all of the file is known up to `reached`."""

    def __init__(self, reached: int) -> None:
        self.reached = reached
        super().__init__(reached)


class Patience:
    """How far to walk: `headers` in all, without end if it is None; and whether to search much that is not a batch."""

    def __init__(self, headers: int | None, *, may_search: bool) -> None:
        self._left = headers
        self._may_search = may_search

    def step(self, waypoints: Waypoints) -> None:
        """Pass another header; raises `TooFarError`."""
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise TooFarError(waypoints.reached)

    def search(self, waypoints: Waypoints, size: int) -> None:
        """Search so many bytes, one by one; raises `TooFarError`."""
        if size > _EAGER_BYTES and not self._may_search:
            raise TooFarError(waypoints.reached)


def eager() -> Patience:
    """The patience of who has others waiting."""
    return Patience(_EAGER_HEADERS, may_search=False)


def patient() -> Patience:
    """The patience of who has a thread of its own."""
    return Patience(None, may_search=True)


def walked(places: Iterator[Place], waypoints: Waypoints, patience: Patience) -> Iterator[Place]:
    """The places, which are kept as they are passed; raises `TooFarError`."""
    for place in places:
        patience.step(waypoints)
        yield place
        waypoints.passed(place.position, place.end, place.last_offset)
