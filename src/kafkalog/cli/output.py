"""Write lines and JSON to standard output in blocks, and remarks and findings to standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

from msgspec import Struct

from kafkalog.cli.width import terminal_width
from kafkalog.codec.common.findings import Finding, Severity
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.common.wording import counted
from kafkalog.words.escapes import escape_controls
from kafkalog.words.wrapping import folded_with_command

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = [
    "ErrorLine",
    "LineWriter",
    "WritesBehind",
    "behind_text",
    "print_json",
    "remark",
    "report_findings",
    "said",
]

_BLOCK_BYTES = 1 << 18


class ErrorLine(Struct, frozen=True, kw_only=True):
    """What a command prints with --json in place of its lines if it could not begin: the command line makes no sense,
    the command declines, or something cannot be read.
    """

    error: str
    """the sentence that is also on standard error"""
    exit_code: int
    """the command's exit code"""


class LineWriter:
    """Collects lines and writes them to standard output in blocks. As a context manager, writes the remaining lines at
    the end.
    """

    blocks: ClassVar[int] = 0
    """number of blocks written by this process; an error before the first one gets a line of its own"""

    def __init__(self, stream: BinaryIO | None = None, *, unbuffered: bool = False) -> None:
        self._stream = stream or sys.stdout.buffer
        self._lines: list[str] = []
        self._held = 0
        self._block = 0 if unbuffered else _BLOCK_BYTES

    def write(self, line: str) -> None:
        """Write one line, given without its newline."""
        self._lines.append(line)
        self._held += len(line)
        if self._held >= self._block:
            self.flush()

    def write_bytes(self, data: bytes) -> None:
        """Write bytes unchanged, after all lines so far."""
        if self._lines or not self._block:
            self.flush()
        self._put(data, at_once=not self._block)

    def write_lines(self, lines: bytes | memoryview) -> None:
        """Write complete lines with their newlines, unchanged."""
        self.flush()
        self._put(lines)

    def flush(self) -> None:
        """Pass everything to the operating system."""
        lines, self._lines, self._held = self._lines, [], 0
        lines.append("")
        self._put("\n".join(lines).encode("utf-8", "backslashreplace"), at_once=True)

    def _put(self, data: bytes | memoryview, *, at_once: bool = False) -> None:
        try:
            if data:
                LineWriter.blocks += 1
                self._stream.write(data)
            if at_once:
                self._stream.flush()
        except OSError as error:
            error.filename = "standard output"  # else a full disk would seem to be the one that is read
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or not issubclass(kind, BrokenPipeError):
            self.flush()


class WritesBehind:
    """Writes blocks of lines in a thread while the caller makes the next block. As a context manager, waits for the
    last write at the end.

    The memory of a block must not change before the next call returns. Errors of a write are raised by a later call.
    """

    def __init__(self, writer: LineWriter) -> None:
        from concurrent.futures import ThreadPoolExecutor  # takes a while to load

        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "kafkalog-writer")
        self._under_way: Future[None] | None = None

    def write_lines(self, lines: bytes | memoryview) -> None:
        """Write complete lines with their newlines, unchanged."""
        self.wait()
        self._under_way = self._thread.submit(self._writer.write_lines, lines)

    def write(self, line: str) -> None:
        """Write one line, given without its newline."""
        self.wait()
        self._writer.write(line)

    def wait(self) -> None:
        """Wait until everything is written."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._thread.shutdown()


def print_json(value: object, shape: type | None = None) -> None:
    """Print one JSON object on one line: a line, or a result converted to `shape`."""
    from kafkalog.words.advice import in_options  # other output has no advice in it

    with LineWriter() as writer:
        writer.write(json.dumps(plain(value if shape is None else shaped(value, shape), in_options)))


def behind_text(batches: int, records: int) -> str:
    """Return text for the table column about batches after damage; empty if there are none."""
    return f"{counted(records, 'record')} in {counted(batches, 'batch')}" if batches else ""


def remark(text: str) -> None:
    """Print a sentence on standard error after the program's name; wraps if a terminal or COLUMNS has a width."""
    sys.stderr.write(said(text))
    sys.stderr.flush()


def said(text: str) -> str:
    """Return `kafkalog: TEXT` as lines for standard error, each with a newline at its end. Control characters are
    escaped. The lines are wrapped to the width COLUMNS, or else that of the terminal; without both, the text is one
    line. A command at the end, after a colon, is wrapped separately, in lines that a shell reads as one. A text with
    several commands, or with one elsewhere, is not wrapped, because a part of a command would be a different command. A
    command that is only named in backquotes, without arguments, does not count.
    """
    line, width = f"kafkalog: {escape_controls(text)}", terminal_width(sys.stderr)
    # one command behind a colon gets lines that a shell reads as one
    commands = re.sub(r"`kafkalog [a-z]+( [a-z]+)?`", "", text).count("kafkalog ")
    has_command = commands > text.count(": kafkalog ") or commands > 1
    parts = [line] if width is None or has_command else folded_with_command(line, width)
    return "".join(f"{part}\n" for part in parts)


def report_findings(findings: Iterable[Finding]) -> bool:
    """Print the warnings and errors among the findings on standard error (`finding_lines`). If offsets cannot be read,
    also print commands with which a consumer group skips them. Findings of severity INFO are omitted. Return whether
    there was a warning or an error.
    """
    from kafkalog.words.finding_lines import finding_lines  # other output has no findings

    serious = [finding for finding in findings if finding.severity is not Severity.INFO]
    unread = [finding for finding in serious if finding.last_offset is not None]
    for line, _alike in finding_lines(serious):
        sys.stderr.write(said(line))
    if unread:
        from kafkalog.words.seeking import seeks_past

        for line in seeks_past(unread):
            sys.stderr.write(said(line))
    sys.stderr.flush()
    return bool(serious)
