"""The five compressions as Kafka writes and reads them, all under `Limits`.

`decompress` raises `FormatError` (code `decompression_failed`) for a stream that Kafka's readers refuse, and
`LimitExceeded` before more memory is spent than allowed.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.codec.compression import gzip, lz4, snappy, zstd
from kafkalog.codec.errors import FormatError
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import Codec

__all__ = ["compress", "decompress"]

Bytes = bytes | memoryview

_DECOMPRESSORS: dict[int, Callable[[Bytes, Limits], Bytes]] = {
    Codec.NONE: lambda data, limits: bytes(data),
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: snappy.decompress,
    Codec.LZ4: lz4.decompress,
    Codec.ZSTD: zstd.decompress,
}


def decompress(codec: int, data: Bytes, limits: Limits = DEFAULT_LIMITS, *, magic: int = 2) -> Bytes:
    """The records of a batch (or the message set of a wrapper) from its compressed bytes."""
    if codec not in _DECOMPRESSORS or (codec == Codec.ZSTD and magic < 2):
        raise FormatError(f"compression {codec} is not defined for magic {magic}", code="codec_unknown")
    if codec == Codec.LZ4 and magic == 0:
        return lz4.decompress(data, limits, check_header=False)
    return _DECOMPRESSORS[codec](data, limits)


def compress(codec: Codec | int, data: Bytes, *, level: int | None = None, magic: int = 2) -> bytes:
    """Compress in the shape Kafka's producer writes; `level` as in `compression.<codec>.level`, None is the default."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return gzip.compress(data, level)
        case Codec.SNAPPY:
            return snappy.compress(data)
        case Codec.LZ4:
            return lz4.compress(data, level, broken_header_checksum=magic == 0)
        case Codec.ZSTD if magic >= 2:
            return zstd.compress(data, level)
    raise FormatError(f"compression {codec} is not defined for magic {magic}", code="codec_unknown")
