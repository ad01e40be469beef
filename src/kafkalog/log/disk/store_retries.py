"""Retry requests to an object store after throttling, broken connections and short answers. The cloud libraries retry
too, but not always: pyarrow's client gives up if a read of few bytes is throttled, because the error text does not fit
into the buffer, and on HTTP status 429.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from kafkalog.codec.common.errors import UsageError

__all__ = ["RETRIES", "RETRY_SECONDS", "Retries", "ShortReadError"]

RETRIES, RETRY_SECONDS = "retries", "retry.seconds"
_FIRST_S, _LONGEST_S = 0.1, 10.0
_TRANSIENT = re.compile(
    r"SLOW_?DOWN|HTTP status (429|500|502|503|504)|TOO_?MANY_?REQUESTS|THROTTL|INTERNAL_FAILURE|SERVICE_?UNAVAILABLE"
    r"|REQUEST_?TIMEOUT|NETWORK_CONNECTION|FAILED TO FLUSH RESPONSE|CURLCODE|TIMED? ?OUT|CONNECTION (RESET|REFUSED)"
    r"|CONNECTION WAS CLOSED|BROKEN PIPE|SERVER_?BUSY|REQUEST_?LIMIT|RATE ?LIMIT",
    re.IGNORECASE,
)
_T = TypeVar("_T")


class ShortReadError(OSError):
    """An answer ended before its declared length."""


class Retries(Struct, frozen=True):
    """Bounds on the retries of one request: at most `most` retries, none of which begins later than `seconds` after the
    first try.
    """

    most: int = 10
    seconds: float = 60.0

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Retries:
        """Return the bounds from the options `retries` and `retry.seconds` (names without `storage.`); 10 retries and
        60 seconds if they are missing. Raises `UsageError` if a value is not a number (`retries`: a whole number) or is
        negative, or if the seconds are a million or more.
        """
        default = cls()
        try:
            most, seconds = int(values.get(RETRIES, default.most)), float(values.get(RETRY_SECONDS, default.seconds))
        except ValueError:
            most, seconds = -1, -1.0
        if most < 0 or not 0 <= seconds < 1e6:
            raise UsageError(f"storage.{RETRIES} and storage.{RETRY_SECONDS} are numbers that are not negative")
        return cls(most, seconds)

    def call(self, act: Callable[[], _T]) -> _T:
        """Call `act` and return its result. After a transient `OSError` (throttling, a broken connection, a server
        error or `ShortReadError`) it is called again. Before each retry this thread sleeps: up to 0.1 s at first, then
        twice as long each time up to 10 s, with random jitter.

        When the retries or the time are used up, an error of the same type is raised. Its message has the number of
        tries. Other errors are raised at once.
        """
        until = time.monotonic() + self.seconds
        for number in range(self.most + 1):
            try:
                return act()
            except OSError as error:
                pause = min(_FIRST_S * 2**number, _LONGEST_S) * random.uniform(0.5, 1)  # noqa: S311 - no secret
                is_last = number == self.most or time.monotonic() + pause > until
                if not isinstance(error, ShortReadError) and _TRANSIENT.search(str(error)) is None:
                    raise
                if is_last:
                    tries = f"tried {number + 1} times" if number else "tried once"
                    raise type(error)(f"{error} ({tries})") from None
                time.sleep(pause)
        raise AssertionError
