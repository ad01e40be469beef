"""kcat's `-s`: convert keys and values to text by a string of letters, as in Python's `struct`."""

from __future__ import annotations

import struct

from kafkalog.codec.common.errors import FormatError, UsageError

__all__ = ["serdes", "unpack"]

_NUMBERS = frozenset("bBhHiIqQ")
_VALID = frozenset(" <>cs$") | _NUMBERS
_LONGEST = 1000


def serdes(texts: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Return the `struct` letters for keys and the letters for values, from all texts of kcat's `-s`; each is None if
    no text sets it. `key=LETTERS` and `value=LETTERS` set one of them, LETTERS alone sets both; a later text replaces
    an earlier one. Raises `UsageError` for `avro`, no letters, too many, or an unknown letter.
    """
    found: dict[str, str | None] = {"key": None, "value": None}
    for text in texts:
        field, equals, pattern = text.partition("=")
        fields = (field,) if equals and field in found else tuple(found)
        pattern = pattern if equals and field in found else text
        if pattern == "avro":
            raise UsageError("-s avro needs a schema registry, which kafkalog does not contact; -s s prints the bytes")
        if not pattern:
            raise UsageError(f"-s {text[:100]!r} has no letters; -s key=i is a key of four bytes")
        if len(pattern) > _LONGEST:
            raise UsageError(f"-s {text[:20]!r}… has more than {_LONGEST} letters")
        unknown = next((letter for letter in pattern if letter not in _VALID), None)
        if unknown is not None:
            raise UsageError(f"-s {text[:100]!r} has {unknown!r}, which is not one of <>bBhHiIqQcs$ and space")
        for each in fields:
            found[each] = pattern
    return found["key"], found["value"]


def unpack(what: str, pattern: str, data: bytes) -> bytes:
    """Return the fields of `data` as text in bytes, unpacked by the letters of kcat's `-s`. Numbers are printed in
    decimal. They are read in big-endian order; after `<` in little-endian order, until a `>`. `c` prints one byte and
    `s` all remaining bytes, both unchanged. A space in the letters prints a space. Bytes after the last letter are
    ignored.

    Raises `FormatError` if `data` is too short, or if bytes remain at a `$`. `what` names the data in the message.
    """
    parts: list[bytes] = []
    position, order = 0, ">"
    for letter in pattern:
        left = len(data) - position
        if letter in "<>":
            order = letter
        elif letter == " ":
            parts.append(b" ")
        elif letter == "s":
            parts.append(data[position:])
            position = len(data)
        elif letter == "$":
            if left:
                raise FormatError(f"expected {what} end-of-input, but {left} bytes remaining")
        else:
            size = 1 if letter == "c" else struct.calcsize(order + letter)
            if size > left:
                raise FormatError(
                    f"{what} truncated, expected {size} bytes to unpack {letter} but only {left} bytes remaining"
                )
            piece = data[position : position + size]
            parts.append(piece if letter == "c" else str(struct.unpack(order + letter, piece)[0]).encode())
            position += size
    return b"".join(parts)
