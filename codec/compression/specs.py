"""The table of compressions: for each its number, its name, what it can do, and the module that runs it.

A compression is added here, with a module beside this one that has the functions of `StreamFormat`.  Everything else
that depends on a compression asks this table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.limits import Limits

__all__ = ["LAST_CODECS", "SPECS", "Codec", "CodecSpec", "StreamFormat", "codec_spec"]

Bytes = bytes | memoryview


class Codec(enum.IntEnum):
    """Compression of a batch, bits 0-2 of its attributes (`CompressionType`)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """Kafka's name in lower case."""
        return self.name.lower()


class StreamFormat(Protocol):
    """Functions of a compression's module."""

    def decompress(self, data: Bytes, limits: Limits, *, magic: int) -> Bytes:
        """Content of a stream, as Kafka's readers of that magic read it.

        Raises `FormatError` for a stream that they refuse, and `LimitExceeded` before more memory than allowed is
        spent.
        """

    def compress(self, data: Bytes, level: int | None, *, magic: int) -> bytes:
        """A stream in the shape that Kafka's producer writes; None is the default level."""

    def most_bytes(self, data: Bytes) -> int | None:
        """Bytes of the content at most, from the sizes that the stream declares; None if it declares none."""

    def before_damage(self, data: bytes, limits: Limits) -> bytes:
        """The first bytes of the content, as far as they can be decompressed; all of them if the stream is sound."""


class CodecSpec(Struct, frozen=True, kw_only=True):
    """One compression."""

    codec: Codec
    stream: Callable[[], StreamFormat]
    """its module, which is imported with the first stream"""
    first_magic: int = 0
    """the first message format in which consumers accept it"""
    levels: tuple[int, int] | None = None
    """the lowest and the highest level of `compression.<name>.level`; None if there are no levels"""
    checks_content: bool = False
    """a stream has a checksum of its content"""

    def is_defined(self, magic: int) -> bool:
        """Whether batches of this magic may have this compression."""
        return magic >= self.first_magic


def _uncompressed() -> StreamFormat:
    from kafkalog.codec.compression import uncompressed

    return uncompressed


def _gzip() -> StreamFormat:
    from kafkalog.codec.compression import gzip

    return gzip


def _snappy() -> StreamFormat:
    from kafkalog.codec.compression import snappy

    return snappy


def _lz4() -> StreamFormat:
    from kafkalog.codec.compression import lz4

    return lz4


def _zstd() -> StreamFormat:
    from kafkalog.codec.compression import zstd

    return zstd


SPECS: Mapping[Codec, CodecSpec] = {
    spec.codec: spec
    for spec in (
        CodecSpec(codec=Codec.NONE, stream=_uncompressed),
        CodecSpec(codec=Codec.GZIP, stream=_gzip, levels=(1, 9), checks_content=True),
        CodecSpec(codec=Codec.SNAPPY, stream=_snappy),
        CodecSpec(codec=Codec.LZ4, stream=_lz4, levels=(1, 17)),
        CodecSpec(codec=Codec.ZSTD, stream=_zstd, first_magic=2, levels=(-(2**17), 22)),
    )
}
"""Every compression; levels as `GzipCompression`, `Lz4Compression` and `ZstdCompression` have them."""
LAST_CODECS: Mapping[int, Codec] = {
    magic: max(codec for codec, spec in SPECS.items() if spec.is_defined(magic)) for magic in (0, 1, 2)
}
"""By magic the highest number of a compression; consumers open nothing above it."""


def codec_spec(codec: int) -> CodecSpec | None:
    """The entry of a compression; None if the number is not defined."""
    try:
        return SPECS[Codec(codec)]
    except ValueError:
        return None
