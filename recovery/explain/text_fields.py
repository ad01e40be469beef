"""Text files as spans: every line and every value with its bytes, under the names of `codec.layout.text_files`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from kafkalog.codec.errors import FormatError
from kafkalog.codec.layout import text_files
from kafkalog.codec.layout.text_files import TextField
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    QUORUM_STATE,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    parse_java_long,
)
from kafkalog.codec.text import CHECKPOINT_VERSION, decode_uuid
from kafkalog.codec.trace import MOST_SPANS, FieldSpan

__all__ = ["TEXT_FILES", "text_spans"]

_WORD = re.compile(rb"[^ \t\r\n]+")
_PROPERTY = re.compile(rb"[ \t]*(?P<name>[^ \t=:#!]+)[ \t]*[=:][ \t]*(?P<value>[^\r\n]*)")
_MEMBER = re.compile(rb'"(?P<name>(?:[^"\\]|\\.)*)"\s*:\s*(?P<value>"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^,}\s]+)')
_BITS = {"int32": 32, "int64": 64}
Lines = Iterator[tuple[int, bytes]]


def text_spans(name: str, data: bytes, most: int = MOST_SPANS) -> FieldSpan:
    """The fields of a text file by its name, one of `TEXT_FILES`; bytes between fields belong to the lines.

    Of more than `most` lines and fields the first are given, and behind them those that are wrong.
    """
    root = FieldSpan("", 0, len(data))
    reader, fields, _page = TEXT_FILES[name]
    made = 0
    for span in reader(data, fields):
        made += 1 + len(span.children)
        if made <= most or (next(span.problems(), None) is not None and len(root.children) < 2 * most):
            root.children.append(span)
    root.note = f"only the first {most} fields" if made > most else None
    return root


def _lines(data: bytes) -> Lines:
    position = 0
    for line in data.splitlines(keepends=True):
        yield position, line
        position += len(line)


def _field(name: str, kind: str, doc: str, position: int, text: bytes) -> FieldSpan:
    value = text.decode("utf-8", "replace")
    span = FieldSpan(name, position, position + len(text), kind, value, doc, data=text)
    if kind in _BITS and parse_java_long(value, _BITS[kind]) is None:
        span.problem, span.code = f"it is not an {kind}", "text"
    elif kind in _BITS:
        span.value = parse_java_long(value, _BITS[kind])
    elif kind == "uuid":
        try:
            decode_uuid(value)
        except FormatError as error:
            span.problem, span.code = error.message, "text"
    return span


def _checkpoint(data: bytes, fields: tuple[TextField, ...]) -> Iterator[FieldSpan]:
    rows = [line for _, line in _lines(data)][2:]
    for number, (position, line) in enumerate(_lines(data)):
        text = line.rstrip(b"\r\n")
        if number == 0:
            span = _field("version", "int32", str(CHECKPOINT_VERSION), position, text)
            if span.problem is None and span.value != CHECKPOINT_VERSION:
                span.problem, span.code = f"{CHECKPOINT_VERSION} is needed", "text"
            yield span
        elif number == 1:
            span = _field("count", "int32", "lines that follow", position, text)
            if span.problem is None and span.value != len(rows):
                span.problem, span.code = f"{len(rows)} lines follow", "text"
            yield span
        else:
            yield _row(number - 2, position, line, fields)


def _row(number: int, position: int, line: bytes, fields: tuple[TextField, ...]) -> FieldSpan:
    row = FieldSpan(f"[{number}]", position, position + len(line), "line")
    words = list(_WORD.finditer(line))
    for field, word in zip(fields, words, strict=False):
        row.children.append(_field(field.name, field.kind, field.doc, position + word.start(), word.group()))
    if len(words) != len(fields):
        wanted = " ".join(field.name for field in fields)
        row.problem, row.code = f"{len(words)} words where {wanted} are needed", "text"
        row.data = line
    return row


def _pairs(data: bytes, fields: tuple[TextField, ...], pattern: re.Pattern[bytes]) -> Iterator[FieldSpan]:
    declared: Mapping[str, TextField] = {field.name: field for field in fields}
    for position, line in _lines(data):
        if line.startswith(b"#") or not line.strip():
            text = line.rstrip(b"\r\n")
            yield FieldSpan(
                "comment", position, position + len(text), "text", text.decode("utf-8", "replace"), data=text
            )
            continue
        found = False
        for match in pattern.finditer(line):
            found = True
            name = match["name"].decode("utf-8", "replace")
            field = declared.get(name, TextField(name, "text", "not one of Kafka's"))
            text = match["value"].strip(b'"') if field.kind != "voters" else match["value"]
            start = position + match.start("value") + (1 if match["value"].startswith(b'"') else 0)
            yield _field(field.name, field.kind, field.doc, start, text)
        if not found:
            text, problem = line.rstrip(b"\r\n"), "it is not a name and a value"
            yield FieldSpan("line", position, position + len(text), "text", data=text, problem=problem, code="text")


def _properties(data: bytes, fields: tuple[TextField, ...]) -> Iterator[FieldSpan]:
    yield from _pairs(data, fields, _PROPERTY)


def _object(data: bytes, fields: tuple[TextField, ...]) -> Iterator[FieldSpan]:
    yield from _pairs(data, fields, _MEMBER)


_OFFSETS = (_checkpoint, text_files.OFFSET_CHECKPOINT_LINE, "offset-checkpoint")
_Reading = Callable[[bytes, tuple[TextField, ...]], Iterator[FieldSpan]]
TEXT_FILES: dict[str, tuple[_Reading, tuple[TextField, ...], str]] = {
    RECOVERY_POINT_CHECKPOINT: _OFFSETS,
    LOG_START_OFFSET_CHECKPOINT: _OFFSETS,
    REPLICATION_OFFSET_CHECKPOINT: _OFFSETS,
    CLEANER_OFFSET_CHECKPOINT: _OFFSETS,
    LEADER_EPOCH_CHECKPOINT: (_checkpoint, text_files.LEADER_EPOCH_LINE, "leader-epoch-checkpoint"),
    PARTITION_METADATA: (_properties, text_files.PARTITION_METADATA, "partition-metadata"),
    META_PROPERTIES: (
        _properties, (*text_files.META_PROPERTIES_V1, *text_files.META_PROPERTIES_V0), "meta-properties",
    ),
    CLEAN_SHUTDOWN_FILE: (_object, text_files.CLEAN_SHUTDOWN, "clean-shutdown"),
    QUORUM_STATE: (_object, (*text_files.QUORUM_STATE_V1, *text_files.QUORUM_STATE_V0), "quorum-state"),
}  # fmt: skip
"""File name -> how it is read, its declared fields, and its page of docs/format."""
