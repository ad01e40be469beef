"""Compiled functions as machine code on disk, which processes use without numba.

numba takes a third of a second to import and to load what it has cached; the machine code alone takes a hundredth.  A
process that compiles a kernel, or finds it in numba's cache, keeps its machine code in a file of its own; the name of
the file tells the machine, the versions and the sources that it was made from.  A wheel brings machine code for kinds
of processors (`levels`), so that nothing has to be compiled where one of these fits.  Nothing here imports numba.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from zlib import crc32

from kafkalog.classes import dataclass
from kafkalog.machine_code.levels import levels_here, processor

__all__ = ["StoredKernel", "fingerprint", "keep", "ship", "shipped", "stored", "where_stored"]

_HERE = os.path.dirname(os.path.realpath(__file__))
_SHIPPED = _HERE
"""What came with the installation: a folder for each level that a wheel has, nothing in a checkout"""
_CODEC = os.path.join(os.path.dirname(_HERE), "codec")
_BESIDE = os.path.join(_CODEC, "kernels", "__pycache__")
_MAGIC = b"kafkalog kernel 2\n"
_CHECKSUM_DIGITS = 8
_MOST_BYTES = 16 << 20
_SUFFIX = ".kernel"
_KEPT = 4
"""Files of one kernel that stay: of other machines or versions that share the place."""


@dataclass(frozen=True)
class StoredKernel:
    """Machine code, the name of its function in it, and the numba signature of that."""

    symbol: str
    signature: str
    code: bytes


def _sources() -> Iterator[tuple[str, int, int]]:
    """Path, size and time of all that kernels are made from: they freeze layouts and limits into their code."""
    waiting = [_CODEC, _HERE]
    while waiting:
        with os.scandir(waiting.pop()) as found:
            for each in found:
                if each.is_dir(follow_symlinks=False):
                    waiting.append(each.path)
                elif each.name.endswith(".py"):
                    about = each.stat()
                    yield each.path, about.st_size, about.st_mtime_ns


def _stamp(module: str) -> tuple[str, int, int]:
    """Path, size and time of the file in which a package says its version."""
    found = find_spec(module)
    if found is None or found.origin is None:
        return module, 0, 0
    path = os.path.join(os.path.dirname(found.origin), "_version.py")
    about = os.stat(path)
    return path, about.st_size, about.st_mtime_ns


def _machine() -> object:
    """What tells one kind of processor from another, for which numba makes other code."""
    found: object = processor()
    if not found:
        from llvmlite import binding

        found = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return found


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """16 hexadecimal digits that are others for another processor, Python, numba, llvmlite or source of ours."""
    compilers = _stamp("numba"), _stamp("llvmlite")
    made_from = repr((_machine(), sys.implementation.cache_tag, compilers, sorted(_sources()))).encode()
    return f"{crc32(made_from):08x}{crc32(made_from[::-1], 1):08x}"


def _places() -> Iterator[str]:
    """Where files may be, the best place first: numba's choice if it is given, beside the sources, the user's cache."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield os.path.join(given, "kafkalog")
        return
    yield _BESIDE
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(cache):  # else there is no home
        yield os.path.join(cache, "kafkalog")


def _name(module: str, function: str, digits: str) -> str:
    return f"{module}.{function}.{digits}.kernel"


def _is_ours(about: os.stat_result) -> bool:
    """Whether only the user, root or the owner of this package can have written a file: it will be run."""
    owners = {0, os.geteuid(), os.stat(__file__).st_uid}
    others_write = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(about.st_mode) and about.st_uid in owners and not others_write


def stored(module: str, function: str) -> StoredKernel | None:
    """The machine code of a kernel for this machine; None if no file has it, whole and ours."""
    found = _found(module, function)
    return None if found is None else found[1]


def where_stored(module: str, function: str) -> str | None:
    """The file that has it."""
    found = _found(module, function)
    return None if found is None else found[0]


def _found(module: str, function: str) -> tuple[str, StoredKernel] | None:
    with suppress(OSError, ImportError):
        for level in levels_here():
            with suppress(OSError, ValueError, RecursionError):
                path = _shipped_path(_SHIPPED, level, module, function)
                with open(path, "rb") as file:
                    return path, _read(file.read(), _shipped_name(level, module, function))
        name = _name(module, function, fingerprint())
        for place in _places():
            with suppress(OSError, ValueError, RecursionError):
                path = os.path.join(place, name)
                return path, _read(_bytes_of_ours(path), name)
    return None


@lru_cache(maxsize=1)
def _kind_of_sources() -> str:
    """8 hexadecimal digits that are the same wherever the same sources are installed."""
    found = sorted((os.path.relpath(path, os.path.dirname(_HERE)), size) for path, size, _time in _sources())
    return f"{crc32(repr(found).encode()):08x}"


def _shipped_path(folder: str, level: str, module: str, function: str) -> str:
    return os.path.join(folder, level, f"{module}.{function}{_SUFFIX}")


def _shipped_name(level: str, module: str, function: str) -> str:
    return f"{module}.{function}.{level}.{_kind_of_sources()}"


def ship(folder: str, level: str, module: str, function: str, kernel: StoredKernel) -> None:
    """Write a kernel that was compiled for a level to where a wheel has it below `folder`."""
    _write(_shipped_path(folder, level, module, function), _encoded(_shipped_name(level, module, function), kernel))


def shipped() -> dict[tuple[str, str], str]:
    """Module and name -> the file of each kernel that came with this installation and that this machine can run."""
    for level in levels_here():
        found = {}
        folder = os.path.join(_SHIPPED, level)
        for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            module, _, name = file.removesuffix(_SUFFIX).partition(".")
            if where_stored(module, name) == os.path.join(folder, file):
                found[module, name] = os.path.join(folder, file)
        if found:
            return found
    return {}


def _bytes_of_ours(path: str) -> bytes:
    """Opened once: what was looked at is what is read, whatever gets the name meanwhile; `ValueError` if not ours."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not _is_ours(about) or about.st_size > _MOST_BYTES:
            raise ValueError("not ours")
        return file.read(about.st_size)


def _encoded(name: str, kernel: StoredKernel) -> bytes:
    """The file's content; its checksum covers all that follows it."""
    head = json.dumps({"name": name, "symbol": kernel.symbol, "signature": kernel.signature})
    body = head.encode() + b"\n" + kernel.code
    return _MAGIC + _checksum(body) + b"\n" + body


def _checksum(body: bytes) -> bytes:
    return f"{crc32(body):0{_CHECKSUM_DIGITS}x}".encode()


def _read(data: bytes, name: str) -> StoredKernel:
    """What a file of this name holds; `ValueError` if it is not what is written there, to the last bit."""
    begins = len(_MAGIC) + _CHECKSUM_DIGITS + 1
    if data[:begins] != _MAGIC + _checksum(data[begins:]) + b"\n":
        raise ValueError("not whole")
    head, _, code = data[begins:].partition(b"\n")
    told = json.loads(head)
    match told:
        case {"name": str(its_name), "symbol": str(symbol), "signature": str(signature)} if its_name == name:
            return StoredKernel(symbol, signature, code)
    raise ValueError("not this kernel")


def keep(module: str, function: str, kernel: StoredKernel) -> str | None:
    """Keep the machine code in the first place that can be written; that file, or None."""
    with suppress(OSError, ImportError):
        name = _name(module, function, fingerprint())
        for place in _places():
            with suppress(OSError):
                path = os.path.join(place, name)
                _write(path, _encoded(name, kernel))
                with suppress(OSError):  # another process may be at the same
                    _forget_old(place, module, function)
                return path
    return None


def _write(path: str, data: bytes) -> None:
    """All of it at once, under a name of its own first: other processes may read meanwhile."""
    import tempfile  # takes longer than all that is imported here

    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".kernel")
    try:
        with os.fdopen(handle, "wb") as target:
            target.write(data)
            os.fchmod(handle, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _forget_old(place: str, module: str, function: str) -> None:
    with os.scandir(place) as entries:
        found = [each for each in entries if each.name.startswith(_name(module, function, "").removesuffix(_SUFFIX))]
    found.sort(key=lambda each: each.stat().st_mtime_ns)
    for each in found[:-_KEPT]:
        with suppress(FileNotFoundError):
            os.unlink(each.path)
