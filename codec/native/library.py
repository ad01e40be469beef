"""The library of compiled code, loaded once for each process. Without it, plain Python does the same work."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Mapping
from functools import lru_cache

from kafkalog.codec.common.errors import StorageError

__all__ = ["CHOICE", "PATH", "check_streams", "is_there", "library"]

CHOICE = "KAFKALOG_NATIVE"
"""Environment variable with the path of another build of the library, or `none` to use no compiled code."""
PATH = os.environ.get(CHOICE) or os.path.join(os.path.dirname(__file__), "libkafkalog.so.1")


def is_there() -> bool:
    """Whether there is a library for this machine and it may be used."""
    return PATH != "none" and _is_usable(PATH)


@lru_cache(maxsize=2)
def _is_usable(path: str) -> bool:
    return sys.byteorder == "little" and ctypes.sizeof(ctypes.c_void_p) == 8 and os.path.exists(path)


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """Load the library of compiled code; later calls return the same object. Raises `StorageError` if it cannot be
    loaded, or was built from other declarations.
    """
    from kafkalog.codec.native.layout import constants

    try:
        loaded = ctypes.CDLL(PATH)
        count = ctypes.c_int64.in_dll(loaded, "kafkalog_constant_count").value
        values = list((ctypes.c_int64 * count).in_dll(loaded, "kafkalog_constants"))
    except (OSError, ValueError) as error:
        reason = f"the compiled code cannot be loaded: {error}; install kafkalog again"
        raise StorageError(errno.ENOEXEC, reason, PATH) from error
    _compare(values, constants())
    return loaded


@lru_cache(maxsize=1)
def check_streams() -> None:
    """Raise `StorageError` if the library was built with other constants about compressed streams than the declared
    ones. A success is cached.
    """
    from kafkalog.codec.native.layout import constants, stream_constants

    loaded, named = library(), constants() | stream_constants()
    _compare(list((ctypes.c_int64 * len(named)).in_dll(loaded, "kafkalog_constants")), named)


def _compare(values: list[int], named: Mapping[str, int]) -> None:
    if values[: len(named)] != list(named.values()):
        reason = "the compiled code was built from other declarations than these; install kafkalog again"
        raise StorageError(errno.ENOEXEC, reason, PATH)
