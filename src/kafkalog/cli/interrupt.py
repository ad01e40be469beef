"""Ctrl-C while a directory is being changed: what is done, what is not, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from kafkalog.codec.errors import KafkaLogError

__all__ = ["Interrupted", "interruptible"]


class Interrupted(KeyboardInterrupt):
    """An interrupt with the sentence that says where things stand."""


@contextmanager
def interruptible(paths: Sequence[str], quarantine: str | None) -> Iterator[None]:
    """Turn an interrupt into one that says what was changed in the log directories of `paths`."""
    before = {path: _runs(path, quarantine) for path in paths}
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        said = [text for path in paths for text in _told(path, before[path], _runs(path, quarantine))]
        raise Interrupted("; ".join(["interrupted", *(said or ["nothing was changed"])])) from None


def _told(path: str, before: dict[str, bool], now: dict[str, bool]) -> list[str]:
    found = []
    for run, unfinished in now.items():
        if unfinished:
            found.append(
                f"run {run} on {path} has begun and is not finished: kafkalog recover {path} completes it, "
                f"kafkalog undo {path} --run {run} takes it back, and no broker should start on it before"
            )
        elif before.get(run) is not False:
            found.append(f"run {run} on {path} is finished; kafkalog undo {path} --run {run} takes it back")
    return found


def _runs(path: str, quarantine: str | None) -> dict[str, bool]:
    """Run id -> not finished; nothing where none can be looked at."""
    from kafkalog.recovery.quarantine import Runs
    from kafkalog.recovery.run import log_directory_of

    try:
        runs = Runs(log_directory_of(path), quarantine)
        unfinished = {run.run_id for run in runs.unfinished()}
        return {run.run_id: run.run_id in unfinished for run in runs.all()}
    except (KafkaLogError, OSError):
        return {}
