r"""kcat's format strings (`-f`), its delimiters (`-D`, `-K`), and the bytes that they make of a record.

Decided by kcat's `format.c` (`fmt_parse`, `fmt_msg_output_str`) and `kcat.c` (`parse_delim`).  Two of its faults are
not kept: `\xff` is a byte here, and `\x00` does not end the text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from msgspec import Struct

from kafkalog.cli.dump.kcat.serdes import unpack
from kafkalog.cli.dump.redaction import size_of
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.model import Record
from kafkalog.words.escapes import text_of

__all__ = ["MOST_PARTS", "KcatFormat", "default_format", "delimiter"]

MOST_PARTS = 128
"""`KC_FMT_MAX_SIZE`"""
_TOKENS = frozenset("okKsSRtpTh")
_NULL = b"NULL"
_SIZE = struct.Struct(">i")
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]+)|(0[0-7]*|[1-9][0-9]*)|x?(.))", re.DOTALL)
_SIGNS = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}
_HEX = re.compile(r"\\x([0-9a-fA-F]*)")


def _unescaped(match: re.Match[bytes]) -> bytes:
    digits, number, sign = match.groups()
    if digits is not None:
        return bytes([int(digits[-2:], 16)])
    if number is not None:
        # as C reads a number: octal after a zero, of which one byte is kept
        octal = number.startswith(b"0")
        return bytes([int(number[-16:], 8 if octal else 10) & 0xFF])
    return _SIGNS.get(sign, sign)


def _literal(text: str) -> bytes:
    return _ESCAPE.sub(_unescaped, text.encode("utf-8", "surrogateescape"))


def delimiter(text: str) -> str:
    r"""Return a delimiter with kcat's escapes replaced: `\n`, `\t`, and `\xNN` below 0x80 (of more digits the last two
    count); higher `\xNN` are left unchanged, and become bytes later. Raises `UsageError` for `\x` without hexadecimal
    digits.
    """

    def character(match: re.Match[str]) -> str:
        if not match[1]:
            raise UsageError(f"the delimiter {text[:100]!r} has \\x without a hexadecimal number")
        return chr(int(match[1][-2:], 16)) if int(match[1][-2:], 16) < 0x80 else match[0]  # left to `_literal`

    return _HEX.sub(character, text.replace("\\n", "\n").replace("\\t", "\t"))


def default_format(message_delimiter: str, key_delimiter: str | None) -> str:
    """Return the format that is used without `-f`: the value, preceded by the key if `-K` sets a delimiter for it."""
    if key_delimiter is None:
        return f"%s{delimiter(message_delimiter)}"
    return f"%k{delimiter(key_delimiter)}%s{delimiter(message_delimiter)}"


def _parts(text: str) -> list[bytes | str]:
    """Split a kcat format string into literal bytes, with escapes replaced, and tokens, each the str of one letter
    (`%k` is `k`); `%%` is the literal `%`. Raises `UsageError` for an unknown token, a `%` at the end, or more than
    `MOST_PARTS` parts.
    """
    found: list[bytes | str] = []
    position = 0
    while position < len(text):
        percent = text.find("%", position)
        end = len(text) if percent < 0 else percent
        if end > position:
            found.append(_literal(text[position:end]))
        if percent < 0:
            break
        letter = text[percent + 1 : percent + 2]
        if letter == "%":
            found.append(b"%")
        elif letter in _TOKENS:
            found.append(letter)
        else:
            raise UsageError(
                f"the format has %{letter}, which kcat does not know" if letter else "the format ends in %"
            )
        position = percent + 2
        if len(found) > MOST_PARTS:
            break
    if len(found) > MOST_PARTS:
        raise UsageError(f"the format has more than {MOST_PARTS} parts, which is as many as kcat takes")
    return found


class KcatFormat(Struct, frozen=True, kw_only=True):
    """A parsed format string, and the options that change how a record is printed."""

    parts: tuple[bytes | str, ...]
    null: bool = False
    """`-Z`: what is null or empty is printed as NULL, as kcat does"""
    key_serdes: str | None = None
    value_serdes: str | None = None
    for_people: bool = False
    """whether a terminal is written to, which data must not steer"""

    @classmethod
    def parse(cls, text: str, *, null: bool = False, key_serdes: str | None = None, value_serdes: str | None = None,
              for_people: bool = False) -> KcatFormat:  # fmt: skip
        """Parse a format string; the other options are kept unchecked. Raises `UsageError` if the format is invalid."""
        return cls(
            parts=tuple(_parts(text)),
            null=null,
            key_serdes=key_serdes,
            value_serdes=value_serdes,
            for_people=for_people,
        )

    @property
    def first_literal(self) -> bytes:
        """Text that `-J` prints after each object: the format, if it begins with text."""
        first = self.parts[0] if self.parts else b""
        return first if isinstance(first, bytes) else b""

    def of(self, topic: str, partition: int, record: Record) -> bytes:
        """Return the bytes that are printed for one record. Raises `FormatError` if the data does not fit the letters
        of `-s`.
        """
        return b"".join(
            part if isinstance(part, bytes) else self._token(part, topic, partition, record) for part in self.parts
        )

    def _token(self, letter: str, topic: str, partition: int, record: Record) -> bytes:
        if letter in "ks":
            return self._data(record, is_key=letter == "k")
        if letter == "R":
            return _SIZE.pack(size_of(record.value))
        if letter == "h":
            return self._headers(record)
        return self._shown(_WORDS[letter](topic, partition, record).encode("utf-8", "surrogateescape"))

    def _data(self, record: Record, *, is_key: bool) -> bytes:
        data, serdes = (record.key, self.key_serdes) if is_key else (record.value, self.value_serdes)
        if not data:
            return _NULL if self.null else b""
        if serdes is not None:
            return self._shown(unpack("key" if is_key else "value", serdes, data))
        return self._shown(data)

    def _headers(self, record: Record) -> bytes:
        pairs = []
        for key, value in record.headers:
            pairs.append(key.encode("utf-8", "surrogateescape") + b"=" + (_NULL if value is None else value))
        return self._shown(b",".join(pairs))

    def _shown(self, data: bytes) -> bytes:
        return text_of(data).encode() if self.for_people else bytes(data)


_WORDS: dict[str, Callable[[str, int, Record], str]] = {
    "o": lambda topic, partition, record: str(record.offset),
    "K": lambda topic, partition, record: str(size_of(record.key)),
    "S": lambda topic, partition, record: str(size_of(record.value)),
    "T": lambda topic, partition, record: str(record.timestamp),
    "t": lambda topic, partition, record: topic,
    "p": lambda topic, partition, record: str(partition),
}
