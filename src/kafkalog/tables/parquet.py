"""Folder of Parquet files in Hive layout, `partition=0/date=2024-01-31/…`, with a manifest that is renamed last.

Only files in the manifest belong to the table. The manifest exists before the first file and names the round in
progress, so the next round can recognize and remove the files of an interrupted one. Other files that are not in the
manifest are never removed, so a table that has lost its manifest keeps its rows. A lock, which the system releases when
its process ends, prevents two exports at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import asdict

from kafkalog.codec.common.errors import FormatError, RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.limits import MIB
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import is_directory, read_small, scan_directory
from kafkalog.log.disk.new_file import NewFile
from kafkalog.log.disk.remote_file import MissingFileError
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
    """A Parquet table in the folder `topic=NAME` of a directory, where NAME is the topic."""

    rules = TypeRules()

    def __init__(self, root: str, topic: str) -> None:
        self.path = os.path.join(root, f"topic={topic}")
        self._lock = -1
        self._manifest: dict[str, Any] = {}
        self._settings: TableSettings | None = None
        self._schema: pa.Schema | None = None

    def load(self) -> TableSettings | None:
        """Lock the table and read its manifest; the lock is held until `close`. Return the table's settings. Return
        None if the folder does not exist, in which case nothing is locked, or if no round was committed yet.

        Raises `RecoveryRefused` if another export holds the lock or data files exist without a manifest. Raises
        `UsageError` if the folder has other files and no manifest, or the manifest's settings are invalid. Raises
        `FormatError` for an otherwise invalid manifest. Raises `StorageError` if a file cannot be read or locked.
        """
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
            manifest = json.loads(read_small(path, _LARGEST))
            schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(manifest["schema"])))
            settings = TableSettings.of_properties(manifest["properties"], self.path)
            positions = {int(each): Position(*place) for each, place in manifest["positions"].items()}
            if not all(type(each["path"]) is str for each in manifest["files"]):
                raise TypeError
        except MissingFileError:
            if any(
                entry.name != _LOCK and not entry.name.startswith(f"{MANIFEST}.") and not self._is_partition(entry.name)
                for entry in scan_directory(self.path)
            ):
                raise taken(self.path) from None
            self._refuse_unaccounted(self._data_files())
            return
        except UsageError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError, pa.ArrowException) as error:
            if isinstance(error, StorageError):
                raise
            raise FormatError("this is not the manifest of an export", source=path) from None
        self._manifest = {**manifest, "positions": positions}
        if manifest["files"] or positions:  # else its first round was cut short, and it may still become another table
            self._schema, self._settings = schema, settings

    @staticmethod
    def _is_partition(name: str) -> bool:
        return name.startswith("partition=") and name.removeprefix("partition=").isdigit()

    def positions(self, partitions: Sequence[int]) -> dict[int, Position]:
        """Return the positions of the given partitions, by partition, from the manifest; partitions without records in
        the table are omitted.
        """
        stored: dict[int, Position] = self._manifest.get("positions", {})
        return {partition: stored[partition] for partition in partitions if partition in stored}

    def prepare(self, schema: pa.Schema, settings: TableSettings) -> pa.Schema:
        """Lock the folder unless this table has its lock already, and create it if it is missing. Remove the files of
        an interrupted round, and return the schema of the table with the new columns. Existing files are not changed,
        so they lack new columns. `settings` are used for a table without any.

        Raises `UsageError` if the columns cannot be combined. Raises `RecoveryRefused` if there are data files that
        neither the manifest names nor an interrupted round has left. Raises `StorageError` if a file cannot be created
        or removed. If the folder is not locked yet, raises the errors of `load` too.
        """
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
        begun = self._manifest.get("begun")
        others = [path for path in self._data_files() if os.path.relpath(path, self.path) not in known]
        of_begun = f"{_BEGINNING}{begun}-"
        self._refuse_unaccounted(
            [path for path in others if begun is None or not os.path.basename(path).startswith(of_begun)]
        )
        for path in others:
            fs.remove(path)
        for path in self._of_exports(self.path):
            if os.path.basename(path).startswith(f"{MANIFEST}."):
                fs.remove(path)

    def _data_files(self) -> list[str]:
        return [path for path in self._of_exports(self.path) if os.path.basename(path).startswith(_BEGINNING)]

    def _refuse_unaccounted(self, paths: Sequence[str]) -> None:
        """Raise `RecoveryRefused` if there are `paths`, which are data files that the manifest does not name. Removes
        nothing.
        """
        if paths:
            raise RecoveryRefused(
                f"{self.path} holds files of an export that {MANIFEST} does not name ({len(paths)}, such as "
                f"{paths[0]}): that was lost, is an older one, or was left behind by a copy; nothing was removed: "
                "put the right one back, or export into another directory",
                reason="manifest",
            )

    def _of_exports(self, directory: str) -> Iterator[str]:
        for entry in list(scan_directory(directory)):
            path = os.path.join(directory, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if self._is_partition(entry.name) or entry.name.startswith("date="):
                    yield from self._of_exports(path)
            elif entry.name.startswith((_BEGINNING, f"{MANIFEST}.")):
                yield path

    def begin(self, round_id: str) -> None:
        """Write the id of the round to the manifest before the first file exists. Raises `UsageError` if the table was
        neither prepared nor loaded with a committed round, `StorageError` if the manifest cannot be written.
        """
        self._write({**self._as_written(), "begun": round_id}, self._manifest.get("positions", {}))

    def _as_written(self) -> dict[str, Any]:
        """Return settings, schema and committed files in the form of the manifest. The schema has the columns that
        `prepare` added, also before a commit. Raises `UsageError` if the table was neither prepared nor loaded with a
        committed round.
        """
        if self._schema is None or self._settings is None:
            raise UsageError("a table is prepared before it is written")
        return {
            "properties": self._settings.as_properties(),
            "schema": self._schema.serialize().to_pybytes().hex(),
            "files": list(self._manifest.get("files", ())),
        }

    def _write(self, manifest: dict[str, Any], positions: Mapping[int, Position]) -> None:
        """Replace the manifest in one step by `manifest` with these positions, and keep both in this object. Raises
        `StorageError` if it cannot be written.
        """
        positions_by_partition = {
            str(number): list(asdict(position).values()) for number, position in sorted(positions.items())
        }
        with NewFile(os.path.join(self.path, MANIFEST), overwrite=True) as file:
            file.append(json.dumps({**manifest, "positions": positions_by_partition}, indent=1).encode())
        self._manifest = {**manifest, "positions": dict(positions)}

    def files(self, partition: int, round_id: str) -> PartitionFiles:
        """Return a writer for the files of a partition, without the columns that the folder names contain. The files
        are not in the manifest before `commit`. `round_id` becomes part of their names.

        Raises `UsageError` if the table was neither prepared nor loaded with a committed round.
        """
        if self._schema is None or self._settings is None:
            raise UsageError("a table is prepared before it is written")
        by_day = self._settings.by_day

        def place(file: DataFile, number: int) -> str:
            folders = [f"partition={partition}", *([f"date={file.date or NO_DATE}"] if by_day else [])]
            return os.path.join(made_directories(self.path, *folders), f"{_BEGINNING}{round_id}-{number}.parquet")

        schema = pa.schema([each for each in self._schema if each.name not in _IN_FOLDERS])
        return PartitionFiles(partition, place, schema, {}, by_day=by_day)

    def commit(self, commit: Commit) -> None:
        """Replace the manifest in one step; the new one also has the new files and positions. Raises `UsageError` if
        the table was neither prepared nor loaded with a committed round, `StorageError` if the manifest cannot be
        written.
        """
        manifest = self._as_written()
        manifest["files"] += [
            {
                "path": os.path.relpath(file.path, self.path), "rows": file.rows, "size": file.size,
                "first_offset": file.first_offset, "last_offset": file.last_offset,
            }
            for file in commit.files
        ]  # fmt: skip
        self._write(manifest, {**self._manifest.get("positions", {}), **commit.positions})

    def close(self) -> None:
        """Release the lock."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)
