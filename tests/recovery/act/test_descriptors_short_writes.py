"""The system calls under a recovery do half of their work, or fail between two others: nothing is lost.

`test_interrupted.py` fails whole operations; here the n-th call of the operating system itself is the one that fails,
for every n there is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecoveryRefused, StorageError
from kafkalog.recovery import Recovery, recover, undo
from testkit.judging.trees import contents, copy_tree, first_difference, stamps
from testkit.recorded.fixture_data import RecoveryCase, recovery_cases
from testkit.recorded.recovery_settings import given

CALLS = ("pwrite", "ftruncate", "fsync", "rename", "link", "unlink", "mkdir", "rmdir", "utime", "fchmod")
CASES = [
    next(case for case in recovery_cases([family]) if case.outcome == "loaded" and case.case["result"]["changed"])
    for family in ("torn_tail", "overflow", "segment_set")
]


@contextmanager
def calls_replaced(
    names: tuple[str, ...], number: int, instead: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[int]]:
    """Let the n-th call of these go to `instead`, which is given the real call and its arguments."""
    count = [0]
    with monkeypatch.context() as patch:
        for name in names:
            original = getattr(os, name)

            def wrapped(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
                count[0] += 1
                if count[0] == number:
                    return instead(_original, *args, **kwargs)
                return _original(*args, **kwargs)

            patch.setattr(os, name, wrapped)
        yield count


def half(original: Callable[..., int], descriptor: int, data: memoryview, position: int) -> int:
    """A short write, as the system call may always make one."""
    return original(descriptor, data[: max(1, len(data) // 2)], position)


def half_and_full(original: Callable[..., int], descriptor: int, data: memoryview, position: int) -> int:
    """Half of it is written when the disk is full."""
    original(descriptor, data[: len(data) // 2], position)
    raise OSError(errno.ENOSPC, "No space left on device")


def failing(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.replace("/", ":"))
def test_a_short_write_is_written_on(
    case: RecoveryCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    original = case.unpack_before(tmp_path / "original")
    undisturbed = copy_tree(original, tmp_path / "undisturbed")
    recover(Recovery(accept_loss=True, **given(case)), undisturbed)
    want = contents(undisturbed)
    number = 0
    while True:
        number += 1
        again = copy_tree(original, tmp_path / f"again-{number}")
        with calls_replaced(("pwrite",), number, half, monkeypatch) as count:
            recover(Recovery(accept_loss=True, **given(case)), again)
        assert first_difference(dict(contents(again)), dict(want)) == "", f"short write {number}"
        if count[0] < number:
            break
        undo(again)
        assert first_difference(dict(stamps(again)), dict(stamps(original))) == "", f"undo after short write {number}"
    assert number > 3
    measured("short writes of a recovery, each written on and undone", number - 1)


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("how", ["full in mid-write", "failing in mid-operation"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.replace("/", ":"))
def test_a_failing_call_loses_nothing(
    case: RecoveryCase,
    how: str,
    step: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str, int], None],
) -> None:
    names, instead = (("pwrite",), half_and_full) if how.startswith("full") else (CALLS, failing)
    code = errno.ENOSPC if how.startswith("full") else errno.EIO
    original = case.unpack_before(tmp_path / "original")
    before = stamps(original)
    undisturbed = copy_tree(original, tmp_path / "undisturbed")
    recover(Recovery(accept_loss=True, **given(case)), undisturbed)
    want = contents(undisturbed)
    number, failed, step = 1, 0, 1 if how.startswith("full") else step  # of these there are few
    while True:
        again = copy_tree(original, tmp_path / f"again-{number}")
        with calls_replaced(names, number, instead, monkeypatch) as count:
            try:
                recover(Recovery(accept_loss=True, **given(case)), again)
            except StorageError as error:
                assert error.errno == code  # noqa: PT017
                failed += 1
            except RecoveryRefused as refused:
                assert refused.reason == "quarantine"  # noqa: PT017
                failed += 1
        if count[0] < number:
            break
        recover(Recovery(accept_loss=True, **given(case)), again)
        assert first_difference(dict(contents(again)), dict(want)) == "", f"second run after {how}, call {number}"
        undo(again)
        assert first_difference(dict(stamps(again)), dict(before)) == "", f"undo after {how}, call {number}"
        number += step
    assert failed > 3
    measured(f"recoveries with a disk {how}, then completed and undone", failed)
