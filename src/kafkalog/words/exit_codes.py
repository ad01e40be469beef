"""Exit codes, and how an error becomes a sentence and an exit code."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kafkalog.codec.common.findings import Finding

__all__ = [
    "INTERNAL",
    "INTERRUPTED",
    "PIPE_CLOSED",
    "ExitCode",
    "exit_code_of",
    "exit_code_of_change",
    "exit_code_of_findings",
    "sentence_of",
]

INTERRUPTED = 130
"""128 + SIGINT, as shells expect"""
INTERNAL = 70
"""EX_SOFTWARE of sysexits.h, as 64 is EX_USAGE: an error of this program, not of the data or the caller"""
PIPE_CLOSED = 141
"""128 + SIGPIPE: the reader of our output has closed it"""


class ExitCode(enum.IntEnum):
    """Exit code of a command."""

    CLEAN = 0
    """clean, or nothing to do"""
    FINDINGS = 1
    """something is wrong with what was examined; nothing was changed"""
    CHANGED = 2
    """an existing directory was changed in place"""
    REFUSED = 3
    """declined to act; the message says what would allow it"""
    IO_ERROR = 4
    """the operating system reported an error"""
    USAGE = 64
    """the command line, or a path on it, makes no sense"""


def exit_code_of(error: BaseException) -> int:
    """Return the exit code for an error that ended a command. It is `INTERRUPTED` for Ctrl-C, `PIPE_CLOSED` for a
    closed pipe, USAGE for wrong usage, and FINDINGS for an unknown name or invalid format. It is REFUSED for a refused
    recovery, but IO_ERROR if the plan could not read something. It is IO_ERROR for errors of the operating system and
    lack of memory, and `INTERNAL` for any other error.
    """
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED
    if isinstance(error, click.ClickException):
        return ExitCode.USAGE
    from kafkalog.codec.common.errors import FormatError, RecoveryRefused, UnknownName, UsageError

    if isinstance(error, UnknownName):
        return ExitCode.FINDINGS
    if isinstance(error, UsageError):
        return ExitCode.USAGE
    if isinstance(error, RecoveryRefused):
        return ExitCode.IO_ERROR if error.is_unreadable else ExitCode.REFUSED
    if isinstance(error, FormatError):
        return ExitCode.FINDINGS
    return ExitCode.IO_ERROR if isinstance(error, OSError | MemoryError) else INTERNAL


def exit_code_of_findings(findings: Iterable[Finding]) -> ExitCode:
    """Return the exit code for findings: IO_ERROR if a warning or error says that something could not be read, else
    FINDINGS if there is any warning or error, else CLEAN.
    """
    from kafkalog.codec.common.findings import FindingCode, Severity

    serious = {finding.code for finding in findings if finding.severity is not Severity.INFO}
    if FindingCode.UNREADABLE in serious:
        return ExitCode.IO_ERROR
    return ExitCode.FINDINGS if serious else ExitCode.CLEAN


def exit_code_of_change(changed: bool, *, is_new: bool = False) -> ExitCode:
    """Return CHANGED if a command changed an existing directory, else CLEAN. A result written to a new place (`is_new`)
    does not count as a change.
    """
    return ExitCode.CHANGED if changed and not is_new else ExitCode.CLEAN


def sentence_of(error: BaseException) -> str:
    """Return one sentence for an error. It names the file for an error of the operating system; advice in it names
    command-line options. If the error has no text, the sentence is the name of its type, but `interrupted` for Ctrl-C.
    Lack of memory has a sentence of its own.
    """
    if isinstance(error, KeyboardInterrupt | click.Abort):
        cause = error.__cause__ if isinstance(error, click.Abort) else error  # click puts its own in place of ours
        return str(cause or "") or "interrupted"
    if isinstance(error, click.ClickException):
        return " ".join(error.format_message().split())
    from kafkalog.codec.common.errors import KafkaLogError

    if isinstance(error, MemoryError):
        why = f" ({error})" if str(error) else ""
        return f"there is not enough memory{why}: give this process more (ulimit -v, or the limit of its container)"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    if isinstance(error, KafkaLogError):
        from kafkalog.words.advice import in_options

        return error.worded(in_options) or type(error).__name__
    return str(error) or type(error).__name__
