"""Parse the broker's text checkpoints (`CheckpointFile`, `OffsetCheckpointFile`) and raise its exceptions:
`JavaIOError` takes the log directory offline, and `NumberFormatError` ends the broker's start.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import TypeVar

from kafkalog.log.storage.java import (
    IllegalArgumentError,
    JavaError,
    JavaIOError,
    NumberFormatError,
    parse_int,
    parse_long,
    split_on,
)

__all__ = ["by_content", "java_lines", "malformed_line", "read_checkpoint", "read_offset_checkpoint"]

_SPACES = re.compile(r"[ \t\n\x0b\f\r]+")
_NEWLINE = re.compile(r"\r\n|\r|\n")

_KEPT_BYTES = 1 << 20

Row = TypeVar("Row")
Parsed = TypeVar("Parsed")


def by_content(maxsize: int) -> Callable[[Callable[[str, bytes], Parsed]], Callable[[str, bytes], Parsed]]:
    """Return a decorator for parsers of a file's path and content. It keeps the `maxsize` results that were last used,
    by content alone, because many partitions have equal files. Exceptions are not kept, because they name the path.
    """

    def decorate(parse: Callable[[str, bytes], Parsed]) -> Callable[[str, bytes], Parsed]:
        kept = lru_cache(maxsize)(partial(parse, ""))

        @wraps(parse)
        def parsed(path: str, data: bytes) -> Parsed:
            try:
                return kept(data)
            except JavaError:
                return parse(path, data)

        return parsed

    return decorate


def java_lines(data: bytes) -> list[str]:
    r"""Split UTF-8 bytes into lines without line ends, as `BufferedReader.readLine` does: `\n`, `\r` and `\r\n` end a
    line, and an empty last line is dropped. Return an empty list for no bytes. Raises `JavaIOError` for invalid UTF-8.
    """
    try:
        lines = _NEWLINE.split(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise JavaIOError("Input length = 1") from None
    if lines[-1] == "":
        lines.pop()
    return lines


def malformed_line(path: str, line: str) -> JavaIOError:
    """Return the broker's exception for a line that it cannot parse; at most 60 characters of `line` are shown."""
    return JavaIOError(f"Malformed line in checkpoint file [{path}]: {line[:60]}", file=path)


def _header_number(path: str, line: str) -> int:
    try:
        return parse_int(line)
    except NumberFormatError:
        raise malformed_line(path, line) from None


def read_checkpoint(path: str, data: bytes, parse: Callable[[list[str]], Row], width: int) -> list[Row]:
    """Parse the content of a checkpoint file (`CheckpointReadBuffer.read`): a line with version 0, a line with the
    number of entries, and one line for each entry. Return a row for each entry, in file order. Return an empty list if
    the file is empty or ends after the version. `parse` is called with the `width` words of a line and returns its row;
    its exceptions are passed on. `path` is the file's path for error messages.

    Raises `JavaIOError` for invalid UTF-8, another version, or a header line that is not a number. Raises it also for a
    line with another number of words, or another number of entries than the second line states. Raises
    `IllegalArgumentError` if that number is negative.
    """
    lines = java_lines(data)
    if not lines:
        return []
    version = _header_number(path, lines[0])
    if version != 0:
        raise JavaIOError(
            f"Unrecognised version:{version}, expected version: 0 in checkpoint file at: {path}", file=path
        )
    if len(lines) == 1:
        return []
    expected = _header_number(path, lines[1])
    if expected < 0:
        raise IllegalArgumentError(f"Illegal Capacity: {expected}")
    rows: list[Row] = []
    for line in lines[2:]:
        words = split_on(_SPACES, line)
        if len(words) != width:
            raise malformed_line(path, line)
        rows.append(parse(words))
    if len(rows) != expected:
        raise JavaIOError(
            f"Expected [{expected}] entries in checkpoint file [{path}], but found only [{len(rows)}]", file=path
        )
    return rows


def read_offset_checkpoint(path: str, data: bytes) -> dict[tuple[str, int], int]:
    """Return the offsets of an offset checkpoint by topic and partition (`OffsetCheckpointFile.read`); of several lines
    of one partition the last is used. Empty for an empty file. Raises the exceptions of `read_checkpoint`, which name
    the file's path `path`, and `NumberFormatError` for a partition or offset that is not a number.
    """
    return dict(_read_before(path, data) if len(data) <= _KEPT_BYTES else _read_offsets(path, data))


def _read_offsets(path: str, data: bytes) -> dict[tuple[str, int], int]:
    rows = read_checkpoint(path, data, lambda words: (words[0], parse_int(words[1]), parse_long(words[2])), 3)
    return {(topic, partition): offset for topic, partition, offset in rows}


@by_content(maxsize=4)
def _read_before(path: str, data: bytes) -> dict[tuple[str, int], int]:
    """Parse an offset checkpoint, with a cache: an examination reads the same few files repeatedly, and they may have a
    line for each partition.
    """
    return _read_offsets(path, data)
