"""A place on another file system than the tests' own, for quarantines."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from kafkalog.recovery.act.fs import FileSystem

__all__ = ["PLACES", "quarantine_at"]

PLACES = ("beside", "on another file system")
_CANDIDATES = ("/dev/shm", "/run/shm", "/var/tmp", "/tmp")


def _other_file_system(path: Path) -> str | None:
    device = path.stat().st_dev
    for candidate in (os.environ.get("XDG_RUNTIME_DIR", ""), *_CANDIDATES):
        if os.path.isdir(candidate) and os.access(candidate, os.W_OK) and os.stat(candidate).st_dev != device:
            return candidate
    return None


@contextmanager
def quarantine_at(place: str, tmp_path: Path) -> Iterator[Path | None]:
    """A directory for a quarantine; None is the one beside the log directory.

    Where the machine has no second file system that can be written to, one is taken for another that is not: the
    program then copies where it could rename.
    """
    if place == PLACES[0]:
        yield None
        return
    other = _other_file_system(tmp_path)
    if other is not None:
        made = Path(tempfile.mkdtemp(prefix="kafkalog-test-", dir=other))
        try:
            yield made / "quarantine"
        finally:
            shutil.rmtree(made)
        return
    with mock.patch.object(FileSystem, "shares_mount", return_value=False):
        yield tmp_path / "elsewhere"
