"""A loop that reads a log into Arrow's buffers and believes every byte: what the work itself takes, as compiled code.

`preadv` in pieces of 2 MiB, CRC-32C of each batch, then key, value, offset and timestamp of each record to where Arrow
would have them, as copies or as views.  No length is compared with anything, no field can be null, and nothing but a
checksum is ever refused: for logs of whole, uncompressed batches without headers, which a benchmark has written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numba
import numpy as np

from kafkalog.codec.kernels.crc import checksum
from kafkalog.codec.kernels.jit import compiled, copy, load, load_big, store
from kafkalog.codec.limits import MIB
from kafkalog.codec.memory import own_pages

__all__ = ["BareLoop"]

_PIECE, _PAGE = 2 * MIB, 4096
_ROWS, _VALUE_BYTES = 65_536, 8 * MIB
"""Of one Arrow batch, as `to_arrow` has it."""
_SIZES = (16 * _ROWS, 2 * MIB, 16 * _ROWS, _VALUE_BYTES + 2 * MIB, 8 * _ROWS, 8 * _ROWS)
"""Bytes of the buffers: ends or views of keys, keys, the same of values, offsets, timestamps."""
_load8, _load32, _load64 = load[8], load_big[32], load_big[64]
_store32, _store64 = store[32], store[64]


@compiled(inline=True)
def _varint(position: int) -> tuple[int, int]:
    value, shift = numba.uint64(0), numba.uint64(0)
    byte = _load8(position)
    while byte >= numba.uint64(0x80):
        value |= (byte & numba.uint64(0x7F)) << shift
        shift += numba.uint64(7)
        position += 1
        byte = _load8(position)
    value |= byte << shift
    return numba.int64(value >> numba.uint64(1)) ^ -numba.int64(value & numba.uint64(1)), position + 1


@compiled()
def _decode_piece(address: int, size: int, has_views: bool, buffers: Any, filled: Any) -> int:
    """Take whole batches; how many bytes they have.  `filled`: rows, bytes of keys and of values, broken checksums."""
    keys, key_data, values, value_data, offsets, timestamps = buffers
    row, key_bytes, value_bytes = filled[0], filled[1], filled[2]
    position = 0
    while size - position >= 61:
        here = address + position
        whole = _load32(here + 8) + 12
        if whole > size - position:
            break
        if numba.int64(checksum(here + 21, whole - 21)) != numba.int64(_load32(here + 17)) & 0xFFFFFFFF:
            filled[3] += 1
        records, base_offset, base_timestamp = _load32(here + 57), _load64(here), _load64(here + 27)
        if row + records > _ROWS or value_bytes + whole > _VALUE_BYTES:
            row, key_bytes, value_bytes = 0, 0, 0
        following = here + 61
        for _ in range(records):
            length, cursor = _varint(following)
            following = cursor + length
            timestamp, cursor = _varint(cursor + 1)
            offset, cursor = _varint(cursor)
            key_size, cursor = _varint(cursor)
            if has_views:  # short ones are in the view itself
                _store64(keys + 16 * row, key_size)
                copy(keys + 16 * row + 4, cursor, key_size)
            else:
                copy(key_data + key_bytes, cursor, key_size)
                key_bytes += key_size
                _store32(keys + 4 * row, key_bytes)
            value_size, cursor = _varint(cursor + key_size)
            if has_views:
                _store32(values + 16 * row, value_size)
                _store32(values + 16 * row + 4, _load32(cursor))
                _store64(values + 16 * row + 8, cursor - address)
            else:
                copy(value_data + value_bytes, cursor, value_size)
                value_bytes += value_size
                _store32(values + 4 * row, value_bytes)
            _store64(offsets + 8 * row, base_offset + offset)
            _store64(timestamps + 8 * row, (base_timestamp + timestamp) * 1000)
            row += 1
        position += whole
    filled[0], filled[1], filled[2] = row, key_bytes, value_bytes
    return position


class BareLoop:
    """Reads logs again and again into the same memory: two sets of buffers in turn, as one is still being looked at."""

    def __init__(self, *, has_views: bool) -> None:
        self._has_views = has_views
        self._piece = own_pages(_PIECE, is_filled=True)
        self._memory = [[own_pages(size, is_filled=True) for size in _SIZES] for _ in range(2)]

    def read(self, log: Path) -> None:
        """All of a log."""
        view, start = memoryview(self._piece), _address(self._piece)
        sets = [tuple(_address(each) for each in some) for some in self._memory]
        filled, position, number = np.zeros(4, np.int64), 0, 0
        with log.open("rb", buffering=0) as file:
            while True:
                at = position % _PAGE
                size = os.preadv(file.fileno(), [view[at:]], position)
                before = int(filled[0])
                taken = _decode_piece(start + at, size, self._has_views, sets[number % 2], filled)
                if taken == 0:
                    break
                number += int(filled[0] < before)
                position += taken
        if filled[3] or position < log.stat().st_size:
            raise SystemExit(f"{log} is no log of whole, uncompressed batches")


def _address(memory: Any) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)
