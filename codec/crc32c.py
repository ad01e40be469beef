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
    """Checksum of `data` as an unsigned 32-bit number, continuing from `value`."""
    return (_function or _load())(data, value)


def _load() -> Function:
    """The library's function, from its extension module alone where that is found.

    The package around it reads the versions of what is installed and loads a parser of command lines, 10 ms in all.
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
    from crc32c import crc32c as found

    _function = found
    return found
