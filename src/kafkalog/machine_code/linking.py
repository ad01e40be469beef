"""An object file's machine code, put into memory where it can run: ELF for x86-64, which numba makes on Linux.

numba compiles for the large code model, in which code names whatever it needs by a whole address of 64 bits; so linking
is copying sections and filling in addresses.  LLVM's own linker takes 50 ms to load, more than most commands do with
their kernels; it is asked only where something else than such addresses is found (`native`).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from functools import lru_cache
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PROT_EXEC, PROT_READ, mmap
from typing import Any, NamedTuple

__all__ = ["Image", "NotLinkableError"]

_HEAD, _FOR_THIS = struct.Struct("<16sHHIQQQIHHHHHH"), (b"\x7fELF\x02\x01", 1, 62)
"""64 bits, little-endian; to be linked; x86-64"""
_SECTION, _SYMBOL, _RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QIIq")
_ADDRESS = struct.Struct("<Q")
_CONTENT, _SYMBOLS, _RELOCATIONS = 1, 2, 4
"""kinds of sections"""
_LOADED, _COMMON, _WHOLE_ADDRESS = 2, 0xFFF2, 1


class NotLinkableError(ValueError):
    """An object file has something that is not linked here."""


class _Section(NamedTuple):
    kind: int
    flags: int
    begin: int
    size: int
    link: int
    info: int
    align: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int
    size: int


@lru_cache(maxsize=1)
def _libraries() -> Any:
    """What the process has loaded: the C library and Python."""
    return ctypes.CDLL(None, use_errno=True)


class Image:
    """Code that can be run, and not be written any more, as long as this object lives.

    `elsewhere`: name -> address of what is not the C library's or Python's.  Raises `NotLinkableError` for what is not
    linked here, OSError if the system allows no such memory.
    """

    def __init__(self, code: bytes, elsewhere: Mapping[str, int]) -> None:
        self._code, self._elsewhere = code, elsewhere
        try:
            self._sections = self._read_sections()
            self._symbols = self._read_symbols()
            self._places, size = self._placed()
            self._memory = mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS)
            self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
            self._fill()
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise NotLinkableError("an object file that is not whole") from error
        if _libraries().mprotect(ctypes.c_void_p(self._base), ctypes.c_size_t(size), PROT_READ | PROT_EXEC) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def address(self, name: str) -> int:
        """Where a function of the object file is."""
        for symbol in self._symbols:
            if symbol.name == name and symbol.section in self._places:
                return self._address(symbol)
        raise NotLinkableError(f"no function {name}")

    def _read_sections(self) -> list[_Section]:
        ident, kind, machine, _, _, _, begin, _, _, _, _, size, count, _ = _HEAD.unpack_from(self._code)
        if (ident[:6], kind, machine) != _FOR_THIS or size != _SECTION.size:
            raise NotLinkableError("no object file of x86-64")
        heads = [_SECTION.unpack_from(self._code, begin + number * size) for number in range(count)]
        return [
            _Section(kind, flags, at, size, link, info, max(align, 1))
            for _, kind, flags, _, at, size, link, info, align, _ in heads
        ]

    def _content(self, section: _Section) -> bytes:
        return self._code[section.begin : section.begin + section.size]

    def _read_symbols(self) -> list[_Symbol]:
        table = next((section for section in self._sections if section.kind == _SYMBOLS), self._sections[0])
        names = self._content(self._sections[table.link])
        return [
            _Symbol(names[name : names.find(b"\0", name)].decode(), section, value, size)
            for name, _, _, section, value, size in _SYMBOL.iter_unpack(self._content(table))
        ]

    def _placed(self) -> tuple[dict[int | str, int], int]:
        """Number of a section, or name of what is common -> its offset in memory; how many bytes all take.

        Only sections with content are needed at run time; tables for unwinding are of another kind, and nothing is
        thrown through a kernel.
        """
        wanted: list[tuple[int | str, int, int]] = [
            (number, section.size, section.align)
            for number, section in enumerate(self._sections)
            if section.flags & _LOADED and section.kind == _CONTENT
        ]
        wanted += [(each.name, each.size, _ADDRESS.size) for each in self._symbols if each.section == _COMMON]
        places, end = dict[int | str, int](), 0
        for what, size, align in wanted:
            end += -end % align
            places[what] = end
            end += size
        return places, max(end, 1)

    def _fill(self) -> None:
        for number, section in enumerate(self._sections):
            if number in self._places:
                at = self._places[number]
                self._memory[at : at + section.size] = self._content(section)
        for section in self._sections:
            if section.kind == _RELOCATIONS and section.info in self._places:
                begin = self._places[section.info]
                for at, kind, number, addend in _RELOCATION.iter_unpack(self._content(section)):
                    if kind != _WHOLE_ADDRESS:
                        raise NotLinkableError(f"an address of kind {kind}")
                    _ADDRESS.pack_into(self._memory, begin + at, self._address(self._symbols[number]) + addend)

    def _address(self, symbol: _Symbol) -> int:
        if symbol.section in self._places:
            return self._base + self._places[symbol.section] + symbol.value
        if symbol.section == _COMMON:
            return self._base + self._places[symbol.name]
        if symbol.section or not symbol.name:
            raise NotLinkableError(f"{symbol.name or 'a symbol'} is in a section that is not loaded")
        if symbol.name in self._elsewhere:
            return self._elsewhere[symbol.name]
        try:
            found = ctypes.cast(getattr(_libraries(), symbol.name), ctypes.c_void_p).value
        except AttributeError as error:
            raise NotLinkableError(f"there is no function {symbol.name}") from error
        return found or 0
