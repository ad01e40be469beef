"""The small file in a log directory that says where its quarantines are, when they are not beside it.

A broker ignores it.  Its first line has an id of the log directory, which the journals of its runs carry too; the other
lines are places.  Whoever hands us the directory may have written it, so it only says where to look for runs: nothing
new is ever written to a place because this file names it.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass

from kafkalog.codec.errors import LimitExceeded, RecoveryRefused, StorageError
from kafkalog.codec.names import QUARANTINE_POINTER
from kafkalog.log.files import MissingFileError, read_small

__all__ = ["POINTER", "POINTER_BEFORE", "Pointer", "new_owner", "read_pointer"]

POINTER = QUARANTINE_POINTER
POINTER_BEFORE = POINTER + ".new"
"""what it is called until it is whole"""
_MOST_BYTES = 1 << 16
_FIRST = re.compile(r"kafkalog-quarantine ([0-9a-f]{32})", re.ASCII)


def new_owner() -> str:
    """An id for a log directory."""
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Pointer:
    """The id of a log directory and its quarantines."""

    owner: str
    places: tuple[str, ...]

    def encode(self) -> bytes:
        """The file's content."""
        lines = [f"kafkalog-quarantine {self.owner}", *self.places]
        return "".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape")


def read_pointer(root: str) -> Pointer | None:
    """The pointer of a log directory, or None; `RecoveryRefused` if it is none that kafkalog wrote."""
    path = os.path.join(root, POINTER)
    try:
        text = read_small(path, _MOST_BYTES).decode("utf-8", "surrogateescape")
    except MissingFileError:
        return None
    except (StorageError, LimitExceeded) as error:
        raise _refused(path, str(error)) from error
    first, *places = (text.splitlines() if "\0" not in text else []) or [""]
    match = _FIRST.fullmatch(first)
    if match is None or any(not os.path.isabs(place) or os.path.normpath(place) != place for place in places):
        raise _refused(path, "it does not hold what kafkalog writes there")
    return Pointer(match.group(1), tuple(dict.fromkeys(places)))


def _refused(path: str, why: str) -> RecoveryRefused:
    return RecoveryRefused(
        f"{path} does not say where this directory's quarantine is: {why}; remove it to continue without the runs that "
        "it may point to",
        reason="pointer",
    )
