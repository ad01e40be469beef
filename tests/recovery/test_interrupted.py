"""A recovery that is stopped before any change it makes, or meets an I/O error there: nothing is lost.

Every run is repeated with the n-th changing operation replaced by a stop (the process is gone) or by an error, for
n = 1, 2, 3 … until the run ends undisturbed, which proves that every operation was visited.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixture_data import RecoveryCase, recovery_cases
from kafkalog import RecoveryRefused, StorageError
from kafkalog.recovery import recover, undo
from kafkalog.recovery.fs import FileSystem
from trees import contents, copy_tree, first_difference, stamps

CHANGING = (
    "make_directory", "write_new", "own", "truncate", "append", "rename", "link", "remove", "remove_directory",
    "sync_directory", "set_mtime",
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


def given(case: RecoveryCase) -> dict[str, Any]:
    params = case.case["params"]
    return {
        "config": {name: str(value) for name, value in params.items() if "." in name},
        "at": int(params["now_ms"]),
    }


def disturbed(root: Path, case: RecoveryCase, number: int, failure: Failure, patch: pytest.MonkeyPatch) -> bool:
    """Recover with a failure at the n-th change; False if the run ended before it came to it."""
    with failing_at(number, failure, patch) as count:
        try:
            recover(root, **given(case))
        except Stopped:
            return True
        except StorageError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017
            return True
        assert count[0] < number
        return False


FAILURES: dict[str, Failure] = {
    "stopped": Stopped,
    "out of space": lambda: StorageError(errno.ENOSPC, "No space left on device"),
}


@pytest.mark.parametrize("how", list(FAILURES))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.replace("/", ":"))
def test_stopped_anywhere_a_second_run_completes_and_undo_restores(
    case: RecoveryCase, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compared: Callable[[str, int], None]
) -> None:
    original = case.unpack_before(tmp_path / "original")
    undisturbed = copy_tree(original, tmp_path / "undisturbed")
    recover(undisturbed, **given(case))
    want = contents(undisturbed)
    before = stamps(original)
    number = 0
    failure = FAILURES[how]
    while True:
        number += 1
        again = copy_tree(original, tmp_path / "again")
        if not disturbed(again, case, number, failure, monkeypatch):
            break
        quarantine = tmp_path / "again.recovery"
        recover(again, **given(case))
        assert first_difference(dict(contents(again)), dict(want)) == "", f"second run after operation {number}"
        while True:  # take back every run there is, the latest first
            try:
                undo(again)
            except RecoveryRefused as refused:
                assert refused.reason == "no_run"  # noqa: PT017
                break
        assert first_difference(dict(stamps(again)), dict(before)) == "", f"undo after operation {number}"
        shutil.rmtree(again)
        shutil.rmtree(quarantine, ignore_errors=True)
    assert number > 10
    compared(f"recoveries {how} before each of their changes, then completed and undone", number - 1)
