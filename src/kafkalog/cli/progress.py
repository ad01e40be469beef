"""A progress bar for long work: bytes and time left, on standard error, on a terminal only, and only after a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["ByteProgress"]

_PATIENCE_SECONDS = 2.0


class ByteProgress:
    """Counts bytes; shows a bar when the work takes longer than two seconds and somebody can see it."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._show_at = time.monotonic() + _PATIENCE_SECONDS
        self._visible = sys.stderr.isatty()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def advance(self, count: int) -> None:
        """So many bytes more are done."""
        self._done += count
        if not self._visible:
            return
        if self._bar is None:
            if time.monotonic() < self._show_at:
                return
            self._start()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(self._what, total=self._total)
        self._bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
