"""Open one partition directory for reading, as Kafka's `UnifiedLog` does: its segments in order, and the small files
about them. A `Partition` may also be a single segment file in any directory.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import structs

from kafkalog.codec.common.arguments import Count, checked
from kafkalog.codec.common.errors import FormatError, KafkaLogError, UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.files.text import (
    LeaderEpoch,
    PartitionMetadata,
    decode_offset_checkpoint,
)
from kafkalog.codec.model import AbortedTransaction, BatchHeader, RecordBatch
from kafkalog.codec.names import (
    LOG_START_OFFSET_CHECKPOINT,
    DirectoryState,
    FileKind,
    PartitionName,
    parse_kraft_snapshot_file,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.left_out import check_left_out, leaves_out_records, report_left_out
from kafkalog.log.directories.partition_listing import PartitionListing, reason_of
from kafkalog.log.directories.time_search import Look, first_since, looking_for_timestamp
from kafkalog.log.disk.files import (
    FileSource,
    NotRegularFileError,
    PathLike,
    absolute,
    exists,
    is_directory,
    read_small,
    scan_directory,
    status_of,
    what_it_is,
)
from kafkalog.log.disk.pointer import findings_of_half_done
from kafkalog.log.disk.unchanged import Unchanged
from kafkalog.log.reading.column_decoding import ColumnDecoding
from kafkalog.log.reading.offsets import offsets_before
from kafkalog.log.reading.readable import OffsetAndTimestamp, Reset
from kafkalog.log.reading.record_filter import EVERY_RECORD, RecordFilter
from kafkalog.log.walk.batch_filter import Codecs, ProducerIds, batch_filter
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.on_damage import RAISE, SKIP, STOP
from kafkalog.log.walk.segment import Segment, index_of
from kafkalog.log.walk.sliced import run_slices
from kafkalog.log.walk.time_lookup import NewestTimestamps

if TYPE_CHECKING:
    import pyarrow

    from kafkalog.log.reading.fetch import Chunk
    from kafkalog.log.reading.records import RecordReader
    from kafkalog.log.reading.transactions import KnownTransactions, Transactions, TransactionTracker

__all__ = [
    "Look", "OffsetAndTimestamp", "Partition", "first_since", "looking_for_timestamp", "open_live", "open_partition",
    "open_segment",
]  # fmt: skip


@checked()
@dataclass(frozen=True)
class Partition:
    """Content of one partition directory, listed once and never written to."""

    path: str
    name: PartitionName | None
    """None for a segment file outside a partition directory"""
    segments: tuple[Segment, ...]
    """segments by base offset"""
    checkpointed_log_start_offset: int | None = None
    """from log-start-offset-checkpoint of the directory above; None without an entry"""
    leader_epochs: tuple[LeaderEpoch, ...] = ()
    metadata: PartitionMetadata | None = None
    snapshots: tuple[str, ...] = ()
    """paths of the producer snapshots, by offset"""
    kraft_snapshots: tuple[str, ...] = ()
    """paths of the metadata snapshots of a `__cluster_metadata` partition"""
    unfinished: tuple[str, ...] = ()
    """paths of `.deleted`, `.cleaned`, `.swap` and other temporary files"""
    deleted_below: int | None = None
    """for a view of deleted records in live segments: only records below this offset belong to it; otherwise None"""
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    """findings from listing the directory"""
    limits: Limits = field(default=DEFAULT_LIMITS, repr=False, compare=False)
    """limits for reading the partition, unless other limits are passed to a method"""

    @property
    def topic(self) -> str | None:
        """Topic in the directory's name; None if unknown."""
        return self.name.topic if self.name is not None else None

    @property
    def partition(self) -> int | None:
        """Partition number in the directory's name; None if unknown."""
        return self.name.partition if self.name is not None else None

    @property
    def state(self) -> DirectoryState:
        """State of the directory: live, waiting for deletion, moving or stray."""
        return self.name.state if self.name is not None else DirectoryState.LIVE

    @property
    def size(self) -> int:
        """Size of all log files in bytes."""
        return sum(segment.size for segment in self.segments)

    @property
    def log_start_offset(self) -> int:
        """First offset that consumers can read: the checkpointed one, or the first segment's base offset if that is
        larger.
        """
        base = self.segments[0].base_offset if self.segments else 0
        return max(base, self.checkpointed_log_start_offset or 0)

    @property
    def epochs_below_start(self) -> int | None:
        """Offset at which the leader epochs begin, if it is below the log start offset and a segment with data begins
        below that too; otherwise None. Such an offset shows that the checkpointed log start offset is wrong, because a
        broker moves both together (`LeaderEpochFileCache.truncateFromStart`).
        """
        start = self.log_start_offset
        has_records = any(segment.size and segment.base_offset < start for segment in self.segments)
        begins = min((epoch.start_offset for epoch in self.leader_epochs), default=start)
        return begins if has_records and begins < start else None

    @property
    def begins_remotely(self) -> bool:
        """Whether the first segments are probably in a remote tier: the checkpointed log start offset is below the
        first segment, and a leader epoch begins at or below it. `kafkalog.tiers.tiering` decides whether they are
        missing instead.
        """
        start, begins = self.checkpointed_log_start_offset, self.segments[0].base_offset if self.segments else 0
        return start is not None and start < begins and any(epoch.start_offset <= start for epoch in self.leader_epochs)

    def _own(self, limits: Limits) -> Limits:
        """Return the limits of the partition if a caller passed the default ones; otherwise `limits`."""
        return self.limits if limits is DEFAULT_LIMITS else limits

    @property
    def unreadable(self) -> list[Finding]:
        """Return two kinds of findings. UNREADABLE is about entries of the directory that could not be read, such as
        links. FOREIGN_FILE with severity ERROR is about directories and dangling links that have the name of a log.
        """
        return [
            finding for finding in self.findings
            if finding.code is FindingCode.UNREADABLE
            or (finding.code is FindingCode.FOREIGN_FILE and finding.severity is Severity.ERROR)
        ]  # fmt: skip

    @property
    def left_out(self) -> list[Finding]:
        """Return the findings about logs in the directory that are not read because they are links, FIFOs or folders.
        Their records are in no result.
        """
        return [finding for finding in self.findings if leaves_out_records(finding)]

    def batches(
        self,
        *,
        start_offset: int | None = None,
        producer_ids: ProducerIds = None,
        codecs: Codecs = None,
        transactional: bool | None = None,
        control: bool | None = None,
        on_damage: str = RAISE,
        limits: Limits = DEFAULT_LIMITS,
    ) -> BatchReader:
        """Return a reader of the batches of all segments in order, from the first one that reaches `start_offset`;
        None: all. The other conditions select batches by their headers, see `batch_filter`: for example, with
        `control=True` only control batches are read, with False none. Raises `UsageError` for an invalid argument.

        Files are read during the iteration, which raises `StorageError` if one cannot be read. A log that is not a file
        (see `left_out`) raises it at once, or is a finding with another `on_damage`. Damage raises `FormatError`; with
        `on_damage="stop"` it ends the reading, with `"skip"` the reader continues with the next sound batch. The
        reader's `findings` has the faults. Batches are not decoded, so damage inside one with a valid checksum is not
        found.
        """
        wanted = batch_filter(producer_ids, codecs, transactional, control)
        check_left_out(self.left_out, on_damage)
        reader = BatchReader(
            self.segments, start_offset=start_offset, through_damage=on_damage == SKIP, raises=on_damage == RAISE,
            batches=wanted, limits=self._own(limits),
        )  # fmt: skip
        reader.findings.extend(self.left_out)
        return reader

    def records(
        self,
        filter: RecordFilter = EVERY_RECORD,
        *,
        isolation_level: str | None = None,
        include_control: bool = False,
        all: bool = False,
        on_damage: str = RAISE,
        limits: Limits = DEFAULT_LIMITS,
        on_bytes: Callable[[int], None] | None = None,
    ) -> RecordReader:
        """Return a reader of the records that a consumer gets and `filter` accepts; see `RecordReader`.

        * `isolation_level`: takes precedence over the filter's
        * `include_control`: yield control records too
        * `all`: yield everything in the files that `filter` accepts and continue after damage, whatever `on_damage` is
        * `on_damage`: what damage does. `"raise"` raises `FormatError`, `"stop"` ends the records there, `"skip"`
          continues with the next sound batch
        * `on_bytes`: called with the number of log bytes as they are read

        The reader's `findings` has the faults. A log that is not a file (see `left_out`) is a finding, but raises
        `StorageError` at once if damage raises. A file that cannot be read raises `StorageError` too: while iterating,
        or at once if offsets of timestamps or transactions have to be found first. Raises `UsageError` for an invalid
        argument.
        """
        from kafkalog.log.reading.records import RecordReader  # most commands read no record

        if isolation_level is not None:
            filter = structs.replace(filter, isolation_level=isolation_level)
        if not all:
            check_left_out(self.left_out, on_damage)
        reader = RecordReader(
            self,
            filter,
            include_control=include_control,
            all_records=all,
            on_damage=on_damage,
            limits=self._own(limits),
            on_bytes=on_bytes,
        )
        reader.findings.extend(self.left_out)
        return reader

    def to_arrow(
        self,
        columns: Iterable[str] | None = None,
        filter: RecordFilter = EVERY_RECORD,
        *,
        batch_rows: int = 65_536,
        batch_bytes: int = 8 * MIB,
        on_damage: str = RAISE,
        findings: list[Finding] | None = None,
        threads: Count = 1,
        layout: str = "copy",
        decoding: ColumnDecoding | None = None,
    ) -> pyarrow.RecordBatchReader:
        """Return the records that a consumer gets and `filter` accepts, as Arrow batches of at most `batch_rows` rows
        and about `batch_bytes` bytes. Batches that were appended to the last log file since it was listed are included.

        `columns` are names in `kafkalog.codec.columnar.schema.TYPES`, by default those of Spark's Kafka source with
        headers. A batch that begins below the end of an earlier one does not end the rows; like a consumer, the reader
        returns no offset twice. If an open transaction ends committed data early, `open_transaction` in the metadata of
        the reader's schema says so.

        Damage raises `FormatError` while the batches are read, after the rows before it; the error's `finding`
        describes it. `on_damage="stop"` ends the rows there, as damage ends a consumer's reading; `"skip"` leaves out
        the records that cannot be read and continues with the next sound batch. A list for `findings` receives the
        faults; without a list they become warnings. Of several batches that repeat offsets, only the first is reported.

        `threads` is the number of threads that read a large log in parallel, the caller's included. Rows and their
        order are the same, but the Arrow batches may differ. Each thread holds a few batches in memory.

        `layout="view"` returns `key` and `value` as Arrow's `binary_view`, which points into the bytes that were read
        or decompressed instead of copying them. Those bytes stay in memory until every row of the Arrow batch is gone.

        `decoding` decodes keys and values; `kafkalog.DecodedValues` does so by their schemas. It cannot be combined
        with `layout="view"`.

        Raises `UsageError` for an invalid argument or if pyarrow is not installed, `StorageError` if a file cannot be
        read. A log that is not a file (see `left_out`) raises it too, or is a finding with another `on_damage`.
        """
        with needed("to_arrow", "fast"):
            from kafkalog.log.reading.to_arrow import partition_to_arrow

        if decoding is not None and layout != "copy":
            raise UsageError("decoded keys and values are no views of bytes: leave out layout")

        check_left_out(self.left_out, on_damage)
        report_left_out(self.left_out, findings)
        read = partial(
            partition_to_arrow,
            self._grown(),
            filter=filter,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            on_damage=on_damage,
            threads=threads,
            layout=layout,
        )
        return read(columns, findings=findings) if decoding is None else decoding.decoded(self, read, columns, findings)

    def _grown(self) -> Partition:
        """Return the partition with the present size of its last log file, if the file has grown since it was listed;
        otherwise the partition itself. Raises `StorageError` if the file cannot be examined.
        """
        status = status_of(self.segments[-1].path) if self.segments else None
        if status is None or status.st_size <= self.segments[-1].size:
            return self
        *earlier, last = self.segments
        return replace(self, segments=(*earlier, structs.replace(last, size=status.st_size)))

    def transactions(self, *, through_damage: bool = False, limits: Limits = DEFAULT_LIMITS) -> Transactions:
        """Return aborted and open transactions up to the first damage, according to the log's batches. An end that only
        producer snapshot or transaction indexes show counts too, if the batches confirm these files. A transaction
        whose end may be in that damage counts as open. With `through_damage`, the transactions of the whole log are
        returned, and those with an end in damage do not count as open. The log is read; only the result without
        `through_damage` is cached, until the file of the last segment changes. Raises `StorageError` if a file cannot
        be read.
        """
        limits = self._own(limits)
        if through_damage or not self.segments:
            return self._derive_transactions(limits, through_damage=through_damage)
        return self._transactions.of(self.segments[-1].path, limits, lambda: self._derive_transactions(limits))

    @cached_property
    def _transactions(self) -> Unchanged[Limits, Transactions]:
        return Unchanged()

    def _derive_transactions(self, limits: Limits, *, through_damage: bool = False) -> Transactions:
        from kafkalog.log.reading.known_ends import known_transactions
        from kafkalog.log.reading.transactions import Transactions

        tracker, end = self._track_transactions(limits, through_damage, None)
        known = known_transactions(self, tracker.aborted, tracker.open_first_offsets, limits)
        if known is not None:
            tracker, end = self._track_transactions(limits, through_damage, known)
        undecided = tuple(tracker.undecided)
        first_offsets = dict(tracker.open_first_offsets)
        for transaction in () if through_damage else undecided:  # its producer may have begun another one since
            earlier = first_offsets.get(transaction.producer_id, transaction.first_offset)
            first_offsets[transaction.producer_id] = min(earlier, transaction.first_offset)
        return Transactions(
            aborted=tuple(tracker.aborted),
            open_first_offsets=first_offsets,
            log_end_offset=end,
            findings=tuple(tracker.findings),
            undecided=undecided,
            log_start_offset=self.log_start_offset,
        )

    def _track_transactions(
        self, limits: Limits, through_damage: bool, known: KnownTransactions | None
    ) -> tuple[TransactionTracker, int]:
        """Read the log; return the state of its transactions, and the offset after the highest one that was read. That
        offset is at least the base offset of the first segment, and 0 without segments. If the end of the log is
        reached, it is at least the base offset of the last segment. Damage ends the reading, unless `through_damage`.

        Batches below the log start offset are not used; transactions that began there are taken from the producer
        snapshot. `known` replaces the state up to its offset, see `TransactionTracker.begin`. Raises `StorageError` if
        a file cannot be read.
        """
        from kafkalog.log.reading.opened_below import opened_below_start, start_of_state
        from kafkalog.log.reading.transactions import TransactionTracker

        tracker = TransactionTracker(limits)
        tracker.begin(opened_below_start(self, limits), known)
        end = self.segments[0].base_offset if self.segments else 0
        way = SKIP if through_damage else STOP
        reader = self.batches(start_offset=start_of_state(self), on_damage=way, limits=limits)
        for step in tracker.follow(reader):
            end = max(end, step.next_offset)
        if self.segments and reader.stop is StopReason.END:
            end = max(end, self.segments[-1].base_offset)
        return tracker, end

    def aborted_transactions(self) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions up to the first damage, in the order of their markers; see `transactions`.
        Raises `StorageError` if a file cannot be read.
        """
        return self.transactions().aborted

    def last_stable_offset(self) -> int:
        """Return the first offset of the earliest open transaction, but at least the log start offset; the log end
        offset if none is open. Raises `StorageError` if a file cannot be read.
        """
        return self.transactions().last_stable_offset

    def log_end_offset(self, *, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the offset of the next record: the one after the highest offset of a valid batch of the last segment,
        before any damage in it. It is the base offset of that segment if it has no valid batch, and without segments
        the checkpointed log start offset, or 0. The segment is read once, and again only after its file changed. Raises
        `StorageError` if it cannot be read.
        """
        if not self.segments:
            return self.checkpointed_log_start_offset or 0
        limits = self._own(limits)
        last = self.segments[-1]
        return self._ends.of(last.path, limits, lambda: self._end_of(last, limits))

    @cached_property
    def _ends(self) -> Unchanged[Limits, int]:
        return Unchanged()

    @staticmethod
    def _end_of(last: Segment, limits: Limits) -> int:
        end = last.base_offset
        for batch in last.batches(limits=limits):
            end = max(end, batch.header.next_offset)
        return end

    def segments_from(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that holds `offset`, or the first segment if the offset is below it, then all segments
        after it.
        """
        for number in range(index_of(self.segments, offset), len(self.segments)):
            yield self.segments[number]

    def read(
        self,
        offset: int,
        max_bytes: int = MIB,
        *,
        max_chunk_bytes: int = 64 * MIB,
        end_offset: int | None = None,
        reset: Reset | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Chunk:
        """Return a chunk of whole batches, as a consumer fetches it, beginning with the batch that contains `offset` or
        with the next one. The chunk has at most `max_bytes` bytes; if the first batch is larger, this size is doubled
        until the batch fits, up to `max_chunk_bytes`. The chunk ends with its segment, and before damage. At the log
        end offset it is empty if the log has no damage there. The log may be read to find its end; pass `end_offset` if
        it is known.

        For an offset outside the log, reading begins at the start or the end of the log, as `reset` says; the chunk's
        `offset` shows where. Without `reset`, `OffsetOutOfRangeError` is raised. Damage at the offset raises
        `FormatError`, and so does damage before it, unless an index entry lies between them. Without `end_offset`, this
        also holds for an offset above the log end offset. A first batch of more than `max_chunk_bytes` raises
        `LimitExceeded`. Raises `UsageError` for invalid sizes, `StorageError` if the log cannot be read.
        """
        from kafkalog.log.reading.fetch import fetch  # loaded here, because most readers do not need it

        return fetch(
            self,
            offset,
            max_bytes,
            end_offset=end_offset,
            max_chunk_bytes=max_chunk_bytes,
            reset=reset,
            limits=self._own(limits),
        )

    def offsets_before(self, timestamp: int, max_count: int) -> list[int]:
        """Return at most `max_count` base offsets, descending, of the segments last modified at or before `timestamp`
        (ms); see the function `offsets_before`. Raises `StorageError` if a file cannot be read, `UsageError` for an
        invalid `max_count` or `timestamp`.
        """
        return offsets_before(self, timestamp, max_count)

    def offset_for_timestamp(
        self,
        timestamp: int,
        *,
        findings: list[Finding] | None = None,
        through_damage: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> OffsetAndTimestamp | None:
        """Return the first record, from the log start offset on, with this timestamp (ms) or a later one; None if there
        is none. Only batches that can hold the answer are read. The time index is used if the log confirms it, see
        `time_lookup`; otherwise batch headers are read. Facts about whole segments are kept for the next search. Damage
        before the record raises `FormatError`. If `findings` is a list, damage is appended to it instead, and ends the
        search; with `through_damage` the search continues after it. Raises `StorageError` if a file cannot be read, and
        without both arguments if a log is not a file (see `left_out`).
        """
        own = self._own(limits)
        if findings is None and not through_damage:
            check_left_out(self.left_out, RAISE)
        return run_slices(looking_for_timestamp(self, timestamp, findings, through_damage=through_damage, limits=own))

    @cached_property
    def newest(self) -> NewestTimestamps:
        """Newest timestamps of the segments that earlier searches by time have read; new searches add to them."""
        return NewestTimestamps(self.segments, index_of(self.segments, self.log_start_offset))


def read_partition(
    path: str,
    name: PartitionName,
    log_start_offset: int | None,
    *,
    as_started: bool = True,
    limits: Limits = DEFAULT_LIMITS,
) -> Partition:
    """List the partition directory at `path`, whose name is already parsed, and return its content. `log_start_offset`
    is the checkpointed one, None without an entry. With `as_started`, segments are those that a broker's start would
    have after an interrupted compaction (`put_swaps_in_place`). Malformed small files and foreign files make findings.
    Raises `StorageError` if the directory or a small file cannot be read.
    """
    listing = PartitionListing(path, limits)
    for entry in scan_directory(path):
        listing.look_at(entry)
    if as_started:
        listing.put_swaps_in_place()
    segments = listing.segments()
    return Partition(
        path=path,
        name=name,
        segments=segments,
        checkpointed_log_start_offset=log_start_offset,
        leader_epochs=listing.leader_epochs,
        metadata=listing.metadata,
        snapshots=tuple(listing.snapshots),
        kraft_snapshots=tuple(listing.kraft_snapshots),
        unfinished=tuple(listing.unfinished),
        findings=tuple(listing.findings),
        limits=limits,
    )


def _checkpointed_start(path: str, name: PartitionName, limits: Limits) -> tuple[int | None, Finding | None]:
    """Return the log start offset of a partition from log-start-offset-checkpoint in the parent directory, and a
    finding. The finding is None unless that file is malformed or not a regular file. The offset is None if there is a
    finding, and also if the file is missing or has no entry for the partition. Raises `StorageError` if the file cannot
    be read.
    """
    checkpoint = os.path.join(os.path.dirname(absolute(path)), LOG_START_OFFSET_CHECKPOINT)
    try:
        entries = decode_offset_checkpoint(read_small(checkpoint, limits.checkpoint_bytes), source=checkpoint)
    except FileNotFoundError:
        return None, None
    except (FormatError, NotRegularFileError) as error:
        return None, Finding.of(FindingCode.CHECKPOINT_INVALID, None, None, reason_of(error), checkpoint)
    for topic, partition, offset in entries:
        if (topic, partition) == (name.topic, name.partition):
            return offset, None
    return None, None


def open_partition(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Partition:
    """Return the partition directory at `path`. A live one has its log start offset from the checkpoint in the parent
    directory. Malformed small files and unfinished recoveries of the parent directory make findings.

    Raises `UsageError` if the path does not exist, is not a directory, or is not named like a partition directory. A
    log directory may be named like a partition; therefore `UsageError` is also raised if there is no segment, snapshot
    or unfinished file (such as `.deleted`) of a log in it. Raises `StorageError` if it cannot be read.

    * `limits`: upper bounds for a batch or file (`Limits`)
    """
    directory = absolute(os.fspath(path))
    if not is_directory(directory):
        raise UsageError(f"{os.fspath(path)} is not a directory" if exists(directory) else
                         f"{os.fspath(path)} does not exist")  # fmt: skip
    name = parse_partition_directory(os.path.basename(directory))
    if name is None:
        raise UsageError(
            f"{os.fspath(path)} is not named like a partition directory (<topic>-<partition>): its topic is unknown"
        )
    start, finding = None, None
    if name.state is DirectoryState.LIVE:
        start, finding = _checkpointed_start(directory, name, limits)
    half_done = findings_of_half_done(os.path.dirname(directory))
    partition = read_partition(os.fspath(path), name, start, limits=limits)
    others = map(os.path.basename, (*partition.kraft_snapshots, *partition.unfinished))
    # a log directory may be called `broker-1`, and have a file `.checkpoint`, but no segment or snapshot
    is_log = partition.segments or partition.snapshots
    if not is_log and not any(parse_segment_file(name) or parse_kraft_snapshot_file(name) for name in others):
        raise UsageError(f"{os.fspath(path)} holds no segment")
    return _with_findings(partition, [*half_done, *([] if finding is None else [finding])])


def open_live(topic: str, root: str, names: Iterable[str]) -> Iterator[Partition]:
    """Yield the live partitions of a topic among the directory `names` in the log directory `root`, sorted by name.
    Partitions that cannot be opened are skipped, and so are all other names.
    """
    for name in sorted(names):
        parsed = parse_partition_directory(name)
        if parsed is None or parsed.topic != topic or parsed.state is not DirectoryState.LIVE:
            continue
        try:
            yield open_partition(os.path.join(root, name))
        except KafkaLogError:
            continue


def _with_findings(partition: Partition, findings: Sequence[Finding]) -> Partition:
    if not findings:
        return partition
    values = {name: getattr(partition, name) for name in partition.__dataclass_fields__}
    return Partition(**{**values, "findings": (*partition.findings, *findings)})


def _first_offset(path: str, limits: Limits) -> int:
    with FileSource(path) as source:
        first: RecordBatch | None = next(iter(Scanner(source, limits=limits)), None)
    if first is None:
        raise UsageError(f"{path} is not a segment: its name is not <base offset>.log, and no batch is at its start")
    header, records = first.header, decode_batch(first, limits=limits).records
    return header.base_offset if isinstance(header, BatchHeader) else min(header.offset, *(r.offset for r in records))


def open_segment(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Partition:
    """Return a single log file, in any directory, as a partition of one segment. If `path` ends in `.log`, the
    partition has the index files beside it. The base offset is the one in the name, which may be `NNN.log` with any of
    Kafka's suffixes. It is 0 for a KRaft snapshot (`.checkpoint`). A file with another name must begin with a valid
    batch, and gets the offset of its first record. Raises `UsageError` if the file does not exist or is not a segment,
    `StorageError` if it cannot be read.

    * `path`: the log file
    * `limits`: upper bounds for a batch or file (`Limits`)
    """
    text = os.fspath(path)
    parsed = parse_segment_file(os.path.basename(text))
    snapshot = text.endswith(FileKind.KRAFT_SNAPSHOT.value)
    if parsed is not None and parsed.kind is not FileKind.LOG and not snapshot:
        raise UsageError(f"{text} is not a segment: its name is not <base offset>.log")
    status = status_of(text)
    if status is None:
        raise UsageError(f"{text} does not exist")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{text} is {what_it_is(status.st_mode)}")
    base_offset = parsed.base_offset if parsed is not None else 0 if snapshot else _first_offset(text, limits)
    files, sizes = {FileKind.LOG: text}, {FileKind.LOG: status.st_size}
    stem = text.removesuffix(FileKind.LOG.value)
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX):
        beside = status_of(stem + kind.value) if stem != text else None
        if beside is not None and stat.S_ISREG(beside.st_mode):
            files[kind] = stem + kind.value
            sizes[kind] = beside.st_size
    segment = Segment(
        base_offset=base_offset, path=text, size=status.st_size, modified_ns=status.st_mtime_ns, files=files,
        sizes=sizes,
    )  # fmt: skip
    name = parse_partition_directory(os.path.basename(os.path.dirname(absolute(text))))
    return Partition(path=text, name=name, segments=(segment,), limits=limits)
