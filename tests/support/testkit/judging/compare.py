"""Compare two log directories file by file, and say what the first differing byte means.

The first tree is what Kafka left (expected), the second what is judged (actual). ``*.deleted`` files (the next start
removes them) and the broker's ``.lock`` are never compared; random ids in names of stray directories are leveled.
The decoding here is on purpose a second, tiny one: it must not depend on the code it judges.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

# What a broker's orderly stop writes beside the partitions.
LOG_DIR_FILES = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
NEVER_COMPARED = ("*.deleted", ".lock")

Field = tuple[str, int]
OFFSET_INDEX: tuple[Field, ...] = (("relative offset", 4), ("position", 4))
TIME_INDEX: tuple[Field, ...] = (("timestamp", 8), ("relative offset", 4))
TRANSACTION_INDEX: tuple[Field, ...] = (
    ("version", 2),
    ("producer id", 8),
    ("first offset", 8),
    ("last offset", 8),
    ("last stable offset", 8),
)
SNAPSHOT_HEAD: tuple[Field, ...] = (("version", 2), ("crc", 4), ("number of entries", 4))
SNAPSHOT_ENTRY: tuple[Field, ...] = (
    ("producer id", 8),
    ("producer epoch", 2),
    ("last sequence", 4),
    ("last offset", 8),
    ("offset delta", 4),
    ("timestamp", 8),
    ("coordinator epoch", 4),
    ("current transaction's first offset", 8),
)
FRAME: tuple[Field, ...] = (("base offset", 8), ("batch length", 4), ("partition leader epoch", 4), ("magic", 1))
V2_REST: tuple[Field, ...] = (
    ("crc", 4),
    ("attributes", 2),
    ("last offset delta", 4),
    ("base timestamp", 8),
    ("max timestamp", 8),
    ("producer id", 8),
    ("producer epoch", 2),
    ("base sequence", 4),
    ("number of records", 4),
)
LEGACY: tuple[Field, ...] = (("offset", 8), ("size", 4), ("crc", 4), ("magic", 1), ("attributes", 1))


@dataclass(frozen=True, slots=True)
class Difference:
    """One file that differs: where first, and what is there."""

    path: str
    position: int | None
    meaning: str

    def __str__(self) -> str:
        where = "" if self.position is None else f" at byte {self.position}"
        return f"{self.path}{where}: {self.meaning}"


def number(data: bytes, position: int, size: int) -> int | None:
    """A big-endian signed number, or None if the bytes are not all there."""
    part = data[position : position + size]
    return int.from_bytes(part, "big", signed=True) if len(part) == size else None


def _field_at(fields: Sequence[Field], position: int) -> tuple[str, int, int] | None:
    """The field (name, start, size) in which a position lies."""
    start = 0
    for name, size in fields:
        if start <= position < start + size:
            return name, start, size
        start += size
    return None


def _named(fields: Sequence[Field], base: int, position: int, expected: bytes, actual: bytes) -> str:
    found = _field_at(fields, position - base)
    if found is None:
        return f"byte {position - base} after the header"
    name, start, size = found
    return f"{name}: {_show(number(expected, base + start, size))}, not {_show(number(actual, base + start, size))}"


def _show(value: int | None) -> str:
    return "cut off" if value is None else str(value)


def _entries(fields: tuple[Field, ...]) -> Callable[[int, bytes, bytes], str]:
    size = sum(n for _, n in fields)

    def meaning(position: int, expected: bytes, actual: bytes) -> str:
        entry = position // size
        last = f" of {len(expected) // size}" if entry * size < len(expected) else f" after the {len(expected) // size}"
        return f"entry {entry}{last}, {_named(fields, entry * size, position, expected, actual)}"

    return meaning


def _snapshot(position: int, expected: bytes, actual: bytes) -> str:
    head, entry_size = sum(n for _, n in SNAPSHOT_HEAD), sum(n for _, n in SNAPSHOT_ENTRY)
    if position < head:
        at = 6 if expected[6:head] != actual[6:head] else position
        found = f"header, {_named(SNAPSHOT_HEAD, 0, at, expected, actual)}"
        if at == position and 2 <= position < 6:  # the crc only says that something after it differs
            rest = first_difference(expected[head:], actual[head:])
            return found if rest is None else f"{found}; {_snapshot(head + rest, expected, actual)}"
        return found
    entry = (position - head) // entry_size
    return f"entry {entry}, {_named(SNAPSHOT_ENTRY, head + entry * entry_size, position, expected, actual)}"


def _batch_at(data: bytes, position: int) -> tuple[int, int, int] | None:
    """The batch (index, start, size) in which a position lies."""
    start, index = 0, 0
    while start + 17 <= len(data):
        size = 12 + (number(data, start + 8, 4) or 0)
        if size < 26:
            return None
        if position < start + size:
            return index, start, size
        start, index = start + size, index + 1
    return None


def _log(position: int, expected: bytes, actual: bytes) -> str:
    if position == len(expected):
        what = _batch_at(actual, position)
        more = "" if what is None else f", the first of it a batch at offset {number(actual, what[1], 8)}"
        return f"{len(actual) - position} bytes more than expected{more}"
    found = _batch_at(expected, position)
    if found is None:
        return "between batches"
    index, start, _ = found
    batch = f"batch {index} at {start}, base offset {number(expected, start, 8)}"
    if position == len(actual):
        return f"{len(expected) - position} bytes fewer than expected: from {batch}"
    magic = number(expected, start + 16, 1)
    fields = (*FRAME, *V2_REST) if magic == 2 else LEGACY
    return f"{batch}, {_named(fields, start, position, expected, actual)}"


def _text(position: int, expected: bytes, actual: bytes) -> str:
    line = expected[:position].count(b"\n")
    lines = [data.split(b"\n")[line : line + 1] for data in (expected, actual)]
    shown = [repr(found[0].decode(errors="replace")) if found else "no such line" for found in lines]
    return f"line {line + 1}: {shown[0]}, not {shown[1]}"


MEANINGS: Mapping[str, Callable[[int, bytes, bytes], str]] = {
    "log": _log,
    "index": _entries(OFFSET_INDEX),
    "timeindex": _entries(TIME_INDEX),
    "txnindex": _entries(TRANSACTION_INDEX),
    "snapshot": _snapshot,
}


def first_difference(expected: bytes, actual: bytes) -> int | None:
    """The first position at which two byte strings differ, or None."""
    if expected == actual:
        return None
    equal, different = 0, min(len(expected), len(actual)) + 1  # prefixes of these lengths are equal, are different
    while different - equal > 1:
        middle = (equal + different) // 2
        if expected[equal:middle] == actual[equal:middle]:
            equal = middle
        else:
            different = middle
    return equal


def compare_bytes(name: str, expected: bytes, actual: bytes) -> Difference | None:
    """The first differing byte of one file, with its meaning by the file's name."""
    position = first_difference(expected, actual)
    if position is None:
        return None
    kind = re.sub(r"\.(swap|cleaned)$", "", name.rsplit("/", 1)[-1]).rsplit(".", 1)[-1]
    meaning = MEANINGS.get(kind, _text)(position, expected, actual)
    sizes = "" if len(expected) == len(actual) else f" (expected {len(expected)} bytes, found {len(actual)})"
    return Difference(name, position, meaning + sizes)


def files(root: Path, ignore: Iterable[str] = ()) -> dict[str, bytes | None]:
    """Relative name to bytes; None for directories and for links (whose targets are not read)."""
    ignored = (*NEVER_COMPARED, *ignore)
    found: dict[str, bytes | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if any(fnmatch.fnmatch(path.name, pattern) or fnmatch.fnmatch(name, pattern) for pattern in ignored):
            continue
        leveled = re.sub(r"\.[0-9a-f]{32}-(stray|delete)(?=/|$)", r".<uuid>-\1", name)
        found[leveled] = path.read_bytes() if path.is_file() and not path.is_symlink() else None
    return found


def compare(expected: Path, actual: Path, ignore: Iterable[str] = ()) -> list[Difference]:
    """Every file that differs between two directories, first those in both."""
    return compare_files(files(expected, ignore), files(actual, ignore))


def compare_files(expected: Mapping[str, bytes | None], actual: Mapping[str, bytes | None]) -> list[Difference]:
    differences = []
    for name in sorted(expected.keys() & actual.keys()):
        left, right = expected[name], actual[name]
        if left is None or right is None:
            if left is not right:
                differences.append(Difference(name, None, "a file here and no file there"))
            continue
        difference = compare_bytes(name, left, right)
        if difference:
            differences.append(difference)
    for name in sorted(expected.keys() - actual.keys()):
        differences.append(Difference(name, None, f"missing (expected {_size(expected[name])})"))
    for name in sorted(actual.keys() - expected.keys()):
        differences.append(Difference(name, None, f"not expected (found {_size(actual[name])})"))
    return differences


def _size(data: bytes | None) -> str:
    return "a directory or link" if data is None else f"{len(data)} bytes"
