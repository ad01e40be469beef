"""Nothing but a regular file is read, wherever it stands and whoever looks: no hang, one clear sentence."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import FileSource, NotRegularFileError, read_small
from testkit.made.side_file_names import PLACES, RUN, small_log_dir
from testkit.running.command import kafkalog as command
from testkit.running.sockets import make_socket

WHATS = ("ls", "dump", "verify", "plan", "safe", "kafka", "salvage", "contents")
REFUSED = {"recovery points", "log starts", "meta.properties", "clean shutdown", "high watermarks", "cleaner offsets"}
"""What a broker reads when it starts."""
_HANG_SECONDS = 300
"""After so long a process that waits for a FIFO would wait forever."""
_ZERO_DEVICE, _NULL_BLOCKS = os.makedev(1, 5), os.makedev(7, 250)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    """Endless zeros, for whoever reads it."""
    os.mknod(path, stat.S_IFCHR | 0o644, _ZERO_DEVICE)


def make_block_device(path: Path) -> None:
    os.mknod(path, stat.S_IFBLK | 0o644, _NULL_BLOCKS)


def can_make_devices(folder: Path) -> bool:
    try:
        make_device(folder / "device")
    except PermissionError:
        return False
    (folder / "device").unlink()
    return True


KINDS: dict[str, Callable[[Path], None]] = {
    "FIFO": make_fifo, "socket": make_socket, "character device": make_device, "block device": make_block_device,
}  # fmt: skip


def kinds_here(folder: Path) -> dict[str, Callable[[Path], None]]:
    """Devices need a right that few have; FIFOs and sockets anybody may make."""
    return {name: make for name, make in KINDS.items() if "device" not in name or can_make_devices(folder)}


@pytest.mark.sweep
@pytest.mark.parametrize("what", WHATS)
def test_special_files_everywhere(what: str, tmp_path: Path, measured: Callable[[str, int], None]) -> None:
    """One process for all of them: it ends, and leaves every special file as it is."""
    done = 0
    roots: list[Path] = []
    for kind, make in kinds_here(tmp_path).items():
        for place, name in PLACES.items():
            root = tmp_path / f"{kind}, {place}"
            small_log_dir(root)
            (root / name).unlink(missing_ok=True)
            make(root / name)
            roots.append(root)
    program = f"""
import sys
def one(argv, program=compile({RUN!r}, "run", "exec")):
    sys.argv = argv
    exec(program, {{}})
for root in sys.argv[2:]:
    one(["run", sys.argv[1], root])
"""
    words = [sys.executable, "-W", "ignore", "-c", program, what, *map(str, roots)]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_HANG_SECONDS)
    assert found.returncode == 0, found.stderr[-3000:]
    assert "Traceback" not in found.stderr
    outcomes = [json.loads(line) for line in found.stderr.splitlines() if line.startswith('{"kib"')]
    assert len(outcomes) == len(roots)
    for root, outcome in zip(roots, outcomes, strict=True):
        kind, _, place = root.name.partition(", ")
        path = root / PLACES[place]
        assert not stat.S_ISREG(path.lstat().st_mode), root
        if what in ("safe", "salvage") and (place in REFUSED or "/" in PLACES[place]):
            refused, left = outcome["outcome"].startswith("RecoveryRefused"), "left: ['" in outcome["outcome"]
            assert (refused, left) == (place in REFUSED, place not in REFUSED), (root, outcome)
            assert PLACES[place] in outcome["outcome"]
        done += 1
    measured(f"special files in place of others, met by {what}", done)


@pytest.mark.parametrize("place", [name for name, path in PLACES.items() if "/" in path])
def test_whoever_looks_says_the_same_of_it(place: str, tmp_path: Path) -> None:
    """Nothing in place of a segment's files is passed over by one command and in the way of another."""
    small_log_dir(tmp_path / "data")
    path = tmp_path / "data" / PLACES[place]
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    for what in ("ls", "verify", "plan"):
        finished = command(what, "--json", tmp_path / "data")
        assert finished.code == 4, what
        (told,) = finished.objects
        files = [each["file"] for each in _findings(told) if each["code"] == "unreadable"]
        assert [file for file in files if file.endswith(PLACES[place])], what
    assert command("recover", "--yes", tmp_path / "data").code == 4


def _findings(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [*told["findings"], *(found for each in told["partitions"] for found in each.get("findings", ()))]


def test_a_lock_that_is_no_file_says_what_to_do(tmp_path: Path) -> None:
    small_log_dir(tmp_path / "data")
    (tmp_path / "data" / ".lock").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "data" / ".lock")
    for words in (("recover", "--yes"), ("recover", "--yes", "--into", tmp_path / "copy")):
        finished = command(*words, tmp_path / "data")
        assert finished.code == 4
        assert finished.err.endswith(".lock: a FIFO, not a file, which locks nothing: remove it, and a broker makes "
                                     "a new file\n")  # fmt: skip
    with pytest.raises(NotRegularFileError, match="remove it"):
        kafkalog.Log.open(tmp_path / "data" / "t-0")


def test_the_openers_refuse_and_say_what_it_is(tmp_path: Path) -> None:
    for number, (kind, make) in enumerate(kinds_here(tmp_path).items()):
        path = tmp_path / str(number)
        make(path)
        with pytest.raises(NotRegularFileError, match=kind.split()[-1]):
            FileSource(path)
        with pytest.raises(NotRegularFileError):
            read_small(path, 100)
        with pytest.raises(kafkalog.StorageError):
            fs.write_new(str(path), b"content")
        assert not stat.S_ISREG(path.lstat().st_mode)
