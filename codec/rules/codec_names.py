"""Convert a caller's notation of a compression: Kafka's name, a number, or a `Codec`."""

from __future__ import annotations

from kafkalog.codec.common.arguments import shown
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.model import Codec

__all__ = ["as_codec"]

_LABELS = {codec.label: codec for codec in Codec}


def as_codec(compression: Codec | str | int) -> Codec:
    """Return the compression for Kafka's name (such as "gzip"), its number, or a `Codec`. Raises `UsageError` for an
    unknown one.
    """
    if isinstance(compression, str):
        if compression not in _LABELS:
            raise UsageError(f"compression {compression!r} is not one of {', '.join(_LABELS)}")
        return _LABELS[compression]
    try:
        return Codec(compression)
    except (ValueError, TypeError):
        raise UsageError(f"compression {shown(compression)} is not defined") from None
