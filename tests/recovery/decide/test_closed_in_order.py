"""Damage that stays in the log is said: in the table, in the plan and after a recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog.recovery import Recovery, recover
from testkit.recorded.fixture_data import recovery_case
from testkit.running.command import kafkalog as command

SENTENCE = "1 damaged place remains in the log, and a consumer stops there"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Damage in a segment that was flushed before the crash, where nobody looks without --full."""
    root = recovery_case("undamaged/full-scan-plain").unpack_before(tmp_path / "logs")
    recover(Recovery(full=True), root)
    segment = kafkalog.open_partition(root / "t-0").segments[0]
    log = Path(segment.path)
    position = list(kafkalog.open_segment(log).batches())[1].position
    data = bytearray(log.read_bytes())
    data[position + 66] ^= 3
    data[position + 75] ^= 5
    log.write_bytes(data)
    return root


def test_it_is_said_where_nothing_changes(root: Path) -> None:
    planned = command("plan", root)
    assert planned.code == 1
    lines = planned.out.splitlines()
    assert f"with this plan {SENTENCE}; --full examines segments below the recovery point too" in lines
    title = next(line for line in lines if line.startswith("way "))
    column = title.index("damage left")
    left = {line.split()[0]: line[column : column + len("damage left")].strip()
            for line in lines if line.split()[:1] in (["safe"], ["salvage"], ["kafka"])}  # fmt: skip
    (line,) = command("plan", "--json", root).objects
    assert left == {way["way"]: str(way["damage_left"]) for way in line["ways"] if way["way"] in left}
    assert left == {"safe": "1", "salvage": "0", "kafka": "1"}


def test_it_is_said_behind_a_recovery(root: Path) -> None:
    last = max(path for path in (root / "t-0").glob("*.log") if path.stat().st_size)
    last.write_bytes(last.read_bytes()[:-3])
    finished = command("recover", "--yes", root)
    assert finished.code == 2
    assert SENTENCE in finished.out.splitlines()


def test_there_is_no_such_column_where_none_stays(root: Path) -> None:
    planned = command("plan", "--full", root)
    assert "ways for" in planned.out
    assert "kafka" in planned.out
    typed = command("recover", "--full", "--mode", "salvage", "--yes", root)
    assert typed.code == 2
    assert SENTENCE not in typed.out
    assert "damage left" not in command("plan", "--full", root).out
