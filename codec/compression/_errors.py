"""How every decompressor fails: one error for bad streams, one for caps."""

from __future__ import annotations

from kafkalog.codec.errors import FormatError, LimitExceeded
from kafkalog.codec.limits import Limits

__all__ = ["bad_stream", "check_size", "too_large"]


def bad_stream(codec: str, why: object) -> FormatError:
    """The stream is not one that Kafka's reader of this codec accepts."""
    return FormatError(f"{codec} stream cannot be read: {why}", code="decompression_failed")


def too_large(codec: str, limits: Limits) -> LimitExceeded:
    """The stream would decompress to more than `decompressed_batch_bytes`."""
    return LimitExceeded(
        f"{codec} stream decompresses to more than {limits.decompressed_batch_bytes} bytes",
        limit="decompressed_batch_bytes",
    )


def check_size(codec: str, size: int, limits: Limits) -> None:
    """Refuse a size before it is allocated."""
    if size > limits.decompressed_batch_bytes:
        raise too_large(codec, limits)
