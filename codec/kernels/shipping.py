"""Kernels compiled for other machines than this one, which a wheel brings along: `python -m … FOLDER`.

`KAFKALOG_KERNELS_FOR` names the level, and numba's own settings have to say the same; `environment` has all three.  The
code holds nothing of Python's and asks for a few functions of the C library alone, so that it fits any version of
Python, numba and llvmlite; how it is called is that of the numba that made it, which is examined first.
"""

from __future__ import annotations

import os
import struct
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from kafkalog.codec.errors import UsageError
from kafkalog.machine_code.levels import LEVELS
from kafkalog.machine_code.native import ALLOCATIONS, NEVER_CALLED
from kafkalog.machine_code.stored import ship

__all__ = ["ASKED_FOR", "environment", "make"]

ASKED_FOR = frozenset({"memcpy", "memmove", "memset", "memcmp", "pread", "preadv", "bcmp", *NEVER_CALLED})
"""What machine code may ask for: functions of the C library, and those that `native` gives it and nobody calls."""

_SYMBOLS, _SYMBOL = 2, struct.Struct("<IBBH16x")


def environment(level: str, cache: str) -> dict[str, str]:
    """The settings of a process that compiles for a level, with a cache of its own."""
    features = ",".join(f"+{each}" for each in LEVELS[level])
    return {
        "KAFKALOG_KERNELS_FOR": level, "NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": cache,
    }  # fmt: skip


def make(folder: Path) -> int:
    """Compile every kernel for the level that the environment names, into `folder`; gives how many.

    Raises `UsageError` where machine code asks for what other machines may not have.
    """
    package = __package__ or ""
    names = [each.name for each in iter_modules(sys.modules[package].__path__)]
    for name in names:
        if name not in ("probe", "shipping"):
            import_module(f"{package}.{name}")
    from kafkalog.codec.kernels.jit import FOR_ANOTHER, with_signature
    from kafkalog.codec.kernels.keeping import machine_code

    for module, name in with_signature:
        made = machine_code(module, name)
        if made is None or any(each in made.code for each in ALLOCATIONS):
            raise UsageError(f"{module}.{name} has no machine code that can be called elsewhere")
        foreign = _undefined(made.code) - ASKED_FOR
        if foreign:
            raise UsageError(f"{module}.{name} asks for {', '.join(sorted(foreign))}")
        ship(folder, FOR_ANOTHER, module, name, made)
    return len(with_signature)


def _undefined(code: bytes) -> set[str]:
    """Names that an object file of ELF for 64 bits asks for: symbols without a section."""
    (sections,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    heads = [struct.unpack_from("<IIQQQQII", code, sections + size * number) for number in range(count)]
    found = set()
    for _, kind, _, _, begin, length, link, _ in heads:
        texts = heads[link][4] if kind == _SYMBOLS else 0
        for at in range(begin, begin + length if kind == _SYMBOLS else begin, _SYMBOL.size):
            name, _, _, section = _SYMBOL.unpack_from(code, at)
            if name and not section:
                found.add(code[texts + name : code.index(b"\0", texts + name)].decode())
    return found


if __name__ == "__main__":
    os.umask(0o022)
    sys.stdout.write(f"{make(Path(sys.argv[1]))} kernels for {os.environ['KAFKALOG_KERNELS_FOR']}\n")
