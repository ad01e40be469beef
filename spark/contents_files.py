"""Produce the rows of contents about files in log directories: segments, findings, indexes, snapshots, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingJson, Severity
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    DirectoryState,
    FileKind,
)
from kafkalog.log import Inventory, Partition, open_log_dir, open_partition, open_segment
from kafkalog.log.directories.partition import read_partition
from kafkalog.log.directories.side_files import read_side_file
from kafkalog.log.disk.files import is_directory, is_file, listed_once, real
from kafkalog.log.disk.remote_file import is_uri
from kafkalog.log.walk.summary import SegmentSummary, segment_line, summarize
from kafkalog.recovery.checks.checkpoint_checks import Beside, Told
from kafkalog.recovery.checks.log_directory import AsListed, in_no_log_directory, lost_starts
from kafkalog.recovery.checks.partition import verify_partition
from kafkalog.recovery.checks.report import PartitionReport
from kafkalog.recovery.checks.verify import hanging_transactions
from kafkalog.recovery.facts.brokers import controllers_beside, of_one_broker
from kafkalog.recovery.facts.coordinators import Coordinators
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.spark.contents_lines import UNREAD_NAMES, StateLine
from kafkalog.spark.struct_columns import Row, as_columns

__all__ = [
    "CHECKPOINTS",
    "PER_PARTITION",
    "Place",
    "checkpoint_rows",
    "finding_places",
    "finding_rows",
    "named",
    "places",
    "reopened",
]

CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


class Place(Struct, frozen=True, kw_only=True):
    """Unit of work of one task: a partition directory or segment, a log directory, or known findings."""

    path: str
    partition: Partition | None = None
    """the partition as it was listed during planning; tasks read it again from its path"""
    told: Told | None = None
    """facts from its log directory for the findings of a live partition"""
    broker: tuple[str, ...] = ()
    """all directories of the same broker, for findings"""
    controllers: tuple[str, ...] = ()
    """directories of other nodes with a metadata log, for findings"""
    known: tuple[Finding, ...] = ()


def places(partitions: Iterable[Partition]) -> list[Place]:
    """Return a place for each partition."""
    return [Place(path=partition.path, partition=partition) for partition in partitions]


def reopened(place: Place) -> Partition:
    """Return the partition of a place, listed again. Raises `StorageError` if it cannot be read, `UsageError` if it no
    longer exists.
    """
    partition = place.partition
    if partition is None or partition.name is None or not is_directory(place.path):
        return open_segment(place.path)
    return read_partition(place.path, partition.name, partition.checkpointed_log_start_offset)


def named(partition: Partition, file: str, row: Row) -> Row:
    """Return a copy of a row with the columns topic, partition and file."""
    return {"topic": partition.topic, "partition": partition.partition, "file": file} | row


# -- segments ---------------------------------------------------------------------------------------------------------


def _segment(partition: Partition, summary: SegmentSummary) -> Row:
    codes = [str(finding.code) for finding in summary.findings if finding.severity is not Severity.INFO]
    state = StateLine(state=partition.state.value or "live", findings=codes)
    return named(partition, summary.segment.path, as_columns(state) | as_columns(segment_line(summary)))


def _segments(place: Place, _findings: list[Finding]) -> Iterator[Row]:
    """Yield a row for each segment of a partition. The findings about a segment are in its row, so nothing is appended
    to `_findings`. Raises `StorageError` while iterating if a file cannot be read.
    """
    partition = reopened(place)
    following: list[int | None] = [segment.base_offset for segment in partition.segments[1:]]
    for segment, base in zip(partition.segments, [*following, None], strict=False):
        yield _segment(partition, summarize(segment, next_segment=base))


# -- the files beside --------------------------------------------------------------------------------------------------


def _beside(files_of: Callable[[Partition], Sequence[str]]) -> Callable[[Place, list[Finding]], Iterator[Row]]:
    def rows(place: Place, findings: list[Finding]) -> Iterator[Row]:
        partition = reopened(place)
        for path in files_of(partition):
            content = read_side_file(path)
            for entry in content.entries:
                yield named(partition, path, as_columns(entry))
            findings.extend(content.findings)

    return rows


def _of_segments(kind: FileKind) -> Callable[[Partition], Sequence[str]]:
    return lambda partition: [segment.files[kind] for segment in partition.segments if kind in segment.files]


def _epochs_of(partition: Partition) -> Sequence[str]:
    path = os.path.join(partition.path, LEADER_EPOCH_CHECKPOINT)
    return [path] if is_file(path) else []


PER_PARTITION: dict[str, Callable[[Place, list[Finding]], Iterator[Row]]] = {
    "segments": _segments,
    "offset_index": _beside(_of_segments(FileKind.OFFSET_INDEX)),
    "time_index": _beside(_of_segments(FileKind.TIME_INDEX)),
    "aborted_transactions": _beside(_of_segments(FileKind.TRANSACTION_INDEX)),
    "producer_state": _beside(lambda partition: partition.snapshots),
    "leader_epochs": _beside(_epochs_of),
}
"""Functions that return the rows of a partition and append findings to the list."""


def checkpoint_rows(place: Place, findings: list[Finding]) -> Iterator[Row]:
    """Yield a row for each entry of a log directory's checkpoints of recovery points, log start offsets, high
    watermarks and cleaner offsets, in this order. Missing files are skipped. After the rows of a file, its findings are
    appended to `findings`. Raises `StorageError` if a file cannot be read.
    """
    for name in CHECKPOINTS:
        path = os.path.join(place.path, name)
        if is_file(path):
            content = read_side_file(path)
            yield from ({"file": path} | as_columns(entry) for entry in content.entries)
            findings.extend(content.findings)


# -- findings ----------------------------------------------------------------------------------------------------------


def finding_places(inventory: Inventory) -> list[Place]:
    """Return the units of work for contents=findings. First come the log directories, each with the paths of all
    directories of its broker. Then come the partitions in them, and then those in no log directory. The last unit has
    the findings across directories; it is omitted if there are none.

    Raises `UsageError` for a log directory in an object store, because local files are needed to predict a broker's
    start. Raises `StorageError` if a file cannot be read.
    """
    remote = next((log_dir.path for log_dir in inventory.log_dirs if is_uri(log_dir.path)), None)
    if remote is not None:
        raise UsageError(
            f"contents=findings of the log directory {remote} needs it mounted, because it tells what a broker's start "
            f"would do; name its partition directories ({remote}/*-[0-9]*), of which it tells all but that"
        )
    by_path = {real(log_dir.path): log_dir for log_dir in inventory.log_dirs}
    directories, partitions = [], []
    brokers = of_one_broker(list(by_path))
    for broker, controllers in zip(brokers, controllers_beside(brokers), strict=True):
        log_dirs = [by_path[path] for path in broker]
        lost = lost_starts(log_dirs)
        for log_dir in log_dirs:
            directories.append(Place(path=log_dir.path, broker=tuple(broker), controllers=controllers))
            beside = Beside.of(log_dir)
            partitions += [
                Place(
                    path=partition.path,
                    partition=partition,
                    told=beside.told_of(partition, lost.get(partition.path)),
                    broker=tuple(broker),
                    controllers=controllers,
                )
                for partition in log_dir.partitions
            ]
    known = tuple(inventory.findings_together())
    together = [Place(path="", known=known)] if known else []
    return [*directories, *partitions, *places(in_no_log_directory(inventory)), *together]


def finding_rows(place: Place) -> Iterator[Row]:
    """Yield the findings of `verify` for one place as rows. A place is a log directory, a partition or segment, or a
    list of findings known beforehand. The rows of all `finding_places` together are all findings of `verify`. Raises
    `UsageError` if the path is no longer what it was, `StorageError` if a file cannot be read.
    """
    if place.partition is None:
        yield from map(_finding_row, _of_log_dir(place) if place.path else place.known)
        return
    is_alone = place.told is None and place.partition.state is DirectoryState.LIVE and is_directory(place.path)
    # opened alone, a partition has the findings from its parent directory too
    partition = open_partition(place.path) if is_alone else reopened(place)
    report = verify_partition(partition, was_closed=place.told is not None and place.told.was_closed)
    told = () if place.told is None else place.told.findings(partition, report)
    hanging: Iterable[Finding] = ()
    if place.broker and report.open_transactions:
        facts = replace(read_topic_facts(place.broker), controllers=place.controllers)
        coordinators = Coordinators([os.path.dirname(place.path), *facts.roots])
        hanging = hanging_transactions(report, coordinators, facts)
    for finding in (*report.findings, *told, *hanging):
        yield named(partition, place.path, _finding_row(finding))


def _of_log_dir(place: Place) -> list[Finding]:
    """Return the findings about a log directory as a whole, including those of a simulated broker start. Logs are read
    if a check depends on their end. Raises `UsageError` if it is no longer a log directory, `StorageError` if it cannot
    be read.
    """
    with listed_once():
        log_dir = open_log_dir(place.path)  # listed first, so that the cached entries have the path of the place
        listed = AsListed(log_dir, replace(read_topic_facts(place.broker), controllers=place.controllers))
    ends: dict[str, int | None] = {}

    def ends_at(partition: Partition, offset: int) -> bool:
        if not partition.segments or offset < partition.segments[-1].base_offset:
            return False  # no need to read a log that ends later
        if partition.path not in ends:
            ends[partition.path] = _end_of(partition)
        return ends[partition.path] == offset

    def reached(path: str) -> int | None:
        report = _report_of(open_partition(path))
        return None if report is None else report.offset_reached

    loaded, findings = listed.checked(ends_at, reached)
    return [*findings, *listed.started({log_dir.path: loaded})[1]]


def _end_of(partition: Partition) -> int | None:
    """Return the log end offset; None if the log cannot be read."""
    report = _report_of(partition)
    return report.log_end_offset if report is not None and report.is_log_read else None


def _report_of(partition: Partition) -> PartitionReport | None:
    """Return the result of the checks of a log without decoding its records; None if a file cannot be read."""
    try:
        return verify_partition(partition, deep=False)
    except StorageError:
        return None


def _finding_row(finding: Finding) -> Row:
    unread = {} if finding.unread is None else as_columns(finding.unread, names=UNREAD_NAMES)
    return as_columns(shaped(finding, FindingJson)) | unread
