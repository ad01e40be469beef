"""Spark's reader of all contents except records. A task reads the rows of one place, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, Severity
from kafkalog.log import open_all
from kafkalog.log.disk.files import listed_once
from kafkalog.spark import contents_files
from kafkalog.spark.batch_contents import batches_of
from kafkalog.spark.contents_cluster import OF_A_CLUSTER, cluster_rows
from kafkalog.spark.contents_files import PER_PARTITION, Place, reopened
from kafkalog.spark.contents_rows import arrow_batches
from kafkalog.spark.discovery import expand_paths, partitions_to_read, selected
from kafkalog.spark.options import Mode, ReadOptions
from kafkalog.spark.query_warnings import tell
from kafkalog.spark.struct_columns import Row

__all__ = ["ContentsReader"]

_SHOWN = 3


@dataclass(frozen=True)
class ContentsPartition(InputPartition):
    """Input of one task. `place` is None for contents about the state of the whole cluster."""

    place: Place | None


class ContentsReader(DataSourceReader):
    """Spark's reader of the columns of `schema`, which `contents_schema.chosen` has checked."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[ContentsPartition]:
        """Return the inputs of the tasks:

        * For the state of a cluster there is a single one, and no path is listed.
        * For `checkpoints` there is one per log directory.
        * For `findings` there is one per unit of `finding_places`.
        * For `segments` there is one per selected partition directory, including deleted ones and every replica.
        * For other contents there is one per selected partition.

        Raises `UsageError` if a path or a selected partition does not exist. For `findings` it is raised too if a log
        directory is in an object store. For contents of the last kind it is raised if a partition has several logs and
        `replica` chooses none. Raises `StorageError` if a directory cannot be read.
        """
        options = self._options
        if options.contents in OF_A_CLUSTER:
            return [ContentsPartition(None)]
        with listed_once():
            inventory = open_all(*expand_paths(options.paths))
            if options.contents == "findings":
                places = contents_files.finding_places(inventory)
            elif options.contents == "checkpoints":
                places = [Place(path=log_dir.path) for log_dir in inventory.log_dirs]
            elif options.contents == "segments":
                places = contents_files.places(selected(inventory.partitions, options))
            else:
                places = contents_files.places(partitions_to_read(inventory, options))
        return [ContentsPartition(place) for place in places]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of one task; none for Spark's placeholder of an empty plan. After the last batch, the
        first error in the data raises `FormatError` with mode FAILFAST; in other modes one warning counts the errors
        and shows the first three. Errors of `findings` and `segments` are in their rows instead. Raises `UsageError` if
        a path no longer exists. Raises `StorageError` if a file cannot be read, and for the state of a cluster the
        errors of `cluster_rows`.
        """
        if not isinstance(partition, ContentsPartition):  # Spark's placeholder if there is nothing to read
            return
        findings: list[Finding] = []
        place = partition.place
        if place is not None and self._options.contents == "batches":
            yield from batches_of(reopened(place), self._schema, findings)
        else:
            yield from arrow_batches(self._rows(place, findings), self._schema)
        self._judge(findings)

    def _rows(self, place: Place | None, findings: list[Finding]) -> Iterator[Row]:
        options = self._options
        if place is None:
            return cluster_rows(options.contents, expand_paths(options.paths), options.replica, findings)
        if options.contents == "findings":
            return contents_files.finding_rows(place)
        if options.contents == "checkpoints":
            return contents_files.checkpoint_rows(place, findings)
        return PER_PARTITION[options.contents](place, findings)

    def _judge(self, findings: list[Finding]) -> None:
        """Raise `FormatError` for the first finding of severity ERROR with mode FAILFAST. In other modes give one
        warning with the number of these findings and the first `_SHOWN` of them. Does nothing if there is none.
        """
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if errors and self._options.mode is Mode.FAILFAST:
            worst = errors[0]
            more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
            detail = f"{worst.code}: {worst.detail}{more}; the option mode=PERMISSIVE reads what can be read"
            raise FormatError(detail, position=worst.position, source=worst.file, code=worst.code)
        if errors:
            shown = "; ".join(str(finding) for finding in errors[:_SHOWN])
            tell(f"kafkalog found {len(errors)} errors: {shown}")
