"""Recovery's changing operations, stopped or made to fail before the n-th of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafkalog.recovery.fs import FileSystem

__all__ = ["CHANGING", "Failure", "Stopped", "failing_at", "just_before"]

CHANGING = (
    "make_directory", "write_new", "set_attributes", "truncate", "write_tail", "rename", "link", "remove",
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
