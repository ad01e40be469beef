"""Compressions as Kafka writes and reads them, all under `Limits`; `specs` is the table of them.

`decompress` raises `FormatError` (code `decompression_failed`) for a stream that Kafka's readers refuse, and
`LimitExceeded` before more memory is spent than allowed.  A library is loaded with the first stream that needs it.
"""

from __future__ import annotations

from kafkalog.codec.compression._errors import too_large
from kafkalog.codec.compression.specs import CodecSpec, codec_spec
from kafkalog.codec.errors import FormatError, LimitExceeded
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits

__all__ = ["compress", "decompress", "decompress_before_damage"]

Bytes = bytes | memoryview


def decompress(codec: int, data: Bytes, limits: Limits = DEFAULT_LIMITS, *, magic: int = 2) -> Bytes:
    """The records of a batch (or the message set of a wrapper) from its compressed bytes.

    Raises `FormatError` (code `codec_unknown`) if the compression is not defined for this magic.
    """
    spec = _defined(codec, magic)
    try:
        return spec.stream().decompress(data, limits, magic=magic)
    except LimitExceeded as error:
        if error.limit != "decompressed_batch_bytes":
            raise
        raise too_large(spec.codec.label, limits, spec.stream().most_bytes(data)) from None


def compress(codec: int, data: Bytes, *, level: int | None = None, magic: int = 2) -> bytes:
    """Compress in the shape Kafka's producer writes; `level` as in `compression.<codec>.level`, None is the default.

    Raises `FormatError` (code `codec_unknown`) if the compression is not defined for this magic.
    """
    return _defined(codec, magic).stream().compress(data, level, magic=magic)


def decompress_before_damage(codec: int, data: bytes, limits: Limits) -> bytes:
    """The first bytes of the content of a stream, as far as they come; all of them if it is sound.

    Bytes near the damage may be wrong: a stream does not break where it is damaged, but where that cannot be overlooked
    any more.  Empty if the compression is not defined.
    """
    spec = codec_spec(codec)
    return b"" if spec is None else spec.stream().before_damage(data, limits)


def _defined(codec: int, magic: int) -> CodecSpec:
    spec = codec_spec(codec)
    if spec is None or not spec.is_defined(magic):
        raise FormatError(f"compression {codec} is not defined for magic {magic}", code="codec_unknown")
    return spec
