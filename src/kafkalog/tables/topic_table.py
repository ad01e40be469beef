"""What a table is to an export, whatever its format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Protocol

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import asdict

from kafkalog.codec.errors import RecoveryRefused, UsageError
from kafkalog.tables.data_files import DataFile, PartitionFiles
from kafkalog.tables.positions import Position
from kafkalog.tables.table_types import TypeRules, widened

__all__ = ["Commit", "TableSettings", "TopicTable", "concurrent", "merged", "taken"]

_PREFIX = "kafkalog."
VERSION = "1"


class TableSettings(Struct, frozen=True, kw_only=True):
    """What is decided when a table is made, and holds for all that is added later."""

    topic: str
    isolation_level: str
    values: str
    by_day: bool
    masks: tuple[str, ...] = ()
    topic_id: str | None = None

    def as_properties(self) -> dict[str, str]:
        """Texts under names of our own, as tables have properties."""
        found = {f"{_PREFIX}version": VERSION}
        for name, value in asdict(self).items():
            if value is not None:
                found[_PREFIX + name.replace("_", "-")] = value if isinstance(value, str) else json.dumps(value)
        return found

    @classmethod
    def of_properties(cls, properties: Mapping[str, str | None], path: str) -> TableSettings:
        """Back from these; raises `UsageError` for a table that no export made."""
        if properties.get(f"{_PREFIX}version") != VERSION:
            raise UsageError(f"{path} is not a table that an export of this version made; nothing is added to it")
        found = {name.removeprefix(_PREFIX): value for name, value in properties.items()}
        try:
            return cls(
                topic=str(found["topic"]), isolation_level=str(found["isolation-level"]), values=str(found["values"]),
                by_day=found["by-day"] == "true", topic_id=found.get("topic-id"),
                masks=tuple(str(each) for each in json.loads(str(found["masks"]))),
            )  # fmt: skip
        except (KeyError, ValueError, TypeError):
            raise UsageError(f"{path} has lost what its export wrote of itself; nothing is added to it") from None


class Commit(Struct, frozen=True):
    """What one round adds to a table."""

    files: Sequence[DataFile]
    positions: Mapping[int, Position]
    """of the partitions that it goes on in, behind it"""
    id: str


class TopicTable(Protocol):
    """The table of one topic.

    A round calls `load`, `prepare` and `begin` if there are rows, `files` by partition, `commit`.
    """

    rules: TypeRules
    path: str

    def load(self) -> TableSettings | None:
        """Read what it has now; None if there is no table yet."""

    def positions(self, partitions: Sequence[int]) -> dict[int, Position]:
        """What it had of each partition when it was loaded."""

    def prepare(self, schema: pa.Schema, settings: TableSettings) -> pa.Schema:
        """Make the table, or let it grow by columns; gives the schema of its rows.  Raises `UsageError`."""

    def begin(self, round_id: str) -> None:
        """Note durably, where the format needs it, that files of this round are about to be written."""

    def files(self, partition: int, round_id: str) -> PartitionFiles:
        """What takes rows of a partition and writes them to files that nobody sees yet."""

    def commit(self, commit: Commit) -> None:
        """Add the files and move the positions in one step; raises `RecoveryRefused` if somebody else did meanwhile."""

    def close(self) -> None:
        """Let go of what is held."""


def merged(old: pa.Schema | None, new: pa.Schema, rules: TypeRules, path: str) -> pa.Schema:
    """The columns of a table that also takes rows of another schema; raises `UsageError` where it cannot."""
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
    """Somebody else has added to the table since it was loaded."""
    return RecoveryRefused(
        f"another writer has changed {path} meanwhile, so that nothing of this round was added: run the export again",
        reason="concurrent_writer",
    )


def taken(path: str) -> UsageError:
    """Something else is where the table would be."""
    return UsageError(f"{path} is not empty and is not a table of an export: choose another directory")


def new_id() -> str:
    """A new name for a round, which its files have too."""
    return token_hex(8)
