"""A file that becomes shorter while it is copied is not taken for one that ends in a hole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog import StorageError
from kafkalog.recovery.act.digest import BLOCK
from kafkalog.recovery.act.fs import FileSystem


@pytest.mark.parametrize("left", [0, BLOCK, BLOCK + 1])
def test_a_file_that_became_shorter_is_not_read_as_zeros(left: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (3 * BLOCK))
    with FileSystem(str(tmp_path)) as fs:
        with fs.opened("log") as file:
            os.truncate(path, left)
            with pytest.raises(StorageError, match="became shorter"):
                list(file.read())
        os.truncate(path, 3 * BLOCK)
        with fs.opened("log") as file:
            assert sum(len(data) for _position, data in file.read()) <= 2 * BLOCK
