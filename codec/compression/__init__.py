"""Compress and decompress as Kafka does, within `Limits`; `specs` is the table of compressions. `decompress` raises
`FormatError` (code `decompression_failed`) for a stream that Kafka's readers reject, and `LimitExceeded` before it uses
more memory than allowed. A library is loaded with the first stream that needs it.
"""

from __future__ import annotations

from kafkalog.codec.common.errors import FormatError, LimitExceeded, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.compression._errors import too_large
from kafkalog.codec.compression.specs import CodecSpec, codec_spec

__all__ = ["compress", "decompress", "decompress_before_damage"]

Bytes = bytes | memoryview


def decompress(codec: int, data: Bytes, limits: Limits = DEFAULT_LIMITS, *, magic: int = 2) -> Bytes:
    """Decompress the records of a v2 batch, or the message set of a wrapper of magic 0 or 1. `codec` is the number in
    the attributes (0 for none). Raises `FormatError` with code `decompression_failed` for a damaged stream, and with
    code `codec_unknown` if the compression is not defined for this magic. Raises `LimitExceeded` if the result or a
    zstd window is larger than `limits` allows; the size of uncompressed bytes is not checked.
    """
    spec = _defined(codec, magic)
    try:
        return spec.stream().decompress(data, limits, magic=magic)
    except LimitExceeded as error:
        if error.limit != "decompressed_batch_bytes":
            raise
        raise too_large(spec.codec.label, limits, spec.stream().most_bytes(data)) from None


def compress(codec: int, data: Bytes, *, level: int | None = None, magic: int = 2) -> bytes:
    """Compress in the form that Kafka's producer writes. `level` is that of `compression.<codec>.level`; None is the
    default, and a compression without levels ignores it. Raises `FormatError` (code `codec_unknown`) if the compression
    is not defined for this magic, `UsageError` for a level outside its range.
    """
    spec = _defined(codec, magic)
    if level is not None and spec.levels is not None and not spec.levels[0] <= level <= spec.levels[1]:
        lowest, highest = spec.levels
        raise UsageError(f"{spec.codec.label} has the levels {lowest} to {highest}, not {level}")
    return spec.stream().compress(data, level, magic=magic)


def decompress_before_damage(codec: int, data: bytes, limits: Limits) -> bytes:
    """Decompress the start of the damaged stream of a v2 batch, at most `limits.decompressed_batch_bytes` bytes; all of
    a sound stream as a producer writes it (of gzip, only the first member is read). Bytes near the damage may be wrong,
    because decoders detect damage late. The result is empty if nothing can be decompressed or the compression is not
    defined.
    """
    spec = codec_spec(codec)
    return b"" if spec is None else spec.stream().before_damage(data, limits)


def _defined(codec: int, magic: int) -> CodecSpec:
    spec = codec_spec(codec)
    if spec is None or not spec.is_defined(magic):
        raise FormatError(f"compression {codec} is not defined for magic {magic}", code="codec_unknown")
    return spec
