"""Kinds of processors that a wheel has machine code for, and which of them this machine is."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from functools import lru_cache

__all__ = ["LEVELS", "LEVEL_ASKED_FOR", "features_asked_for", "levels_here", "processor"]

LEVEL_ASKED_FOR = "KAFKALOG_KERNELS_FOR"
"""The variable of the environment that names a level to compile for, where it is not this machine."""

_V2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "pclmul")
LEVELS = {"x86-64-v3": (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"), "x86-64-v2": _V2}
"""name, as compilers have it -> what such a processor can do, best first; carry-less multiplication is not of the name,
but in every processor of that kind"""
_IN_LINUX = {
    "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "pclmul": "pclmulqdq", "bmi": "bmi1", "lzcnt": "abm",
}  # fmt: skip
"""name, as compilers have it -> Linux's, where it is another"""
_LASTING = frozenset({
    "vendor_id", "cpu family", "model", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
})  # fmt: skip


@lru_cache(maxsize=1)
def levels_here() -> tuple[str, ...]:
    """The levels that this machine can run, best first; none but on Linux."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return ()
    flags = set(processor().get("flags", "").split())
    return tuple(
        level for level, needed in LEVELS.items() if all(_IN_LINUX.get(each, each) in flags for each in needed)
    )


@lru_cache(maxsize=1)
def processor() -> dict[str, str]:
    """What Linux tells of the first processor and is the same at any time; empty where it tells nothing."""
    found = {}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if not name.strip():
                break
            if name.strip() in _LASTING:
                found[name.strip()] = value.strip()
    return found


def features_asked_for() -> tuple[str, ...] | None:
    """What processors of the level can do that kernels are to be compiled for; None: this machine's."""
    level = os.environ.get(LEVEL_ASKED_FOR)
    return None if level is None else LEVELS[level]
