"""Errors that all decompressors raise: for a bad stream, and for a limit that is exceeded."""

from __future__ import annotations

from kafkalog.codec.common.errors import FormatError, LimitExceeded
from kafkalog.codec.common.limits import UNPACKED_BYTES, Limits

__all__ = ["bad_stream", "check_size", "too_large", "window_too_large"]


def bad_stream(codec: str, why: object) -> FormatError:
    """Return the error for a stream that Kafka's reader of this codec rejects."""
    return FormatError(f"{codec} stream cannot be read: {why}", code="decompression_failed")


def too_large(codec: str, limits: Limits, most: int | None = None) -> LimitExceeded:
    """Return (not raise) the error for a stream that decompresses to more than `limits.decompressed_batch_bytes`, or
    for uncompressed records of this size if `codec` is "none". `most` is the upper bound in bytes that the stream
    declares (None if unknown). The message names it if it is above the limit.
    """
    if most is not None and most <= limits.decompressed_batch_bytes:
        most = None  # the stream declares a wrong size
    known = "" if most is None else f", at most {most} by its own figures"
    wanted = "..." if most is None else str(most)
    what = f"{codec} stream decompresses to" if codec != "none" else "a batch without compression has"
    return LimitExceeded(
        f"{what} more than the {limits.decompressed_batch_bytes} bytes of decompressed_batch_bytes{known}; consumers "
        f"read it, and so does kafkalog with memory for it: {UNPACKED_BYTES}={wanted} in the environment raises the "
        f"limit, in Python limits=Limits(decompressed_batch_bytes={wanted}), "
        "in Spark the option decompressedBatchBytes",
        limit="decompressed_batch_bytes",
    )


def window_too_large(window: int, limits: Limits) -> LimitExceeded:
    """Return (not raise) the error for a zstd frame whose window of `window` bytes is larger than
    `limits.zstd_window_bytes`, by default the limit of Kafka's consumers.
    """
    return LimitExceeded(
        f"a zstd frame asks for a window of {window} bytes, more than the {limits.zstd_window_bytes} of "
        "zstd_window_bytes, which is what Kafka's consumers give: they stop at this batch too. Seek them behind it, "
        "and let the producer compress without a long window; in Python limits=Limits(zstd_window_bytes=...) reads it",
        limit="zstd_window_bytes",
    )


def check_size(codec: str, size: int, limits: Limits) -> None:
    """Raise `LimitExceeded` if `size` bytes are too many to allocate."""
    if size > limits.decompressed_batch_bytes:
        raise too_large(codec, limits)
