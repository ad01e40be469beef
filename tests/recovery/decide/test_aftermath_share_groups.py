"""What a plan says about share groups if records of `__share_group_state` are lost."""

from __future__ import annotations

from pathlib import Path

from kafkalog import Log, NewRecord
from testkit.running.command import kafkalog


def test_share_groups_get_records_again(tmp_path: Path) -> None:
    """A share coordinator of Kafka reads what is left of its log, and goes on from there."""
    (tmp_path / "data").mkdir()
    with Log.open(tmp_path / "data" / "__share_group_state-0") as log:
        for number in range(5):
            log.append([NewRecord(value=b"%d" % number)])
    (path,) = (tmp_path / "data" / "__share_group_state-0").glob("*.log")
    path.write_bytes(path.read_bytes()[:-3])
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    said = " ".join(kafkalog("plan", tmp_path / "data").out.split())
    assert "among what is lost of __share_group_state-0 go back to the state before: their members get records" in said
