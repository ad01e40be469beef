"""A log of ZooKeeper's as its own server would write it: one transaction for each node created or deleted."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

from kafkalog.cluster.layout import zookeeper as layout
from kafkalog.cluster.records.messages import encode

_CREATE, _DELETE = 1, 2
_ANYONE = [{"perms": 31, "scheme": "world", "id": "anyone"}]


def write_log(directory: Path, nodes: Iterable[tuple[str, bytes | None]], first_zxid: int = 1) -> Path:
    """Write `version-2/log.N` below a directory, which is returned. Nodes with the data None are deleted."""
    data = encode(layout.FILE_HEADER, 0, {"magic": layout.LOG_MAGIC, "version": 2, "dbid": 0})
    for number, (path, value) in enumerate(nodes):
        fields = {"path": path, "data": value, "acl": _ANYONE, "ephemeral": False, "parent_c_version": number + 1}
        header = {"client_id": 7, "cxid": number + 1, "zxid": first_zxid + number, "time": 1000 + number}
        kind = _DELETE if value is None else _CREATE
        payload = encode(layout.TXN_HEADER, 0, {**header, "type": kind})
        payload += encode(layout.BODIES[kind], 0, {"path": path} if value is None else fields)
        frame = {"checksum": zlib.adler32(payload), "length": len(payload)}
        data += encode(layout.TXN_FRAME, 0, frame) + payload + b"B"
    log = directory / "version-2" / f"log.{first_zxid:x}"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(data)
    return directory
