"""Check records that a caller passes in before they are encoded."""

from __future__ import annotations

from typing import Any

from kafkalog.codec.common.arguments import shown
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.model import Record

__all__ = ["check_record", "header_bytes", "is_bytes"]

_INT64 = 2**63


def is_bytes(value: object) -> bool:
    """Whether a value can be a record's key or value: bytes or None."""
    return value is None or isinstance(value, bytes)


def header_bytes(header: Any) -> tuple[bytes, bytes | None]:
    """Return (name in UTF-8, value) of a `Header` or of a tuple (str, bytes or None). Surrogates in the name become the
    bytes that they escape. Raises `UsageError` for anything else, such as a list or a name that cannot be encoded.
    """
    if not isinstance(header, tuple) or len(header) != 2 or not isinstance(header[0], str) or not is_bytes(header[1]):
        raise UsageError(f"{shown(header)} is not a header: that is a pair of a name and bytes or None")
    try:
        return header[0].encode("utf-8", "surrogateescape"), header[1]
    except UnicodeEncodeError:
        raise UsageError(f"{header[0][:60]!r} is not a name of a header: it has no bytes in UTF-8") from None


def check_record(record: Any) -> None:
    """Raise `UsageError` unless `record` is a `Record` whose offset and timestamp are integers of 64 bits. Key and
    value must be bytes or None, and headers a list or tuple. The headers themselves are not checked.
    """
    if not isinstance(record, Record):
        raise UsageError(f"{type(record).__name__} is not a Record")
    for name in ("offset", "timestamp"):
        value = getattr(record, name)
        if not isinstance(value, int) or not -_INT64 <= value < _INT64:
            raise UsageError(f"{name} is {shown(value)}, no integer of 64 bits")
    for part in (record.key, record.value):
        if not is_bytes(part):
            raise UsageError(f"keys and values are bytes or None, not {type(part).__name__}")
    if not isinstance(record.headers, list | tuple):
        raise UsageError(f"headers are a list or a tuple, not {type(record.headers).__name__}")
