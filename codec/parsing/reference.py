"""Parse and build structures by running their declarations. This is slow, and serves as the reference for all other
parsers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from construct import Construct, ConstructError, Container

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.layout.primitives import LayoutError

__all__ = ["build", "missing_field", "parse"]

Bytes = bytes | memoryview


def parse(layout: Construct, data: Bytes, position: int = 0, *, source: str | None = None) -> Container:
    """Parse one structure at `position` of `data`; bytes after it are ignored. Raises `FormatError` with position,
    field and `source` (a file name for the message) if it cannot be parsed.
    """
    try:
        return layout.parse(bytes(data[position:]))
    except LayoutError as error:
        raise FormatError(
            str(error).splitlines()[-1], position=position + error.position, field=error.path, source=source
        ) from None
    except ConstructError as error:
        raise FormatError(
            str(error).splitlines()[-1], position=position, field=getattr(error, "path", None), source=source
        ) from None


def build(layout: Construct, values: Mapping[str, Any], what: str) -> bytes:
    """Build the bytes of one structure from the values of its fields. Raises `FormatError` with the field if a value
    does not fit, `UsageError` if a field is missing. `what` is the name of the structure for the message.
    """
    try:
        built: bytes = layout.build(values)
    except ConstructError as error:
        raise FormatError(str(error).splitlines()[-1], field=getattr(error, "path", None)) from None
    except KeyError as error:
        raise missing_field(what, error) from None
    return built


def missing_field(what: str, error: KeyError) -> UsageError:
    """Return (not raise) the error for a field without a value. `what` is the name of the structure; `error` is the
    `KeyError` with the name of the field.
    """
    return UsageError(f"the field {error.args[0]!r} of {what} is missing")
