"""Check one partition directory: its log, records, indexes, snapshots and leader epochs.

A single walk over the batches feeds all checks; it proceeds in runs of many consecutive batches.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason, severity_of_unfinished
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.common.source import BufferSource, Source
from kafkalog.codec.common.wording import counted
from kafkalog.codec.files.index_files import ABORTED_TRANSACTION, each_slot, read_producer_snapshot
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.headers.one_batch import AnyRun
from kafkalog.codec.model import (
    AbortedTransaction,
    AnyHeader,
    BatchHeader,
    RecordBatch,
    TimestampType,
    to_int64,
)
from kafkalog.codec.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    DirectoryState,
    FileKind,
    parse_segment_file,
)
from kafkalog.codec.native.library import is_there
from kafkalog.codec.plain.insides import Insides, insides_of
from kafkalog.codec.plain.records import decode_batch, first_offset_of, stored_records
from kafkalog.codec.rules.batches import BatchVerdict
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.returning_records import records_are_back, returning_records
from kafkalog.log.disk.files import FileSource, ListedSource, real, unreadable
from kafkalog.log.reading.ahead import ahead
from kafkalog.log.storage.log_file import is_passed_over
from kafkalog.log.storage.producers.snapshot_check import OpenWithoutGap, SnapshotCheck
from kafkalog.log.storage.producers.snapshots import snapshot_offsets, within_reach
from kafkalog.log.walk.batches import RunsThenBatches
from kafkalog.log.walk.behind_damage import tell_what_is_behind
from kafkalog.log.walk.cursor import Cursor
from kafkalog.log.walk.ending import ends_below
from kafkalog.log.walk.segment import Segment, logs_of
from kafkalog.recovery.checks.cleaned_beginnings import untrue_beginnings
from kafkalog.recovery.checks.deleted_beyond_end import beyond_end_of
from kafkalog.recovery.checks.indexes import OffsetIndexCheck, TimeIndexCheck
from kafkalog.recovery.checks.listed_transactions import ListedTransactions
from kafkalog.recovery.checks.lost_and_found import MISNAMED_BY, misnamed_segments
from kafkalog.recovery.checks.missing_segments import missing_from, missing_offsets_of
from kafkalog.recovery.checks.moments import offset_reached
from kafkalog.recovery.checks.overlaps import aborted_in_overlaps
from kafkalog.recovery.checks.record_times import RecordTimes
from kafkalog.recovery.checks.repeats import Repeats
from kafkalog.recovery.checks.report import PartitionReport
from kafkalog.recovery.damage.listed_epochs import ListedEpochs
from kafkalog.recovery.damage.other_segment import other_segment

if TYPE_CHECKING:
    from kafkalog.codec.headers.checked_records import RecordsOfRuns
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["verify_partition"]

_IndexCheck = OffsetIndexCheck | TimeIndexCheck

_LARGE_OFFSET = 2**62
"""Segments from this base offset on are checked batch by batch: sums with their offsets may exceed 64 bits."""

_READ_AHEAD = 4 * MIB
"""Bytes of batches of a window that are read ahead of the check of their records, besides the window being read and the
one being checked. More fresh memory costs more than waiting does.
"""


_REBUILT = codes_with(Trait.REBUILT)
_COMPARED = 2
"""Number of snapshots, from the newest on, that are compared with the log: a start after a clean stop loads the newest,
and one after a crash usually the one before.
"""


def _forgotten(producer_id: int, first: int) -> str:
    return (
        f"a start forgets the open transaction of producer {producer_id} from offset {first}: read_committed consumers "
        "get its records even if it is aborted"
    )


def _held(batches: BatchRun | RecordBatch) -> int:
    """Number of bytes of the log that these batches keep in memory."""
    return batches.size if isinstance(batches, RecordBatch) else len(batches.window)


def verify_partition(
    partition: Partition,
    *,
    deep: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    on_read: Callable[[int], None] | None = None,
    tables: HeaderTables | None = None,
    was_closed: bool = False,
) -> PartitionReport:
    """Check one partition without its log directory; return counts and findings. With `deep` every record is decoded
    too. `was_closed` says that the log directory has a clean-shutdown marker, so that a start relies on the producer
    snapshots. `on_read` is called with the size in bytes of each batch or run of batches read; `tables` collect batch
    headers for later readers. Raises `StorageError` if a log cannot be read or became shorter meanwhile; unreadable
    indexes and snapshots become findings.
    """
    return _PartitionVerifier(partition, deep, limits, on_read, tables or HeaderTables(), was_closed).run()


def _largest(base: int, deltas: Sequence[int]) -> int:
    """Largest timestamp of records: base timestamp plus each delta, as wrapping 64-bit sums."""
    low, high = base + min(deltas), base + max(deltas)
    if (to_int64(low), to_int64(high)) == (low, high):
        return high
    return max(to_int64(base + delta) for delta in deltas)


class _PartitionVerifier:
    """One check of a partition. It collects counts and findings in `report`."""

    def __init__(
        self,
        partition: Partition,
        deep: bool,
        limits: Limits,
        on_read: Callable[[int], None] | None,
        tables: HeaderTables,
        was_closed: bool,
    ) -> None:
        self.partition = partition
        self._was_closed = was_closed
        self.deep = deep
        self.limits = limits
        self.on_read = on_read
        self._tables = tables
        self._has_markers = False
        self._has_producers = False
        self._largest_epoch = -1
        self._missing = missing_offsets_of(partition)
        self._times = RecordTimes()
        start = partition.segments[0].base_offset if partition.segments else partition.log_start_offset
        self.report = PartitionReport(path=partition.path, log_end_offset=start, segments=len(partition.segments))
        self.report.insides = Insides.READABLE if deep else Insides.NOT_EXAMINED
        self.report.findings.extend(partition.findings)
        self._epochs = ListedEpochs(partition.leader_epochs)
        self._snapshots = {path: check for path in partition.snapshots[-_COMPARED:] for check in self._checks_of(path)}
        self._open = OpenWithoutGap()
        self._deleted: tuple[str, int] | None = None
        self._repeat: RecordBatch | None = None
        """the previous batch, if its offsets are repeated"""
        self._placed: int | None = None
        """highest offset in the segment of batches that are in place; None before the first"""
        self._repeats = Repeats()
        self._records_of_runs: RecordsOfRuns | None = None
        self._deleted_batches = 0
        self._deleted_records = 0

    def _found(
        self, code: FindingCode, detail: str, file: str, offset: int | None = None, severity: Severity = Severity.ERROR
    ) -> None:
        self.report.findings.append(Finding(code, severity, None, offset, detail, file))

    def _below_log_start(self, path: str, offset: int) -> None:
        """Add the finding about batches below the log start offset, for the file at `path`. It is a warning if the
        leader epochs contradict the log start offset: they begin below it, and the log reaches it. Otherwise it is
        INFO.
        """
        log_start = self.partition.log_start_offset
        detail = f"{self._deleted_batches} batches end below the log start offset {log_start}"
        begins = self.partition.epochs_below_start
        is_contradicted = begins is not None and log_start <= self.report.log_end_offset
        if is_contradicted:
            detail += f", but {LEADER_EPOCH_CHECKPOINT} still begins at {begins}: is {LOG_START_OFFSET_CHECKPOINT} "
            detail += "wrong? If so, move it away before any start, which deletes the segments below the log start"
        severity = Severity.WARNING if is_contradicted else Severity.INFO
        self._found(FindingCode.OFFSETS_BELOW_LOG_START, detail, path, offset, severity)

    def _returning(self) -> None:
        """Add a warning if the leader epochs of a live log show that records were deleted and are in it again
        (`returning_records`). Raises `StorageError` if a segment cannot be read.
        """
        partition, segments = self.partition, {each.base_offset: each for each in self.partition.segments}
        if not self._is_live:
            return
        with ExitStack() as opened:

            def log_at(base: int, offset: int) -> tuple[FileSource, int]:
                log = opened.enter_context(FileSource(segments[base].path))
                return log, segments[base].position_of(offset, log)

            back = returning_records(partition.leader_epochs, partition.log_start_offset, segments, log_at)
        if back is not None:
            path = os.path.join(partition.path, LEADER_EPOCH_CHECKPOINT)
            code = FindingCode.OFFSETS_BELOW_LOG_START
            self._found(code, records_are_back(*back), path, back[0], Severity.WARNING)

    def run(self) -> PartitionReport:
        segments = self.partition.segments
        for segment, following in zip(segments, [*segments[1:], None], strict=False):  # there may be none
            self._segment(segment, None if following is None else following.base_offset)
        if self._deleted is not None:
            self._below_log_start(*self._deleted)
        self._returning()
        if self.report.log_end_offset >= self.partition.log_start_offset:  # else it says nothing of this log
            self.report.records -= self._deleted_records
        self._behind_damage()
        if any(finding.code in MISNAMED_BY for finding in self.report.findings):
            self._misnamed()
        self.report.findings += missing_from(self.partition, self._missing)
        self.report.findings += self._times.findings()
        self._transaction_indexes()
        can_be_read = all(finding.code is not FindingCode.CHECKPOINT_INVALID for finding in self.partition.findings)
        if self._largest_epoch >= 0 and not self.partition.leader_epochs and self._is_live and can_be_read:
            detail = f"no leader epoch is listed, and batches have epochs up to {self._largest_epoch}"
            path = os.path.join(self.partition.path, LEADER_EPOCH_CHECKPOINT)
            self._found(FindingCode.LEADER_EPOCH_MISMATCH, detail, path, severity=Severity.WARNING)
        for path in self.partition.snapshots:
            if path not in self._snapshots:  # else it was read for the comparison
                self._snapshot(path)
        self._compare_snapshots()
        self._other_segments()
        self._without_snapshot()
        self._snapshot_beyond_end()
        if self._is_live:
            end = max(self.report.log_end_offset, self.report.end_behind_damage)
            self.report.findings += beyond_end_of(self.partition, end)
            of_log = [finding for finding in self.report.findings if finding.code not in _REBUILT]
            if offset_reached(end, of_log) is not None:
                self.report.open_transactions = self._opened
        told = {finding.file for finding in self.partition.findings if finding.code is FindingCode.TEMPORARY_FILE}
        for path in self.partition.unfinished:
            if path in told:
                continue
            detail = "an unfinished operation, or a file waiting for deletion"
            self._found(FindingCode.TEMPORARY_FILE, detail, path, severity=severity_of_unfinished(path))
        return self.report

    def _misnamed(self) -> None:
        """Add the findings about segments with a wrong name. Findings are left out that blame batches of these segments
        for their offsets, which only the name contradicts. Raises `StorageError` if a segment cannot be read.
        """
        misnamed = misnamed_segments(logs_of(self.partition.segments))
        paths = {finding.file for finding in misnamed}
        self.report.findings[:] = [
            finding for finding in self.report.findings
            if finding.file not in paths or finding.code is not FindingCode.OFFSET_DISPLACED
        ]  # fmt: skip
        self.report.findings += misnamed

    @property
    def _is_live(self) -> bool:
        """Whether this is a live partition directory, and not a segment that was passed by its own path."""
        partition = self.partition
        is_directory = all(segment.path != partition.path for segment in partition.segments)
        return is_directory and partition.name is not None and partition.state is DirectoryState.LIVE

    def _segment(self, segment: Segment, next_base: int | None) -> None:
        report = self.report
        last_offset = segment.base_offset - 1
        self._missing.segment(segment.base_offset, next_base, was_emptied=segment.was_emptied())
        with ListedSource(segment.path, segment.size) as source, ExitStack() as indexes:
            if source.size < segment.size:
                raise StorageError.became_shorter(source.size, segment.path)
            cursor = Cursor(source, segment.base_offset, next_base, limits=self.limits)
            runs = self._runs(segment, source)
            checks = list(self._index_checks(segment, indexes))
            scan = RunsThenBatches(runs or (), source, self.limits)
            self._repeats, self._placed = Repeats(), None
            # closed before the file is, from which a thread may be reading
            for run in indexes.enter_context(closing(cursor.judged(scan, gaps=False))):
                last_offset = self._walked(run, segment.path, cursor, checks, last_offset)
            scanner = scan.end
            if scanner.stop is not StopReason.END:
                self._missing.damaged()
            elif next_base is None and self._repeat is not None:
                report.findings.append(ends_below(self._repeat, last_offset).in_file(segment.path))
            unlike = self._repeats.unlike(source, scanner.valid_bytes, limits=self.limits)
            report.findings += [finding.in_file(segment.path) for finding in unlike]
            ended = cursor.ended(scanner, through_damage=False)
            report.findings += [finding.in_file(segment.path) for finding in ended.findings]
            report.valid_bytes += scanner.valid_bytes
            if scanner.stop is not StopReason.END and next_base is not None:
                unread = segment.size - scanner.valid_bytes
                goes_on = is_passed_over(source, scanner.valid_bytes)
                what = "a consumer goes on in the next segment from here" if goes_on else "a consumer stops here"
                detail = f"{what}, {counted(unread, 'byte')} before the end of the segment"
                self._found(FindingCode.OFFSET_GAP, detail, segment.path, last_offset + 1)
            self._of_each(checks, lambda check: check.end(last_offset))
            for check in checks:
                report.findings += check.findings
        report.log_bytes += segment.size
        end = segment.base_offset if self._placed is None else self._placed + 1
        report.log_end_offset = max(report.log_end_offset, end)

    def _behind_damage(self) -> None:
        """Look for sound batches after the first damage, where a consumer stops. Adds to the texts and offsets of
        findings in the report. Sets the report's counts of these batches and of their records, and the offset after the
        last of them. The counts stay 0 if there is no damage or no sound batch after it. If a segment's unreadable
        offsets are below the log start offset, its OFFSET_GAP finding says that no consumer reads there. Reads the log
        from the damage on; raises `StorageError` if that fails.
        """
        report, partition = self.report, self.partition
        damage = tell_what_is_behind(
            report.findings, partition.segments, log_start=partition.log_start_offset, limits=self.limits
        )
        if damage is not None:
            report.sound_batches_behind_damage, report.sound_records_behind_damage = damage.batches, damage.records
            report.end_behind_damage = damage.next_offset
        start = partition.log_start_offset
        unread = {finding.file: finding.unread.last_offset for finding in report.findings if finding.unread is not None}
        for number, finding in enumerate(report.findings):
            last = unread.get(finding.file)
            if finding.code is FindingCode.OFFSET_GAP and last is not None and last < start:
                detail = f"this is below the log start {start}, where no consumer reads"
                report.findings[number] = replace(finding, detail=detail)

    def _walked(
        self, run: AnyRun, file: str, cursor: Cursor, checks: list[_IndexCheck], last_offset: int
    ) -> int:
        """Check the next run of the segment `file`, and add its counts and findings to the report. `checks` are the
        open index checks, and `cursor` is the state after the run. `last_offset` is the highest offset before the run.
        Return the highest offset including the run; a batch with a wrong (displaced) base offset counts as if it began
        at the expected one. Calls `on_read` with the size of the run in bytes.
        """
        report, columns, told = self.report, run.columns(), len(self.report.findings)
        report.batches += len(run)
        if self.on_read is not None:
            self.on_read(run.size)
        self._missing.run(run, self.limits)
        self._times.run(run, file)
        if run.verdict is BatchVerdict.REPEATS:
            self._repeats.met(run.batch(0))
        elif run.verdict is BatchVerdict.KEEP and any(
            finding.code is FindingCode.OFFSET_DISPLACED for finding in run.findings
        ):
            self._repeats.told(range(run.reached, run.first_offset))
        report.findings += [finding.in_file(file) for finding in run.findings]
        self._of_each(checks, lambda check: check.run(run, last_offset))
        self._count_deleted(run, file)
        self._has_markers = self._has_markers or run.has_markers
        self._has_producers = self._has_producers or run.has_producer_ids
        self._largest_epoch = max(self._largest_epoch, run.largest_epoch)
        for number in self._epochs.disagreeing(run):
            self._epoch(run.header(number), run.position(number), file)
        for check in self._snapshots.values():
            check.run(run)
        self._open.run(run)
        if columns is None and self.deep:
            self._records(run.batch(0), file)
        elif columns is not None and self._records_of_runs is not None:
            self._records_of(columns, self._records_of_runs, file, told)
        if run.verdict is BatchVerdict.DISPLACED:
            self._repeat = None
            return max(last_offset, cursor.next_offset - 1)
        self._repeat = run.batch(len(run) - 1) if run.final_offset < last_offset else None
        self._placed = run.final_offset if self._placed is None else max(self._placed, run.final_offset)
        return max(last_offset, run.final_offset)

    def _count_deleted(self, run: AnyRun, file: str) -> None:
        """Count the batches of the run that end below the log start offset, and remember `file` and last offset of the
        first such batch.
        """
        reaching = run.reaching(self.partition.log_start_offset)
        deleted = len(run) - (0 if reaching is None else len(reaching))
        if deleted:
            self._deleted = self._deleted or (file, run.batch(0).last_offset)
            self._deleted_batches += deleted

    def _runs(self, segment: Segment, source: Source) -> Iterable[BatchRun | RecordBatch] | None:
        """Return an iterator over the segment in runs of consecutive batches; batches that fit in no run come one by
        one. With `deep` the file is read, and the headers are added to the segment's header table if it has one. Also
        sets `_records_of_runs`, the checker of records. Without `deep` the headers come from the table, and only
        entries of magic 0 and 1 are read. Raises `StorageError` while iterating if a file cannot be read.

        Return None if the segment must be read batch by batch. This is so without compiled code, if limits are not the
        defaults, and if offsets are very large. It is so too without a header table, unless `deep` is set.
        """
        if not is_there() or self.limits != DEFAULT_LIMITS or segment.base_offset >= _LARGE_OFFSET:
            return None
        table = self._tables.of(real(segment.path), source.size)
        if not self.deep:
            return None if table is None else table.runs_or_batches(source, source.size)
        from kafkalog.codec.headers.checked_records import RecordsOfRuns
        from kafkalog.codec.headers.run_scanner import RunScanner

        self._records_of_runs = self._records_of_runs or RecordsOfRuns(self.limits)
        scanned: Iterable[BatchRun | RecordBatch] = RunScanner(source, limits=self.limits)
        if source.size > _READ_AHEAD:
            scanned = ahead(lambda: RunScanner(source, limits=self.limits), size_of=_held, room=_READ_AHEAD)
        return scanned if table is None else table.noting(scanned)

    def _of_each(self, checks: list[_IndexCheck], step: Callable[[_IndexCheck], None]) -> None:
        """Call `step` with every index check. A check whose index can no longer be read (`StorageError`) is removed
        from `checks`: its findings so far and an UNREADABLE finding are added to the report.
        """
        for check in [*checks]:
            try:
                step(check)
            except StorageError as error:
                self.report.findings += [*check.findings, unreadable(error, check.file)]
                checks.remove(check)

    def _index_checks(self, segment: Segment, opened: ExitStack) -> Iterator[_IndexCheck]:
        offset_index = segment.files.get(FileKind.OFFSET_INDEX)
        if offset_index is None:
            live = self.partition.state is DirectoryState.LIVE
            severity = Severity.WARNING if live else Severity.INFO
            self._found(FindingCode.INDEX_MISSING, "there is no offset index", segment.path, severity=severity)
        else:
            yield from self._index_check(OffsetIndexCheck, offset_index, segment.base_offset, opened)
        time_index = segment.files.get(FileKind.TIME_INDEX)
        if time_index is not None:
            yield from self._index_check(TimeIndexCheck, time_index, segment.base_offset, opened)

    def _index_check(
        self, kind: type[_IndexCheck], path: str, base_offset: int, opened: ExitStack
    ) -> Iterator[_IndexCheck]:
        """Yield the check of the index at `path`, an instance of `kind`. If the index cannot be opened or its first
        entries cannot be read, yield nothing and add an UNREADABLE finding. An index that is too large gets a finding
        and is checked as if it were empty. The index is closed with `opened`.
        """
        index = self._index(path, opened)
        try:
            check = None if index is None else kind(path, base_offset, index)
        except StorageError as error:
            self.report.findings.append(unreadable(error, path))
        else:
            yield from () if check is None else (check,)

    def _index(self, path: str, opened: ExitStack) -> Source | None:
        """Open the index at `path`; it is closed with `opened`. If it cannot be opened, return None and add an
        UNREADABLE finding. If it is larger than `limits.snapshot_bytes`, return an empty source and add an
        INDEX_SIZE_INVALID finding.
        """
        try:
            index = opened.enter_context(FileSource(path))
        except StorageError as error:
            self.report.findings.append(unreadable(error, path))
            return None
        if index.size <= self.limits.snapshot_bytes:
            return index
        detail = f"{index.size} bytes, more than {self.limits.snapshot_bytes}"
        self._found(FindingCode.INDEX_SIZE_INVALID, detail, path)
        return BufferSource(b"")

    def _records_of(self, run: BatchRun, examined: RecordsOfRuns, file: str, told: int) -> None:
        """Check the records of a run in the segment `file`, and add their number and findings to the report. Records of
        control batches are not counted. Batches that `examined` reports as doubtful and batches that begin below the
        log start offset are decoded one by one.

        The findings from number `told` on, which are about the headers of the run, are put into one order with the new
        ones: by batch, and for one batch those about its header first.
        """
        findings = self.report.findings
        placed = [(finding.position or 0, finding) for finding in findings[told:]]
        below = run.beginning_below(self.partition.log_start_offset)
        alone = [*range(below), *(below + number for number in examined.doubtful(run.part(below, len(run))))]
        self.report.records += run.data_records()
        for number in alone:
            batch = run.batch(number)
            if isinstance(batch.header, BatchHeader) and not batch.header.is_control:
                self.report.records -= batch.header.records_count
            before = len(findings)
            self._records(batch, file)
            placed += [(batch.position, finding) for finding in findings[before:]]
        findings[told:] = [finding for _, finding in sorted(placed, key=itemgetter(0))]

    def _records(self, batch: RecordBatch, file: str) -> None:
        header = batch.header
        if isinstance(header, BatchHeader):
            stored, finding = stored_records(batch, header, limits=self.limits)
            count, offsets = len(stored), (header.base_offset + raw_record.offset_delta for raw_record in stored)
        else:
            decoded = decode_batch(batch, limits=self.limits)
            count, offsets, finding = len(decoded.records), (each.offset for each in decoded.records), decoded.finding
        self.report.insides = max(self.report.insides, insides_of(finding), key=lambda each: each.rank)
        if not header.is_control:  # what it holds, no consumer sees
            start = self.partition.log_start_offset
            self.report.records += count
            if first_offset_of(batch, self.limits) < start:
                self._deleted_records += sum(offset < start for offset in offsets)
        if finding is not None:
            self.report.findings.append(finding.in_file(file))
        elif isinstance(header, BatchHeader) and stored:
            largest = _largest(header.base_timestamp, [raw_record.timestamp_delta for raw_record in stored])
            if header.timestamp_type is TimestampType.CREATE_TIME and largest != header.max_timestamp:
                detail = f"the header says {header.max_timestamp}, the records {largest}"
                code, offset = FindingCode.MAX_TIMESTAMP_MISMATCH, header.base_offset
                self.report.findings.append(Finding(code, Severity.WARNING, batch.position, offset, detail, file))

    def _epoch(self, header: AnyHeader, position: int, file: str) -> None:
        first = header.first_offset
        detail = f"leader epoch {header.partition_leader_epoch}, where leader-epoch-checkpoint says "
        detail += f"{self._epochs.at(first)}"
        code = FindingCode.LEADER_EPOCH_MISMATCH
        self.report.findings.append(Finding(code, Severity.WARNING, position, first, detail, file))

    def _transaction_indexes(self) -> None:
        """Compare each segment's transaction index with the aborted transactions in the batches. The index should list
        the aborted transactions whose end marker is in the segment. Adds a TXN_INDEX_MISMATCH finding for each index
        that differs, and findings about aborted transactions in overlapping segments.

        An index that is missing or too large counts as empty; an unreadable one is left out. If the log has gaps in its
        offsets, only missing entries are reported. Reads the log again if it has end markers. Raises `StorageError` if
        a log cannot be read.
        """
        derived = self.partition.transactions(limits=self.limits).aborted if self._has_markers else ()
        if any(finding.code is FindingCode.SEGMENT_OVERLAP for finding in self.report.findings):
            self.report.findings += aborted_in_overlaps(logs_of(self.partition.segments), derived)
        bases = [segment.base_offset for segment in self.partition.segments]
        expected: dict[int, dict[tuple[int, int], int]] = {base: {} for base in bases}
        for entry in derived:
            base = bases[max(bisect.bisect_right(bases, entry.last_offset) - 1, 0)]
            expected[base][entry.producer_id, entry.last_offset] = entry.first_offset
        listed = [
            (segment.path, ListedTransactions(expected[segment.base_offset]))
            if path is None
            else (path, self._listed(path, expected[segment.base_offset]))
            for segment in self.partition.segments
            for path in [segment.files.get(FileKind.TRANSACTION_INDEX)]
        ]
        earlier = [beginning for _path, transactions in listed for beginning in transactions.earlier.values()]
        untrue = untrue_beginnings(self.partition, earlier, limits=self.limits)
        unread = {finding.file for finding in self.report.findings if finding.code is FindingCode.UNREADABLE}
        has_gaps = any(finding.code is FindingCode.OFFSET_GAP for finding in self.report.findings)
        for path, listed_transactions in listed:
            if path in unread:
                continue
            missing, extra = listed_transactions.differences(untrue)
            if has_gaps:  # compaction removes aborted data before it removes what is listed
                extra = 0
            if missing or extra:
                detail = f"{missing} aborted transactions are not listed, {extra} are listed but do not exist"
                self._found(FindingCode.TXN_INDEX_MISMATCH, detail, path)

    def _listed(self, path: str, wanted: Mapping[tuple[int, int], int]) -> ListedTransactions:
        """Return the comparison of the transaction index at `path` with `wanted`, the aborted transactions that it
        should list, as (producer id, last offset) -> first offset. If the index cannot be read or is too large, a
        finding is added to the report. In this case the comparison has only the entries read so far.
        """
        listed = ListedTransactions(wanted, self.partition.log_start_offset)
        with ExitStack() as opened:
            index = self._index(path, opened)
            try:
                for _slot, fields in () if index is None else each_slot(index, ABORTED_TRANSACTION, pass_holes=True):
                    listed.entry(AbortedTransaction(*fields))
            except StorageError as error:
                self.report.findings.append(unreadable(error, path))
        return listed

    def _checks_of(self, path: str) -> Iterator[SnapshotCheck]:
        """Yield one check of the producer snapshot at `path` against the log; the caller passes it the batches. Yields
        nothing if the file cannot be read or parsed, or if its name has no offset; no finding is added.
        """
        parsed = parse_segment_file(os.path.basename(path))
        try:
            with FileSource(path) as source:
                if parsed is not None:
                    yield SnapshotCheck(read_producer_snapshot(source, limits=self.limits), parsed.base_offset)
        except (FormatError, StorageError):  # `_snapshot` reports it
            return

    def _compare_snapshots(self) -> None:
        """Add a SNAPSHOT_MISMATCH finding for each of the two newest producer snapshots that contradicts the batches
        before it. Only snapshots above the log start offset and up to the log end offset are compared; a start deletes
        all others. A snapshot at the log end that lists producers must also list every open transaction. Only the log
        after its last gap in the offsets counts for this. After a clean stop the newest snapshot, even an empty one,
        must list open transactions that began before it: a start reads only the log after it.
        """
        end = self.report.log_end_offset
        newest = max((check.end for check in self._snapshots.values() if self._is_loadable(check)), default=None)
        for path, check in self._snapshots.items():
            if not self._is_loadable(check):
                continue  # a start deletes it
            problem = check.problem
            is_loaded = self._starts_from_snapshots and check.end == newest
            must_list = is_loaded or (check.end == end and check.producers)
            opened = {number: first for number, first in self._opened.items() if first < check.end}
            unlisted = opened.keys() - check.open_producers if must_list else set()
            if problem is None and unlisted:
                producer_id = min(unlisted)
                problem = f"the transaction of producer {producer_id} is open in the log, and not listed as open"
                if is_loaded:
                    problem += f"; {_forgotten(producer_id, opened[producer_id])}"
            if problem is not None:
                self._found(FindingCode.SNAPSHOT_MISMATCH, problem, path)

    def _other_segments(self) -> None:
        """Add a clause to each error that the first entry of a time index contradicts the log. It is added only if the
        index and a producer snapshot were perhaps made from another segment (`other_segment`). Raises `StorageError` if
        a file cannot be read.
        """
        findings = self.report.findings
        for number, finding in enumerate(findings):
            is_wrong = finding.code is FindingCode.INDEX_ENTRY_MISMATCH and finding.severity is Severity.ERROR
            path = finding.file or ""
            if is_wrong and finding.position == 0 and path.endswith(FileKind.TIME_INDEX.value):
                clause = other_segment(self.partition, path, self.limits)
                if clause is not None:
                    findings[number] = replace(finding, detail=f"{finding.detail}; {clause}")

    def _is_loadable(self, check: SnapshotCheck) -> bool:
        return self.partition.log_start_offset < check.end <= self.report.log_end_offset

    @property
    def _opened(self) -> dict[int, int]:
        """First offsets of the open transactions that begin at or above the log start offset, by producer id."""
        start = self.partition.log_start_offset
        return {producer_id: first for producer_id, first in self._open.opened.items() if first >= start}

    @property
    def _starts_from_snapshots(self) -> bool:
        """Whether a start takes the producers from the snapshots: after a clean stop, for a live log with a known
        end.
        """
        return self._was_closed and self._is_live and self.report.offset_reached is not None

    def _without_snapshot(self) -> None:
        """Add a SNAPSHOT_MISMATCH finding if a live log that was closed cleanly, and whose end is not doubtful
        (`offset_reached`), has producers but no producer snapshot. A broker takes one whenever it closes a log; a start
        without any does not read the log (`UnifiedLog.rebuildProducerState`). It is an error if a transaction is open,
        else a warning.
        """
        if self.partition.snapshots or not (self._has_producers and self._starts_from_snapshots):
            return
        detail, severity = "there is no producer snapshot", Severity.WARNING
        if opened := self._opened:
            producer_id = min(opened)
            detail, severity = f"{detail}; {_forgotten(producer_id, opened[producer_id])}", Severity.ERROR
        else:
            detail += ": a start forgets the sequence numbers of all producers, and a retry can be written twice"
        path = os.path.join(self.partition.path, f"{self.report.log_end_offset:020}{FileKind.PRODUCER_SNAPSHOT}")
        self._found(FindingCode.SNAPSHOT_MISMATCH, detail, path, severity=severity)

    def _snapshot_beyond_end(self) -> None:
        """Add a SNAPSHOT_MISMATCH warning if a producer snapshot was written at an offset beyond the end of the log,
        which shows that the log was longer. The finding names the snapshot with the largest such offset that the last
        segment could reach. Nothing is added if the partition is not live or has no segment, or if a finding makes the
        end of the log doubtful (`offset_reached`).
        """
        segments, end = self.partition.segments, self.report.offset_reached
        if not (segments and self._is_live) or end is None:
            return
        paths = {
            offset: path for path in self.partition.snapshots for offset in snapshot_offsets([os.path.basename(path)])
        }
        last = max(within_reach(segments[-1].base_offset, paths), default=end)
        if last > end:
            log_end = self.report.log_end_offset  # below `end` if the last batch is torn and its header has offsets
            detail = f"written when the log ended at {last}, and it ends at {log_end}: its end is lost"
            self._found(FindingCode.SNAPSHOT_MISMATCH, detail, paths[last], log_end, Severity.WARNING)

    def _snapshot(self, path: str) -> None:
        try:
            with FileSource(path) as source:
                read_producer_snapshot(source, limits=self.limits)
        except FormatError as error:
            self._found(FindingCode.SNAPSHOT_INVALID, error.message, path)
        except StorageError as error:
            self.report.findings.append(unreadable(error, path))
