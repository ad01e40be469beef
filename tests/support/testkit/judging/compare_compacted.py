"""Two compacted log directories: what Kafka's cleaner left, and what ours did.

Uncompressed batches have to be the same bytes, compressed ones equal but for size, checksum and the compressed bytes
themselves.  Where sizes differ for that, the indexes are computed again from either log, and have to be those.
"""

from __future__ import annotations

import re
import struct
import time
from pathlib import Path

from kafkalog.codec.compression import decompress
from testkit.judging import compare

__all__ = ["difference"]

IGNORED = (*compare.LOG_DIR_FILES, ".kafkalog*")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH, _CRC, _ATTRIBUTES = 1, 4, 5
_NAMES = ("base offset", "batch length", "leader epoch", "magic", "crc", "attributes", "last offset delta",
          "base timestamp", "max timestamp", "producer id", "producer epoch", "base sequence", "count")  # fmt: skip
_CODECS = 7
_RECENT_SECONDS = 86_400


def difference(theirs: Path, ours: Path, interval_bytes: int) -> str:
    """The first difference, with what it means; empty if there is none."""
    expected, actual = compare.files(theirs, IGNORED), compare.files(ours, IGNORED)
    relaxed: set[str] = set()
    for name in sorted(expected.keys() & actual.keys()):
        left, right = expected[name], actual[name]
        if not name.endswith(".log") or left is None or right is None:
            continue
        is_kept = abs(_mtime_ms(theirs / name) / 1000 - time.time()) > _RECENT_SECONDS  # else Kafka wrote it just now
        if is_kept and _mtime_ms(theirs / name) != _mtime_ms(ours / name):
            return f"{name}: time {_mtime_ms(theirs / name)}, not {_mtime_ms(ours / name)}"
        if left != right:
            found = _logs(left, right)
            if found:
                return f"{name}: {found}"
            stem = name.removesuffix(".log")
            relaxed |= {name, stem + ".index", stem + ".timeindex"}
            for side, root, log in (("Kafka's", expected, left), ("our", actual, right)):
                found = _indexes(stem, log, root, interval_bytes)
                if found:
                    return f"{stem}: {side} {found}"
    relaxed |= {name for name in expected if name.endswith(".cleaned")} & actual.keys()
    rest = compare.compare_files(
        {name: data for name, data in expected.items() if name not in relaxed},
        {name: data for name, data in actual.items() if name not in relaxed},
    )
    return str(rest[0]) if rest else ""


def _mtime_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def _batches(data: bytes) -> list[tuple[int, bytes]]:
    found, position = [], 0
    while position + 12 <= len(data):
        size = 12 + struct.unpack_from(">i", data, position + 8)[0]
        found.append((position, data[position : position + size]))
        position += size
    return found


def _logs(left: bytes, right: bytes) -> str:
    """The first difference beside what compression excuses."""
    theirs, ours = _batches(left), _batches(right)
    for number, ((_, one), (_, other)) in enumerate(zip(theirs, ours, strict=False)):
        if one == other:
            continue
        if one[16] != 2 or other[16] != 2:
            return f"batch {number}: magic {one[16]} and {other[16]}"
        heads = _HEADER.unpack_from(one), _HEADER.unpack_from(other)
        for field, name in enumerate(_NAMES):
            if field not in (_LENGTH, _CRC) and heads[0][field] != heads[1][field]:
                return f"batch {number} at offset {heads[0][0]}: {name} {heads[0][field]}, not {heads[1][field]}"
        codec = heads[0][_ATTRIBUTES] & _CODECS
        if codec == 0:
            return f"batch {number} at offset {heads[0][0]}: other bytes, {one.hex()}, not {other.hex()}"
        plain = [bytes(decompress(codec, data[_HEADER.size :])) for data in (one, other)]
        if plain[0] != plain[1]:
            return f"batch {number} at offset {heads[0][0]}: other records, {plain[0].hex()}, not {plain[1].hex()}"
    return "" if len(theirs) == len(ours) else f"{len(theirs)} batches, not {len(ours)}"


def _indexes(stem: str, log: bytes, root: dict[str, bytes | None], interval: int) -> str:
    base = int(re.sub(r".*/", "", stem))
    offsets, times = bytearray(), bytearray()
    largest, largest_at, last_time, since = -1, base, -1, 0
    for position, data in _batches(log):
        head = _HEADER.unpack_from(data)
        last = head[0] + head[6]
        if head[8] > largest:
            largest, largest_at = head[8], last
        if since > interval:
            offsets += struct.pack(">ii", last - base, position)
            if largest > last_time:
                times += struct.pack(">qi", largest, largest_at - base)
                last_time = largest
            since = 0
        since += len(data)
    if largest > last_time:
        times += struct.pack(">qi", largest, largest_at - base)
    if root[stem + ".index"] != bytes(offsets):
        return f"offset index is {root[stem + '.index']!r}, and should be {bytes(offsets)!r}"
    if root[stem + ".timeindex"] != bytes(times):
        return f"time index is {root[stem + '.timeindex']!r}, and should be {bytes(times)!r}"
    return ""
