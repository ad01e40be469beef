"""What a handler gives: the fields of a response, or a promise of them that is looked at again and again."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

from msgspec import Struct

from kafkalog.server.wire import Fields, Part, Request

__all__ = ["Answer", "Change", "Later", "NoAnswer", "Polled", "Resolved"]


class NoAnswer:
    """Nothing is sent: a produce request that wants no acknowledgement."""


class Change(enum.Flag):
    """What a response may wait for."""

    LOGS = enum.auto()
    """there is more in a log, or more is known of it"""
    GROUPS = enum.auto()
    WORK = enum.auto()
    """a worker is done"""


class Later(Struct):
    """A response that is not there yet.

    `poll` is called with whether the time is over, by one thread at a time, whenever something of `awaits` changed; it
    gives the response, another promise or None, which it must not when the time is over.
    """

    poll: Callable[[bool], Polled]
    milliseconds: int
    awaits: Change
    cancel: Callable[[], None] = lambda: None
    """called in place of `poll` when the connection is gone"""

    def forget(self) -> None:
        """The connection is gone."""
        cancel = self.cancel
        self.end()
        cancel()

    def end(self) -> None:
        """End the wait: it was kept, or nobody waits, so it holds nothing any more, however long it is still listed."""
        self.cancel, self.poll = _nothing, _never

    @property
    def deadline(self) -> float:
        """When the wait ends, in the time of `time.monotonic`."""
        return time.monotonic() + max(0, self.milliseconds) / 1000


def _nothing() -> None:
    return


def _never(_is_over: bool) -> None:
    return


Answer = Fields | Later | NoAnswer


class Resolved:
    """What came of a request in another thread; `answer` are the parts of a response, or what has no parts yet."""

    __slots__ = ("answer", "request")

    def __init__(self, request: Request, answer: NoAnswer | Later | list[Part]) -> None:
        self.request = request
        self.answer = answer


Polled = Fields | Later | Resolved | None
