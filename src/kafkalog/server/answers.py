"""Results of a handler: the fields of a response, or a promise of them that is polled."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

from msgspec import Struct

from kafkalog.server.wire import Fields, Part, Request

__all__ = ["Answer", "Change", "Later", "NoAnswer", "Polled", "Resolved"]


class NoAnswer:
    """Nothing is sent, as for a produce request without acknowledgement."""


class Change(enum.Flag):
    """What a response may wait for."""

    LOGS = enum.auto()
    """a log has grown, or more is known about it"""
    GROUPS = enum.auto()
    WORK = enum.auto()
    """a worker is done"""


class Later(Struct):
    """A promise of a response that is not ready yet.

    `poll` is called by one thread at a time whenever something in `awaits` changes. Its argument says whether the time
    is over. It returns the response, another promise, or None if it must wait on; None is not allowed once the time is
    over.
    """

    poll: Callable[[bool], Polled]
    milliseconds: int
    awaits: Change
    cancel: Callable[[], None] = lambda: None
    """called instead of `poll` when the connection is gone"""

    def forget(self) -> None:
        """End the wait because the connection is gone, and call `cancel`."""
        cancel = self.cancel
        self.end()
        cancel()

    def end(self) -> None:
        """End the wait and drop the callbacks, so that nothing is held while this is still listed."""
        self.cancel, self.poll = _nothing, _never

    @property
    def deadline(self) -> float:
        """End of the wait from now, in the time of `time.monotonic`."""
        return time.monotonic() + max(0, self.milliseconds) / 1000


def _nothing() -> None:
    return


def _never(_is_over: bool) -> None:
    return


Answer = Fields | Later | NoAnswer


class Resolved:
    """Result of a request in another thread. `answer` is the encoded response, a promise, or `NoAnswer`."""

    __slots__ = ("answer", "request")

    def __init__(self, request: Request, answer: NoAnswer | Later | list[Part]) -> None:
        self.request = request
        self.answer = answer


Polled = Fields | Later | Resolved | None
