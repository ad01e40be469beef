"""The five compressions as Kafka writes and reads them, all under `Limits`.

`decompress` raises `FormatError` (code `decompression_failed`) for a stream that Kafka's readers refuse, and
`LimitExceeded` before more memory is spent than allowed.  A library is loaded with the first stream that needs it.
"""

from __future__ import annotations

from kafkalog.codec.compression._errors import too_large
from kafkalog.codec.errors import FormatError, LimitExceeded
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import Codec

__all__ = ["compress", "decompress"]

Bytes = bytes | memoryview


def decompress(codec: int, data: Bytes, limits: Limits = DEFAULT_LIMITS, *, magic: int = 2) -> Bytes:
    """The records of a batch (or the message set of a wrapper) from its compressed bytes."""
    try:
        return _decompress(codec, data, limits, magic)
    except LimitExceeded as error:
        if error.limit != "decompressed_batch_bytes":
            raise
        raise too_large(Codec(codec).label, limits, _most_bytes(codec, data)) from None


def _most_bytes(codec: int, data: Bytes) -> int | None:
    """Bytes that a stream decompresses to at most, from the sizes that it declares; None if it does not tell."""
    match codec:
        case Codec.GZIP:
            from kafkalog.codec.compression import gzip

            return gzip.most_bytes(data)
        case Codec.SNAPPY:
            from kafkalog.codec.compression import snappy

            return snappy.most_bytes(data)
        case Codec.LZ4:
            from kafkalog.codec.compression import lz4

            return lz4.most_bytes(data)
        case Codec.ZSTD:
            from kafkalog.codec.compression import zstd

            return zstd.most_bytes(data)
    return None


def _decompress(codec: int, data: Bytes, limits: Limits, magic: int) -> Bytes:
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            from kafkalog.codec.compression import gzip

            return gzip.decompress(data, limits)
        case Codec.SNAPPY:
            from kafkalog.codec.compression import snappy

            return snappy.decompress(data, limits)
        case Codec.LZ4:
            from kafkalog.codec.compression import lz4

            return lz4.decompress(data, limits, check_header=magic != 0)
        case Codec.ZSTD if magic >= 2:
            from kafkalog.codec.compression import zstd

            return zstd.decompress(data, limits)
    raise _undefined(codec, magic)


def compress(codec: Codec | int, data: Bytes, *, level: int | None = None, magic: int = 2) -> bytes:
    """Compress in the shape Kafka's producer writes; `level` as in `compression.<codec>.level`, None is the default."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            from kafkalog.codec.compression import gzip

            return gzip.compress(data, level)
        case Codec.SNAPPY:
            from kafkalog.codec.compression import snappy

            return snappy.compress(data)
        case Codec.LZ4:
            from kafkalog.codec.compression import lz4

            return lz4.compress(data, level, broken_header_checksum=magic == 0)
        case Codec.ZSTD if magic >= 2:
            from kafkalog.codec.compression import zstd

            return zstd.compress(data, level)
    raise _undefined(codec, magic)


def _undefined(codec: int, magic: int) -> FormatError:
    return FormatError(f"compression {codec} is not defined for magic {magic}", code="codec_unknown")
