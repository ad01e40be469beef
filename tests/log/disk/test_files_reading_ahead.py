"""What is mostly holes is not read ahead: the system would fill memory with the zeros of each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog.log.disk.files import FileSource

pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system takes no advice on files")


@pytest.mark.parametrize(
    ("written", "size", "is_told"), [(4096, 10 << 20, True), (1 << 20, 1 << 20, False), (100, 4096, False)]
)
def test_only_a_large_file_of_holes_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, size: int, is_told: bool
) -> None:
    path = tmp_path / "0.index"
    with path.open("wb") as file:
        file.write(b"\1" * written)
        file.truncate(size)
    advice: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _fd, _start, _length, what: advice.append(what))
    with FileSource(path) as source:
        assert source.read(0, 4) == b"\1\1\1\1"
    assert advice == ([os.POSIX_FADV_RANDOM] if is_told else [])
