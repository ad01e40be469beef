"""Table of the compressions: number, name, capabilities and module of each. To add one, add an entry here, and a module
beside this one with the functions of `StreamFormat`. All other code that depends on a compression looks it up here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.common.limits import Limits

__all__ = [
    "KAFKA_SPECS", "KNOWN_CODECS", "LEVEL_SETTINGS", "SPECS", "Codec", "CodecSpec", "StreamFormat", "codec_spec",
    "is_known_codec",
]  # fmt: skip

Bytes = bytes | memoryview


class Codec(enum.IntEnum):
    """Compression of a batch: bits 0-2 of its attributes (`CompressionType`)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """Kafka's name of the compression, in lower case."""
        return self.name.lower()


class StreamFormat(Protocol):
    """Functions of a compression's module."""

    def decompress(self, data: Bytes, limits: Limits, *, magic: int) -> Bytes:
        """Decompress a stream as Kafka's readers of batches of this magic do. Raises `FormatError` for a stream that
        they reject, and `LimitExceeded` before more memory is used than allowed.
        """

    def compress(self, data: Bytes, level: int | None, *, magic: int) -> bytes:
        """Compress in the form that Kafka's producer writes; `level` None is the default level."""

    def most_bytes(self, data: Bytes) -> int | None:
        """Return the most bytes that the content can have, from the sizes in the stream; None if they are unknown."""

    def before_damage(self, data: bytes, limits: Limits) -> bytes:
        """Decompress as much of the start of a damaged stream as possible, or all of a sound one that a producer wrote;
        at most `limits.decompressed_batch_bytes` bytes.
        """


class CodecSpec(Struct, frozen=True, kw_only=True):
    """One compression."""

    codec: Codec
    stream: Callable[[], StreamFormat]
    """function that imports and returns its module"""
    first_magic: int = 0
    """first message format that may have it"""
    is_kafkas: bool = True
    """whether Kafka has it; a broker or client refuses the number of another one"""
    levels: tuple[int, int] | None = None
    """lowest and highest value of `compression.<name>.level`; None if there are no levels"""
    checks_content: bool = False
    """whether a stream has a checksum of its content"""

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
"""All compressions. Levels are those of `GzipCompression`, `Lz4Compression` and `ZstdCompression`."""
KAFKA_SPECS: Mapping[int, CodecSpec] = {codec: spec for codec, spec in SPECS.items() if spec.is_kafkas}
"""The compressions that Kafka has."""
LEVEL_SETTINGS = tuple(f"compression.{spec.codec.label}.level" for spec in KAFKA_SPECS.values() if spec.levels)
"""Names of Kafka's settings for the levels of compressions."""
KNOWN_CODECS: Mapping[int, int] = {
    magic: sum(1 << codec for codec, spec in SPECS.items() if spec.is_defined(magic)) for magic in (0, 1, 2)
}
"""By magic a number with the bit of each compression that batches may have; consumers reject batches with another."""


def is_known_codec(codec: int, magic: int) -> bool:
    """Whether batches of this magic may have this compression. For a magic other than 0, 1 and 2 the answer is that for
    magic 2.
    """
    return bool(KNOWN_CODECS.get(magic, KNOWN_CODECS[2]) >> codec & 1)


def codec_spec(codec: int) -> CodecSpec | None:
    """Return the entry of a compression; None if the number is not defined."""
    try:
        return SPECS[Codec(codec)]
    except ValueError:
        return None
