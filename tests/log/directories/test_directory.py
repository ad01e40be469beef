"""Log directories: the place of a new one, and what makes a directory one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kafkalog
from kafkalog.log.directories.deleted import deleted_partitions
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


def test_deleted_data_is_read_with_the_limits_of_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    for name in (f"t-0/{0:020}.log", f"t-0/{3:020}.log.deleted", f"u-0.{'0' * 32}-delete/{0:020}.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    limits = kafkalog.Limits(records_per_batch=7)
    deleted = deleted_partitions(kafkalog.open_all(tmp_path, limits=limits))
    assert [partition.limits for partition in deleted] == [limits] * 3
