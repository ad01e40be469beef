"""Values in text files as Construct leaves. Each leaf reads all bytes of its word, line or JSON value."""

from __future__ import annotations

import base64
import re
from typing import Any

from construct import Construct, Container

from kafkalog.codec.layout.primitives import LayoutError
from kafkalog.codec.names import parse_java_long

__all__ = [
    "NOT_THAT", "Decimal", "TextLeaf", "UuidText", "VoterIds", "Word", "text_of", "url_base64_bytes",
    "url_base64_problem", "uuid_bytes", "uuid_text",
]  # fmt: skip

NOT_THAT = "text"
"""Code of the error for text that is not of the expected type."""
_UUID_BYTES = 16
_URL_BASE64_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_UNFINISHED = "Last unit does not have enough valid bits"
_URL_BASE64 = re.compile("(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}(?:==)?|[A-Za-z0-9_-]{3}=?)?")


def text_of(data: bytes) -> str:
    """Decode bytes as UTF-8. Invalid bytes become surrogates, which can be encoded again."""
    return data.decode("utf-8", "surrogateescape")


class TextLeaf(Construct):  # type: ignore[misc]
    """A value that consists of all bytes of its stream. `kind` is the name of its type in documentation."""

    kind = "text"

    def value_of(self, text: str) -> Any:
        """Return the value of a text. Raises `ValueError` with a sentence if the text is not of this type."""
        return text

    def text_for(self, value: Any) -> str:
        """Return the text of a value. Raises `ValueError` with a sentence if the value is not of this type."""
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not text")  # noqa: TRY004 - one error for values that do not fit
        return value

    def _parse(self, stream: Any, context: Container, path: str) -> Any:
        start = stream.tell()
        try:
            return self.value_of(text_of(stream.read()))
        except ValueError as error:
            raise LayoutError(NOT_THAT, start, str(error), path) from None

    def _build(self, obj: Any, stream: Any, context: Container, path: str) -> Any:
        try:
            stream.write(self.text_for(obj).encode("utf-8", "surrogateescape"))
        except ValueError as error:
            raise LayoutError(NOT_THAT, 0, str(error), path) from None
        return obj


class Decimal(TextLeaf):
    """Number in decimal digits, as Java's `Integer.parseInt` (32 bits) or `Long.parseLong` (64 bits) reads it."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.kind = f"int{bits}"

    def value_of(self, text: str) -> int:
        """Return the number of a text. Raises `ValueError` if Java could not parse it."""
        value = parse_java_long(text, self.bits)
        if value is None:
            raise ValueError(f"it is not an {self.kind}")
        return value

    def text_for(self, value: Any) -> str:
        """Return the digits of an integer, with a minus if it is negative. Raises `ValueError` for anything else."""
        if type(value) is not int or not -(1 << self.bits - 1) <= value < 1 << self.bits - 1:
            raise ValueError(f"{value!r} is not an {self.kind}")
        return str(value)


class Word(TextLeaf):
    """Text of at least one character."""

    def value_of(self, text: str) -> str:
        """Return the text. Raises `ValueError` if it is empty."""
        if not text:
            raise ValueError("it is empty")
        return text


def url_base64_bytes(text: str) -> bytes:
    """Decode URL-safe base64 as Java's `Base64.getUrlDecoder()` does: padding must be complete or absent, and `+` and
    `/` are not allowed (Python's decoder accepts them). Raises `ValueError` for any other text.
    """
    if _URL_BASE64.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is not base64 for URLs")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def url_base64_problem(text: str) -> str:
    """Return Java's message for a text that `Base64.getUrlDecoder()` refuses; empty if it accepts the text."""
    data = text.encode("latin-1", "replace")
    if len(data) == 1:
        return "Input byte[] should at least have 2 bytes for base64 bytes"
    for position, byte in enumerate(data):
        held = position % 4
        if byte == ord("=") and held != 1:
            end = position + (2 if held == 2 else 1)
            if held == 0 or (held == 2 and data[position + 1 : end] != b"="):
                return "Input byte array has wrong 4-byte ending unit"
            return "" if end == len(data) else f"Input byte array has incorrect ending byte at {end}"
        if byte == ord("="):
            return _UNFINISHED
        if byte not in _URL_BASE64_BYTES:
            return f"Illegal base64 character {byte - 256 * (byte > 127):x}"
    return _UNFINISHED if len(data) % 4 == 1 else ""


def uuid_bytes(text: str) -> bytes:
    """Decode a UUID in URL-safe base64, with all padding or none, to 16 bytes. Raises `ValueError` for other texts."""
    try:
        value = url_base64_bytes(text)
    except ValueError:
        value = b""
    if len(value) != _UUID_BYTES:
        raise ValueError(f"{text[:40]!r} is not a UUID")
    return value


def uuid_text(value: bytes) -> str:
    """Encode 16 bytes in Kafka's text form of a UUID: URL-safe base64 without padding. The length is not checked."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


class UuidText(TextLeaf):
    """A UUID as Kafka writes it: 16 bytes in URL-safe base64 without padding (`org.apache.kafka.common.Uuid`)."""

    kind = "uuid"

    def value_of(self, text: str) -> str:
        """Return the text. Raises `ValueError` if it is not a UUID."""
        uuid_bytes(text)
        return text


class VoterIds(TextLeaf):
    """A JSON list of objects, each with a `voterId`."""

    kind = "voters"
