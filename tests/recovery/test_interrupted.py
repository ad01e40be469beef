"""A recovery that is stopped before any change it makes, or meets an I/O error there: nothing is lost.

Every run is repeated with the n-th changing operation replaced by a stop (the process is gone) or by an error, for
n = 1, 2, 3 … until the run ends undisturbed, which proves that every operation was visited.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixture_data import RecoveryCase, recovery_cases, recovery_families
from kafkalog import RecoveryRefused, StorageError
from kafkalog.codec.crc32c import crc32c
from kafkalog.recovery import recover, undo
from kafkalog.recovery.fs import FileSystem
from recovery_settings import given
from trees import contents, copy_tree, first_difference, stamps

CHANGING = (
    "make_directory", "write_new", "own", "set_attributes", "truncate", "write_tail", "rename", "link", "remove",
    "remove_directory", "sync_directory", "set_mtime",
)  # fmt: skip


Failure = Callable[[], BaseException]


class Stopped(BaseException):
    """The process is gone: nothing catches this."""


@contextmanager
def failing_at(number: int, failure: Failure, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let the n-th changing operation fail instead of doing anything."""
    count = [0]
    with monkeypatch.context() as patch:
        for name in CHANGING:
            original = getattr(FileSystem, name)

            def wrapped(self: FileSystem, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
                count[0] += 1
                if count[0] == number:
                    raise failure()
                return _original(self, *args, **kwargs)

            patch.setattr(FileSystem, name, wrapped)
        yield count


def scenario_cases() -> list[RecoveryCase]:
    chosen: dict[str, RecoveryCase] = {}
    for family in ("torn_tail", "bit_flip", "swap_files", "overflow", "segment_set", "clean_marker"):
        for case in recovery_cases([family]):
            if case.outcome == "loaded" and case.case["result"]["changed"]:
                chosen.setdefault(family, case)
    return list(chosen.values())


CASES = scenario_cases()


def disturbed(root: Path, case: RecoveryCase, number: int, failure: Failure, patch: pytest.MonkeyPatch) -> bool:
    """Recover with a failure at the n-th change; False if the run ended before it came to it."""
    with failing_at(number, failure, patch) as count:
        try:
            recover(root, **given(case))
        except Stopped:
            return True
        except StorageError as error:
            assert error.errno in (errno.ENOSPC, errno.EIO, errno.EROFS)  # noqa: PT017
            return True
        assert count[0] < number
        return False


FAILURES: dict[str, Failure] = {
    "stopped": Stopped,
    "out of space": lambda: StorageError(errno.ENOSPC, "No space left on device"),
    "failing with EIO": lambda: StorageError(errno.EIO, "Input/output error"),
    "on a read-only file system": lambda: StorageError(errno.EROFS, "Read-only file system"),
}


@pytest.mark.parametrize("how", list(FAILURES))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.replace("/", ":"))
def test_stopped_anywhere_a_second_run_completes_and_undo_restores(
    case: RecoveryCase, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    original = case.unpack_before(tmp_path / "original")
    want = undisturbed_result(case, original, tmp_path)
    before = stamps(original)
    number = 0
    while True:
        number += 1
        again = copy_tree(original, tmp_path / "again")
        if not disturbed(again, case, number, FAILURES[how], monkeypatch):
            break
        complete_and_undo(case, again, want, before, f"operation {number}")
    assert number > 10
    measured(f"recoveries {how} before each of their changes, then completed and undone", number - 1)


def undisturbed_result(case: RecoveryCase, original: Path, tmp_path: Path) -> dict[str, tuple[int, str]]:
    undisturbed = copy_tree(original, tmp_path / "undisturbed")
    recover(undisturbed, **given(case))
    return contents(undisturbed)


def complete_and_undo(
    case: RecoveryCase,
    again: Path,
    want: dict[str, tuple[int, str]],
    before: dict[str, tuple[int, int, str]],
    where: str,
) -> None:
    """A second run reaches what an undisturbed one reaches; undo takes back every run there is."""
    recover(again, **given(case))
    assert first_difference(dict(contents(again)), dict(want)) == "", f"second run after {where}"
    while True:
        try:
            undo(again)
        except RecoveryRefused as refused:
            assert refused.reason == "no_run"  # noqa: PT017
            break
    assert first_difference(dict(stamps(again)), dict(before)) == "", f"undo after {where}"
    shutil.rmtree(again)
    shutil.rmtree(again.with_name(again.name + ".recovery"), ignore_errors=True)


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do some work in a child process that kills itself before the n-th change; True if it came to that."""
    child = os.fork()
    if child == 0:
        count = 0
        for name in CHANGING:
            original = getattr(FileSystem, name)

            def wrapped(self: FileSystem, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return _original(self, *args, **kwargs)

            setattr(FileSystem, name, wrapped)
        try:
            work()
        except RecoveryRefused:
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the parent must learn of it, whatever it is
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


def many_cases() -> list[RecoveryCase]:
    """Twenty kinds of damage, one case each."""
    chosen = []
    for family in recovery_families():
        if family == "bases":
            continue
        loaded = [case for case in recovery_cases([family]) if case.outcome == "loaded"]
        chosen += [case for case in loaded if case.case["result"]["changed"]][:1]
    return chosen[: 4 if os.environ.get("KAFKALOG_SWEEP") == "ci" else 20]


@pytest.mark.sweep
@pytest.mark.parametrize("case", many_cases(), ids=lambda case: case.id.replace("/", ":"))
def test_killed_anywhere_and_killed_again(
    case: RecoveryCase, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    """SIGKILL before the i-th change, again before the j-th of the run that follows, then completed and undone."""
    original = case.unpack_before(tmp_path / "original")
    want = undisturbed_result(case, original, tmp_path)
    before = stamps(original)
    kills = number = 0
    second = random.Random(case.id)
    while True:
        number += 1
        again = copy_tree(original, tmp_path / "again")
        if not killed_at(number, lambda root=again: recover(root, **given(case))):  # type: ignore[misc]
            shutil.rmtree(again)
            break
        for nested in sorted({1, second.randrange(1, 40)}):
            twice = copy_tree(again, tmp_path / "twice")
            if (tmp_path / "again.recovery").exists():
                place = copy_tree(tmp_path / "again.recovery", tmp_path / "twice.recovery")
                rename_root(place, str(again), str(twice))
            kills += 1 + killed_at(nested, lambda root=twice: recover(root, **given(case)))  # type: ignore[misc]
            complete_and_undo(case, twice, want, before, f"kills {number} and {nested}")
        kills += killed_at(second.randrange(1, 20), lambda root=again: undo(root))  # type: ignore[misc]
        complete_and_undo(case, again, want, before, f"kill {number}, then undo killed")
    measured("kills of a recovery, each then completed and undone", kills)


def rename_root(quarantine: Path, old: str, new: str) -> None:
    """A copied journal speaks of the copied directory."""
    for path in quarantine.glob("*/*.json"):
        body, _, _checksum = path.read_bytes().rstrip(b"\n").rpartition(b"\n")
        changed = body.replace(json.dumps(old).encode(), json.dumps(new).encode())
        path.write_bytes(changed + f"\n{crc32c(changed):08x}\n".encode())
