"""Layouts of the text files of a log directory (lines, `name: value`, Java properties, JSON), with the values that
`layout.text_files` declares. Each layout reads values together with their positions (`trace.Traced`), and builds the
bytes again; `parse`, `build` and `explain` use it. `codec.files.text` and `codec.files.quorum_state` read these files
ten times as fast; tests compare them with these layouts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from construct import Construct, Container, ListContainer, Struct

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.derive import fields_of, names_of
from kafkalog.codec.layout import text_files
from kafkalog.codec.layout.primitives import COUNT_INVALID, COUNT_LIMIT, LayoutError
from kafkalog.codec.layout.text_values import NOT_THAT, Decimal, TextLeaf, VoterIds, text_of
from kafkalog.codec.parsing.json_line import json_of_first_line, short_of
from kafkalog.codec.parsing.properties import encode_properties, parse_properties
from kafkalog.codec.parsing.trace import CONSTANT, Reader, Traced

__all__ = [
    "CLEAN_SHUTDOWN", "LEADER_EPOCH_CHECKPOINT", "META_PROPERTIES", "OFFSET_CHECKPOINT", "PARTITION_METADATA",
    "QUORUM_STATE", "Checkpoint", "JsonObject", "NamedLines", "Properties",
]  # fmt: skip

_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_WORD = re.compile(rb"[^ \t\n\x0b\f\r]+")
_BLANK = b" \t\n\x0b\f\r"
_NAMED = re.compile(
    rb"((?:[^:]|:(?![ \t\n\x0b\f\r]))*):[ \t\n\x0b\f\r]+((?:[^:\r\n]|:(?![ \t\n\x0b\f\r]))*)"
)
_PROPERTY = re.compile(rb"[ \t\f]*(?P<name>[^ \t\f=:#!][^ \t\f=:]*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)")
_MEMBER = re.compile(rb'"(?P<name>(?:[^"\\]|\\.)*)"\s*:\s*(?P<value>"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^,}\s]+)')
_UNKNOWN = "not one of Kafka's"
Values = Mapping[str, Any]


class _Line(NamedTuple):
    start: int
    end: int
    """position after its last character"""
    next: int
    """position after its line end"""


class _TextFile(Traced):
    """A text file that is read as a whole. It must not be larger than `Limits.checkpoint_bytes`."""

    def read(self, reader: Reader) -> Any:
        """Read the rest of the reader's window as the values of the file, up to its last byte. Raises `LayoutError` if
        the file is larger than the limit or not of this format, or a value is not of its type. A tolerant reader raises
        it only if the file is too large or the position of the fault is unknown. It records other faults on the field's
        span.
        """
        start = reader.window.tell()
        if reader.left > reader.limits.checkpoint_bytes:
            raise LayoutError(COUNT_LIMIT, start, f"a text file of {reader.left} bytes is too large", reader.path)
        data = bytes(reader.window.between(start, reader.window.end))
        values = self._read(reader, data)
        reader.window.seek(reader.window.end)
        return values

    def _read(self, reader: Reader, data: bytes) -> Any:
        raise NotImplementedError


def _lines(data: bytes, base: int) -> list[_Line]:
    """Return the lines of a file: for each line the positions of its first character, after its last character, and
    after its line end, with `base` added. A line ends with CR, LF or CR LF, as for Java's readers. A line end at the
    end of the file begins no further line.
    """
    lines = []
    position = 0
    while position < len(data):
        match = _LINE.match(data, position)
        if match is None:
            break
        lines.append(_Line(base + position, base + match.end(1), base + match.end()))
        position = match.end()
    return lines


def _value(reader: Reader, name: str, leaf: Construct, doc: str, start: int, end: int) -> Any:
    """Read the value `name` from the bytes `start` to `end`, and leave the reader at `end`. Raises `LayoutError` for a
    fault; a tolerant reader records it and returns None.
    """
    reader.window.seek(start)
    values = []
    with reader.bounded(end) as inside:
        values.append(inside.field(name, leaf, doc))
    return values[0] if values else None


def _fault(reader: Reader, name: str, position: int, code: str, message: str) -> None:
    """Report that the field `name` is missing. A strict reader raises `LayoutError`; a tolerant one adds an empty field
    at `position` with the problem.
    """
    if reader.spans is not None:
        reader.window.seek(position)
        reader.raw(name, 0)
    reader.blame(name, position, code, message)


class Checkpoint(_TextFile):
    """A version, a number of lines, and that many lines of words (`CheckpointFile`). Kafka treats a file that ends
    before the lines as empty. The value is a container of `version`, `count` and `entries`; version and count are None
    if the file ends before them.
    """

    def __init__(self, line: Struct) -> None:
        super().__init__()
        self.line = line

    def _read(self, reader: Reader, data: bytes) -> Container:
        checkpoint = Container(version=None, count=None, entries=ListContainer())
        lines = _lines(data, reader.window.tell())
        for line, name, doc in zip(lines, ("version", "count"), ("0", "lines that follow"), strict=False):
            checkpoint[name] = _value(reader, name, Decimal(32), doc, line.start, line.end)
        if lines and checkpoint.version not in (None, 0):
            reader.blame("version", lines[0].start, CONSTANT, f"{checkpoint.version} where 0 is needed")
        for number, line in enumerate(lines[2:]):
            checkpoint.entries.append(self._entry(reader, number, line, data))
        if len(lines) > 1 and checkpoint.count is not None and checkpoint.count != len(checkpoint.entries):
            message = f"{len(checkpoint.entries)} lines follow, and {checkpoint.count} are announced"
            reader.blame("count", lines[1].start, COUNT_INVALID, message)
        return checkpoint

    def _entry(self, reader: Reader, number: int, line: _Line, data: bytes) -> Container:
        base = reader.window.end - len(data)
        entry = Container()
        reader.window.seek(line.start)
        with reader.inside(f"[{number}]") as inside:
            words = list(_WORD.finditer(data, line.start - base, line.end - base))
            fields = fields_of(self.line)
            for (name, doc, leaf), word in zip(fields, words, strict=False):
                entry[name] = _value(inside, name, leaf, doc, base + word.start(), base + word.end())
            is_indented = line.end > line.start and data[line.start - base] in _BLANK
            if len(words) != len(fields) or is_indented:
                what = "a blank in front of" if is_indented else f"{len(words)} words where"
                message = f"{what} {' '.join(names_of(self.line))}{'' if is_indented else ' are needed'}"
                inside.window.seek(line.end)
                self._blame_line(reader, number, line, message)
            inside.window.seek(line.next)
        return entry

    @staticmethod
    def _blame_line(reader: Reader, number: int, line: _Line, message: str) -> None:
        if reader.spans is None:
            raise LayoutError(NOT_THAT, line.start, message, f"[{number}]")
        span = reader.span.children[-1]
        span.problem, span.code = message, NOT_THAT

    def _build(self, obj: Values, stream: Any, context: Container, path: str) -> Any:
        entries = list(obj.get("entries") or ())
        numbers = [] if obj.get("version") is None and not entries else [obj.get("version") or 0]
        if numbers and (entries or obj.get("count") is not None):
            numbers.append(len(entries))
        lines = [Decimal(32).build(number) for number in numbers]
        fields = fields_of(self.line)
        lines += [b" ".join(self._word(name, leaf, entry) for name, _doc, leaf in fields) for entry in entries]
        stream.write(b"".join(line + b"\n" for line in lines))
        return obj

    @staticmethod
    def _word(name: str, leaf: Construct, entry: Values) -> bytes:
        word: bytes = leaf.build(entry[name])
        if _WORD.fullmatch(word) is None:
            raise LayoutError(NOT_THAT, 0, f"{text_of(word)!r} is not one word", name)
        return word


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class NamedLines(_TextFile):
    """A file of one line `name: value` for each field, in order. The names, and later lines, are ignored
    (`PartitionMetadataFile`).
    """

    def __init__(self, fields: Struct) -> None:
        super().__init__()
        self.fields = fields

    def _read(self, reader: Reader, data: bytes) -> Container:
        base = reader.window.tell()
        lines = _lines(data, base)
        is_text = _is_utf_8(data)
        fields = Container()
        for number, (name, doc, leaf) in enumerate(fields_of(self.fields)):
            line = lines[number] if number < len(lines) else _Line(base + len(data), base + len(data), base + len(data))
            match = _NAMED.fullmatch(data, line.start - base, line.end - base)
            if match is None or not is_text:
                _fault(reader, name, line.start, NOT_THAT, f"no line {name!r}")
                return fields
            fields[name] = _value(reader, name, leaf, doc, base + match.start(2), base + match.end(2))
        if fields.version is not None and fields.version < 0:
            reader.blame("version", base, CONSTANT, f"version {fields.version}")
        return fields

    def _build(self, obj: Values, stream: Any, context: Container, path: str) -> Any:
        lines = (name.encode() + b": " + leaf.build(obj[name]) for name, _doc, leaf in fields_of(self.fields))
        stream.write(b"\n".join(lines))
        return obj


class Properties(_TextFile):
    """Java properties whose known fields depend on the version. The value has `comments`, and `properties` in file
    order.
    """

    def __init__(self, versions: Mapping[int, Struct], needed: Mapping[int, tuple[str, ...]]) -> None:
        super().__init__()
        self.versions = versions
        self.needed = needed

    def _read(self, reader: Reader, data: bytes) -> Container:
        base = reader.window.tell()
        try:
            properties = parse_properties(data.decode("latin-1"))
        except FormatError as error:
            raise LayoutError(NOT_THAT, base, error.message, reader.path) from None
        text = properties.get("version", "0").strip()
        version = int(text) if text in {str(number) for number in self.versions} else max(self.versions)
        declared = {name: (leaf, doc) for name, doc, leaf in fields_of(self.versions[version])}
        file = Container(comments=ListContainer(), properties=Container())
        for line in _lines(data, base):
            self._line(reader, data, base, line, file, declared)
        for name, value in properties.items():  # values with escapes, whose position is not known
            leaf = declared.get(name, (TextLeaf(), ""))[0]
            if name not in file.properties:
                file.properties[name] = _parsed(name, leaf, value, base)
        file.properties = Container({name: file.properties[name] for name in properties})
        if text != str(version) and "version" in properties:
            reader.blame("version", base, CONSTANT, f"version {text!r} where 0 or 1 is needed")
            return file
        for name in self.needed[version]:
            if name not in properties:
                _fault(reader, name, base, NOT_THAT, f"{name} is missing")
        return file

    def _line(
        self, reader: Reader, data: bytes, base: int, line: _Line, file: Container, declared: Mapping[str, Any]
    ) -> None:
        content = data[line.start - base : line.end - base]
        if content.lstrip(b" \t\f")[:1] in (b"#", b"!") or not content.strip():
            if content.startswith(b"#"):
                file.comments.append(text_of(content[1:]))
            if content:
                _value(reader, "comment", TextLeaf(), "", line.start, line.end)
            return
        match = _PROPERTY.fullmatch(content)
        if match is None or b"\\" in content:
            _value(reader, "line", TextLeaf(), "a line with escapes", line.start, line.end)
            return
        name = match["name"].decode("latin-1")
        leaf, doc = declared.get(name, (TextLeaf(), _UNKNOWN))
        start, end = line.start + match.start("value"), line.start + match.end("value")
        if name == "version":  # Kafka does not mind blanks around the version
            end = start + len(match["value"].rstrip())
        file.properties[name] = _value(reader, name, leaf, doc, start, end)

    def _build(self, obj: Values, stream: Any, context: Container, path: str) -> Any:
        properties = {name: str(value) for name, value in obj["properties"].items()}
        stream.write(encode_properties(properties, list(obj.get("comments") or ())))
        return obj


def _parsed(name: str, leaf: Construct, text: str, position: int) -> Any:
    try:
        return leaf.value_of(text.strip() if name == "version" else text)
    except ValueError as error:
        raise LayoutError(NOT_THAT, position, str(error), name) from None


class JsonObject(_TextFile):
    """A JSON object whose known members depend on the version, which is in the member `version`. If `may_be_empty`, an
    empty file is an empty container. If `in_first_line`, the object is read as a KRaft node reads `quorum-state`.
    """

    def __init__(
        self, versions: Mapping[int, Struct], version: str, *, may_be_empty: bool = False, in_first_line: bool = False
    ) -> None:
        super().__init__()
        self.versions = versions
        self.version = version
        self.may_be_empty = may_be_empty
        self.in_first_line = in_first_line

    def _read(self, reader: Reader, data: bytes) -> Container:
        base = reader.window.tell()
        if self.may_be_empty and not data:
            return Container()
        try:
            members = json_of_first_line(data) if self.in_first_line else json.loads(data)
        except (ValueError, RecursionError):
            members = None
        if not isinstance(members, dict):
            _value(reader, "text", TextLeaf(), "", base, base + len(data))
            reader.blame("text", base, NOT_THAT, "it is not a JSON object")
            return Container()
        version = members.get(self.version)
        if self.in_first_line and self.version in members:
            version = members[self.version] = short_of(version)
        fields = self.versions.get(version) if type(version) is int else None
        if fields is None:
            wanted = " or ".join(map(str, self.versions))
            _fault(reader, self.version, base, CONSTANT, f"{self.version} is not {wanted}")
            return Container()
        declared = {name: (leaf, doc) for name, doc, leaf in fields_of(fields)}
        places = {match["name"].decode("utf-8", "replace"): match.span("value") for match in _MEMBER.finditer(data)}
        for name in declared:
            if name not in members:
                _fault(reader, name, base, NOT_THAT, f"{name} is missing")
        return Container({
            name: self._member(reader, name, value, declared.get(name), data, base, places.get(name))
            for name, value in members.items()
        })  # fmt: skip

    @staticmethod
    def _member(
        reader: Reader, name: str, value: Any, declared: tuple[Any, str] | None, data: bytes, base: int,
        place: tuple[int, int] | None,
    ) -> Any:  # fmt: skip
        leaf, doc = (None, _UNKNOWN) if declared is None else declared
        problem = None if leaf is None else _mismatch(leaf, value)
        start, end = place or (0, 0)
        if data[start:end][:1] == b'"':
            start, end = start + 1, end - 1
        if problem is not None and (reader.spans is None or place is None):
            raise LayoutError(NOT_THAT, base + start, problem, name)
        if reader.spans is not None and place is not None:
            reader.window.seek(base + start)
            span = reader.raw(name, end - start, doc)
            span.type, span.value = "text" if leaf is None else leaf.kind, value
            span.problem, span.code = problem, None if problem is None else NOT_THAT
        return ListContainer(map(Container, value)) if isinstance(leaf, VoterIds) and problem is None else value

    def _build(self, obj: Values, stream: Any, context: Container, path: str) -> Any:
        if self.may_be_empty and not obj:
            return obj
        fields = self.versions.get(obj.get(self.version))  # type: ignore[arg-type]
        if fields is None:
            raise LayoutError(CONSTANT, 0, f"{self.version} {obj.get(self.version)!r}", path)
        for name, _doc, leaf in fields_of(fields):
            problem = _mismatch(leaf, obj[name])
            if problem is not None:
                raise LayoutError(NOT_THAT, 0, problem, name)
        stream.write(json.dumps(_plain(obj), separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace"))
        return obj


def _plain(value: Any) -> Any:
    """Return the value with dicts and lists in place of Construct's containers."""
    if isinstance(value, Mapping):
        return {name: _plain(element) for name, element in value.items() if name != "_io"}
    return [_plain(element) for element in value] if isinstance(value, list) else value


def _mismatch(leaf: Any, value: Any) -> str | None:
    """Return the reason why a JSON value is not of a declared type; None if it is of that type."""
    if isinstance(leaf, VoterIds):
        if not isinstance(value, list):
            return "it is not a list"
        ids = (voter.get("voterId") if isinstance(voter, Mapping) else None for voter in value)
        return next((problem for voter in ids if (problem := _mismatch(Decimal(32), voter)) is not None), None)
    try:
        text = leaf.text_for(value)
        leaf.value_of(text)
    except ValueError as error:
        return str(error)
    return None


OFFSET_CHECKPOINT = Checkpoint(text_files.OFFSET_CHECKPOINT_LINE)
LEADER_EPOCH_CHECKPOINT = Checkpoint(text_files.LEADER_EPOCH_LINE)
PARTITION_METADATA = NamedLines(text_files.PARTITION_METADATA)
META_PROPERTIES = Properties(
    {0: text_files.META_PROPERTIES_V0, 1: text_files.META_PROPERTIES_V1}, {0: (), 1: ("cluster.id", "node.id")}
)
CLEAN_SHUTDOWN = JsonObject({0: text_files.CLEAN_SHUTDOWN}, "version", may_be_empty=True)
QUORUM_STATE = JsonObject(
    {0: text_files.QUORUM_STATE_V0, 1: text_files.QUORUM_STATE_V1}, "data_version", in_first_line=True
)
