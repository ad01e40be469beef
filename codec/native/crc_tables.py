"""Tables of CRC-32C and CRC-32 for C. `python -m kafkalog.codec.native.crc_tables` prints `crc_tables.h`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

__all__ = ["header_text"]

_CRC32C, _CRC32 = 0x82F63B78, 0xEDB88320
"""Polynomials with reflected bits."""
_REGISTER = 16
_STEP = 32
"""Bytes that one stream processes in a round of `blocks` in `crc.c`."""
_NUMBERS_IN_A_LINE = 9


def _byte_tables(polynomial: int, count: int) -> list[list[int]]:
    """Return `count` tables of 256 entries for a checksum with the bit-reversed `polynomial`. Entry b of table n is the
    checksum of byte b followed by n zero bytes, with start value 0 and without the final inversion.
    """
    first = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        first.append(value)
    tables = [first]
    for _ in range(1, count):
        tables.append([value >> 8 ^ first[value & 0xFF] for value in tables[-1]])
    return tables


def _power(polynomial: int, exponent: int) -> int:
    """Return x to the power `exponent` modulo the polynomial, in the form that carry-less multiplication needs: bits
    reflected, and shifted left by one bit.
    """
    value = 0x80000000
    for _ in range(exponent):
        value = value >> 1 ^ (polynomial if value & 1 else 0)
    return value << 1


def _fold_keys(polynomial: int, registers: int) -> list[int]:
    """Return the two factors that move the lower and the upper half of a 16-byte register past `registers` registers of
    data.
    """
    bits = 8 * _REGISTER * registers
    return [_power(polynomial, bits + 32), _power(polynomial, bits - 32)]


def _numbers(values: list[int], width: int) -> str:
    words = [f"0x{value:0{width}x}," for value in values]
    lines = (words[start : start + _NUMBERS_IN_A_LINE] for start in range(0, len(words), _NUMBERS_IN_A_LINE))
    return "\n".join(f"    {' '.join(line)}" for line in lines)


def _parts() -> Iterator[str]:
    yield "/* Written by `python -m kafkalog.codec.native.crc_tables`; do not edit. */\n#include <stdint.h>\n"
    for name, polynomial, count in (("CRC32C", _CRC32C, 8), ("CRC32", _CRC32, 16)):
        tables = "\n},{\n".join(_numbers(table, 8) for table in _byte_tables(polynomial, count))
        yield f"static const uint32_t {name}_TABLES[{count}][256] = {{{{\n{tables}\n}}}};\n"
    keys = {
        "CRC32C_FOLD_1": _fold_keys(_CRC32C, 1), "CRC32C_FOLD_3": _fold_keys(_CRC32C, 3),
        "CRC32_FOLD_1": _fold_keys(_CRC32, 1), "CRC32_FOLD_4": _fold_keys(_CRC32, 4),
    }  # fmt: skip
    for rounds in (32, 8, 2):
        moves = [_power(_CRC32C, 8 * _STEP * rounds * streams - 32) for streams in (1, 2, 3)]
        keys[f"CRC32C_MOVE_{rounds}"] = moves
    yield "#if defined(__x86_64__)\n"
    for name, values in keys.items():
        yield f"static const uint64_t {name}[{len(values)}] = {{\n{_numbers(values, 9)}\n}};\n"
    yield "#endif\n"


def header_text() -> str:
    """Return the text of `crc_tables.h`."""
    return "".join(_parts())


if __name__ == "__main__":
    sys.stdout.write(header_text())
