"""Reads at positions of the files in the objects of a segment: the log in chunks, and each index."""

from __future__ import annotations

from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB
from kafkalog.codec.compression import decompress
from kafkalog.codec.model import Codec
from kafkalog.log.disk.remote_file import RemoteFile
from kafkalog.tiers.aiven.encryption import SegmentCipher
from kafkalog.tiers.aiven.manifest import Manifest
from kafkalog.tiers.file_parts import InMemory

__all__ = ["ChunkedLog", "part_of"]

_LARGEST_CHUNK = DEFAULT_LIMITS.decompressed_batch_bytes
_OVERHEAD = 64 * KIB
"""a chunk may be this much larger in the object than in the log, plus one percent"""


class ChunkedLog:
    """A log stored in chunks; `path` names its object in errors. If the chunks are compressed or encrypted, the last
    one read is kept in memory. Raises `StorageError` if the object has another size than the manifest says, or chunks
    are too large.
    """

    def __init__(self, file: RemoteFile, manifest: Manifest, cipher: SegmentCipher | None, path: str) -> None:
        self._file = file
        self._chunks = manifest.chunks
        self._is_compressed = manifest.is_compressed
        self._cipher = cipher
        self._path = path
        self._is_plain = cipher is None and not manifest.is_compressed
        self._kept: tuple[int, bytes] = (-1, b"")
        chunks = manifest.chunks
        if file.size != chunks.packed:
            raise StorageError(None, f"{file.size} bytes, and the manifest says {chunks.packed}", path)
        if self._is_plain and chunks.packed != chunks.size:
            raise StorageError(None, f"{chunks.packed} bytes of a plain log of {chunks.size} by the manifest", path)
        if not self._is_plain and (
            min(chunks.chunk_size, chunks.size) > _LARGEST_CHUNK
            or chunks.largest > chunks.chunk_size + chunks.chunk_size // 100 + _OVERHEAD
        ):
            detail = f"chunks of {chunks.chunk_size} bytes, of {chunks.largest} in the object, are more than is read"
            raise StorageError(None, detail, path)

    @property
    def size(self) -> int:
        """Size of the log."""
        return self._chunks.size

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes of the log from byte `position`: fewer at its end, none behind it.

        Only the chunks needed are read, decrypted and decompressed. Raises `StorageError` if the object cannot be read
        or a chunk is damaged.
        """
        length = min(length, self.size - position)
        if length <= 0:
            return b""
        if self._is_plain:
            return self._file.read(position, length)
        pieces = []
        for number in range(position // self._chunks.chunk_size, -(-(position + length) // self._chunks.chunk_size)):
            begins = number * self._chunks.chunk_size
            pieces.append(self._chunk(number)[max(position - begins, 0) : position + length - begins])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _chunk(self, number: int) -> bytes:
        kept, data = self._kept
        if kept != number:
            data = self._decoded(number)
            self._kept = number, data
        return data

    def _decoded(self, number: int) -> bytes:
        position, wanted = self._chunks.position(number), self._chunks.bytes_of(number)
        size = self._chunks.position(number + 1) - position
        data = self._file.read(position, size)
        try:
            if len(data) != size:
                raise FormatError(f"{len(data)} of {size} bytes are there")
            data = data if self._cipher is None else self._cipher.decrypt(data)
            if self._is_compressed:
                limits = replace(DEFAULT_LIMITS, decompressed_batch_bytes=wanted)
                data = bytes(decompress(Codec.ZSTD, data, limits))
            if len(data) != wanted:
                raise FormatError(f"it has {len(data)} bytes of the log instead of {wanted}")
        except FormatError as error:
            detail = f"chunk {number} at byte {position} cannot be read: {error.message}"
            raise StorageError(None, detail, self._path) from None
        return data

    def close(self) -> None:
        """Close the object."""
        self._kept = (-1, b"")
        self._file.close()


class _Part:
    """An unencrypted part of an object."""

    def __init__(self, file: RemoteFile, position: int, size: int) -> None:
        self._file = file
        self._position = position
        self._size = size

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._size

    def read(self, position: int, length: int) -> bytes:
        """Read from the part."""
        length = min(length, self._size - position)
        return self._file.read(self._position + position, length) if length > 0 else b""

    def close(self) -> None:
        """Close the object."""
        self._file.close()


def part_of(file: RemoteFile, position: int, size: int, cipher: SegmentCipher | None, path: str) -> RemoteFile:
    """Return the index at bytes `position` to `position + size` (exclusive) of the object `file`, which contains all
    indexes of a segment. If `cipher` is None or `size` is 0, the index is read from `file` on demand, and closing the
    result closes `file`. Otherwise it is decrypted into memory, and `file` is closed, also after an error.

    Raises `StorageError` if an encrypted index cannot be read or decrypted, or has more than `_LARGEST_CHUNK` bytes;
    `path` names the object in the message.
    """
    if cipher is None or not size:
        return _Part(file, position, size)
    try:
        if size > _LARGEST_CHUNK:
            raise StorageError(None, f"an encrypted index of {size} bytes is more than is read", path)
        return InMemory(cipher.decrypt(file.read(position, size)))
    except FormatError as error:
        raise StorageError(None, f"the index at byte {position} cannot be read: {error.message}", path) from None
    finally:
        file.close()
