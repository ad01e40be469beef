"""Log directories: the place of a new one, and what makes a directory one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kafkalog
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir, new_directory


def test_a_place_that_cannot_be_listed_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refused)
    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(kafkalog.StorageError):
        new_directory(tmp_path, beside="/elsewhere")


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata", f"{0:020}.log"])
def test_a_file_of_a_partition_beside_meta_properties_makes_no_partition(name: str, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / name).touch()
    assert is_log_dir(tmp_path)
    assert not is_partition_dir(tmp_path)
