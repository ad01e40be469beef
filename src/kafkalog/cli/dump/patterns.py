"""Regular expressions over data, with a limit of processor time for each search."""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kafkalog.codec.common.errors import UsageError

__all__ = ["SECONDS", "Pattern", "searching"]

SECONDS = 2.0
"""of processor time for one search"""


class _TookTooLongError(Exception):
    pass


class Pattern:
    """A regular expression to search for in bytes. Raises `UsageError` if it is invalid."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what other expressions may mean in later releases
                self._compiled = re.compile(text.encode("utf-8", "surrogateescape"))
        except (re.error, RecursionError, OverflowError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise UsageError(f"{text[:100]!r} is not a regular expression: {reason}") from None

    def found_in(self, data: bytes | None) -> bool:
        """Return whether the regular expression matches anywhere in `data`; False if `data` is None. `searching` must
        be active, because it installs the signal handler. Raises `UsageError` if the search takes more than `SECONDS`
        of processor time.
        """
        if data is None:
            return False
        try:
            with _budget():
                return self._compiled.search(data) is not None
        except _TookTooLongError:
            raise UsageError(
                f"{self.text[:100]!r} takes more than {SECONDS:g} s of processor time on {len(data)} bytes; "
                "an expression without repetitions inside of repetitions does not"
            ) from None


def _expired(number: int, frame: FrameType | None) -> None:
    raise _TookTooLongError


@contextmanager
def searching() -> Iterator[None]:
    """Context manager that must be active while patterns are searched. It installs the SIGVTALRM handler that ends slow
    searches, and restores the previous handler at the end. Raises `UsageError` outside of the main thread, because
    Python allows signal handlers only there.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("regular expressions are looked for in the main thread only, where a timer can end them")
    before = signal.signal(signal.SIGVTALRM, _expired)
    try:
        yield
    finally:
        signal.signal(signal.SIGVTALRM, before)


class _budget:  # noqa: N801 - a class, for it is entered once a record
    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
