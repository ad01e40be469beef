"""Hard links between the files of two partitions are said by every command that looks; those to a backup are not."""

from __future__ import annotations

import os
from pathlib import Path

from kafkalog import verify
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

LOG = f"{0:020d}.log"


def test_a_file_that_two_partitions_share_is_said(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    shared, other = root / "sensors-0-0" / LOG, root / "sensors-0-1" / LOG
    other.unlink()
    os.link(shared, other)
    for command in ("verify", "ls", "plan"):
        finished = kafkalog(command, root)
        said = " ".join((finished.out + finished.err).split())
        for name, there in (("sensors-0-0", "sensors-0-1"), ("sensors-0-1", "sensors-0-0")):
            assert f"{name}/{LOG}): the same file as {there}/{LOG} (hard link)" in said, command


def test_hard_links_outside_the_directory_are_no_fault(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    for path in sorted(root.rglob("*")):
        backup = tmp_path / "backup" / path.relative_to(root)
        if path.is_dir():
            backup.mkdir(parents=True)
        else:
            backup.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, backup)
    for command in ("verify", "ls", "plan"):
        finished = kafkalog(command, root)
        assert "hard link" not in finished.out + finished.err, command
    assert verify(root).is_clean
