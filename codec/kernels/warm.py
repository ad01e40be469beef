"""All kernels compiled and kept, so that no later process of this machine spends time on it."""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from pkgutil import iter_modules

from kafkalog.codec.errors import StorageError
from kafkalog.machine_code.stored import shipped

__all__ = ["warm"]


def warm() -> dict[tuple[str, str], str]:
    """Module and name of each kernel -> the file with its machine code; takes some seconds the first time.

    What came with the installation for this machine is ready as it is.  Raises `StorageError` if there is no place that
    can be written.
    """
    brought = shipped()
    if brought:
        return brought
    package = __package__ or ""
    for each in iter_modules(sys.modules[package].__path__):
        import_module(f"{package}.{each.name}")
    from kafkalog.codec.kernels.keeping import keep_compiled

    kept = keep_compiled()
    found = {kernel: path for kernel, path in kept.items() if path is not None}
    if len(found) < len(kept):
        raise StorageError(
            errno.EROFS,
            f"{len(kept) - len(found)} of {len(kept)} compiled kernels could not be kept: set NUMBA_CACHE_DIR to a "
            "directory that can be written",
        )
    return found
