"""The clean-shutdown marker goes before anything else that a run does, whichever command it is of; undo puts it back
last, and only a verification that has ended writes one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog import Log, LogConfig, Undelete, undelete, undo
from kafkalog.codec.model import BATCH
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.recovery import Recovery, recover
from kafkalog.recovery.rebuilding import rebuild_indexes
from testkit.judging.trees import contents, copy_tree, first_difference, stamps
from testkit.made.compactable import compactable, compacted
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.stopping import Stopped, failing_at

CASE = recovery_cases(["torn_tail"])[0]
MARKER = '{"version":0,"brokerEpoch":42}'
NOW = 1_700_000_000_000


def torn(root: Path) -> Path:
    return CASE.unpack_before(root)


def deleted_directory(root: Path) -> Path:
    compactable(root)
    (root / "t-0").rename(root / "t-0.0123456789abcdef0123456789abcdef-delete")
    return root


def indexless(root: Path) -> Path:
    compactable(root)
    for path in root.glob("t-0/*.timeindex"):
        path.unlink()
    return root


RUNS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "recover": (torn, lambda root: recover(Recovery(accept_loss=True, **given(CASE)), root)[0]),
    "recover --mark-clean": (
        torn,
        lambda root: recover(Recovery(mark_clean=True, accept_loss=True, **given(CASE)), root)[0],
    ),
    "recover --mode kafka": (torn, lambda root: recover(Recovery(mode="kafka", full=True, **given(CASE)), root)[0]),
    "compact": (compactable, compacted),
    "undelete": (deleted_directory, lambda root: undelete(Undelete(topic="t"), root)[0]),
    "undelete --hold": (deleted_directory, lambda root: undelete(Undelete(topic="t", hold=True), root)[0]),
    "index rebuild": (indexless, rebuild_indexes),
}


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("command", RUNS)
def test_no_stop_leaves_a_marker_over_what_is_half_done(
    command: str, stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """Before each change of a run, and of its undo: where the marker is, the logs are those of before or of the end."""
    make, act = RUNS[command]
    original = make(tmp_path / "original")
    (original / CLEAN_SHUTDOWN_FILE).write_text(MARKER)
    before = stamps(original)
    ended = copy_tree(original, tmp_path / "ended")
    act(ended)
    vouches = (ended / CLEAN_SHUTDOWN_FILE).exists()
    assert vouches is (command == "recover --mark-clean")
    number, covered = 1 - stride, 0
    went_on = True
    while went_on:
        number += stride
        root = copy_tree(original, tmp_path / "logs")
        with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
            act(root)
            undo(root)
        went_on = count[0] >= number
        if (root / CLEAN_SHUTDOWN_FILE).exists():
            is_before = logs(root) == logs(original)
            assert is_before or (vouches and logs(root) == logs(ended)), f"{command}, stop {number}"
        else:
            covered += 1
        with suppress(Exception):
            undo(root)
        assert first_difference(dict(stamps(root)), dict(before)) == "", number
        shutil.rmtree(root)
        shutil.rmtree(root.with_name("logs.recovery"), ignore_errors=True)
    assert covered
    measured(f"stops of {command} and its undo without a marker over a directory that is half done", covered)


def logs(root: Path) -> dict[str, tuple[int, str]]:
    """Everything but what is the log directory's own."""
    return {path: held for path, held in contents(root).items() if "/" in path}


def test_a_marker_that_is_withheld_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = torn(tmp_path / "logs")
    (root / CLEAN_SHUTDOWN_FILE).write_text(MARKER)
    before = stamps(root)
    monkeypatch.setattr("kafkalog.recovery.recovery_job.why_not_clean", lambda *_: "it is not in order")
    result = recover(Recovery(mark_clean=True, accept_loss=True, **given(CASE)), root)[0]
    assert result.marker_withheld == "it is not in order"
    assert not (root / CLEAN_SHUTDOWN_FILE).exists()
    undo(root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_no_marker_where_a_broker_that_trusts_it_would_change_something(tmp_path: Path) -> None:
    """A log that retention has emptied: with a marker, a start writes a snapshot at its end."""
    root = tmp_path / "logs"
    root.mkdir()
    config = LogConfig(segment_bytes=400, retention_ms=1000, file_delete_delay_ms=0)
    with Log.open(root / "t-0", config, clock=lambda: NOW) as log:
        for _ in range(10):
            log.append([b"x" * 100])
    with Log.open(root / "t-0", config, clock=lambda: NOW + 10**9) as log:
        log.delete_old_segments()
        assert log.log_start_offset == log.end_offset == 10
    result = recover(Recovery(mark_clean=True), root)[0]
    assert result.marker_withheld is not None
    assert "a broker that finds a marker would change something" in result.marker_withheld
    assert not (root / CLEAN_SHUTDOWN_FILE).exists()


def test_no_marker_where_verify_reports_an_error(tmp_path: Path) -> None:
    """A batch whose checksum is right and whose header counts more records than it holds: a consumer stops there."""
    root = tmp_path / "logs"
    root.mkdir()
    with Log.open(root / "t-0") as log:
        log.append([b"one", b"two"])
    path = root / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[BATCH.position("records_count") : BATCH.end("records_count")] = (9).to_bytes(4, "big")
    data[BATCH.position("crc") : BATCH.end("crc")] = crc32c(bytes(data[BATCH.end("crc") :])).to_bytes(4, "big")
    path.write_bytes(data)
    result = recover(Recovery(mark_clean=True), root)[0]
    assert "`verify` reports records_count_invalid" in str(result.marker_withheld)
    assert not (root / CLEAN_SHUTDOWN_FILE).exists()


@pytest.mark.parametrize("case_id", ["4.1.1/txn", "4.3.0/txn"])
def test_a_directory_that_was_stopped_cleanly_keeps_a_marker(case_id: str, tmp_path: Path) -> None:
    """It is prepared for a start without one, which docs/recovery.md promises, and then vouched for."""
    root = own_copy(brokers(case_id)[0], tmp_path / "data")
    assert (root / CLEAN_SHUTDOWN_FILE).exists()
    result = recover(Recovery(mark_clean=True), root)[0]
    assert result.marker_withheld is None
    assert (root / CLEAN_SHUTDOWN_FILE).exists()
