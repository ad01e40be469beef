"""The broker's lock while recovery has it: kept by this process, and by this one alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import Log, RecoveryRefused, UsageError, open_partition
from kafkalog.log.disk import holders
from kafkalog.recovery import Recovery, recover, undo
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.lock import BrokerLock, refuse_if_locked
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import recovery_cases
from testkit.recorded.recovery_settings import given

CASE = recovery_cases(["torn_tail"])[0]
TRY = (
    "import fcntl, sys; file = open(sys.argv[1], 'r+');\n"
    "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')\n"
    "except OSError: print('held')"
)


def others_see(root: Path) -> str:
    found = subprocess.run([sys.executable, "-c", TRY, root / ".lock"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_nothing_that_reads_gives_up_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel's list does not show our lock (file systems whose device it tells otherwise), too."""
    root = CASE.unpack_before(tmp_path / "logs")
    monkeypatch.setattr(holders, "_listed", lambda status: set())
    with FileSystem(str(root)) as fs, BrokerLock(fs):
        assert others_see(root) == "held"
        assert holders.told_held_by_others(str(root)) is False
        list(open_partition(root / "t-0").records())
        assert others_see(root) == "held"
        for again in (lambda: recover(root)[0], lambda: undo(root), lambda: refuse_if_locked(str(root))):
            with pytest.raises(RecoveryRefused, match="by this process"):
                again()
        with pytest.raises(UsageError, match="by this process"):
            Log.open(root / "t-0")
        assert others_see(root) == "held"


def test_a_forked_child_leaves_the_lock_alone(tmp_path: Path, measured: Callable[[str, int], None]) -> None:
    root = CASE.unpack_before(tmp_path / "logs")
    before = stamps(root)
    with FileSystem(str(root)) as fs:
        lock = BrokerLock(fs)
        with lock:
            child = os.fork()
            if child == 0:
                lock.__exit__(None, None, None)
                os._exit(0)
            os.waitpid(child, 0)
            assert (root / ".lock").exists()
            assert others_see(root) == "held"
    assert stamps(root) == before
    measured("forks of a process that recovers, its lock kept", 1)


def test_the_lock_is_held_until_the_last_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every change that a recovery and an undo make."""
    root = CASE.unpack_before(tmp_path / "logs")
    seen: set[str] = set()
    for name in ("rename", "truncate", "remove", "link", "write_new", "save", "write_tail"):
        original = getattr(FileSystem, name)

        def wrapped(
            self: FileSystem, path: str, *args: object, _original: object = original, **named: object
        ) -> object:
            if path != ".lock":
                seen.add(others_see(root))
            return _original(self, path, *args, **named)  # type: ignore[operator]

        monkeypatch.setattr(FileSystem, name, wrapped)
    recover(Recovery(accept_loss=True, **given(CASE)), root)
    undo(root)
    assert seen == {"held"}


def left_lock(root: Path) -> None:
    """A lock file as a recovery leaves it that was killed while it had created the file."""
    status = root.stat()
    (root / ".lock").touch()
    (root / ".lock").write_text(f"kafkalog {status.st_mtime_ns} {root.stat().st_mtime_ns}\n")


def test_a_refusal_leaves_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    root = CASE.unpack_before(tmp_path / "logs")
    recover(Recovery(accept_loss=True, **given(CASE)), root)
    log = next((root / "t-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    left_lock(root)
    before = stamps(root)
    with pytest.raises(RecoveryRefused):
        undo(root)
    assert stamps(root) == before
    with FileSystem(str(root)) as fs, BrokerLock(fs):
        pass
    assert not (root / ".lock").exists()
