"""CRC-32C (Castagnoli), the checksum of v2 batches and producer snapshots (`org.apache.kafka.common.utils.Crc32C`)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

__all__ = ["crc32c"]

Buffer = bytes | bytearray | memoryview
Function = Callable[[Buffer, int], int]
_function: Function | None = None


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32C of `data` as an unsigned 32-bit number. To continue a checksum, pass the checksum of the bytes
    before as `value`.
    """
    return (_function or _load())(data, value)


def _load() -> Function:
    """Import and return the function `crc32c`, and store it in `_function`. If possible, only its extension module is
    loaded: the package around it takes 10 ms more, because it reads the versions of installed packages and loads a
    command-line parser. Raises `ImportError` if the package is not installed.
    """
    global _function
    package = find_spec("crc32c")
    for place in (package and package.submodule_search_locations) or ():
        extension = FileFinder(place, (ExtensionFileLoader, EXTENSION_SUFFIXES)).find_spec("_crc32c")
        if extension is not None and extension.loader is not None:
            module = module_from_spec(extension)
            extension.loader.exec_module(module)
            _function = cast("Function", module.crc32c)
            return _function
    from crc32c import crc32c as function

    _function = function
    return function
