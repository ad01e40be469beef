"""`kafkalog explain`: every byte of a file with its field, value and meaning, and the fields that are wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import msgspec
from msgspec import UNSET, Struct, UnsetType

from kafkalog.cli.dump.record_lines import RecordText, record_object
from kafkalog.cli.lines import print_lines
from kafkalog.cli.options.common import JSON
from kafkalog.cli.options.numbers import FIELD_COUNT, OFFSET
from kafkalog.cli.output import LineWriter
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.tables import Column, print_table
from kafkalog.codec.parsing.trace import FieldSpan
from kafkalog.recovery.explain import ExplainedPart, Explanation, PartRole, explain
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode
from kafkalog.words.fields import field_path, value_text, words_of

__all__ = ["command"]

_SHOWN_BYTES = 8
_DEFAULT_FIELDS = 400
_HEADINGS = {
    PartRole.ASKED: "",
    PartRole.BEFORE: "before the damage, ",
    PartRole.DAMAGED: "damaged, ",
    PartRole.AFTER: "after the damage, ",
}


def _rows(span: FieldSpan, depth: int = 0, prefix: str = "") -> Iterator[tuple[FieldSpan, int, str]]:
    """Yield each field below `span`, in the order of the file, with its depth (0 for the direct fields) and its
    path.
    """
    for child in span.children:
        path = prefix if child.is_unpacked else field_path(prefix, child.name)
        yield child, depth, path or child.name
        yield from _rows(child, depth + 1, path)


def _hex(span: FieldSpan) -> str:
    if span.type.startswith("bit"):
        return ""
    more = f" +{len(span.data) - _SHOWN_BYTES}" if len(span.data) > _SHOWN_BYTES else ""
    return span.data[:_SHOWN_BYTES].hex(" ") + more


def _value(span: FieldSpan) -> str:
    value, words = value_text(span), words_of(span)
    return f"{value}: {words}" if value and words else value or words


def _table_row(span: FieldSpan, depth: int) -> list[str | int | None]:
    name = "unpacked:" if span.is_unpacked else span.name
    meaning = "positions count from the first unpacked byte" if span.is_unpacked else span.doc
    return [
        span.position, _hex(span), f"{'. ' * depth}{escape_controls(name)}", _value(span), span.problem or "",
        span.type, meaning,
    ]  # fmt: skip


def _heading(part: ExplainedPart) -> str:
    span = part.span
    return f"{_HEADINGS[part.role]}{part.what} at byte {span.position}, {span.end - span.position} bytes"


def _print(found: Explanation) -> None:
    with SentenceWriter() as writer:
        writer.write(f"{escape_controls(found.path)}: {found.size} bytes; docs/format/{found.page}.md")
    for part in found.parts:
        with LineWriter() as writer:
            writer.write("")
        print_table(
            _heading(part),
            ["byte", "bytes", "field", Column("value", wraps=True),
             Column("problem", wraps=True, if_any=True, alarms=True), Column("type", drop=1),
             Column("meaning", drop=2)],
            [_table_row(span, depth) for span, depth, _path in _rows(part.span)],
        )  # fmt: skip
        with SentenceWriter() as writer:
            for sentence in _sentences(part):
                writer.write(escape_controls(sentence))


def _sentences(part: ExplainedPart) -> Iterator[str]:
    if part.span.note is not None:
        yield f"{part.span.note} are shown; --max-fields shows more"
    yield from part.remarks
    if part.breaks:
        yield f"what breaks: {', '.join(part.breaks)}"


def _print_records(explanation: Explanation) -> None:
    text = RecordText()
    with LineWriter() as writer:
        for part in explanation.parts:
            if part.records is None:
                continue
            writer.write(f"{escape_controls(explanation.path)}, {_heading(part)}: {part.records.remark}")
            if part.records.batch is not None:
                for record in part.records.records:
                    writer.write(text.line(part.records.batch, record))


class PartLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="part"):
    """One structure that is explained; its fields are the lines after it."""

    part: int
    """its number, from 0"""
    file: str
    """path of the file"""
    page: str
    """page of docs/format that has its fields"""
    role: PartRole
    """why it is shown: it was asked for, it is damaged, or it is the sound entry before or after the damage"""
    what: str
    """what it is: a batch, a message, the entries of an index"""
    position: int
    """its first byte in the file"""
    size: int
    """its bytes"""
    remarks: list[str]
    """sentences about the whole of it"""
    breaks: list[str]
    """fields that are wrong, the likeliest first; empty if nothing is, or if it cannot be known"""
    is_cut: bool
    """whether it has more fields than --max-fields allows"""


class FieldLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="field"):
    """One field."""

    part: int
    """number of the part that it belongs to"""
    field: str
    """its path, under the names of docs/format"""
    depth: int
    """how many structures it lies in"""
    position: int
    """its first byte: in the file, or in what was unpacked"""
    size: int
    """its bytes"""
    type: str
    """how it is written; empty for a structure"""
    bytes: str | None
    """its bytes in hexadecimal; null for a structure"""
    value: str | None
    """its value in short; null for a structure, and if it cannot be read"""
    words: str | None
    """what the value means; null if it needs no words"""
    meaning: str | None
    """what the field means"""
    problem: str | None
    """what is wrong with it; null if nothing is"""
    is_unpacked: bool
    """whether positions below it count from the first byte of what was unpacked"""


class RecordsLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="records"):
    """With --records: how far the records of a batch go."""

    part: int
    """the number of its part, from 0"""
    position: int
    """first byte of the batch in the file"""
    remark: str
    """a sentence: how many decode, and what is to be known of them"""


class RecordLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="record"):
    """With --records: one record that decodes."""

    part: int
    """the number of its part"""
    is_of_damaged_batch: bool
    """true: nothing vouches for it, and no reader gives it"""
    offset: int
    """its offset"""
    timestamp: int
    """milliseconds since 1970"""
    timestamp_type: str = msgspec.field(name="timestampType")
    """`CreateTime` or `LogAppendTime`; `NoTimestampType` for a message of magic 0"""
    key: str | None
    """as text; null where it is none, or not UTF-8"""
    key_b64: str | UnsetType = UNSET
    """bytes that are not UTF-8, in base64; else absent"""
    value: str | None
    """as text; null where it is none, or not UTF-8"""
    value_b64: str | UnsetType = UNSET
    """bytes that are not UTF-8, in base64; else absent"""
    headers: list[Any] | None
    """name and value of each; null where a value is not UTF-8"""
    headers_b64: list[Any] | UnsetType = UNSET
    """the headers with values in base64, where one is not UTF-8; else absent"""
    leader_epoch: int | None = msgspec.field(name="leaderEpoch")
    """null if unknown"""


Line = PartLine | FieldLine | RecordsLine | RecordLine
"""For each structure a line, then a line for each of its fields."""


def _record_lines(explanation: Explanation) -> Iterator[Line]:
    put = record_object(None, None, "text")
    for number, part in enumerate(explanation.parts):
        if part.records is None:
            continue
        is_damaged = part.role is PartRole.DAMAGED or not part.records.is_all
        yield RecordsLine(part=number, position=part.span.position, remark=part.records.remark)
        if part.records.batch is not None:
            for record in part.records.records:
                values = json.loads(put(part.records.batch, record))
                about = {"part": number, "is_of_damaged_batch": is_damaged}
                yield msgspec.convert({**values, **about}, RecordLine)


def _lines(found: Explanation) -> Iterator[Line]:
    for number, part in enumerate(found.parts):
        yield PartLine(
            part=number, file=found.path, page=found.page, role=part.role, what=part.what, position=part.span.position,
            size=part.span.end - part.span.position, remarks=[*part.remarks], breaks=[*part.breaks],
            is_cut=part.span.note is not None,
        )  # fmt: skip
        for span, depth, path in _rows(part.span):
            yield FieldLine(
                part=number, field=path, depth=depth, position=span.position, size=span.end - span.position,
                type=span.type, bytes=span.data.hex() or None, value=value_text(span), words=words_of(span) or None,
                meaning=span.doc or None, problem=span.problem, is_unpacked=span.is_unpacked,
            )  # fmt: skip


@click.command(name="explain")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--position", type=OFFSET, metavar="N", help="Explain the part of the file at this position, in bytes.")
@click.option("--offset", type=OFFSET, metavar="N", help="Explain the batch or message that contains this offset.")
@click.option("--max-fields", type=FIELD_COUNT, default=_DEFAULT_FIELDS, show_default=True, metavar="N",
              help="Print at most this many fields of each part.")  # fmt: skip
@click.option("--records", is_flag=True,
              help="Print the records of the batch instead, as far as they decode before damage.")
@JSON
def command(
    path: str, position: int | None, offset: int | None, max_fields: int, records: bool, as_json: bool
) -> int:
    """Explain the bytes of a file of a log directory: field, value and meaning of each.

    Without --position or --offset, explains the first damage of a log and the sound entries before and after it, and
    names the damaged field if that can be determined.  A sound file is explained from its start.

    Exit code 0 if no explained part is damaged, 1 if one is, 4 if the file cannot be read.
    """
    explanation = explain(path, position=position, offset=offset, max_fields=max_fields, records=records)
    if as_json:
        print_lines(_record_lines(explanation) if records else _lines(explanation))
    else:
        _print_records(explanation) if records else _print(explanation)
    return ExitCode.CLEAN if explanation.is_sound else ExitCode.FINDINGS
