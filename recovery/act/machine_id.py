"""Identify this machine, so that an execution that another machine began is not completed without consent."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__all__ = ["machine_id"]

_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


@cache
def machine_id() -> str | None:
    """Return a fingerprint of this machine: 32 hexadecimal digits of a SHA-256 hash of its id, such as the one in
    `/etc/machine-id`; None if it has no readable id. Cached. The id itself must not be published (`machine-id(5)`).
    """
    for path in _FILES:
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if text:
            return hashlib.sha256(f"kafkalog recovery {text}".encode()).hexdigest()[:32]
    return None
