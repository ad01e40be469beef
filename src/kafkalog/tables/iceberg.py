"""Iceberg table of a topic, in a catalog of its own. Offsets are stored in the snapshot summary and in a table
property.

The property is changed by the same transaction as the snapshot, because snapshots expire. If a commit lost against
another writer, pyiceberg would retry it and add the records twice; the requirement on the property prevents that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from msgspec import structs

from kafkalog.codec.common.errors import FormatError, KafkaLogError, StorageError, UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.log.disk.files import exists
from kafkalog.tables.data_files import DATE, NO_DATE, DataFile, PartitionFiles, made_directories
from kafkalog.tables.positions import Position
from kafkalog.tables.table_types import TypeRules
from kafkalog.tables.topic_table import Commit, TableSettings, concurrent, merged, unloadable

with needed("an export to Iceberg", "iceberg"):
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        CommitStateUnknownException,
        NoSuchTableError,
        TableAlreadyExistsError,
        ValidationError,
    )
    from pyiceberg.io.pyarrow import (
        MetricModeTypes,
        MetricsMode,
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
        schema_to_pyarrow,
    )
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.manifest import DataFileContent, FileFormat
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.typedef import Record
    from sqlalchemy.exc import SQLAlchemyError

__all__ = ["CATALOG", "NAMESPACE", "IcebergTopicTable"]

CATALOG, NAMESPACE = "kafkalog", "kafka"
_FILE = "catalog.db"
_POSITIONS, _COMMIT = "kafkalog.positions", "kafkalog.commit"
_NONE, _ALWAYS_COUNTED = MetricsMode(MetricModeTypes.NONE), ("partition", "offset")
_NO_RETRIES = {"commit.retry.num-retries": "0"}


@contextmanager
def _translated_errors(path: str) -> Iterator[None]:
    """Context manager that converts errors of pyiceberg about the table at `path`: `RecoveryRefused` if another writer
    has committed first, `StorageError` for I/O errors of files, `FormatError` for a catalog or metadata that cannot be
    used.
    """
    try:
        yield
    except KafkaLogError:
        raise
    except CommitFailedException as error:
        raise concurrent(path) from error
    except OSError as error:
        raise StorageError.wrap(error, "cannot load or change the table") from error
    except (ValidationError, ValueError, SQLAlchemyError) as error:
        raise unloadable(error, path) from error


class IcebergTopicTable:
    """The table `kafka.NAME` of the catalog in a directory."""

    rules = TypeRules(has_nanoseconds=False, has_unsigned=False, has_large_decimals=False)

    def __init__(self, root: str, topic: str) -> None:
        self._root = os.path.abspath(root)
        self.path = os.path.join(root, NAMESPACE, topic)
        self._name = (NAMESPACE, topic)
        self._catalog: Any = None
        self._table: Any = None
        self._settings: TableSettings | None = None

    def _open(self) -> Any:
        if self._catalog is None:
            made_directories(os.path.dirname(self._root), os.path.basename(self._root))
            place = f"sqlite:///{os.path.join(self._root, _FILE)}"
            self._catalog = SqlCatalog(CATALOG, uri=place, warehouse=f"file://{self._root}")
            self._catalog.create_namespace_if_not_exists(NAMESPACE)
        return self._catalog

    def load(self) -> TableSettings | None:
        """Load the newest metadata of the table, which the other methods then use. Return its settings; None if the
        catalog or the table does not exist. Raises `UsageError` for a table that no export created. Raises
        `FormatError` if catalog or metadata are damaged. Raises `StorageError` if a file cannot be read.
        """
        if not exists(os.path.join(self._root, _FILE)):
            return None
        with _translated_errors(self.path):
            try:
                self._table = self._open().load_table(self._name)
            except NoSuchTableError:
                return None
        self._settings = TableSettings.of_properties(self._table.properties, self.path)
        return self._settings

    def positions(self, partitions: Sequence[int]) -> dict[int, Position]:
        """Return the positions of the given partitions, by partition number, from a property of the table. A partition
        without a stored position is omitted; the result is empty if there is no table. Call `load` before. Raises
        `FormatError` if the property is invalid.
        """
        if self._table is None:
            return {}
        try:
            stored = json.loads(self._table.properties.get(_POSITIONS, "{}"))
            return {
                partition: Position(*stored[str(partition)]) for partition in partitions if str(partition) in stored
            }
        except (ValueError, TypeError):
            raise FormatError(f"the property {_POSITIONS} is not what an export wrote", source=self.path) from None

    def prepare(self, schema: pa.Schema, settings: TableSettings) -> pa.Schema:
        """Create the table with `settings` if it is missing, or add columns by Iceberg's rules. Return the table's
        schema without the column of the day. Also turns off the commit retries of the table. Each change is committed
        at once.

        Raises `UsageError` if the columns cannot be combined. Raises `RecoveryRefused` if another writer changed the
        table meanwhile. Raises `FormatError` if catalog or metadata cannot be used. Raises `StorageError` for I/O
        errors.
        """
        with _translated_errors(self.path):
            if self._table is None:
                self._make(schema, settings)
            wanted = merged(self._schema(), schema, self.rules, self.path)
            if wanted != self._schema():
                with self._table.transaction() as change, change.update_schema() as update:
                    update.union_by_name(_with_date(wanted, settings))
            if self._table.properties.get("commit.retry.num-retries") != "0":
                with self._table.transaction() as change:
                    change.set_properties(_NO_RETRIES)
        return wanted

    def _schema(self) -> pa.Schema:
        """Return the columns of the table except the day, with the types that this package uses."""
        arrow_schema = schema_to_pyarrow(self._table.schema(), include_field_ids=False)
        return pa.schema([(each.name, _small(each.type)) for each in arrow_schema if each.name != DATE.name])

    def _make(self, schema: pa.Schema, settings: TableSettings) -> None:
        properties = {**settings.as_properties(), **_NO_RETRIES}
        try:
            with self._open().create_table_transaction(
                self._name, _with_date(schema, settings), properties=properties
            ) as making:
                with making.update_spec() as spec:
                    spec.add_field("partition", IdentityTransform(), "partition")
                    if settings.by_day:
                        spec.add_field(DATE.name, IdentityTransform(), DATE.name)
                with making.update_sort_order() as order:
                    order.asc("partition", IdentityTransform())
                    order.asc("offset", IdentityTransform())
        except (TableAlreadyExistsError, CommitFailedException):
            pass  # another writer has created it
        self.load()

    def begin(self, round_id: str) -> None:
        """Do nothing. Files that are in no snapshot do not belong to an Iceberg table, and an export never removes
        them.
        """

    def files(self, partition: int, round_id: str) -> PartitionFiles:
        """Return a writer for the files of a partition, with the field ids of the table. They belong to no snapshot
        before `commit`. `round_id` becomes part of their names.

        Raises `UsageError` if the table was neither loaded nor prepared.
        """
        if self._settings is None:
            raise UsageError("a table is prepared before it is written")
        by_day = self._settings.by_day
        location = self._table.location().removeprefix("file://")

        def place(file: DataFile, number: int) -> str:
            folders = [f"partition={partition}", *([f"date={file.date or NO_DATE}"] if by_day else [])]
            directory = made_directories(os.path.dirname(location), os.path.basename(location), "data", *folders)
            return os.path.join(directory, f"kafkalog-{round_id}-{number}.parquet")

        schema = schema_to_pyarrow(self._table.schema())
        return PartitionFiles(partition, place, schema, {"store_schema": False}, by_day=by_day)

    def commit(self, commit: Commit) -> None:
        """Commit the new files in one snapshot. Its summary has the first and last offset of each partition in these
        files; a table property gets the positions of all partitions. If an I/O error is reported although the commit
        succeeded, return normally.

        Raises `RecoveryRefused` if another writer has committed first, `StorageError` if the snapshot cannot be
        committed. If the table was meanwhile replaced by one that no export created or was damaged, raises `UsageError`
        or `FormatError`.
        """
        positions = {**json.loads(self._table.properties.get(_POSITIONS, "{}"))}
        positions |= {str(number): list(structs.asdict(each).values()) for number, each in commit.positions.items()}
        summary = {_COMMIT: commit.id}
        for file in commit.files:
            first, last = f"kafkalog.first-offset.{file.partition}", f"kafkalog.last-offset.{file.partition}"
            summary[first] = str(min(file.first_offset, int(summary.get(first, file.first_offset))))
            summary[last] = str(max(file.last_offset, int(summary.get(last, file.last_offset))))
        files = [self._file(each) for each in commit.files]
        try:
            with self._table.transaction() as change:
                change.set_properties({_POSITIONS: json.dumps(positions), _COMMIT: commit.id})
                with change.update_snapshot(snapshot_properties=summary).fast_append() as append:
                    for file in files:
                        append.append_data_file(file)
        except CommitFailedException as error:
            raise concurrent(self.path) from error
        except (CommitStateUnknownException, OSError, SQLAlchemyError) as error:
            if self.load() is None or self._table.properties.get(_COMMIT) != commit.id:
                raise StorageError(None, f"cannot commit to the table: {error}", self.path) from error

    def _file(self, file: DataFile) -> Any:
        schema, metadata = self._table.schema(), self._table.metadata
        ids = parquet_path_to_id_mapping(schema)
        plan = compute_statistics_plan(schema, metadata.properties)
        try:
            statistics = data_file_statistics_from_parquet_metadata(file.metadata[0], _counted(plan, file, ids), ids)
        except (OverflowError, ValueError):  # times that Python has none for
            few = {ids[name] for name in _ALWAYS_COUNTED}
            plan = {id: each if id in few else replace(each, mode=_NONE) for id, each in plan.items()}
            statistics = data_file_statistics_from_parquet_metadata(file.metadata[0], plan, ids)
        by_day = self._settings is not None and self._settings.by_day
        place = (file.partition, *([None if file.date is None else file.day] if by_day else []))
        return IcebergFile.from_args(
            content=DataFileContent.DATA, file_path=f"file://{file.path}", file_format=FileFormat.PARQUET,
            partition=Record(*place), file_size_in_bytes=file.size, sort_order_id=metadata.default_sort_order_id,
            spec_id=metadata.default_spec_id, equality_ids=None, key_metadata=None, **statistics.to_serialized_dict(),
        )  # fmt: skip

    def close(self) -> None:
        """Close the connections of the catalog."""
        if self._catalog is not None:
            self._catalog.engine.dispose()


def _with_date(schema: pa.Schema, settings: TableSettings) -> pa.Schema:
    """Return the schema with the column of the day if the table is divided by day. The day is a column of its own
    because pyiceberg has no day transform for times beyond the year 9999.
    """
    return schema.append(DATE) if settings.by_day else schema


def _counted(plan: dict[int, Any], file: DataFile, ids: Mapping[str, int]) -> dict[int, Any]:
    """Return a copy of `plan`, the kinds of statistics by field id. A column without statistics in one of the file's
    row groups gets none. An example is a column whose texts there are all long.
    """
    metadata = file.metadata[0]
    columns = [
        metadata.row_group(group).column(number)
        for group in range(metadata.num_row_groups)
        for number in range(metadata.num_columns)
    ]
    without = {ids[column.path_in_schema] for column in columns if not column.is_stats_set}
    return {id: replace(each, mode=_NONE) if id in without else each for id, each in plan.items()}


def _small(type: pa.DataType) -> pa.DataType:
    """Return the type with large strings, large and fixed-size binaries and large lists replaced by plain ones, at any
    depth. Map keys become strings, and list elements are named `element`.
    """
    if pa.types.is_struct(type):
        return pa.struct([(each.name, _small(each.type)) for each in type])
    if pa.types.is_map(type):
        return pa.map_(pa.string(), _small(type.item_type))
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return pa.list_(pa.field("element", _small(type.value_type)))
    if pa.types.is_large_string(type):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(type) or pa.types.is_fixed_size_binary(type) else type
