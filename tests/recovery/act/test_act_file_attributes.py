"""Undo and copies are exact: owner, mode, extended attributes, times, the lock file, and nobody else's files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog import RecoveryRefused
from kafkalog.recovery import Recovery, recover, undo
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.lock import BrokerLock
from kafkalog.recovery.run import recover_into
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.elsewhere import PLACES, quarantine_at

CASES = [recovery_cases([family])[0] for family in ("segment_set", "torn_tail", "swap_files")]


def extended(path: Path) -> dict[str, bytes]:
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)}


def everything(root: Path) -> dict[str, object]:
    """What `stamps` tells, with owners and extended attributes."""
    told: dict[str, object] = {}
    for name, held in stamps(root).items():
        status = (root / name).lstat()
        told[name] = (*held, status.st_uid, status.st_gid, extended(root / name))
    return told


def dress(root: Path) -> None:
    """Give every file and directory a mode, an owner and an attribute of its own, and the times it had."""
    times = {path: path.lstat() for path in [root, *root.rglob("*")]}
    for number, path in enumerate(sorted(times)):
        with suppress(OSError):  # a file system without them: modes and owners are compared all the same
            os.setxattr(path, "user.kafkalog.test", f"{number}".encode())
        path.chmod((0o700 if path.is_dir() else 0o600) | (number % 8))
        if os.geteuid() == 0:
            os.chown(path, 1000 + number % 3, 2000 + number % 5)
    for path, status in times.items():
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.replace("/", ":"))
def test_undo_gives_back_owners_modes_and_attributes(case: object, place: str, tmp_path: Path) -> None:
    root = case.unpack_before(tmp_path / "logs")  # type: ignore[attr-defined]
    dress(root)
    before = everything(root)
    with quarantine_at(place, tmp_path) as kept:
        assert recover(Recovery(mode="kafka", quarantine=kept, accept_loss=True, **given(case)), root)[0].changed  # type: ignore[arg-type]
        undo(root)
    assert first_difference(everything(root), before) == ""


def test_a_directory_with_all_that_is_in_it(tmp_path: Path) -> None:
    """A deleted partition goes to quarantine and comes back, on another file system too."""
    for place in PLACES:
        root = CASES[0].unpack_before(tmp_path / place / "logs")
        gone = root / "t-7.0123456789abcdef0123456789abcdef-delete"
        (gone / "deep" / "deeper").mkdir(parents=True)
        (gone / "deep" / "deeper" / "file").write_bytes(b"\0" * 70_000 + b"x" + b"\0" * 70_000)
        (gone / "00000000000000000000.log").write_bytes(b"")
        dress(root)
        before = everything(root)
        with quarantine_at(place, tmp_path / place) as kept:
            assert recover(Recovery(mode="safe", quarantine=kept, accept_loss=True, **given(CASES[0])), root)[0].changed
            undo(root)
        assert first_difference(everything(root), before) == ""


def test_a_copy_has_owners_modes_and_attributes(tmp_path: Path) -> None:
    root = CASES[1].unpack_before(tmp_path / "logs")
    dress(root)
    before = everything(root)
    result = recover_into(Recovery(**given(CASES[1])), root, target=tmp_path / "copy")
    assert result.changed
    undo(tmp_path / "copy")
    assert first_difference(everything(tmp_path / "copy"), before) == ""
    assert first_difference(everything(root), before) == ""


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "socket"])
def test_a_copy_that_would_lack_something_is_not_made(kind: str, tmp_path: Path) -> None:
    import socket

    root = CASES[1].unpack_before(tmp_path / "logs")
    target = root / "t-5"
    if kind == "link":
        (tmp_path / "elsewhere" / "t-5").mkdir(parents=True)
        target.symlink_to(tmp_path / "elsewhere" / "t-5")
    elif kind == "dangling":
        target.symlink_to(tmp_path / "nowhere")
    elif kind == "fifo":
        os.mkfifo(target)
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            here = Path.cwd()
            os.chdir(root)
            try:
                bound.bind("t-5")
            finally:
                os.chdir(here)
    with pytest.raises(RecoveryRefused, match="t-5"):
        recover_into(root, target=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_nobody_elses_temporary_file_is_removed(tmp_path: Path) -> None:
    root = CASES[0].unpack_before(tmp_path / "logs")
    names = [f"{path.relative_to(root)}.kafkalog-tmp" for path in root.rglob("*") if path.is_file()]
    for name in names:
        (root / name).write_text("somebody else's")
    before = stamps(root)
    recover(Recovery(accept_loss=True, **given(CASES[0])), root)
    assert [name for name in names if (root / name).read_text() != "somebody else's"] == []
    undo(root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_a_kill_leaves_no_lock_for_ever(tmp_path: Path) -> None:
    root = CASES[0].unpack_before(tmp_path / "logs")
    before = stamps(root)
    program = (
        "import sys, time; from kafkalog.recovery.act.fs import FileSystem;"
        "from kafkalog.recovery.act.lock import BrokerLock;"
        "lock = BrokerLock(FileSystem(sys.argv[1])); lock.__enter__(); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(root)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert (root / ".lock").exists()
    left = stamps(root)
    with pytest.raises(RecoveryRefused, match="no run"):
        undo(root)
    assert stamps(root) == left, "a refusal changes nothing"
    with FileSystem(str(root)) as fs, BrokerLock(fs):
        pass
    assert not (root / ".lock").exists()
    assert stamps(root) == before


def test_a_brokers_lock_file_stays(tmp_path: Path) -> None:
    root = CASES[0].unpack_before(tmp_path / "logs")
    (root / ".lock").touch()
    recover(Recovery(accept_loss=True, **given(CASES[0])), root)
    undo(root)
    assert (root / ".lock").read_bytes() == b""


def test_a_lock_that_was_removed_while_we_waited_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our opening the file and locking it, who held it removes it, and a third makes and locks a new one."""
    import fcntl

    root = CASES[0].unpack_before(tmp_path / "logs")
    (root / ".lock").touch()
    program = (
        "import fcntl, sys, time; held = open(sys.argv[1], 'w'); fcntl.lockf(held, fcntl.LOCK_EX);"
        "print('locked', flush=True); time.sleep(60)"
    )
    holders: list[subprocess.Popen[str]] = []
    lockf = fcntl.lockf

    def late(descriptor: int, flags: int) -> None:
        if not holders:
            (root / ".lock").unlink()
            holder = subprocess.Popen(
                [sys.executable, "-c", program, str(root / ".lock")], stdout=subprocess.PIPE, text=True
            )
            holders.append(holder)
            assert holder.stdout is not None
            assert holder.stdout.readline() == "locked\n"
        lockf(descriptor, flags)

    monkeypatch.setattr(fcntl, "lockf", late)
    before = stamps(root / "t-0")
    try:
        with pytest.raises(RecoveryRefused, match="locked"):
            recover(Recovery(accept_loss=True, **given(CASES[0])), root)
        assert stamps(root / "t-0") == before
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
            if holder.stdout is not None:
                holder.stdout.close()


def test_holes_stay_holes(tmp_path: Path) -> None:
    """A gigabyte of holes after a log takes no room in the quarantine, and is holes again when it is back."""
    for place in PLACES:
        root = CASES[1].unpack_before(tmp_path / place / "logs")
        log = max(path for path in root.glob("t-0/*.log") if path.stat().st_size)
        os.truncate(log, 1 << 30)
        size = log.stat().st_size
        with quarantine_at(place, tmp_path / place) as kept:
            recover(Recovery(quarantine=kept, accept_loss=True, **given(CASES[1])), root)
            used = sum(
                path.stat().st_blocks * 512
                for path in (kept or root.with_name("logs.recovery")).rglob("*")
                if path.is_file()
            )
            undo(root)
        assert used < 1 << 20
        assert log.stat().st_size == size
        assert log.stat().st_blocks * 512 < 1 << 20
