"""Builds the library of compiled code: `release/native.py` puts it beside its sources in `codec/native`.

Only the standard library is used, because this runs before anything is installed.  The compiler is `CC`, else `cc`,
else Zig (the package `ziglang`), which also builds for other machines.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "HERE", "LIBRARY", "NO_COMPILER", "SANITIZED", "BuildError", "build", "compiler", "is_current", "provide", "zig",
    "zig_target",
]  # fmt: skip

HERE = Path(__file__).resolve().parents[1] / "codec" / "native"
LIBRARY = "libkafkalog.so.1"
NO_COMPILER = (
    "there is no C compiler, so kafkalog works without compiled code, which takes longer on large logs; to change "
    "that, install one (on Debian and Ubuntu: gcc and libc6-dev) or the package ziglang, and install kafkalog again"
)
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-fno-omit-frame-pointer")
"""Options of a library that ends the process at the first access outside of what it was given."""
_OPTIONS = (
    "-std=c11", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-O3", "-fwrapv", "-fPIC", "-shared", "-fvisibility=hidden",
    "-Wall", "-Wextra",
)  # fmt: skip
_MARK = "kafkalog sources "


class BuildError(Exception):
    """The compiler refuses the sources; the text says what it printed."""


def compiler() -> list[str] | None:
    """Return the first words of a command that compiles C; None if there is no compiler. The environment variable CC
    takes precedence.
    """
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    return zig() if importlib.util.find_spec("ziglang") is not None else None


def zig(target: str | None = None) -> list[str]:
    """The beginning of a command that compiles C with the package `ziglang`, for another machine if one is given."""
    return [sys.executable, "-m", "ziglang", "cc", *([] if target is None else ["-target", target])]


def _sources() -> list[Path]:
    return sorted([*HERE.glob("*.c"), *HERE.glob("*.h")])


def _digest(options: Sequence[str]) -> str:
    """What the library holds of the sources and options that it was made from."""
    digest = hashlib.sha256(" ".join(options).encode())
    for path in _sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return _MARK + digest.hexdigest()


def is_current(library: Path, more: Sequence[str] = ()) -> bool:
    """Whether a library was made from the present sources with the present options."""
    return library.is_file() and _digest([*_OPTIONS, *more]).encode() in library.read_bytes()


def build(library: Path, command: Sequence[str], more: Sequence[str] = ()) -> None:
    """Compile the library `library` with `command` and the options `more`. An existing file is replaced only after the
    compiler has succeeded. Raises `BuildError` if it fails.
    """
    options = [*_OPTIONS, *more]
    files = [str(path) for path in _sources() if path.suffix == ".c"]
    with tempfile.TemporaryDirectory(prefix="kafkalog-", dir=library.parent) as temporary:
        made = Path(temporary) / library.name
        mark = f'-DSOURCES="{_digest(options)}"'
        # Zig looks for undefined behavior in its own way unless it is told not to
        quiet = ["-fno-sanitize=undefined"] if "ziglang" in command and not more else []
        small = [] if more else ["-s"]  # no names but those that Python asks for
        whole = [*command, *options, *quiet, *small, mark, "-o", str(made), *files]
        done = subprocess.run(whole, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr.strip()}")
        made.replace(library)


def zig_target(platform: str) -> str:
    """What Zig calls the machine and the oldest C library of a platform tag such as `manylinux_2_17_aarch64`."""
    major, minor, machine = platform.removeprefix("manylinux_").split("_", 2)
    return f"{machine}-linux-gnu.{major}.{minor}"


def provide(library: Path, platform: str | None = None) -> None:
    """Build the library for this machine if it is not current, or in any case for a platform tag. If there is no
    compiler, remove an existing library and print this to stderr.

    Raises `BuildError` if the compiler fails.
    """
    command = compiler() if platform is None else zig(zig_target(platform))
    if command is None:
        library.unlink(missing_ok=True)
        print(f"kafkalog: {NO_COMPILER}", file=sys.stderr)
    elif platform is not None or not is_current(library):
        build(library, command)


def main() -> int:
    """Build the library if it is not current. Return the exit code: 0, or 1 if the compiler fails; errors are printed
    to stderr.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE / LIBRARY)
    parser.add_argument("--platform", help="build with Zig for this platform tag, such as manylinux_2_17_aarch64")
    given = parser.parse_args()
    try:
        provide(given.output, given.platform)
    except BuildError as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
