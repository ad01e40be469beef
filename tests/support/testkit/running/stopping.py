"""Recovery's changing operations, stopped or made to fail before the n-th of them, and what follows."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkalog import Recovery, RecoveryRefused, StorageError, Undo, recover, undo
from kafkalog.recovery.act import apply, runner
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.lock import BrokerLock
from kafkalog.recovery.act.unfinished_business import standing
from testkit.judging.trees import first_difference, stamps

__all__ = [
    "CHANGING",
    "Failure",
    "Stopped",
    "beside",
    "complete_what_began",
    "cut_short",
    "disturbed",
    "failing_at",
    "just_before",
    "killed_at",
    "take_back_all",
]

CHANGING = (
    "make_directory", "write_new", "save", "set_attributes", "truncate", "write_tail", "rename", "link", "remove",
    "remove_directory", "remove_unseen", "sync_directory", "set_mtime",
)  # fmt: skip

Failure = Callable[[], BaseException]


class Stopped(BaseException):
    """The process is gone: nothing catches this."""


@contextmanager
def just_before(number: int, other: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let something happen ahead of the n-th changing operation; the list counts them."""
    count = [0]
    with monkeypatch.context() as patch:
        for name in CHANGING:
            original = getattr(FileSystem, name)

            def wrapped(self: FileSystem, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
                count[0] += 1
                if count[0] == number:
                    other()
                return _original(self, *args, **kwargs)

            patch.setattr(FileSystem, name, wrapped)
        yield count


@contextmanager
def failing_at(number: int, failure: Failure, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let the n-th changing operation fail instead of doing anything; the list counts them."""

    def fail() -> None:
        raise failure()

    with just_before(number, fail, monkeypatch) as count:
        yield count


def disturbed(work: Callable[[], object], number: int, failure: Failure, patch: pytest.MonkeyPatch) -> bool:
    """Do some work with a failure at the n-th change; False if it ended before it came to it."""
    with failing_at(number, failure, patch) as count:
        try:
            work()
        except Stopped:
            return True
        except StorageError as error:
            assert error.errno == getattr(failure(), "errno", None)  # noqa: PT017
            return True
        except RecoveryRefused as refused:
            assert refused.reason == "quarantine"  # noqa: PT017
            return True
        assert count[0] < number
        return False


def cut_short(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop a recovery once it has made its first change."""
    forward: Any = apply.roll_forward

    def stop() -> None:
        raise Stopped

    def stopped(*given: Any) -> object:
        return forward(*given[:4], stop)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "roll_forward", stopped)
        with pytest.raises(Stopped):
            work()


def complete_what_began(root: Path, kept: Path | None = None) -> None:
    """As `recover` does for every command, if a run was cut short; and nothing else."""
    if standing(root, kept).unfinished:
        assert recover(Recovery(quarantine=kept), root)[0].completed


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at(number: int, work: Callable[[], object], *, may_decline: bool = False) -> bool:
    """Do some work in a child process that kills itself before the n-th change; True if it came to that."""
    child = os.fork()
    if child == 0:
        try:
            with pytest.MonkeyPatch.context() as patch, just_before(number, _kill_self, patch):
                work()
        except BaseException as error:  # noqa: BLE001 - the parent must learn of it, whatever it is
            if may_decline and isinstance(error, RecoveryRefused):
                os._exit(0)
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def beside(root: Path) -> Path:
    """Where a quarantine is unless somebody says otherwise."""
    return root.with_name(root.name + ".recovery")


def take_back_all(root: Path, before: dict[str, tuple[int, int, str]], where: str, kept: Path | None) -> None:
    """Undo whatever runs there are, compare with what was there before, and remove all of it."""
    while True:
        try:
            undo(Undo(quarantine=kept), root)
        except RecoveryRefused as refused:
            assert refused.reason == "no_run", (where, refused)  # noqa: PT017
            break
    difference = first_difference(dict(stamps(root)), dict(before))
    assert difference == "", f"undo after {where}: {difference}"
    with FileSystem(str(root)) as fs, BrokerLock(fs):  # a refusal leaves the lock file of a killed process
        pass
    assert not (root / ".lock").exists()
    shutil.rmtree(root)
    shutil.rmtree(beside(root), ignore_errors=True)
