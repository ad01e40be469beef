"""A compression as a caller names it: Kafka's name, its number, or itself."""

from __future__ import annotations

from kafkalog.codec.arguments import shown
from kafkalog.codec.errors import UsageError
from kafkalog.codec.model import Codec

__all__ = ["as_codec"]

_LABELS = {codec.label: codec for codec in Codec}


def as_codec(compression: Codec | str | int) -> Codec:
    """A compression by Kafka's name or number; `UsageError` if there is none such."""
    if isinstance(compression, str):
        if compression not in _LABELS:
            raise UsageError(f"compression {compression!r} is not one of {', '.join(_LABELS)}")
        return _LABELS[compression]
    try:
        return Codec(compression)
    except (ValueError, TypeError):
        raise UsageError(f"compression {shown(compression)} is not defined") from None
