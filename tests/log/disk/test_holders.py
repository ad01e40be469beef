"""Whether somebody else has a log directory's lock, asked without losing our own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.log.disk import holders
from kafkalog.log.writing.session import locked_directory

HOLDER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("shown", ["all", "nobody", "no list"])
def test_another_process_that_has_the_lock_is_seen(
    shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lock = tmp_path / ".lock"
    assert holders.told_held_by_others(str(tmp_path)) is False
    if shown != "all":
        if shown == "nobody":  # as in a container, whose list has nobody outside of it
            (tmp_path / "locks").write_text("")
        monkeypatch.setattr(holders, "_LOCKS", tmp_path / "locks")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert holders.told_held_by_others(str(tmp_path)) is True
        other.communicate()
    assert lock.exists(), "a broker that died leaves the file"
    assert holders.told_held_by_others(str(tmp_path)) is False


def test_our_own_lock_is_not_lost_by_asking(tmp_path: Path) -> None:
    with locked_directory(tmp_path):
        assert holders.told_held_by_others(str(tmp_path)) is False
        command = [sys.executable, "-c", HOLDER, str(tmp_path / ".lock")]
        refused = subprocess.run(command, input="", capture_output=True, text=True, check=False)
        assert "BlockingIOError" in refused.stderr
