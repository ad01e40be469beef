"""Values of fields as text, and their meaning: times, compressions, flags, resolved deltas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from construct import Container

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.model import ControlType, TimestampType, codec_label
from kafkalog.codec.parsing.trace import FieldSpan
from kafkalog.log.disk.files import exists
from kafkalog.recovery.explain import is_explained
from kafkalog.words.escapes import escape_controls, text_of
from kafkalog.words.times import moment_text

__all__ = ["explain_command", "field_path", "value_text", "words_of"]

_SHOWN = 40
"""Most bytes of a key or value that are shown."""
_CONTROL_TYPES = {kind.value: kind.name for kind in ControlType}


def explain_command(finding: Finding) -> str | None:
    """Return the command that explains the bytes at a finding. None if the finding has no file or position, the file
    does not exist, or `kafkalog explain` cannot read that kind of file. Raises `StorageError` if the path cannot be
    examined.
    """
    if finding.file is None or finding.position is None or not is_explained(finding.file) or not exists(finding.file):
        return None
    return shell_line(["kafkalog", "explain", finding.file, "--position", str(finding.position)])


def field_path(prefix: str, name: str) -> str:
    """Path of a field below another; list elements need no dot."""
    return f"{prefix}{'' if not prefix or name.startswith('[') else '.'}{name}"


def value_text(span: FieldSpan) -> str | None:
    """Return a short text of a field's value. A checksum is hexadecimal, a set of bits is a list of the bits that are
    set (`0` if none is), and null is `null`. Return None for a field that could not be read, and for a structure,
    because its fields are shown instead.
    """
    value = span.value
    if span.name == "crc" or span.name.endswith("checksum"):
        return None if value is None else f"{value:#010x}"
    if isinstance(value, Container) and span.children and span.children[0].type.startswith("bit"):
        return ", ".join(f"{name} {number}" for name, number in value.items() if number) or "0"
    if span.children or isinstance(value, Container | list | dict):
        return None
    if isinstance(value, bytes):
        return _bytes_text(value)
    return "null" if value is None and span.problem is None and span.data else _plain(value)


def _plain(value: Any) -> str | None:
    return None if value is None else escape_controls(str(value)[:_SHOWN])


def _bytes_text(value: bytes) -> str:
    shown = text_of(value[:_SHOWN])
    return f'"{shown}"' + (f" and {len(value) - _SHOWN} bytes more" if len(value) > _SHOWN else "")


def words_of(span: FieldSpan) -> str:
    """Return the meaning of a field's value in words, such as a time, an offset or the name of a code; empty if it
    needs no explanation.
    """
    if span.resolved is not None:
        is_time = span.name.startswith("timestamp")
        return moment_text(span.resolved) if is_time and span.resolved >= 0 else f"offset {span.resolved}"
    if span.note is not None:
        return span.note
    if not isinstance(span.value, int):
        return ""
    words = _WORDS.get(span.name)
    if words is not None:
        return words(span.value)
    if span.name.endswith("timestamp"):
        return moment_text(span.value) if span.value >= 0 else "none"
    return _flag(span)


def _flag(span: FieldSpan) -> str:
    if span.type.startswith("bit ") and span.name != "timestamp_type":
        return "yes" if span.value else "no"
    return ""


def _control_type(value: int) -> str:
    return _CONTROL_TYPES.get(value, "")


_WORDS: dict[str, Callable[[int], str]] = {
    "codec": codec_label,
    "timestamp_type": lambda value: TimestampType(value).label,
    "partition_leader_epoch": lambda value: "unknown" if value == -1 else "",
    "producer_id": lambda value: "none" if value == -1 else "",
}
