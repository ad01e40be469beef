"""Delta table of a topic. The offsets of its partitions are stored as application transactions of the table.

They are read with the loaded version, and the commit uses the same loaded table. Delta refuses the commit if another
commit has changed the same transactions since, so a second writer cannot add a record twice.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.log.disk.files import is_directory, scan_directory
from kafkalog.tables.data_files import DATE, NO_DATE, DataFile, PartitionFiles, made_directories
from kafkalog.tables.positions import UNKNOWN_EPOCH, Position
from kafkalog.tables.table_types import TypeRules
from kafkalog.tables.topic_table import Commit, TableSettings, concurrent, merged, taken, unloadable

with needed("an export to Delta", "delta"):
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction

__all__ = ["DeltaTopicTable"]

_COMMIT = "kafkalog.commit"
_LOOKED_AT = 50
_START = datetime(1970, 1, 1, tzinfo=UTC)


@contextmanager
def _translated_errors(path: str) -> Iterator[None]:
    """Context manager that converts errors of deltalake about the table at `path`: `RecoveryRefused` if another writer
    has committed first, `StorageError` for I/O errors, `FormatError` for any other `DeltaError`.
    """
    try:
        yield
    except CommitFailedError as error:
        raise concurrent(path) from error
    except DeltaError as error:
        raise unloadable(error, path) from error
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(None, _why(error), path) from error


def _why(error: Exception) -> str:
    return re.sub(r"(\s|\x1b\[\d*m)+", " ", str(error)).strip()  # lines with colors


def _application(number: int, what: str) -> str:
    return f"kafkalog/{number}/{what}"


class DeltaTopicTable:
    """A Delta table in the folder NAME of a directory, where NAME is the topic."""

    rules = TypeRules(
        has_time=False, has_nanoseconds=False, has_unsigned=False, has_large_decimals=False, tells_case=False,
        grows_wider=False,
    )  # fmt: skip

    def __init__(self, root: str, topic: str) -> None:
        self.path = os.path.join(root, topic)
        self._table: Any = None
        self._schema: pa.Schema | None = None
        self._settings: TableSettings | None = None

    def load(self) -> TableSettings | None:
        """Load the newest version of the table, which the other methods then use. Return its settings; None if there is
        no folder, or no table in it yet. Raises `UsageError` if the folder has other files, or a table that no export
        created. Raises `FormatError` if the log of the table is damaged, `StorageError` if it cannot be read.
        """
        if not is_directory(self.path):
            return None
        with _translated_errors(self.path):
            try:
                self._table = DeltaTable(self.path)
            except TableNotFoundError:
                if any(entry.name != "_delta_log" for entry in scan_directory(self.path)):
                    raise taken(self.path) from None
                return None
        self._settings = TableSettings.of_properties(self._table.metadata().configuration, self.path)
        self._schema = pa.schema([each for each in pa.schema(self._table.schema()) if each.name != DATE.name])
        return self._settings

    def positions(self, partitions: Sequence[int]) -> dict[int, Position]:
        """Return the positions of the given partitions, by partition number. They are read from the application
        transactions that the loaded version of the table contains. A partition without a stored position is omitted;
        the result is empty if there is no table. Raises `FormatError` if the log of the table is damaged,
        `StorageError` if it cannot be read.
        """
        positions = {}
        for number in partitions if self._table is not None else ():
            names = [_application(number, each) for each in ("first", "next", "epoch", "record", "digest")]
            with _translated_errors(self.path):
                places = [self._table.transaction_version(name) for name in names]
            if places[1] is not None:
                epoch = UNKNOWN_EPOCH if places[2] is None else places[2]
                record, digest = (-1, 0) if places[3] is None else (places[3], places[4] or 0)
                positions[number] = Position(places[0] or 0, places[1], epoch, record, digest)
        return positions

    @property
    def _by(self) -> list[str]:
        return ["partition", DATE.name] if self._settings is not None and self._settings.by_day else ["partition"]

    def prepare(self, schema: pa.Schema, settings: TableSettings) -> pa.Schema:
        """Create the table with `settings` if it is missing, or add new columns by Delta's rules; return the schema of
        its rows. A change of the schema is committed as a version.

        Raises `UsageError` if the columns cannot be combined. Raises `RecoveryRefused` if another writer changed the
        table meanwhile. Raises `StorageError` for I/O errors. Raises `FormatError` if the table is damaged.
        """
        if self._table is None:
            self._settings = settings
            made_directories(os.path.dirname(self.path), os.path.basename(self.path))
            with _translated_errors(self.path):
                try:
                    DeltaTable.create(
                        self.path, self._with_date(schema), partition_by=self._by, raise_if_key_not_exists=False,
                        configuration=settings.as_properties(),
                    )  # fmt: skip
                except DeltaError:
                    if not DeltaTable.is_deltatable(self.path):
                        raise
            self.load()
        wanted = merged(self._schema, schema, self.rules, self.path)
        if self._schema is None or not _same(wanted, self._schema):
            before = self.positions(_numbers(self._table))
            with _translated_errors(self.path):
                write_deltalake(self._table, self._with_date(wanted).empty_table(), mode="append", schema_mode="merge")
            self.load()
            if self._schema is None or not _same(wanted, self._schema):
                raise UsageError(f"Delta did not let the columns of {self.path} grow to those of the new records")
            if before != self.positions(_numbers(self._table)):
                raise concurrent(self.path)
        self._schema = wanted
        return wanted

    def _with_date(self, schema: pa.Schema) -> pa.Schema:
        return schema.append(DATE) if DATE.name in self._by else schema

    def begin(self, round_id: str) -> None:
        """Do nothing. Files that are in no version do not belong to a Delta table, and an export never removes them."""

    def files(self, partition: int, round_id: str) -> PartitionFiles:
        """Return a writer for the files of a partition. They are created in the table's folders (`partition=N`, and
        `date=…` if the table is divided by day) but belong to no version before `commit`. `round_id` becomes part of
        their names.

        Raises `UsageError` if the table was neither loaded nor prepared.
        """
        if self._schema is None:
            raise UsageError("a table is prepared before it is written")

        def place(file: DataFile, number: int) -> str:
            folders = [f"partition={partition}", *([f"date={file.date or NO_DATE}"] if DATE.name in self._by else [])]
            return os.path.join(made_directories(self.path, *folders), f"kafkalog-{round_id}-{number}.parquet")

        schema = pa.schema([each for each in self._schema if each.name != "partition"])
        return PartitionFiles(partition, place, schema, {}, by_day=DATE.name in self._by)

    def commit(self, commit: Commit) -> None:
        """Commit the new files and the positions (as application transactions) in one version. If an error is reported,
        the table is checked: if it has the version, the method returns normally. Otherwise raises `RecoveryRefused` if
        another writer has committed first, and `StorageError` for other errors.
        """
        transactions = [
            Transaction(_application(number, name), value)
            for number, position in sorted(commit.positions.items())
            for name, value in (
                ("first", position.first_offset), ("next", position.next_offset), ("epoch", position.leader_epoch),
                ("record", position.last_record), ("digest", position.digest),
            )
        ]
        properties = CommitProperties(
            custom_metadata={_COMMIT: commit.id}, max_commit_retries=0, app_transactions=transactions
        )
        try:
            self._table.create_write_transaction(
                [self._action(file) for file in commit.files], "append", self._with_date(self._schema), self._by,
                commit_properties=properties,
            )  # fmt: skip
        except (CommitFailedError, DeltaError, OSError) as error:
            if self._has(commit.id):
                return
            if isinstance(error, CommitFailedError):
                raise concurrent(self.path) from error
            raise StorageError(None, f"cannot commit to the table: {_why(error)}", self.path) from error

    def _has(self, id: str) -> bool:
        """Return whether one of the last 50 versions is this commit; False if the table cannot be read."""
        try:
            return any(each.get(_COMMIT) == id for each in DeltaTable(self.path).history(_LOOKED_AT))
        except (DeltaError, OSError):
            return False

    def _action(self, file: DataFile) -> Any:
        values: dict[str, str | None] = {"partition": str(file.partition)}
        if DATE.name in self._by:
            values[DATE.name] = file.date
        path = os.path.relpath(file.path, self.path)
        return AddAction(path, file.size, values, time.time_ns() // 1_000_000, True, json.dumps(_statistics(file)))

    def close(self) -> None:
        """Do nothing: no resources are held."""


def _numbers(table: Any) -> Sequence[int]:
    return sorted({int(partition["partition"]) for partition in table.partitions()})


def _same(one: pa.Schema, other: pa.Schema) -> bool:
    return {each.name: each.type for each in one} == {each.name: _plain(each.type) for each in other}


def _plain(type: pa.DataType) -> pa.DataType:
    """Return the type for a comparison, without details in which libraries differ. At any depth, list elements are
    named `element`, keys of maps are strings, and fields are nullable. Other types are unchanged, also `large_list`.
    """
    if pa.types.is_struct(type):
        return pa.struct([(each.name, _plain(each.type)) for each in type])
    if pa.types.is_map(type):
        return pa.map_(pa.string(), _plain(type.item_type))
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", _plain(type.value_type)))
    return type


def _statistics(file: DataFile) -> Mapping[str, object]:
    low: dict[str, object] = {"offset": file.first_offset}
    high: dict[str, object] = {"offset": file.last_offset}
    if file.times is not None and (shown := [_moment(time) for time in file.times]) and None not in shown:
        low["timestamp"], high["timestamp"] = shown
    nulls = {"offset": 0, "timestamp": file.untimed}
    return {"numRecords": file.rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _moment(microseconds: int) -> str | None:
    try:
        moment = _START + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if moment.year >= 1000 else None
