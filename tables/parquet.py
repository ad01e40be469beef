"""A folder of Parquet files as others write it, `partition=0/date=2024-01-31/…`, and a manifest that is renamed last.

Only files of the manifest are part of the table.  Others that an export wrote are of one that was cut short: the next
one removes them before it writes.  A lock that ends with its process keeps two exports apart.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from kafkalog.codec.errors import FormatError, RecoveryRefused, UsageError
from kafkalog.codec.limits import MIB
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import MissingFileError, is_directory, read_small, scan_directory
from kafkalog.log.disk.new_file import NewFile
from kafkalog.tables.data_files import NO_DATE, DataFile, PartitionFiles, made_directories
from kafkalog.tables.positions import Position
from kafkalog.tables.table_types import TypeRules
from kafkalog.tables.topic_table import Commit, TableSettings, merged, taken

__all__ = ["MANIFEST", "ParquetTable"]

MANIFEST = "_kafkalog.json"
_LOCK = "_kafkalog.lock"
_LARGEST = 256 * MIB
_BEGINNING = "kafkalog-"
_IN_FOLDERS = ("topic", "partition")


class ParquetTable:
    """The folder `topic=NAME` of a directory."""

    rules = TypeRules()

    def __init__(self, root: str, topic: str) -> None:
        self.path = os.path.join(root, f"topic={topic}")
        self._lock = -1
        self._manifest: dict[str, Any] = {}
        self._settings: TableSettings | None = None
        self._schema: pa.Schema | None = None

    def load(self) -> TableSettings | None:
        """Take the lock, read the manifest, remove what was cut short."""
        if not is_directory(self.path):
            return None
        self._hold()
        self._read()
        return self._settings

    def _hold(self) -> None:
        if self._lock < 0:
            self._lock, _ = fs.lock_file(os.path.join(self.path, _LOCK))
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.close()
                raise RecoveryRefused(
                    f"another export is writing to {self.path}: try again when it has ended", reason="locked"
                ) from None

    def _read(self) -> None:
        path = os.path.join(self.path, MANIFEST)
        try:
            found = json.loads(read_small(path, _LARGEST))
            schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(found["schema"])))
            settings = TableSettings.of_properties(found["properties"], self.path)
            positions = {int(each): Position(*place) for each, place in found["positions"].items()}
            if not all(type(each["path"]) is str for each in found["files"]):
                raise TypeError
        except MissingFileError:
            if any(
                each.name != _LOCK and not each.name.startswith(f"{MANIFEST}.") and not self._is_partition(each.name)
                for each in scan_directory(self.path)
            ):
                raise taken(self.path) from None
            return
        except UsageError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
            raise FormatError("this is not the manifest of an export", source=path) from None
        self._manifest, self._schema, self._settings = {**found, "positions": positions}, schema, settings

    @staticmethod
    def _is_partition(name: str) -> bool:
        return name.startswith("partition=") and name.removeprefix("partition=").isdigit()

    def positions(self, partitions: Sequence[int]) -> dict[int, Position]:
        """The positions in the manifest."""
        found: dict[int, Position] = self._manifest.get("positions", {})
        return {each: found[each] for each in partitions if each in found}

    def prepare(self, schema: pa.Schema, settings: TableSettings) -> pa.Schema:
        """Make the folder; columns of later files may be more than those of earlier ones."""
        if self._lock < 0:
            made_directories(os.path.dirname(self.path), os.path.basename(self.path))
            self._hold()
            self._read()
        self._remove_what_was_cut_short()
        self._schema = merged(self._schema, schema, self.rules, self.path)
        self._settings = self._settings or settings
        return self._schema

    def _remove_what_was_cut_short(self) -> None:
        known = {each["path"] for each in self._manifest.get("files", ())}
        for path in self._of_exports(self.path):
            if os.path.relpath(path, self.path) not in known:
                fs.remove(path)

    def _of_exports(self, directory: str) -> Iterator[str]:
        for each in list(scan_directory(directory)):
            path = os.path.join(directory, each.name)
            if each.is_dir(follow_symlinks=False):
                if self._is_partition(each.name) or each.name.startswith("date="):
                    yield from self._of_exports(path)
            elif each.name.startswith((_BEGINNING, f"{MANIFEST}.")):
                yield path

    def files(self, partition: int, round_id: str) -> PartitionFiles:
        """Files without the columns that the folders' names have."""
        if self._schema is None or self._settings is None:
            raise UsageError("a table is prepared before it is written")
        by_day = self._settings.by_day

        def place(file: DataFile, number: int) -> str:
            folders = [f"partition={partition}", *([f"date={file.date or NO_DATE}"] if by_day else [])]
            return os.path.join(made_directories(self.path, *folders), f"{_BEGINNING}{round_id}-{number}.parquet")

        schema = pa.schema([each for each in self._schema if each.name not in _IN_FOLDERS])
        return PartitionFiles(partition, place, schema, {}, by_day=by_day)

    def commit(self, commit: Commit) -> None:
        """Rename a manifest that has the new files, too."""
        if self._schema is None or self._settings is None:
            raise UsageError("a table is prepared before it is written")
        files = [
            {
                "path": os.path.relpath(each.path, self.path), "rows": each.rows, "size": each.size,
                "first_offset": each.first_offset, "last_offset": each.last_offset,
            }
            for each in commit.files
        ]  # fmt: skip
        positions = {**self._manifest.get("positions", {}), **commit.positions}
        manifest = {
            "properties": self._settings.as_properties(),
            "schema": self._schema.serialize().to_pybytes().hex(),
            "files": [*self._manifest.get("files", ()), *files],
        }
        told = {str(number): list(asdict(each).values()) for number, each in sorted(positions.items())}
        with NewFile(os.path.join(self.path, MANIFEST), overwrite=True) as file:
            file.append(json.dumps({**manifest, "positions": told}, indent=1).encode())
        self._manifest = {**manifest, "positions": positions}

    def close(self) -> None:
        """Give up the lock."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)
