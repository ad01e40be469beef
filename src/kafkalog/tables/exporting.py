"""Incremental export of records of topics to tables, each record exactly once; a table stores its own offsets."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing
from threading import Event

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.native.thresholds import together
from kafkalog.log import open_all
from kafkalog.log.directories.commits import unfinished_commit
from kafkalog.log.directories.left_out import why_left_out
from kafkalog.log.directories.outside import require_outside
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import PathLike
from kafkalog.log.reading.consumer_view import consumer_view
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.tables.request import Export
from kafkalog.values.schema_log import topics_wanted
from kafkalog.values.sources import find_schemas

with needed("an export", "fast"):
    from kafkalog.tables.data_files import DataFile, made_directories
    from kafkalog.tables.positions import UNKNOWN_EPOCH, Position, Span, digest_of, require_same_topic, span_of
    from kafkalog.tables.rows import Rows, TopicRows, Wanted
    from kafkalog.tables.topic_table import Commit, TableSettings, TopicTable, new_id

__all__ = ["ExportResult", "ExportedPartition", "export"]

_LEGAL = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}\Z")
_TAILS = codes_with(Trait.TAIL)
"""codes of an unfinished end of a log, at which the next export continues"""
_ROWS_OF_A_ROUND = 4_000_000
"""most rows of a partition in one commit; after an interruption at most so many are read again"""


class ExportedPartition(Struct, kw_only=True):
    """The records that an export added for one partition."""

    topic: str
    """its topic"""
    partition: int
    """its number"""
    first_offset: int | None = None
    """of the records that were added; null if none were"""
    next_offset: int
    """the table has all records below it"""
    records: int = 0
    """how many were added"""
    files: int = 0
    """in how many files"""
    bytes: int = 0
    """of these files"""
    open_transaction: str | None = None
    """why it ends before the log does, if an open transaction is the reason; else null"""


class ExportResult(Struct, kw_only=True):
    """The result of an export: `partitions` are the partitions of all topics, with findings."""

    target: str
    format: str
    partitions: list[ExportedPartition] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def export(
    request: Export,
    *paths: PathLike,
    target: PathLike,
    jobs: Count = 1,
    on_bytes: Callable[[int], None] | None = None,
) -> ExportResult:
    """Add the records of topics to tables below the directory `target`, one for each topic; see docs/tables.md. Return
    the added offsets, by partition, with findings.

    Each table stores the offset after its last record, and only later records are added, so a repeated or interrupted
    export adds each record once. `target` is created if it is missing; its parent directory must exist.

    * `request`: which records, and the format and columns of the tables
    * `paths`: log directories, partitions or segments
    * `jobs`: number of partitions that are read at a time
    * `on_bytes`: called with the number of log bytes read

    Kafka's own topics are skipped unless they are named. Raises `UsageError` for a request that makes no sense or paths
    without partitions to export. Raises `UnknownName` for a topic that does not exist. Raises `FormatError` if a
    table's positions, manifest or metadata are damaged, and `StorageError`. Raises `RecoveryRefused` if a table does
    not belong to a log, another writer is active, or a recovery is unfinished. Raises it also if records would be
    missing and `accept_loss` is not set. Records that were committed before an error stay in the tables.
    """
    names, replica, schemas = [os.fspath(path) for path in paths], request.replica, request.schemas
    root = os.path.abspath(os.fspath(target))
    left_out: list[Finding] = []
    topics = _topics(names, request.select, replica, left_out, accept_loss=request.accept_loss)
    if request.values == "auto" and schemas is None:
        schemas = find_schemas(names, None if replica is None else os.fspath(replica))
    require_outside(root, names)
    require_outside(os.path.join(made_directories(os.path.dirname(root), os.path.basename(root)), "x"), names)
    wanted = Wanted(
        values=request.values, schemas=schemas, key_schema=request.key_schema, values_schema=request.values_schema,
        masks=frozenset(request.masks), isolation_level=request.isolation_level,
    )  # fmt: skip
    findings = [*left_out, *([] if schemas is None else schemas.findings)]
    result = ExportResult(target=root, format=request.format, findings=findings)
    for topic, partitions in topics.items():
        with closing(_table(request.format, root, topic)) as table:
            topic_export = _TopicExport(
                table=table, topic=topic, partitions=partitions, wanted=wanted, bounds=request.filter,
                result=result, accept_loss=request.accept_loss, jobs=max(jobs, 1),
                on_bytes=on_bytes,
            )  # fmt: skip
            topic_export.run(by_day=request.by_day)
    return result


def _topics(
    paths: Sequence[str], select: Selection, replica: PathLike | None, findings: list[Finding], *, accept_loss: bool
) -> dict[str, list[Partition]]:
    """Return the partitions to export by topic, sorted by topic and number; Kafka's own topics only if `select` names
    topics. Findings about logs and directories that are not read are moved from the partitions to `findings`, which
    must be empty.

    Raises `RecoveryRefused` if there are such findings and `accept_loss` is not set, or if a recovery or commit is
    unfinished. Raises `UsageError` if a partition is there twice, has no topic or one that no table can have, or if
    nothing remains. Raises `UnknownName` for a missing topic, `StorageError` if something cannot be read.
    """
    inventory = open_all(*paths)
    for finding in inventory.findings:
        if finding.code is FindingCode.RUN_UNFINISHED:  # a table would keep forever what is half done there
            why = Sentence(f"{finding.file}: ", finding.detail, "; nothing was exported")
            raise RecoveryRefused(why, reason="unfinished")
    for directory in inventory.log_dirs:
        commit = unfinished_commit(directory.path)
        if commit is not None:
            raise RecoveryRefused(f"{commit}; nothing was exported", reason="unfinished")
    select.check(inventory.names)
    by_topic: dict[str, list[Partition]] = {}
    wanted = topics_wanted(select.topics)
    partitions = inventory.readable(replica, select, wanted)
    findings += inventory.directories_left_out(select, wanted)
    findings += [finding for partition in partitions for finding in partition.left_out]
    if findings and not accept_loss:  # a table would never have the records of such a log
        raise RecoveryRefused(
            f"{why_left_out(findings[0])}; nothing was exported: put the real one there", reason="records_missing",
            advice=[Advice("with {} the export goes on without it", Ask.ACCEPT_LOSS)],
        )  # fmt: skip
    apart = frozenset(findings)
    for each in partitions:
        if each.topic is None:
            raise UsageError(f"{each.path} is in no partition directory, so that nobody knows its topic")
        if not _LEGAL.match(each.topic):
            raise UsageError(f"the topic of {each.path} has a name that no table can have: leave it out (exclude)")
        some = by_topic.setdefault(each.topic, [])
        if any(partition.partition == each.partition for partition in some):
            raise UsageError(f"{each.topic}-{each.partition} was given twice: {each.path} is one of them")
        own = tuple(finding for finding in each.findings if finding not in apart)
        some.append(dataclasses.replace(each, findings=own) if len(own) < len(each.findings) else each)
    if not by_topic:
        raise UsageError(f"there are no records in {', '.join(paths)} but Kafka's own")
    return {topic: sorted(some, key=lambda each: each.partition or 0) for topic, some in sorted(by_topic.items())}


def _table(format: str, root: str, topic: str) -> TopicTable:
    if format == "iceberg":
        from kafkalog.tables.iceberg import IcebergTopicTable

        return IcebergTopicTable(root, topic)
    if format == "delta":
        from kafkalog.tables.delta import DeltaTopicTable

        return DeltaTopicTable(root, topic)
    from kafkalog.tables.parquet import ParquetTable

    return ParquetTable(root, topic)


class _Added(Struct, frozen=True, kw_only=True):
    """Files and position of one span of a round."""

    span: Span
    files: list[DataFile]
    position: Position
    is_whole: bool
    findings: list[Finding]


def _is_end(finding: Finding, span: Span) -> bool:
    """Whether a finding is about the unfinished end that the log had when the span was planned. False if the log was
    cut or damaged since: the records behind it are not read. Raises `StorageError` if the log cannot be read.
    """
    if finding.code not in _TAILS or finding.severity is Severity.ERROR:
        return False
    return span.partition.log_end_offset() >= span.end_offset


class _StoppedError(Exception):
    """A partition stopped because another partition of its round failed."""


def _forget(work: Future[_Added]) -> None:
    """Remove the files that a finished `work` wrote for a round that was not committed; nothing if it failed."""
    if work.exception() is None:
        for file in work.result().files:
            fs.remove(file.path)


class _TopicExport(Struct, frozen=True, kw_only=True):
    """Export of one topic to its table, in rounds. Each round writes files for a range of offsets of every partition,
    and commits them with the new positions in one step.
    """

    table: TopicTable
    topic: str
    partitions: list[Partition]
    wanted: Wanted
    bounds: RecordFilter
    result: ExportResult
    accept_loss: bool
    jobs: int
    on_bytes: Callable[[int], None] | None

    def run(self, *, by_day: bool) -> None:
        """Add records in rounds until the table has all of them; add one entry per partition, and findings, to
        `result`. If there are no offsets to add, nothing is created; if they have only control or aborted records, a
        missing table is created empty. `by_day` divides a new table by day.

        Raises `UsageError`, `RecoveryRefused`, `FormatError` and `StorageError` as `export` does.
        """
        reported = {
            each.partition or 0: ExportedPartition(topic=self.topic, partition=each.partition or 0, next_offset=0)
            for each in self.partitions
        }
        self.result.partitions += reported.values()
        rows, left = None, {partition.partition or 0: partition for partition in self.partitions}
        while left:
            spans = self._spans(left, reported, by_day)
            if not spans:
                break
            rows = rows or TopicRows(self.partitions, self.wanted, self.table.rules)
            schema = self.table.prepare(rows.schema, self._settings(by_day))
            positions = self.table.positions([*left])
            if any(positions.get(span.number) != span.known for span in spans):
                continue  # another writer has created or extended the table meanwhile
            left = self._round(rows, schema, spans, reported)

    def _settings(self, by_day: bool) -> TableSettings:
        ids = [partition.metadata.topic_id for partition in self.partitions if partition.metadata is not None]
        return TableSettings(
            topic=self.topic, isolation_level=self.wanted.isolation_level, values=self.wanted.values, by_day=by_day,
            masks=tuple(sorted(self.wanted.masks)), topic_id=ids[0] if ids else None,
        )  # fmt: skip

    def _spans(self, left: dict[int, Partition], reported: dict[int, ExportedPartition], by_day: bool) -> list[Span]:
        settings = self.table.load()
        if settings is not None:
            self._require_same(settings, replace(self._settings(by_day), topic_id=settings.topic_id))
        spans = []
        positions = self.table.positions([*left])
        topic_id = (settings or self._settings(by_day)).topic_id
        for number, partition in left.items():
            require_same_topic(topic_id, partition, is_new=settings is None)
            known = positions.get(number)
            reported[number].next_offset = partition.log_start_offset if known is None else known.next_offset
            span = span_of(
                partition, known, self.bounds, self.wanted.isolation_level, self.result.findings,
                accept_loss=self.accept_loss, masked=bool(self.wanted.masks),
            )  # fmt: skip
            view = consumer_view(partition, None, self.bounds.end_offset, isolation_level=self.wanted.isolation_level)
            reported[number].open_transaction = view.open_transaction
            spans += [] if span is None else [span]
        return spans

    def _require_same(self, there: TableSettings, given: TableSettings) -> None:
        if there == given:
            return
        words = {"isolation_level": "isolation level", "values": "values", "by_day": "division by day",
                 "masks": "masked fields", "topic": "topic"}  # fmt: skip
        for name, word in words.items():
            if getattr(there, name) != getattr(given, name):
                raise RecoveryRefused(
                    f"{self.table.path} was made with {word} {getattr(there, name)}, not {getattr(given, name)}: "
                    "a table keeps what it was made with; export into another directory",
                    reason="other_settings",
                )  # fmt: skip

    def _round(
        self, rows: TopicRows, schema: object, spans: list[Span], reported: dict[int, ExportedPartition]
    ) -> dict[int, Partition]:
        id = new_id()
        self.table.begin(id)
        works = self._started(rows, schema, spans, id)
        is_committing = False
        try:
            failed = [each for each in works if each.exception() is not None]
            for failure in sorted(failed, key=lambda each: isinstance(each.exception(), _StoppedError)):
                failure.result()
            added = [each.result() for each in works]
            new = [each for each in added if each.files]
            if new:
                positions = {each.span.number: each.position for each in new}
                is_committing = True
                self.table.commit(Commit([file for each in new for file in each.files], positions, id))
        except BaseException as error:
            if not is_committing or isinstance(error, RecoveryRefused):  # else nobody knows whether a commit has them
                for work in works:
                    _forget(work)
            raise
        for one in added:
            self._report(one, reported[one.span.number])
        return {one.span.number: one.span.partition for one in added if not one.is_whole}

    def _started(self, rows: TopicRows, schema: object, spans: list[Span], id: str) -> list[Future[_Added]]:
        """Write each span of offsets to its own files, in up to `jobs` threads. Return one finished future per span, in
        order; errors are in the futures. After the first error, the other threads are asked to stop.
        """
        stopped = Event()
        with ThreadPoolExecutor(self.jobs) as pool:
            threads = max(self.jobs // len(spans), 1)
            works = [pool.submit(self._read, rows, schema, span, id, stopped, threads) for span in spans]
            try:
                wait(works, return_when=FIRST_EXCEPTION)
            finally:
                if any(not work.done() or work.exception() is not None for work in works):
                    stopped.set()
        return works

    def _read(self, rows: TopicRows, schema: object, span: Span, id: str, stopped: Event, threads: int) -> _Added:
        files = self.table.files(span.number, id)
        findings: list[Finding] = []
        count, end, epoch, is_whole = 0, span.start_offset, UNKNOWN_EPOCH, True
        try:
            for batch, leader_epoch in self._together(rows.read(span, schema, findings, threads)):
                files.add(batch)
                count, before, epoch = count + batch.num_rows, end, leader_epoch
                end = batch.column("offset")[-1].as_py() + 1
                self._tell(span, end - before)
                if stopped.is_set():
                    raise _StoppedError
                if count >= _ROWS_OF_A_ROUND:
                    is_whole = False  # even at the end of the span: the next round reports why it ends there
                    break
            finished = files.finish()
        except BaseException:
            files.give_up()
            raise
        findings = [finding for finding in findings if not _is_end(finding, span)]
        digest = digest_of(span.partition, end - 1, masked=bool(self.wanted.masks)) if count else None
        last_record = (-1, 0) if digest is None else (end - 1, digest)
        if is_whole and all(finding.code is FindingCode.VALUE_UNDECODABLE for finding in findings):
            end = max(end, span.end_offset)
        first = span.start_offset if span.known is None else span.known.first_offset
        return _Added(
            span=span,
            files=finished,
            position=Position(first, end, epoch, *last_record),
            is_whole=is_whole,
            findings=findings,
        )

    def _together(self, rows: Iterator[Rows]) -> Iterator[Rows]:
        """Yield the rows unchanged. While they are read, the total size of the partitions decides between compiled code
        and Python.
        """
        with together(sum(partition.size for partition in self.partitions)):
            yield from rows

    def _tell(self, span: Span, offsets: int) -> None:
        if self.on_bytes is not None:
            whole = max(span.end_offset - span.start_offset, 1)
            self.on_bytes(span.partition.size * offsets // whole)

    def _report(self, added: _Added, to: ExportedPartition) -> None:
        self.result.findings += added.findings
        if not added.files:
            return
        to.next_offset = added.position.next_offset
        first = min(file.first_offset for file in added.files)
        to.first_offset = first if to.first_offset is None else to.first_offset
        to.records += sum(file.rows for file in added.files)
        to.files += len(added.files)
        to.bytes += sum(file.size for file in added.files)
