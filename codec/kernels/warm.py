"""All kernels compiled and kept, so that no later process of this machine spends time on it."""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from kafkalog.codec.errors import StorageError

__all__ = ["warm"]


def warm() -> dict[str, Path]:
    """Kernel -> the file that has its machine code; takes some seconds the first time on a machine.

    Raises `StorageError` if there is no place that can be written.
    """
    package = __package__ or ""
    for each in iter_modules(sys.modules[package].__path__):
        import_module(f"{package}.{each.name}")
    from kafkalog.codec.kernels.jit import kept

    lost = sorted(name for name, path in kept.items() if path is None)
    if lost:
        raise StorageError(
            errno.EROFS,
            f"{len(lost)} of {len(kept)} compiled kernels could not be kept: set NUMBA_CACHE_DIR to a directory that "
            "can be written",
        )
    return {name: path for name, path in kept.items() if path is not None}
