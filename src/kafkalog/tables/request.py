"""The request to export records into tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Struct
from msgspec.structs import force_setattr

from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.options import Option
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike
from kafkalog.log.reading.readable import READ_COMMITTED
from kafkalog.log.reading.record_filter import EVERY_RECORD, RecordFilter, conditions_of
from kafkalog.values.column_schema import NamedSchema
from kafkalog.values.registry import SchemaRegistry
from kafkalog.values.sources import check_values

__all__ = ["Export"]

_FORMATS = ("parquet", "iceberg", "delta")
_VALUES = "auto decodes keys and values with their schemas, bytes leaves them as bytes."
_KEY_SCHEMA = "Subject whose schema determines the type of keys."
_VALUES_SCHEMA = "Subject whose schema determines the type of values."
_MASKS = (
    "Hide fields of this name in keys and values, and all of a key or value that cannot be decoded; may be "
    "repeated."
)
_ACCEPT_LOSS = "Proceed even if the log has lost records that are not in the table yet."


class Export(Struct, frozen=True, kw_only=True):
    """Request to `export`.

    Raises `UsageError` for a format that does not exist and for fields that do not go together.
    """

    format: Annotated[str, Option("--format", "Format of the tables.", choices=_FORMATS)]
    """`parquet`, `iceberg` or `delta`"""
    select: Selection = ALL
    """topic-partitions to export; by default all but those of Kafka's internal topics"""
    filter: RecordFilter = EVERY_RECORD
    """offsets, timestamps and isolation level; the starts apply only to partitions that are not in the table yet"""
    values: Annotated[str, Option("--values", _VALUES, choices=("auto", "bytes"))] = "auto"
    """`auto` decodes keys and values by their schemas, `bytes` leaves them as they are"""
    schemas: SchemaRegistry | None = None
    """schemas for `auto`; None: those in the log directories. This field and the next two are as in `DecodedValues`"""
    key_schema: Annotated[NamedSchema | None, Option("--key-schema", _KEY_SCHEMA, "SUBJECT")] = None
    values_schema: Annotated[NamedSchema | None, Option("--values-schema", _VALUES_SCHEMA, "SUBJECT")] = None
    masks: Annotated[Iterable[str], Option("--mask", _MASKS, "FIELD")] = ()
    """names of fields of keys and values to hide"""
    by_day: bool = True
    """write the records of each day into files of their own"""
    replica: PathLike | None = None
    """directory to read if a topic-partition is in two of them"""
    accept_loss: Annotated[bool, Option("--accept-loss", _ACCEPT_LOSS)] = False
    """proceed if records after the table's end were removed from the log, or a segment of them is missing"""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.format not in _FORMATS:
            raise UsageError(f"there is no format {self.format!r}; there are {', '.join(_FORMATS)}")
        check_values(self.values, self.schemas, self.key_schema, self.values_schema)
        force_setattr(self, "masks", tuple(self.masks))
        if self.values == "bytes" and self.masks:
            raise UsageError("masks have no effect without values='auto'")
        if conditions_of(self.filter) is not None:
            raise UsageError("an export chooses records by offset and time only")

    @property
    def isolation_level(self) -> str:
        """The isolation level, `read_committed` by default."""
        return self.filter.isolation_level or READ_COMMITTED
