"""The directory id of a voter, changed where a quorum keeps it."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

from crc32c import crc32c

from testkit.made.batches import BATCH_CRC_AT, BATCH_CRC_FROM, CONTROL, OVERHEAD

__all__ = ["directory_id_changed"]


def directory_id_changed(directory: Path, new: str) -> None:
    """Give the log directory that has the metadata log another id, of 22 characters, as if it had always had it.

    It is changed in `meta.properties`, in control records (`VotersRecord`, `LeaderChangeMessage`) and in the state of
    the quorum; what the metadata says about the broker's directories stays.
    """
    meta = directory / "meta.properties"
    lines = meta.read_text().splitlines()
    (old,) = [line.partition("=")[2] for line in lines if line.startswith("directory.id=")]
    meta.write_text(meta.read_text().replace(old, new))
    log = directory / "__cluster_metadata-0"
    state = log / "quorum-state"
    state.write_text(state.read_text().replace(old, new))
    for path in [*log.glob("*.log"), *log.glob("*.checkpoint")]:
        path.write_bytes(_changed(path.read_bytes(), _raw(old), _raw(new)))


def _raw(directory_id: str) -> bytes:
    return base64.urlsafe_b64decode(directory_id + "==")


def _changed(data: bytes, old: bytes, new: bytes) -> bytes:
    out = bytearray(data)
    at = 0
    while at + BATCH_CRC_FROM + 2 <= len(out):
        (length,) = struct.unpack_from(">i", out, at + 8)
        end = at + OVERHEAD + length
        if length <= 0 or end > len(out):
            break
        (attributes,) = struct.unpack_from(">h", out, at + BATCH_CRC_FROM)
        if attributes & CONTROL:
            out[at:end] = out[at:end].replace(old, new)
            struct.pack_into(">I", out, at + BATCH_CRC_AT, crc32c(bytes(out[at + BATCH_CRC_FROM : end])))
        at = end
    return bytes(out)
