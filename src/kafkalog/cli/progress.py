"""Progress bars on standard error, on a terminal only and only for long work."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from kafkalog.codec.names import FileKind

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from kafkalog.log.directories.workers import ProgressState

__all__ = ["ByteProgress", "RecoveryProgress", "total_bytes"]

Made = TypeVar("Made")

_PATIENCE_SECONDS = 2.0
_REFRESH_SECONDS = 0.1


class _Bar:
    """A progress bar that appears after two seconds, on a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._show_at = time.monotonic() + _PATIENCE_SECONDS
        self._visible = sys.stderr.isatty()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def _show(self, completed: int, total: int, phase: str = "", counts: str = "") -> None:
        if not self._visible or time.monotonic() < self._show_at:
            return
        self._show_at = time.monotonic() + _REFRESH_SECONDS
        if self._bar is None:
            self._bar = self._make()
            self._task = self._bar.add_task(self._what, total=total, phase=phase, counts=counts)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=completed, total=total, phase=phase, counts=counts)

    def _make(self) -> Progress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("{task.description}{task.fields[phase]}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
        )
        return Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class ByteProgress(_Bar):
    """Counts bytes and shows the remaining time in a progress bar. `total` may be a function, which is called at once,
    but only if standard error is a terminal and `quiet` is False.
    """

    def __init__(self, what: str, total: int | Callable[[], int], *, quiet: bool = False) -> None:
        super().__init__(what)
        self._visible = self._visible and not quiet
        self._total = total if isinstance(total, int) else total() if self._visible else 0
        self._done = 0

    def advance(self, count: int) -> None:
        """Add to the bytes that are done."""
        self._done += count
        self._show(self._done, self._total)


class RecoveryProgress(_Bar):
    """Shows the progress of a recovery in a bar: its phase, bytes, segments, partitions and remaining time."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._phase: str | None = None

    def pause(self) -> None:
        """Remove the bar until there is more to show."""
        if self._bar is not None:
            self._bar.stop()
            self._bar, self._task = None, None

    def paused(self, show: Callable[[Made], None]) -> Callable[[Made], None]:
        """Return a function that removes the progress bar, so that it does not mix with other output, and then calls
        `show`. The next update may show the bar again.
        """

        def shown(made: Made) -> None:
            self.pause()
            show(made)

        return shown

    def update(self, state: ProgressState) -> None:
        """Show the phase, bytes, segments and partitions of `state` on the progress bar. In a new phase the bar
        starts again, so that the remaining time is estimated from this phase's speed.
        """
        if state.phase != self._phase and self._bar is not None and self._task is not None:
            self._bar.reset(self._task, total=state.bytes)  # what is left is told from this phase's own speed
        self._phase = state.phase
        counts = f"files {state.segments_done}/{state.segments}"
        if state.partitions:
            partitions = f"partitions {state.partitions_done}/{state.partitions}"
            counts = f"segments {state.segments_done}/{state.segments}, {partitions}"
        self._show(state.bytes_done, state.bytes, phase=f": {state.phase}", counts=counts)


def total_bytes(paths: Iterable[str]) -> int:
    """Return the total size in bytes of all `.log` files below the paths. Files and directories that cannot be examined
    are skipped, and so are links to directories below a path, and paths that are not directories.
    """
    total = 0
    for directory, _, names in chain.from_iterable(map(os.walk, paths)):
        for name in names:
            if name.endswith(FileKind.LOG):
                try:
                    total += os.lstat(os.path.join(directory, name)).st_size
                except OSError:  # whoever reads it will say so
                    continue
    return total
