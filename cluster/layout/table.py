"""Field tables: one line per field, nested structs indented, as near to Kafka's own schemas as text can be.

    offset            int64
    leader_epoch      int32    3+      = -1
    expire_timestamp  int64    1-1     = -1
    members           []struct
        member_id     string
    topic_id          uuid     4+ tag 0

A type is a scalar, `string`, `bytes`, `struct`, or `[]` and one of these; `?` behind it means nullable.  Versions are
`N+` or `N-M`; without them a field is in all.  `tag N` puts it into the tag section, `= value` is what it is when
absent.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Field", "parse_table"]

_LINE = re.compile(
    r"(?P<name>[a-z]\w*) +(?P<array>\[\])?(?P<type>[a-z]\w*)(?P<null>\?)?"
    r"(?: +(?P<since>\d+)(?:\+|-(?P<until>\d+)))?(?: +tag (?P<tag>\d+))?(?: += (?P<default>.+))?\Z"
)
_FOREVER = 1 << 15
_ZERO: dict[str, object] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": "A" * 22}


@dataclass(frozen=True)
class Field:
    """One line of a table."""

    name: str
    type: str
    array: bool
    nullable: bool
    since: int
    until: int
    tag: int | None
    explicit_default: object
    has_default: bool
    fields: tuple[Field, ...]

    def in_version(self, version: int) -> bool:
        """Whether messages of that version have it."""
        return self.since <= version <= self.until

    def default(self, version: int) -> Any:
        """What a reader gives for it when it is absent."""
        if self.has_default:
            return self.explicit_default
        if self.array:
            return []
        if self.type == "struct":
            return {each.name: each.default(version) for each in self.fields if each.in_version(version)}
        return _ZERO.get(self.type, 0)


def _field(line: str, inner: tuple[Field, ...]) -> Field:
    match = _LINE.match(line)
    if match is None:
        raise ValueError(f"not a line of a field table: {line!r}")
    part = match.groupdict()
    if (part["type"] == "struct") != bool(inner):
        raise ValueError(f"a struct without fields, or fields without a struct: {line!r}")
    since = int(part["since"] or 0)
    until = int(part["until"]) if part["until"] else _FOREVER
    default = ast.literal_eval(part["default"]) if part["default"] else None
    return Field(
        part["name"],
        part["type"],
        part["array"] is not None,
        part["null"] is not None,
        since,
        until,
        int(part["tag"]) if part["tag"] else None,
        default,
        part["default"] is not None,
        inner,
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fields(lines: list[str]) -> Iterable[Field]:
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and _indent(lines[end]) > _indent(lines[at]):
            end += 1
        yield _field(lines[at].strip(), tuple(_fields(lines[at + 1 : end])))
        at = end


def parse_table(text: str) -> tuple[Field, ...]:
    """The fields of a table; raises `ValueError` if it is none, which is a mistake in the declaration."""
    return tuple(_fields([line for line in text.splitlines() if line.strip()]))
