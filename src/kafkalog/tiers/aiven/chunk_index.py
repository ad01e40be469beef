"""Positions of the chunks of a log in its object (`ChunkIndex`, `ChunkSizesBinaryCodec`).

All chunks of the log except the last have the same size. In the object they too have the same size, or, if compressed,
sizes listed in the manifest: packed, compressed, and encoded as text.
"""

from __future__ import annotations

import base64
import binascii
from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.compression import decompress
from kafkalog.codec.model import Codec
from kafkalog.tiers.aiven.json_fields import natural, text

__all__ = ["ChunkIndex", "read_chunk_index"]

_LARGEST = (1 << 31) - 1
_COUNT, _BASE, _WIDTH = 4, 4, 1
_SIZE = 4
_MOST = MIB
"""maximum number of chunks: those of the largest log in chunks of 2 KiB"""
_PACKED = replace(DEFAULT_LIMITS, decompressed_batch_bytes=_COUNT + _BASE + _WIDTH + _SIZE * _MOST)


class ChunkIndex(Struct, frozen=True, kw_only=True):
    """Sizes and positions of the chunks of a log, by chunk number."""

    size: int
    """size of the log"""
    chunk_size: int
    """size of each chunk in the log, except the last"""
    starts: Sequence[int] | None
    """positions of all chunks in the object, and its end; None if all but the last have `packed_size` bytes"""
    packed_size: int
    last_packed_size: int

    @property
    def count(self) -> int:
        """Number of chunks."""
        return -(-self.size // self.chunk_size)

    @property
    def packed(self) -> int:
        """Size of the object."""
        return self.position(self.count)

    @property
    def largest(self) -> int:
        """Size of the largest chunk in the object."""
        if self.starts is None:
            return max(self.packed_size if self.count > 1 else 0, self.last_packed_size)
        return max((after - at for at, after in zip(self.starts, self.starts[1:], strict=False)), default=0)

    def position(self, number: int) -> int:
        """Position of a chunk in the object. For the number after the last chunk, the end of the object."""
        if self.starts is not None:
            return self.starts[number]
        return number * self.packed_size if number < self.count else self._fixed_end()

    def _fixed_end(self) -> int:
        return (self.count - 1) * self.packed_size + self.last_packed_size if self.count else 0

    def bytes_of(self, number: int) -> int:
        """Size of a chunk in the log."""
        return min(self.chunk_size, self.size - number * self.chunk_size)


def read_chunk_index(fields: Mapping[str, Any]) -> ChunkIndex:
    """Build the chunk index from its JSON object in a manifest, of type `fixed` (equal chunks) or `variable` (listed
    sizes).

    Raises `FormatError` if a field is missing or wrong, the type is unknown, or the number of sizes contradicts the
    size of the log.
    """
    size, chunk_size = natural(fields, "originalFileSize"), natural(fields, "originalChunkSize")
    if not chunk_size:
        raise FormatError("chunks of 0 bytes")
    kind = text(fields, "type")
    if kind == "fixed":
        packed, last = natural(fields, "transformedChunkSize"), natural(fields, "finalTransformedChunkSize")
        chunk_index = ChunkIndex(
            size=size, chunk_size=chunk_size, starts=None, packed_size=packed, last_packed_size=last
        )
    elif kind == "variable":
        sizes = _sizes(text(fields, "transformedChunks"))
        chunk_index = ChunkIndex(
            size=size,
            chunk_size=chunk_size,
            starts=array("q", accumulate(sizes, initial=0)),
            packed_size=0,
            last_packed_size=0,
        )
        if len(sizes) != max(chunk_index.count, 1):
            raise FormatError(f"{len(sizes)} chunks, and a log of {size} bytes has {chunk_index.count} of {chunk_size}")
    else:
        raise FormatError(f"a chunk index of type {kind!r:.40}, which is none that is known (fixed, variable)")
    return chunk_index


def _sizes(encoded: str) -> array[int]:
    try:
        packed = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise FormatError("the sizes of the chunks are not base64") from None
    data = bytes(decompress(Codec.ZSTD, packed, _PACKED))
    count = int.from_bytes(data[:_COUNT], "big")
    if count == 1 and len(data) == _COUNT + _SIZE:
        return array("q", [_checked(int.from_bytes(data[_COUNT:], "big"))])
    head = _COUNT + _BASE + _WIDTH
    width = data[head - 1] if len(data) >= head else 0
    if not 1 <= width <= _SIZE or count < 2 or len(data) != head + (count - 1) * width + _SIZE:
        raise FormatError(f"the sizes of {count} chunks in {len(data)} bytes")
    base = int.from_bytes(data[_COUNT : _COUNT + _BASE], "big")
    places = range(head, len(data) - _SIZE, width)
    found = array("q", (_checked(base + int.from_bytes(data[at : at + width], "big")) for at in places))
    found.append(_checked(int.from_bytes(data[-_SIZE:], "big")))
    return found


def _checked(size: int) -> int:
    if size > _LARGEST:
        raise FormatError(f"a chunk of {size} bytes")
    return size
