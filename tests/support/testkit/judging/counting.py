"""Counting what a call does instead of how long it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias

import pytest

from kafkalog.log.disk.files import FileSource

__all__ = ["bytes_read", "calls_of", "lines_of"]

TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]


@contextmanager
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Bytes asked of files within the block, one number for each read."""
    sizes: list[int] = []
    read, read_into = FileSource.read, FileSource.read_into

    def counted(self: FileSource, position: int, length: int) -> bytes:
        data = read(self, position, length)
        sizes.append(len(data))
        return data

    def counted_into(self: FileSource, position: int, target: memoryview) -> int:
        sizes.append(len(target))
        return read_into(self, position, target)

    with monkeypatch.context() as patch:
        patch.setattr(FileSource, "read", counted)
        patch.setattr(FileSource, "read_into", counted_into)
        yield sizes


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called while it runs, those of the standard library and C ones too."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def lines_of(work: Callable[[], object], folder: str) -> int:
    """How many lines of the files in a folder of the package are executed while it runs, each turn of a loop anew.

    An empty `folder` means the whole package.
    """
    count = 0
    part = f"/kafkalog/{folder}/" if folder else "/kafkalog/"

    def line(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return line

    def entered(frame: FrameType, _event: str, _argument: object) -> TraceFunction | None:
        name = frame.f_code.co_filename
        return line if part in name else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        work()
    finally:
        sys.settrace(before)
    assert count, f"no line of {folder or 'the package'} was executed"
    return count
