"""What a handler gives: the fields of a response, or a promise of them that is looked at again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kafkalog.server.wire import Fields

__all__ = ["Answer", "Later", "NoAnswer"]


class NoAnswer:
    """Nothing is sent: a produce request that wants no acknowledgement."""


@dataclass(slots=True)
class Later:
    """A response that is not there yet.

    `poll` is called with whether the time is over, by one thread at a time, whenever anything changed; it gives the
    response or None, and must give one when the time is over.
    """

    poll: Callable[[bool], Fields | None]
    milliseconds: int
    cancel: Callable[[], None] = lambda: None
    """called in place of `poll` when the connection is gone"""

    @property
    def deadline(self) -> float:
        """From now, in the time of `time.monotonic`."""
        return time.monotonic() + max(0, self.milliseconds) / 1000


Answer = Fields | Later | NoAnswer
