"""Where a quarantine may be, what a link is worth, and what a clean-shutdown marker vouches for."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecoveryRefused, UsageError
from kafkalog.recovery import Recovery, plan, recover, undo
from kafkalog.recovery.act import apply, runner
from kafkalog.recovery.modes.table import Mode
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import recovery_case, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.stopping import Stopped, failing_at

CASE = recovery_cases(["torn_tail"])[0]
SETTINGS = ("--config", "segment.index.bytes=1536", "--config", "index.interval.bytes=256", "--at", "1700000100000")


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    return CASE.unpack_before(tmp_path / "logs")


# -- quarantines -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inside", ["", "saved", "t-0", "t-0/saved", "../other", "../other/saved", "../other/deep/saved"]
)
def test_a_quarantine_in_a_log_directory(inside: str, torn: Path, tmp_path: Path) -> None:
    """In this one or in another broker's: Kafka would not start beside it."""
    CASE.unpack_before(tmp_path / "other")
    before = stamps(tmp_path)
    finished = kafkalog("recover", "--yes", "--quarantine", torn / inside, torn, *SETTINGS)
    assert finished.code == 3
    assert "would stop a broker" in finished.err
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""


def test_a_quarantine_that_leads_into_a_log_directory(torn: Path, tmp_path: Path) -> None:
    other = CASE.unpack_before(tmp_path / "other")
    (tmp_path / "looks-harmless").symlink_to(other)
    before = stamps(tmp_path)
    assert kafkalog("recover", "--yes", "--quarantine", tmp_path / "looks-harmless" / "x", torn, *SETTINGS).code == 3
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""


@pytest.mark.parametrize("what", ["a file", "no room to make it"])
def test_a_quarantine_that_cannot_be(what: str, torn: Path, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    if what == "a file":
        place.write_text("hello")
    else:
        place = Path("/proc/kafkalog-test")
    before = stamps(tmp_path)
    finished = kafkalog("recover", "--yes", "--quarantine", place, torn, *SETTINGS)
    assert finished.code == 3
    assert "--quarantine" in finished.err
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""


@pytest.mark.parametrize("full", ["quarantine", "log directory"])
def test_room_is_looked_for_where_it_is_needed(
    full: str, torn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quarantine_at(PLACES[1], tmp_path) as kept:
        assert kept is not None
        statvfs = os.statvfs

        def asked(path: Any) -> Any:
            facts = statvfs(path)
            is_kept = os.path.realpath(os.fspath(path)).startswith(os.path.realpath(kept.parent))
            if is_kept is (full == "quarantine"):
                return os.statvfs_result([*facts[:4], 0, *facts[5:]])
            return facts

        monkeypatch.setattr(os, "statvfs", asked)
        before, saved = stamps(tmp_path), stamps(kept.parent)
        with pytest.raises(RecoveryRefused, match="has 0 bytes free") as caught:
            recover(Recovery(quarantine=kept, accept_loss=True, **given(CASE)), torn)
        assert str(kept if full == "quarantine" else torn) in str(caught.value)
        assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""
        assert stamps(kept.parent) == saved


def test_a_plan_says_that_there_is_no_space(torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka 4.1.0 ended with a fatal error when it was started on a full disk."""
    with_space = " ".join(kafkalog("plan", torn, *SETTINGS).out.split())
    assert "space" not in with_space
    facts = os.statvfs(torn)
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result([*facts[:4], 0, *facts[5:]]))
    planned = " ".join(kafkalog("plan", torn, *SETTINGS, columns=80).out.split())
    declined = " ".join(kafkalog("recover", "--yes", torn, *SETTINGS).err.split())
    needed = planned[planned.index("has 0 bytes free, and ") :].partition(" are needed")[0]
    assert f"{needed} are needed" in declined
    assert planned.index("has 0 bytes free") < planned.index("kafkalog recover")
    assert "but a start writes files, for which its file system has no space" in planned
    report = " ".join(kafkalog("report", torn, "-o", "-", "--format", "text", columns=80).out.split())
    assert "has 0 bytes free" in report
    assert "but a start writes files, for which its file system has no space" in report


# -- links -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A log directory one of whose partitions is really in another one."""
    root = CASE.unpack_before(tmp_path / "logs")
    (tmp_path / "other").mkdir()
    (root / "t-0").rename(tmp_path / "other" / "t-0")
    (root / "t-0").symlink_to(tmp_path / "other" / "t-0")
    return root


@pytest.mark.parametrize("mode", ["safe", "kafka", "salvage", "strict"])
def test_a_partition_that_is_a_link_is_not_passed_over(mode: str, linked: Path, tmp_path: Path) -> None:
    before = stamps(tmp_path)
    for words in (
        ("recover", "--yes"),
        ("recover", "--yes", "--into", tmp_path / "copy"),
        ("recover", "--yes", "--mark-clean"),
    ):
        finished = kafkalog(*words, "--mode", mode, linked, *SETTINGS)
        assert finished.code == 3, words
        assert "t-0 is a symbolic link" in finished.err
        assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""
    assert kafkalog("plan", "--mode", mode, linked, *SETTINGS).code in (1, 3)
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""


def test_a_partition_given_by_its_link(linked: Path, tmp_path: Path) -> None:
    before = stamps(tmp_path)
    for command in (("recover", "--yes"), ("plan",)):
        finished = kafkalog(*command, linked / "t-0", *SETTINGS)
        assert finished.code == 3
        assert "symbolic link" in finished.err
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""


def test_a_log_directory_given_by_a_link(torn: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(torn)
    before = stamps(torn)
    assert kafkalog("recover", "--yes", tmp_path / "link", *SETTINGS).code == 2
    assert kafkalog("undo", "--yes", tmp_path / "link").code == 2
    assert stamps(torn) == before


def test_a_checkpoint_that_is_a_link(torn: Path, tmp_path: Path) -> None:
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "meta.properties"):
        (torn / name).unlink(missing_ok=True)
        (tmp_path / name).write_text("0\n0\n")
        (torn / name).symlink_to(tmp_path / name)
        before = stamps(tmp_path)
        finished = kafkalog("recover", "--yes", torn, *SETTINGS)
        assert finished.code == 3
        assert name in finished.err
        assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""
        (torn / name).unlink()


# -- markers ---------------------------------------------------------------------------------------------------------

MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A log directory with two damaged partitions."""
    root = CASE.unpack_before(tmp_path / "logs")
    other = CASE.unpack_before(tmp_path / "other")
    (other / "t-0").rename(root / "t-1")
    return root


def test_one_partition_is_not_the_whole_directory(two: Path) -> None:
    before = stamps(two)
    finished = kafkalog("recover", "--yes", "--mark-clean", two / "t-0", *SETTINGS)
    assert finished.code == 64
    assert "every partition" in finished.err
    assert stamps(two) == before
    with pytest.raises(UsageError):
        recover(Recovery(mark_clean=True, accept_loss=True, **given(CASE)), two / "t-0")
    assert stamps(two) == before


def test_a_second_verification_that_fails_gives_no_marker_ever(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends without one; nothing later completes it with one; undo takes back what was done."""
    before = stamps(two)
    forward = apply.roll_forward

    def damaged(disks: Any, located: Any, withhold: Callable[[], str | None], forget: Any, *more: Any) -> Any:
        def look() -> str | None:
            log = max(path for path in two.glob("t-1/*.log") if path.stat().st_size)
            with log.open("ab") as file:
                file.write(b"\x01" * 30)
            return withhold()

        return forward(disks, located, look, forget, *more)

    monkeypatch.setattr(runner, "roll_forward", damaged)
    result = recover(Recovery(mark_clean=True, accept_loss=True, **given(CASE)), two)[0]
    monkeypatch.undo()
    assert result.changed
    assert result.marker_withheld is not None
    assert not (two / MARKER).exists()
    recover(Recovery(accept_loss=True, **given(CASE)), two)
    assert not (two / MARKER).exists()
    undo(two)
    for log in two.glob("t-1/*.log"):
        data = log.read_bytes()
        if data.endswith(b"\x01" * 30):
            log.write_bytes(data[:-30])
    undo(two)
    differences = [path for path, held in before.items() if path != "." and stamps(two)[path][1:] != held[1:]]
    assert differences == []


@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_run_that_is_completed_verifies_again(
    stride: int, two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """Stopped before the marker; then a sound partition is damaged: whoever completes the run gives no marker."""
    third = CASE.unpack_before(tmp_path / "third")
    recover(Recovery(accept_loss=True, **given(CASE)), third)
    (third / "t-0").rename(two / "t-2")
    looked = stamps(two)
    moments = 0
    for number in itertools.count(1, stride):
        with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
            recover(Recovery(mark_clean=True, accept_loss=True, **given(CASE)), two)
        if count[0] < number:
            assert (two / MARKER).exists()
            break
        log = max(path for path in two.glob("t-2/*.log") if path.stat().st_size)
        status, data = log.stat(), log.read_bytes()
        if not (two / MARKER).exists():
            log.write_bytes(data + b"\x01" * 30)
            result = recover(Recovery(accept_loss=True, **given(CASE)), two)[0]
            assert not (two / MARKER).exists(), number
            moments += bool(result.completed)
            undo(two)  # what it did to the damage that came meanwhile
            log.write_bytes(data)
            os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))
        with suppress(RecoveryRefused):
            undo(two)
        assert first_difference(dict(stamps(two)), dict(looked)) == "", number
    assert moments > 10 // stride
    measured("runs stopped before their marker, completed without one because something had changed", moments)


def test_a_marker_stands_for_all(two: Path) -> None:
    result = recover(Recovery(mark_clean=True, accept_loss=True, **given(CASE)), two)[0]
    assert result.marker_withheld is None
    assert (two / MARKER).exists()
    assert not plan(Recovery(mode="kafka", **given(CASE)), two)[0].changes
    undo(two)
    assert not (two / MARKER).exists()


def test_a_refusal_of_one_directory_changes_none(tmp_path: Path) -> None:
    """Several directories of a broker: all are planned for before the first is changed."""
    first = CASE.unpack_before(tmp_path / "one")
    second = recovery_case("bit_flip/length").unpack_before(tmp_path / "two")
    (second / "t-0").rename(second / "u-0")
    before = stamps(tmp_path)
    with pytest.raises(RecoveryRefused):
        recover(Recovery(mode=Mode.STRICT, **given(CASE)), first, second)
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""
