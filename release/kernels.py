"""Compiled kernels for kinds of processors, for a wheel to bring along: `kernels.py FOLDER`, a folder for each kind.

Each kind is compiled in a process of its own, with a cache of its own.  The code holds nothing of Python's and asks for
a few functions of the C library alone, so that it fits any version of Python, numba and llvmlite; how it is called is
that of the numba that made it, so a probe has to show first that kafkalog calls it in the same way.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from kafkalog.codec import kernels
from kafkalog.machine_code.levels import LEVEL_ASKED_FOR, LEVELS
from kafkalog.machine_code.native import ALLOCATIONS, NEVER_CALLED
from kafkalog.machine_code.stored import ship

ASKED_FOR = frozenset({"memcpy", "memmove", "memset", "memcmp", "pread", "preadv", "bcmp", *NEVER_CALLED})
"""What machine code may ask for: functions of the C library, and those that `native` gives it and nobody calls."""
_SYMBOLS, _SYMBOL = 2, struct.Struct("<IBBH16x")


def environment(level: str, cache: str) -> dict[str, str]:
    """The settings of a process that compiles for a level: numba's own, which have to say the same, and ours."""
    features = ",".join(f"+{each}" for each in LEVELS[level])
    return {
        LEVEL_ASKED_FOR: level, "NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": cache,
    }  # fmt: skip


def make(folder: Path, level: str) -> None:
    """Compile every kernel for the level that the environment names."""
    for each in iter_modules(kernels.__path__):
        if each.name != "probe":
            import_module(f"{kernels.__name__}.{each.name}")
    from kafkalog.codec.kernels.jit import with_signature
    from kafkalog.codec.kernels.keeping import machine_code

    for module, name in with_signature:
        made = machine_code(module, name)
        if made is None or any(each in made.code for each in ALLOCATIONS):
            raise SystemExit(f"kernels.py: {module}.{name} has no machine code that can be called elsewhere")
        foreign = undefined(made.code) - ASKED_FOR
        if foreign:
            raise SystemExit(f"kernels.py: {module}.{name} asks for {', '.join(sorted(foreign))}")
        ship(str(folder), level, module, name, made)
    print(f"{len(with_signature)} kernels for {level}")


def undefined(code: bytes) -> set[str]:
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


def main() -> int:
    """Compile for each level into a folder of its name; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    level = os.environ.get(LEVEL_ASKED_FOR)
    if level is not None:
        make(folder, level)
        return 0
    from kafkalog.codec.kernels.keeping import convention_holds

    if not convention_holds():
        raise SystemExit("kernels.py: this numba calls compiled code in another way than kafkalog does")
    for each in LEVELS:
        with tempfile.TemporaryDirectory(prefix="kafkalog-") as cache:
            command, settings = [sys.executable, __file__, str(folder)], os.environ | environment(each, cache)
            made = subprocess.run(command, env=settings, check=False)
        if made.returncode:
            return made.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
