"""How every decompressor fails: one error for bad streams, one for caps."""

from __future__ import annotations

from kafkalog.codec.errors import FormatError, LimitExceeded
from kafkalog.codec.limits import UNPACKED_BYTES, Limits

__all__ = ["bad_stream", "check_size", "too_large", "window_too_large"]


def bad_stream(codec: str, why: object) -> FormatError:
    """The stream is not one that Kafka's reader of this codec accepts."""
    return FormatError(f"{codec} stream cannot be read: {why}", code="decompression_failed")


def too_large(codec: str, limits: Limits) -> LimitExceeded:
    """The stream would decompress to more than `decompressed_batch_bytes`."""
    return LimitExceeded(
        f"{codec} stream decompresses to more than {limits.decompressed_batch_bytes} bytes; consumers read it, and so "
        f"does kafkalog with memory for it: the environment variable {UNPACKED_BYTES} raises the limit, "
        "in Python limits=Limits(decompressed_batch_bytes=...)",
        limit="decompressed_batch_bytes",
    )


def window_too_large(window: int, limits: Limits) -> LimitExceeded:
    """A zstd frame asks for a larger window than Kafka's readers give."""
    return LimitExceeded(
        f"a zstd frame asks for a window of {window} bytes, and Kafka's consumers give {limits.zstd_window_bytes}: "
        "they stop here too; seek them behind the batch, and let the producer compress without a long window",
        limit="zstd_window_bytes",
    )


def check_size(codec: str, size: int, limits: Limits) -> None:
    """Refuse a size before it is allocated."""
    if size > limits.decompressed_batch_bytes:
        raise too_large(codec, limits)
