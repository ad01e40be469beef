"""Writes the generated parts of docs/format/ and docs/findings.md: tables from declarations, examples from brokers.

A page is written by hand but for the blocks between ``<!-- begin KIND ARGUMENTS -->`` and ``<!-- end -->``. Run as a
program with ``--write`` it brings the blocks up to date; the tests only compare.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from construct import Container, Struct

from json_pages import description_of
from kafkalog.codec import BatchHeader, RecordBatch, decode_batch, derive, scan
from kafkalog.codec.columnar.struct_columns import column_name
from kafkalog.codec.common import findings
from kafkalog.codec.common.finding_codes import SPECS
from kafkalog.codec.compression.specs import SPECS as SPECS_OF_CODECS
from kafkalog.codec.layout import (
    fetch_result,
    gzip_member,
    legacy_message,
    lz4_frame,
    offset_index,
    producer_snapshot,
    record_batch,
    snappy_stream,
    text_files,
    time_index,
    transaction_index,
    zstd_frame,
)
from kafkalog.codec.messages.control import control_layout
from kafkalog.codec.messages.leaves import Array
from kafkalog.codec.messages.message import MessageStruct
from kafkalog.codec.messages.published import newest
from kafkalog.codec.model import Codec, ControlType
from kafkalog.codec.parsing.published_spans import PublishedMessage
from kafkalog.codec.parsing.trace import FieldSpan, Traced, read_spans
from kafkalog.codec.parsing.whole import ENTRY, PRODUCER_SNAPSHOT, Sequence
from kafkalog.codec.plain.control import parse_control_key
from kafkalog.codec.rules.batch_fields import BATCH_FIELDS, OF_RECORDS
from kafkalog.recovery.modes.table import MODES, WAYS
from kafkalog.spark.contents_lines import UNREAD_NAMES, PlaceLine
from kafkalog.spark.contents_schema import SCHEMAS, SHAPES
from testkit.recorded.broker_dirs import brokers

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (
    *sorted((DOCS / "format").glob("*.md")), DOCS / "findings.md", DOCS / "glossary.md", DOCS / "spark-contents.md",
)  # fmt: skip
BLOCK = re.compile(r"(<!-- begin (?P<kind>\w+) ?(?P<arguments>[^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
MODULES = (
    fetch_result, gzip_member, legacy_message, lz4_frame, offset_index, producer_snapshot, record_batch, snappy_stream,
    text_files, time_index, transaction_index, zstd_frame,
)  # fmt: skip
SHOWN_BYTES = 24


def declaration(name: str) -> Any:
    """A declaration by `module.NAME`."""
    module, _, key = name.partition(".")
    for candidate in MODULES:
        if candidate.__name__.endswith(f".{module}"):
            return getattr(candidate, key)
    raise LookupError(name)


def table(name: str) -> Iterator[str]:
    """The table of one declaration."""
    tree = declaration(name)
    if name.startswith("text_files."):
        yield "| name | type | meaning |"
        yield "|---|---|---|"
        yield from (f"| `{row.name}` | {row.type} | {row.doc} |" for row in derive.documentation(tree))
        return
    yield "| position | field | type | meaning |"
    yield "|---:|---|---|---|"
    for row in derive.documentation(tree):
        yield f"| {'' if row.position is None else row.position} | `{row.name}` | {row.type} | {row.doc} |"


# --- examples --------------------------------------------------------------------------------------------------------


def files(case: str, pattern: str) -> list[Path]:
    """Files of a recorded case whose path below the broker's directory fits, in order, empty ones left out."""
    found = [
        path
        for broker in brokers(case)
        for path in sorted(broker.rglob("*"))
        if fnmatch.fnmatch(path.relative_to(broker).as_posix(), pattern) and path.is_file() and path.stat().st_size
    ]
    if not found:
        raise LookupError(f"{case} has no {pattern}")
    return found


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        cut = value[:SHOWN_BYTES]
        return repr(cut)[1:] + (" ..." if len(cut) < len(value) else "")
    return "null" if value is None else str(value)


def _line(position: int, data: bytes, text: str) -> Iterator[str]:
    cut = data[:SHOWN_BYTES]
    dots = f" ... {len(data) - len(cut)} more" if len(cut) < len(data) else ""
    chunks = [cut[start : start + 8].hex(" ") for start in range(0, len(cut), 8)] or [""]
    for number, chunk in enumerate(chunks):
        last = number == len(chunks) - 1
        left = f"{position + 8 * number:6}  {chunk:<23}"
        yield (f"{left}  {text if number == 0 else ''}{dots if last else ''}").rstrip()


def spans_text(span: FieldSpan, prefix: str = "") -> Iterator[str]:
    """Lines of position, bytes, name and value for all fields of a structure."""
    for child in span.children:
        path = prefix + ("." if prefix and not child.name.startswith("[") else "") + child.name
        if child.is_unpacked:
            yield "        unpacked, where positions count from its first byte:"
        if child.children and not isinstance(child.value, Container):
            yield from spans_text(child, "" if child.is_unpacked else path)
        elif child.children and child.children[0].position == child.children[-1].position < child.end:
            set_bits = [f"{name} {value}" for name, value in child.value.items() if value]
            yield from _line(child.position, child.data, f"{path} = {', '.join(set_bits) or 0}")
        elif child.children:
            yield from spans_text(child, path)
        else:
            yield from _line(child.position, child.data, f"{path} = {_shown(child.value)}")


def message_table(name: str, version: str) -> Iterator[str]:
    """The table of one version of a message of Kafka's."""
    yield "| field | type | meaning, in Kafka's words |"
    yield "|---|---|---|"
    yield from _message_rows(newest(name).construct(int(version)), "")


def _message_rows(layout: MessageStruct, prefix: str) -> Iterator[str]:
    for field, kind in (*layout.ordinary, *layout.tagged.values()):
        type_name = "array" if field.array else field.type
        if field.type != "struct" or field.array:
            yield f"| `{prefix}{field.name}` | {type_name} | {field.about.removesuffix('.')} |"
        inner = kind.element if isinstance(kind, Array) else kind
        if isinstance(inner, MessageStruct):
            yield from _message_rows(inner, f"{prefix}{field.name}[]." if field.array else f"{prefix}{field.name}.")
    where = f"`{prefix}` " if prefix else ""
    yield f"| {where}tagged fields | tagged fields | fields of later versions; normally none |"


def _whole(tree: Traced | Struct, data: bytes, position: int = 0) -> Iterator[str]:
    span = read_spans(tree, data, position=position)
    assert not list(span.problems())
    yield from spans_text(span)


def _batches(case: str, pattern: str) -> Iterator[tuple[Path, RecordBatch]]:
    for path in files(case, pattern):
        for batch in scan(path.read_bytes()).batches:
            yield path, batch


def _fence(where: str, lines: Iterator[str] | list[str]) -> Iterator[str]:
    yield where
    yield ""
    yield "```"
    yield from lines
    yield "```"


def _place(case: str, path: Path, position: int | None = None) -> str:
    at = f", at byte {position}" if position is not None else ""
    return f"From `{path.parent.name}/{path.name}` of Kafka {case.partition('/')[0].removesuffix('-zk')}{at}:"


def batch_example(case: str, pattern: str, wanted: str) -> Iterator[str]:
    """The first batch or message that is a plain batch, a `message`, a `wrapper`, a `marker`
    or a KRaft control type, all of it.
    """
    for path, batch in _batches(case, pattern):
        if _fits(batch, wanted):
            yield from _fence(_place(case, path, batch.position), _whole(ENTRY, bytes(batch.data)))
            return
    raise LookupError(f"{case} {pattern} has no batch that is {wanted}")


def _fits(batch: RecordBatch, wanted: str) -> bool:
    header = batch.header
    if wanted in ("message", "wrapper"):
        return not isinstance(header, BatchHeader) and (header.codec != 0) == (wanted == "wrapper")
    if not isinstance(header, BatchHeader):
        return False
    if wanted == "plain":
        return header.codec == 0 and not header.is_control and len(batch.data) < 200
    if not header.is_control:
        return False
    kinds = {parse_control_key(record.key).type for record in decode_batch(batch).records}
    return bool(kinds & {ControlType.COMMIT, ControlType.ABORT}) if wanted == "marker" else ControlType[wanted] in kinds


def compressed_example(case: str, pattern: str, codec: str) -> Iterator[str]:
    """What the records of the first small batch of a codec are compressed into."""
    for path, batch in _batches(case, pattern):
        if isinstance(batch.header, BatchHeader) and batch.header.codec == Codec[codec.upper()] and batch.size < 400:
            span = read_spans(ENTRY, bytes(batch.data), position=batch.position)
            (compressed,) = (child for child in span.children if child.name == "compressed")
            yield from _fence(_place(case, path, batch.position), spans_text(compressed))
            return
    raise LookupError(f"{case} {pattern} has no {codec}")


def control_value(case: str, pattern: str, wanted: str) -> Iterator[str]:
    """The value of the first KRaft control record of a type."""
    for path, batch in _batches(case, pattern):
        for record in decode_batch(batch).records if batch.header.is_control else ():
            if parse_control_key(record.key).type == ControlType[wanted] and record.value is not None:
                version = int.from_bytes(record.value[:2], "big")
                layout = control_layout(ControlType[wanted]).construct(version)
                lines = _whole(PublishedMessage(layout), record.value)
                yield from _fence(_place(case, path, batch.position).replace(":", ", its value:"), lines)
                return
    raise LookupError(f"{case} {pattern} has no {wanted}")


def entries_example(case: str, pattern: str, name: str) -> Iterator[str]:
    """The first two entries of an index."""
    tree = declaration(name)
    path = files(case, pattern)[0]
    yield from _fence(_place(case, path), _whole(Sequence(tree), path.read_bytes()[: 2 * tree.sizeof()]))


def snapshot_example(case: str, pattern: str) -> Iterator[str]:
    """Header and first producer of a snapshot that has one."""
    header, entry = producer_snapshot.SNAPSHOT_HEADER, producer_snapshot.PRODUCER_ENTRY
    size = header.sizeof() + entry.sizeof()
    path = next(path for path in files(case, pattern) if path.stat().st_size >= size)
    lines = spans_text(read_spans(PRODUCER_SNAPSHOT, path.read_bytes()))
    yield from _fence(_place(case, path), [*lines][: len(header.subcons) + len(entry.subcons)])


def text_example(case: str, pattern: str) -> Iterator[str]:
    """The whole text of a small file."""
    found = files(case, pattern)
    path = next((path for path in found if path.read_bytes().count(b"\n") > 2), found[0])
    yield from _fence(_place(case, path), path.read_text(encoding="utf-8").splitlines()[:12])


# --- findings --------------------------------------------------------------------------------------------------------


def _enum_rows(name: str) -> Iterator[tuple[str, str, str]]:
    """(section, value, text) of the members of an enum of findings, as its source has them."""
    module = sys.modules[getattr(findings, name).__module__]
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    lines = source.splitlines()
    (found,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    section = ""
    for node, text in zip(found.body, [*found.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign):
            continue
        above = lines[node.lineno - 2].strip()
        section = above.removeprefix("# ") if above.startswith("# ") else section
        assert isinstance(text, ast.Expr)
        assert isinstance(text.value, ast.Constant)
        assert isinstance(node.value, ast.Constant)
        yield section, str(node.value.value), " ".join(str(text.value.value).split())


def enum(name: str) -> Iterator[str]:
    """A table for each section of an enum of findings."""
    seen = None
    for section, value, text in _enum_rows(name):
        if section != seen:
            if section:
                yield from ([] if seen is None else [""])
                yield f"**{section[:1].upper()}{section[1:]}**"
                yield ""
            yield "| code | severity | meaning |" if name == "FindingCode" else "| code | meaning |"
            yield "|---|---|---|" if name == "FindingCode" else "|---|---|"
            seen = section
        severity = f" {_severities(findings.FindingCode(value))} |" if name == "FindingCode" else ""
        yield f"| `{value}` |{severity} {text} |"


def _severities(code: findings.FindingCode) -> str:
    spec = SPECS[code]
    also = (f"{severity} if {reason}" for severity, reason in (spec.also or {}).items())
    return "; ".join([spec.severity, *also])


_WORDS = {"partitionLeaderEpoch": "leaderEpoch"}


def batch_fields() -> Iterator[str]:
    """What a batch's header says: where it can be had, and what it means."""
    yield "| column | of each record | meaning |"
    yield "|---|---|---|"
    for name, field in BATCH_FIELDS.items():
        of_records = f"`{_WORDS.get(name, name)}`" if name in OF_RECORDS else ""
        yield f"| `{name}` | {of_records} | {field.meaning} |"


def contents_columns() -> Iterator[str]:
    """Columns of Spark's kinds of contents but for the place: those of `batches` have a table of their own."""
    yield "| `contents` | column | type | meaning |"
    yield "|---|---|---|---|"
    for contents, shapes in SHAPES.items():
        own = [shape for shape in shapes if shape is not PlaceLine]
        for column in (each for each in SCHEMAS[contents] if each.name not in PLACE or PlaceLine not in shapes):
            kind = column.dataType.simpleString().replace("<", "\\<")
            yield f"| `{contents}` | `{column.name}` | {kind} | {_meaning(own, column.name)} |"


PLACE = {field.encode_name for field in msgspec.structs.fields(PlaceLine)}
_IN_MS = re.compile(", in (ms|milliseconds) since 1970")


def _meaning(shapes: Iterable[type[msgspec.Struct]], column: str) -> str:
    for shape in shapes:
        for field in msgspec.structs.fields(shape):
            names = (UNREAD_NAMES.get(f"{shape.__name__}.{field.name}"), column_name(field.encode_name))
            if column in names:
                return _IN_MS.sub("", description_of(shape, field.name))
    raise LookupError(column)


def codecs() -> Iterator[str]:
    """The compressions, by number."""
    yield "| number | name | magic | levels | Kafka has it |"
    yield "|---:|---|---|---|---|"
    for number, spec in SPECS_OF_CODECS.items():
        magics = ", ".join(str(magic) for magic in (0, 1, 2) if spec.is_defined(magic))
        levels = "" if spec.levels is None else f"{spec.levels[0]} to {spec.levels[1]}"
        yield f"| {int(number)} | `{number.label}` | {magics} | {levels} | {'yes' if spec.is_kafkas else 'no'} |"


def modes() -> Iterator[str]:
    """The modes of recovery."""
    yield "| mode | when it is used |"
    yield "|---|---|"
    yield from (f"| `{mode}` | {spec.when} |" for mode, spec in MODES.items())


def ways() -> Iterator[str]:
    """The ways that a plan compares."""
    yield "| way | what it leaves |"
    yield "|---|---|"
    yield from (f"| `{name}` | {way.keeps} |" for name, way in WAYS.items())


KINDS: dict[str, Callable[..., Iterator[str]]] = {
    "table": table,
    "codecs": codecs,
    "modes": modes,
    "ways": ways,
    "message": message_table,
    "batch": batch_example,
    "compressed": compressed_example,
    "control": control_value,
    "entries": entries_example,
    "snapshot": snapshot_example,
    "text": text_example,
    "enum": enum,
    "batch_fields": batch_fields,
    "contents_columns": contents_columns,
}


def current(text: str) -> str:
    """The page with its generated blocks as they should be."""

    def block(match: re.Match[str]) -> str:
        lines = KINDS[match["kind"]](*match["arguments"].split())
        return match[1] + "\n" + "".join(f"{line}\n" for line in lines) + "\n" + match[4]

    return BLOCK.sub(block, text)


def blocks(text: str) -> list[tuple[str, str]]:
    """Kind and arguments of every generated block."""
    return [(match["kind"], match["arguments"]) for match in BLOCK.finditer(text)]


def main(arguments: list[str]) -> int:
    """Compare, or with --write bring up to date."""
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        wanted = current(text)
        if wanted != text:
            stale.append(page.name)
            if "--write" in arguments:
                page.write_text(wanted, encoding="utf-8")
    sys.stdout.write(f"{'written' if '--write' in arguments else 'stale'}: {', '.join(stale) or 'nothing'}\n")
    return 0 if "--write" in arguments or not stale else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
