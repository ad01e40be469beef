"""Processor time of a process and everything below it: what a query costs where several processes share it."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _FIRST, _LAST = 1, 11, 15
"""Fields of /proc/PID/stat after the name: the parent; user and system time of the process and its dead children."""


def tree_seconds(root: int) -> float | None:
    """Seconds of all threads of `root` and its descendants up to now; None where there is no /proc."""
    children: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        number = int(path.parent.name)
        children.setdefault(int(fields[_PARENT]), []).append(number)
        seconds[number] = sum(map(int, fields[_FIRST:_LAST])) / _TICKS
    if root not in seconds:
        return None
    total, left = 0.0, [root]
    while left:
        number = left.pop()
        total += seconds[number]
        left += children.get(number, [])
    return total


def tree_read(root: int, what: str = "read_bytes") -> int:
    """Bytes that `root` and its descendants, as far as they are still there, have had from a disk.

    With `what="rchar"` those that they asked the system for, whatever it read ahead.
    """
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[_PARENT]), []).append(int(path.parent.name))
    total, left = 0, [root]
    while left:
        number = left.pop()
        left += children.get(number, [])
        try:
            lines = Path(f"/proc/{number}/io").read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        total += sum(int(each.split()[1]) for each in lines if each.startswith(f"{what}:"))
    return total
