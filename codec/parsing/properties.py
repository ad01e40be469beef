"""Java properties, the format of `meta.properties`: decoded and encoded as `java.util.Properties` does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kafkalog.codec.common.errors import FormatError

__all__ = ["decode_properties", "encode_properties", "parse_properties", "property_line"]

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
_READ = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "=": "\\=", ":": "\\:", "#": "\\#",
            "!": "\\!"}  # fmt: skip
_HEX = re.compile(r"[0-9a-fA-F]{4}")


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the logical lines of a properties file, without leading blanks, comments and empty lines. A line that ends
    in an odd number of backslashes loses the last of them and continues in the next line. Other escapes are kept. A
    line with only a backslash is ignored, but at the end of the file it is an empty logical line, as in Java.
    """
    held: list[str] = []
    naturals = _LINE_END.split(text)
    for natural in naturals if naturals[-1] else naturals[:-1]:
        line = natural.lstrip(_BLANK)
        if not any(held) and (not line or line[0] in "#!"):
            held = []
            continue
        if _continues(line):
            held.append(line[:-1])
            continue
        yield "".join([*held, line])
        held = []
    if held:
        yield "".join(held)


def _unescape(text: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = _HEX.match(text, position)
                if digits is None:
                    raise FormatError("a \\u without four digits", code="meta_properties_invalid")
                character = chr(int(digits.group(), 16))
                position = digits.end()
            else:
                character = _READ.get(character, character)
        out.append(character)
    # Java's strings are UTF-16: two escapes are one character beyond U+FFFF
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _key_end(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANK:
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def decode_properties(data: bytes) -> dict[str, str]:
    r"""Decode ISO-8859-1 bytes to names and values, in the order in which the names first appear. The last value of a
    repeated name counts. Raises `FormatError` for a `\u` without four hexadecimal digits.
    """
    return parse_properties(data.decode("latin-1"))


def parse_properties(text: str) -> dict[str, str]:
    r"""Return the values by name from the text of a properties file, in the order in which the names first appear. The
    last value of a repeated name counts. Raises `FormatError` for a `\u` without four hexadecimal digits.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        end = _key_end(line)
        value = line[end:].lstrip(_BLANK)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_BLANK)
        properties[_unescape(line[:end])] = _unescape(value)
    return properties


def _escape(text: str, every_space: bool) -> str:
    out: list[str] = []
    for number, character in enumerate(text):
        if character == " ":
            out.append("\\ " if every_space or number == 0 else " ")
        elif character in _WRITTEN:
            out.append(_WRITTEN[character])
        elif " " < character < "\x7f":
            out.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass").hex().upper()
            out += [f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)]
    return "".join(out)


def encode_properties(properties: Mapping[str, str], comments: Sequence[str] = ()) -> bytes:
    """Encode comments (`comments` are without the `#`), then one line for each property, in their order. Each line ends
    with a newline; a comment with line breaks becomes several comment lines. In names and values, characters outside
    ASCII are escaped; in comments, a character that ISO-8859-1 does not have becomes `?`.
    """
    lines = [line for comment in comments for line in _comment_lines(comment)]
    lines += [f"{_escape(name, True)}={_escape(value, False)}" for name, value in properties.items()]
    return "".join(f"{line}\n" for line in lines).encode("latin-1", "replace")


def _comment_lines(comment: str) -> list[str]:
    first, *further = _LINE_END.split(comment)
    return [f"#{first}", *(line if line[:1] in ("#", "!") else f"#{line}" for line in further)]


def property_line(name: str, value: str) -> str:
    """Return `name=value`, without a line end, as a line of a properties file that people can read. A leading space,
    backslashes, control characters and all characters outside ASCII are escaped in the value; `=`, `:`, `#`, `!` and
    other spaces are not. The name is not escaped.
    """
    kept = {"=", ":", "#", "!"}
    parts = [
        character if character in kept or (character == " " and number) else _escape(character, every_space=True)
        for number, character in enumerate(value)
    ]
    return f"{name}={''.join(parts)}"
