"""Empty segments in front of records that the segment before them holds: a broker (4.1.0) passes those records over."""

from __future__ import annotations

from pathlib import Path

from kafkalog import Severity, verify
from kafkalog.codec.plain.scanner import scan
from kafkalog.log import open_partition
from kafkalog.recovery import Recovery, plan, recover
from testkit.recorded.broker_dirs import brokers, own_copy

SESSIONS = "sessions-20-0"


def appended(tmp_path: Path) -> tuple[Path, list[Path]]:
    """A recorded directory with the second segment's content at the end of the first; its log files."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    logs = sorted((root / SESSIONS).glob("*.log"))
    with logs[0].open("ab") as file:
        file.write(logs[1].read_bytes())
    return root, logs


def test_an_empty_segment_does_not_hide_the_records_before_it(tmp_path: Path) -> None:
    """Fetches from offset 73 on got the records from 195 on while the segment at 73 was there, and 73 without it."""
    recorded = list(open_partition(brokers("4.1.1/segments")[0] / SESSIONS).records())
    root, logs = appended(tmp_path)
    logs[1].write_bytes(b"")
    result = recover(Recovery(mode="salvage"), root)[0]
    assert result.run_id is not None
    assert not logs[1].exists()
    assert list(open_partition(root / SESSIONS).records()) == recorded
    assert not [found for found in verify(root).findings if found.severity is Severity.ERROR]


def test_a_plan_counts_the_records_that_it_hides_and_recommends_salvage(tmp_path: Path) -> None:
    root, logs = appended(tmp_path)
    logs[1].write_bytes(b"")
    made = plan(root)[0]
    hidden = {way.way: (way.measured.records_lost, way.measured.records_hidden) for way in made.choice.ways}
    assert hidden == {"safe": (0, 122), "kafka": (0, 122), "salvage": (0, 0)}
    assert made.choice.recommended is not None
    assert made.choice.recommended.way == "salvage"
    recover(Recovery(mode="safe"), root)
    assert logs[1].exists(), "a broker leaves it"


def test_records_that_a_later_segment_has_too_are_not_hidden(tmp_path: Path) -> None:
    root, logs = appended(tmp_path)
    moved = logs[1].with_name(f"{75 + 1:020}.log")
    moved.write_bytes(logs[1].read_bytes()[_size_of_first(logs[1]) :])
    logs[1].write_bytes(b"")
    hidden = {way.way: way.measured.records_hidden for way in plan(root)[0].choice.ways}
    assert hidden["safe"] == 3


def _size_of_first(path: Path) -> int:
    return scan(path.read_bytes()).batches[0].size


def test_nor_does_a_segment_of_which_salvage_keeps_nothing(tmp_path: Path) -> None:
    recorded = list(open_partition(brokers("4.1.1/segments")[0] / SESSIONS).records())
    root, logs = appended(tmp_path)
    logs[1].write_bytes(bytes(byte ^ 0x5A for byte in logs[1].read_bytes()))
    recover(Recovery(mode="salvage"), root)
    assert not logs[1].exists()
    assert list(open_partition(root / SESSIONS).records()) == recorded
    assert not [found for found in verify(root).findings if found.severity is Severity.ERROR]


def test_an_empty_segment_at_the_end_of_the_log_stays(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    empty = [path for path in root.glob("*-*/*.log") if not path.stat().st_size]
    assert empty
    recover(Recovery(mode="salvage"), root)
    assert all(path.exists() for path in empty)
