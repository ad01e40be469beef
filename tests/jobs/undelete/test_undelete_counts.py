"""What `undelete` says it found and wrote is what is there, behind damage too, and the damage is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.recorded.fixture_data import recovery_case
from testkit.running.command import kafkalog


@pytest.mark.parametrize("name", ["body-middle", "length"])
def test_one_count_where_the_log_is_damaged(name: str, tmp_path: Path) -> None:
    root, target = tmp_path / "logs", tmp_path / "into"
    recovery_case(f"bit_flip/{name}").unpack_before(root)
    (root / "t-0").rename(root / "t-0.0123456789abcdef0123456789abcdef-delete")
    (listed,) = kafkalog("undelete", "--json", root).objects
    assert " is damaged: " in kafkalog("undelete", root).out
    (written,) = kafkalog("undelete", root, "--topic", "t", "--into", target, "--json").objects
    records = len(kafkalog("dump", "--json", target).objects)
    assert records
    assert [each["records"] for each in (*listed["remains"], *written["put_back"])] == [records, records]
