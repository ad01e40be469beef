"""Flushing by the clock: a thread that makes a log durable every few seconds (`LogManager.flushDirtyLogs`)."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Flusher"]


class Flusher:
    """Calls `flush` every `seconds` until it is stopped; what `flush` raises ends it, and the log knows of it."""

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
        """End the thread and wait for it."""
        self._stopping.set()
        self._thread.join()
