"""Log directories: the place of a new one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kafkalog
from kafkalog.log.directories.directory import new_directory


def test_a_place_that_cannot_be_listed_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refused)
    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(kafkalog.StorageError):
        new_directory(tmp_path, beside="/elsewhere")
