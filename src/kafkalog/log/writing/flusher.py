"""Flush a log every few seconds in a thread (`LogManager.flushDirtyLogs`)."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Flusher"]


class Flusher:
    """Thread that calls `flush` every `seconds` seconds until it is stopped. An exception of `flush` ends the
    thread.
    """

    def __init__(self, seconds: float, flush: Callable[[], None]) -> None:
        self._seconds = seconds
        self._flush = flush
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafkalog-flush", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            self._flush()

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._stopping.set()
        self._thread.join()
