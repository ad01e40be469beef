"""Interface of the table of a topic, independent of its format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Protocol

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import asdict

from kafkalog.codec.common.errors import FormatError, RecoveryRefused, UsageError
from kafkalog.tables.data_files import DataFile, PartitionFiles
from kafkalog.tables.positions import Position
from kafkalog.tables.table_types import TypeRules, widened

__all__ = ["Commit", "TableSettings", "TopicTable", "concurrent", "merged", "taken", "unloadable"]

_PREFIX = "kafkalog."
VERSION = "1"


class TableSettings(Struct, frozen=True, kw_only=True):
    """Settings that are fixed when a table is created and apply to everything that is added later."""

    topic: str
    isolation_level: str
    values: str
    by_day: bool
    masks: tuple[str, ...] = ()
    topic_id: str | None = None

    def as_properties(self) -> dict[str, str]:
        """Return the settings as table properties, name -> text, with the prefix `kafkalog.` and a version. Settings
        that are None are omitted.
        """
        properties = {f"{_PREFIX}version": VERSION}
        for name, value in asdict(self).items():
            if value is not None:
                properties[_PREFIX + name.replace("_", "-")] = value if isinstance(value, str) else json.dumps(value)
        return properties

    @classmethod
    def of_properties(cls, properties: Mapping[str, str | None], path: str) -> TableSettings:
        """Return the settings in table properties; `path` is only for messages. Raises `UsageError` if an export of
        this version did not create the table. Raises it also if the masks are invalid, or a setting other than the
        topic id is missing.
        """
        if properties.get(f"{_PREFIX}version") != VERSION:
            raise UsageError(f"{path} is not a table that an export of this version made; nothing is added to it")
        texts = {name.removeprefix(_PREFIX): value for name, value in properties.items()}
        try:
            return cls(
                topic=str(texts["topic"]), isolation_level=str(texts["isolation-level"]), values=str(texts["values"]),
                by_day=texts["by-day"] == "true", topic_id=texts.get("topic-id"),
                masks=tuple(str(load) for load in json.loads(str(texts["masks"]))),
            )  # fmt: skip
        except (KeyError, ValueError, TypeError, RecursionError):
            raise UsageError(f"{path} has lost what its export wrote of itself; nothing is added to it") from None


class Commit(Struct, frozen=True):
    """The files and positions that one round adds to a table."""

    files: Sequence[DataFile]
    positions: Mapping[int, Position]
    """new positions of the partitions that the round extended"""
    id: str


class TopicTable(Protocol):
    """The table of one topic. If there are rows, a round calls `load`, `prepare`, `begin`, `files` for each partition,
    and `commit`.
    """

    rules: TypeRules
    path: str

    def load(self) -> TableSettings | None:
        """Read the current state; returns None if there is no table yet."""

    def positions(self, partitions: Sequence[int]) -> dict[int, Position]:
        """Positions of the partitions when the table was loaded."""

    def prepare(self, schema: pa.Schema, settings: TableSettings) -> pa.Schema:
        """Create the table or add columns, and return the schema of its rows. Raises `UsageError` if the columns cannot
        be combined.
        """

    def begin(self, round_id: str) -> None:
        """Record durably, if the format needs it, that files of this round are about to be written."""

    def files(self, partition: int, round_id: str) -> PartitionFiles:
        """Return a writer of rows of a partition, to files that no reader sees yet."""

    def commit(self, commit: Commit) -> None:
        """Add the files and move the positions in one step; raises `RecoveryRefused` if another writer was faster."""

    def close(self) -> None:
        """Release all resources."""


def merged(old: pa.Schema | None, new: pa.Schema, rules: TypeRules, path: str) -> pa.Schema:
    """Return the schema for rows of both schemas: the columns of `old`, widened if needed, then the new ones. If `old`
    is None, return `new`.

    Raises `UsageError` if a column's types cannot be combined; `path` is only for its message.
    """
    if old is None:
        return new
    fields = []
    for each in old:
        place = new.get_field_index(each.name)
        type = each.type if place < 0 else widened(each.type, new.field(place).type, rules)
        if type is None:
            raise UsageError(
                f"column {each.name} of {path} is {_short(each.type)} and would have to become "
                f"{_short(new.field(place).type)}, which no value that is there would fit: export into another "
                "directory, or choose the column's schema"
            )
        fields.append((each.name, type))
    return pa.schema([*fields, *((each.name, each.type) for each in new if old.get_field_index(each.name) < 0)])


def _short(type: pa.DataType) -> str:
    text = str(type)
    return text if len(text) <= 80 else f"{text[:80]}…"


def concurrent(path: str) -> RecoveryRefused:
    """Return the error for a table that another writer has changed since it was loaded."""
    return RecoveryRefused(
        f"another writer has changed {path} meanwhile, so that nothing of this round was added: run the export again",
        reason="concurrent_writer",
    )


def unloadable(error: Exception, path: str) -> FormatError:
    """Return the error for a table whose metadata cannot be parsed, with the first line of the library's `error`."""
    why = next(iter(str(error).splitlines()), type(error).__name__)
    return FormatError(f"this table cannot be loaded: {why}", source=path)


def taken(path: str) -> UsageError:
    """Return the error for a path at which something other than the table exists."""
    return UsageError(f"{path} is not empty and is not a table of an export: choose another directory")


def new_id() -> str:
    """Return a new name for a round and its files."""
    return token_hex(8)
