"""Report the state of a log directory after an interrupt or an error during a change: which executions are unfinished
or completed, and how to continue.

The report is made from the state on disk at that time, not from the plan.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.shell import shell_word

__all__ = ["Happened", "Interrupted", "held_back", "interruptible"]

Documents = Mapping[str, str | None]
"""run id -> name of its document, which contains the progress; None without one"""


class Interrupted(KeyboardInterrupt):
    """An interrupt whose message describes the state of the directories."""


@contextmanager
def interruptible(paths: Sequence[str], quarantine: str | None) -> Iterator[None]:
    """Context manager that turns Ctrl-C (`KeyboardInterrupt`, `click.Abort`) into `Interrupted`. Its message names the
    executions that changed the log directories at `paths` or are unfinished there, and says how to continue. It also
    names the directories whose executions cannot be read. If there are neither, it says that nothing was changed.
    `quarantine` is another directory in which executions are kept.
    """
    happened = Happened(paths, quarantine)
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        said = [*happened.sentences(), *happened.unknown()]
        raise Interrupted("; ".join(["interrupted", *(said or ["nothing was changed"])])) from None


class Happened:
    """Finds out which executions on the log directories at `paths` were begun or ended since this object was created,
    from their journals and manifests.
    """

    def __init__(self, paths: Sequence[str], quarantine: str | None) -> None:
        self._quarantine = quarantine
        self._before = {path: _runs(path, quarantine) for path in paths}

    def sentences(self, *, only_new: bool = False) -> list[str]:
        """Return sentences about executions on the log directories; empty if there are none to report. They name
        unfinished and partly purged executions, and executions that were completed, undone or deleted since this object
        was created. They include the commands that continue or reverse an execution, if that is possible.

        A log directory is left out if its executions cannot be read. If they could not be read when this object was
        created, all count as new. With `only_new`, an execution that was unfinished before is omitted unless it has
        changed since. Reads the directories of the executions.
        """
        return [
            text
            for path, before in self._before.items()
            for now in [_runs(path, self._quarantine)]
            if now is not None
            for text in _told(path, before or {}, now, only_new=only_new)
        ]

    def unknown(self) -> list[str]:
        """Return a sentence for each directory whose executions cannot be read."""
        return [
            f"what was changed on {path} is not known, because its runs cannot be read: kafkalog runs "
            f"{shell_word(path)} says why"
            for path in self._before
            if os.path.isdir(path) and _runs(path, self._quarantine) is None
        ]

    def run_in(self, root: str) -> tuple[str, str] | None:
        """Return the id of the newest execution on the log directory `root` (a real path), and the path of the
        execution's directory in the quarantine. Only executions count that began or changed their state since this
        object was created. If the executions could not be read at that time, all count. None if there is none, if the
        executions cannot be read now, or if no path is `root` or a partition directory in it.
        """
        from kafkalog.recovery.act.quarantine import Runs, document_of

        for path, before in self._before.items():
            if _root(path) != root:
                continue
            for run, document in sorted((_runs(path, self._quarantine) or {}).items(), reverse=True):
                if (before or {}).get(run) != document and document is not None:
                    places = Runs(root, self._quarantine).places
                    place = next((each for each in places if document_of(each, run) is not None), None)
                    return None if place is None else (run, os.path.join(place, run))
        return None


def _root(path: str) -> str | None:
    from kafkalog.recovery.act.history import root_of_runs

    try:
        return root_of_runs(path)
    except (KafkaLogError, OSError):
        return None


def _told(path: str, before: Documents, now: Documents, *, only_new: bool) -> Iterator[str]:
    from kafkalog.recovery.act.journal import CLOSING, JOURNAL, MANIFEST, PURGING, UNDOING, UNDONE

    word = shell_word(path)
    for run, document in now.items():
        is_new = before.get(run) != document
        if only_new and not is_new:
            continue
        match document:
            case _ if document == JOURNAL:
                yield (
                    f"run {run} on {path} has begun and is not finished: kafkalog recover {word} completes it, "
                    f"kafkalog undo {word} --run {run} reverses it; do not start a broker on it before that"
                )
            case _ if document in (UNDOING, CLOSING):
                yield (
                    f"run {run} on {path} is being undone and that is not finished; do not start a broker on it "
                    f"before that; to complete it: kafkalog undo {word} --run {run}"
                )
            case _ if document == PURGING:
                yield (
                    f"what run {run} on {path} kept is partly removed, and it can no longer be undone; to remove the "
                    f"rest: kafkalog runs {word} --purge {run}"
                )
            case _ if document == MANIFEST and is_new:
                yield f"run {run} on {path} is finished; to reverse it: kafkalog undo {word} --run {run}"
            case _ if document == UNDONE and is_new:
                yield f"run {run} on {path} is undone; there is nothing more to do"
            case None if before.get(run) == PURGING:
                yield f"run {run} on {path} is purged except for an empty directory"
    for run in before:
        if run not in now:
            yield f"run {run} on {path} is permanently deleted"


def _runs(path: str, quarantine: str | None) -> Documents | None:
    """Return, for each execution that is kept for a log directory, its id and the name of its document (journal,
    manifest, …; None if it has none). Executions in another quarantine directory than the default one are also returned
    if no document tells whose they are. None if the executions cannot be read, or if there is no log directory at
    `path`.
    """
    from kafkalog.recovery.act.history import root_of_runs
    from kafkalog.recovery.act.journal import PURGING, UNDONE
    from kafkalog.recovery.act.quarantine import Runs, document_of, run_ids_in

    try:
        runs = Runs(root_of_runs(path), quarantine)
        ours = {run.directory for run in runs.all()}
        return {
            run: document
            for place in runs.places
            for run in run_ids_in(place)
            for document in [document_of(place, run)]
            if place == runs.default or os.path.join(place, run) in ours or document in (None, PURGING, UNDONE)
        }
    except (KafkaLogError, OSError):
        return None


@contextmanager
def held_back(said: str) -> Iterator[Callable[[], None]]:
    """Context manager that delays Ctrl-C in a section that must not be interrupted. It yields a function that raises
    `Interrupted` with the text `said` if Ctrl-C was pressed in the section. Call this function where an interrupt does
    no harm, or after the section; otherwise the first Ctrl-C has no effect. A second Ctrl-C ends the section at once
    with `Interrupted`. The SIGINT handler is replaced, and restored at the end.
    """
    pressed = False
    before = signal.getsignal(signal.SIGINT)

    def take(_number: int, _frame: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)

    def check() -> None:
        if pressed:
            raise Interrupted(said)

    signal.signal(signal.SIGINT, take)
    try:
        yield check
    except (KeyboardInterrupt, SystemError):  # the latter is what librdkafka makes of an interrupt
        if not pressed:
            raise
        raise Interrupted(said) from None
    finally:
        signal.signal(signal.SIGINT, before)
