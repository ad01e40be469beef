"""Read the copies of one topic-partition for a merge, and compute the layout of the merged log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.text import LeaderEpoch, OffsetCheckpointEntry, PartitionMetadata
from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH
from kafkalog.codec.names import PartitionName
from kafkalog.copies.batch_epochs import BatchEpochs, trusted_lineage
from kafkalog.copies.cleaned_part import CleanedPart
from kafkalog.copies.common_history import Lineage
from kafkalog.copies.copy_walk import CopyWalk, Resumes
from kafkalog.copies.jumps import Displaced, Jumps, without_disproved
from kafkalog.copies.merge_result import CopyShare, MergedRange, MergeResult
from kafkalog.copies.merge_segments import Piece, Rolling
from kafkalog.copies.merged_stretches import Lineages, MergedStretches
from kafkalog.copies.volumes import Copy, reason
from kafkalog.log.directories.partition import Partition

__all__ = ["MergeCopies", "MergedLog", "MergedSegment"]

_MOST_RANGES = 1000
_MOST_EPOCHS = 100_000
"""Most leader epochs of the merged log."""
_MOST_HOLES = 1000


class MergedSegment(Struct):
    """A segment of the merged log."""

    base_offset: int
    size: int = 0


class MergedLog(Struct, kw_only=True):
    """Layout of the merged log to write: its segments and the content of its small files, without its batches."""

    name: PartitionName
    log_start_offset: int
    segments: list[MergedSegment] = field(default_factory=list)
    epochs: tuple[LeaderEpoch, ...] = ()
    metadata: PartitionMetadata | None = None
    checkpointed: int | None = None
    """highest log start offset in the copies' checkpoints; None if there is none"""

    @property
    def start_entry(self) -> OffsetCheckpointEntry | None:
        """Entry for log-start-offset-checkpoint. It has the log start offset if this is above the first segment's base
        offset. Otherwise it has the highest log start offset in the copies' checkpoints, because a tiered log starts
        below its first local segment; None if they have none.
        """
        start = self.log_start_offset
        if start <= self.segments[0].base_offset:
            if self.checkpointed is None:
                return None
            start = self.checkpointed
        return OffsetCheckpointEntry(self.name.topic, self.name.partition, start)

    @property
    def size(self) -> int:
        """Size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)


class _Read(Struct, kw_only=True):
    """Results of the first walk over a copy."""

    copy: Copy
    share: CopyShare
    epochs: BatchEpochs = field(default_factory=BatchEpochs)
    lineage: Lineage = field(default_factory=lambda: Lineage((), 0))
    holes: list[tuple[int, int]] = field(default_factory=list)
    """first offsets after and of batches around damage (end exclusive), for the first damaged places"""
    cleaned_until: int = 0
    batches: int = 0
    end_offset: int = 0
    resumes: Resumes = field(default_factory=dict)
    jumps: Jumps = field(default_factory=Jumps)
    displaced: Displaced = field(default_factory=dict)

    def may_have_lost(self, epoch: int, offset: int) -> bool:
        """Whether `epoch` may have begun at `offset` in batches that damage removed from this copy. The offset must be
        in a hole that damage made. The epoch must be above the epoch before the hole, and not above the epoch after it:
        none can have begun inside one epoch. False if the copy has a list of epochs, because the list would name the
        epoch.
        """
        number = bisect_right(self.holes, offset, key=lambda hole: hole[0]) - 1
        if number < 0 or offset >= self.holes[number][1] or self.partition.leader_epochs:
            return False
        low, high = self.holes[number]
        runs = self.epochs.runs
        before = bisect_left(runs, low, key=lambda run: run.start_offset) - 1
        after = bisect_right(runs, high, key=lambda run: run.end_offset)  # the same one if it goes on behind the hole
        return (before < 0 or runs[before].epoch < epoch) and (after == len(runs) or epoch <= runs[after].epoch)

    @property
    def deleted_until(self) -> int:
        """Offset below which records were deleted (`Copy.deleted_until`)."""
        return self.copy.deleted_until(self.end_offset)

    @property
    def start(self) -> int:
        """First offset that a consumer may read in this copy."""
        base = self.partition.segments[0].base_offset if self.partition.segments else 0
        return max(base, self.deleted_until)

    @property
    def partition(self) -> Partition:
        """The partition. Raises `AssertionError` if it could not be read."""
        if self.copy.partition is None:
            raise AssertionError(self.copy.path)
        return self.copy.partition


class MergeCopies:
    """Several copies of one topic-partition, which are all read when an instance is created. Raises `StorageError` if
    none can be read.

    With `is_compacted` gaps where a copy was cleaned (`CleanedPart`) are not losses. If several copies have a batch in
    one leader epoch, the copy in the directory `prefer` contributes it. `on_read` is called with the number of log
    bytes after each read; bytes that are read again do not count.
    """

    def __init__(
        self,
        copies: Sequence[Copy],
        *,
        segment_bytes: int,
        is_compacted: bool = False,
        prefer: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        self._limits = limits
        self._is_compacted = is_compacted
        self._prefer = prefer
        self.failures: dict[str, StorageError] = {}
        """Error of each copy whose log could not be read to its end, by path"""
        self.name = PartitionName(*copies[0].key)
        everything = [self._read(copy, on_read=on_read) for copy in copies]
        everything = [self._disproved(read, everything) for read in everything]
        self._shares = [read.share for read in everything]
        readable = [read for read in everything if read.share.error is None]
        self._reads = sorted(readable, key=lambda read: read.copy.path)  # the order of arguments decides nothing
        if not self._reads:
            raise StorageError(None, "; ".join(f"{read.path} cannot be read: {read.error}" for read in self._shares))
        self._lineages = self._all_lineages()
        self._best = max(range(len(self._reads)), key=self._rank)
        partitions = [read.partition for read in self._reads]
        self._start = max(min(read.start for read in self._reads), *(read.deleted_until for read in self._reads))
        sources = {segment.path: segment for read in partitions for segment in read.segments}
        self._rolling = Rolling(self._start, segment_bytes, sources)

    def _disproved(self, read: _Read, everything: Sequence[_Read]) -> _Read:
        others = [other for other in everything if other.copy is not read.copy and other.share.error is None]
        return without_disproved(read, lambda: {other.copy.path: self._walk(other) for other in others}, self._read)

    def _read(self, copy: Copy, wrong: Displaced | None = None, on_read: Callable[[int], None] | None = None) -> _Read:
        read = _Read(copy=copy, share=CopyShare(path=copy.path, error=copy.error), displaced=wrong or {})
        if copy.partition is None:
            return read
        segments = copy.partition.segments
        cleaned = CleanedPart(copy, is_compacted=self._is_compacted)
        walk = CopyWalk(segments, resumes=read.resumes, displaced=read.displaced, limits=self._limits, on_bytes=on_read)
        end = 0
        try:
            for stretch in walk:
                read.epochs.note(stretch)
                if stretch.behind_damage and len(read.holes) < _MOST_HOLES:
                    read.holes.append((end, stretch.row(0).first))
                end = stretch.next_offset()
                read.batches += len(stretch)
                cleaned.note(stretch)
        except StorageError as error:
            read.share.error = reason(error, copy.path)
            self.failures[copy.path] = error
        read.cleaned_until = cleaned.until
        read.share.damage, read.share.damaged_places = walk.damage, walk.damaged_places
        unread = copy.unread_log
        if unread is not None:
            read.share.damaged_places += 1
            if walk.sound_end_offset is None or unread[0] <= walk.sound_end_offset:
                read.share.damage = unread[1]
        read.share.unread = copy.unread_places
        read.end_offset, read.jumps = walk.end_offset, walk.jumps
        return read

    def _all_lineages(self) -> Lineages:
        """Return three values as `Lineages`: the number of the copy that reaches furthest (the leader), the trusted
        epochs of all copies, and the leader epochs of the merged log. The last are the leader's own, completed from
        other copies (`_between`). Also sets the `lineage` of each copy.
        """
        known = frozenset(entry.epoch for read in self._reads for entry in read.partition.leader_epochs)
        for read in self._reads:
            listed = read.partition.leader_epochs
            read.lineage = trusted_lineage(listed, read.epochs.runs, known, read.end_offset)
        number = max(range(len(self._reads)), key=self._distance)
        leader = self._reads[number]
        trusted = {entry.epoch for read in self._reads for entry in read.lineage.entries}
        batches = {run.epoch for read in self._reads for run in read.epochs.runs}
        entries = Lineage.of(self._between(leader), max(leader.end_offset, 1)).entries
        return Lineages(number, frozenset(trusted | (known & batches)), entries)

    def _between(self, leader: _Read) -> list[LeaderEpoch]:
        """Return the epochs of the leader's log, completed from the other copies and sorted by epoch. The others add
        epochs before its first epoch, and an earlier start of that epoch below the leader's log. If it has no epoch
        list, they also add epochs in holes that damage made. If it has no epochs at all, all epochs of the others are
        returned. An epoch that is added several times gets the lowest start offset.
        """
        own = leader.lineage.entries
        entries = {entry.epoch: entry.start_offset for entry in own}
        others = sorted(
            (entry for read in self._reads if read is not leader for entry in read.lineage.entries),
            key=lambda entry: entry.start_offset,
        )
        for epoch, offset in ((entry.epoch, entry.start_offset) for entry in others):
            if own and (epoch < own[0].epoch or (epoch == own[0].epoch and offset < leader.start)):
                is_known = offset < own[0].start_offset
            else:
                is_known = not own or leader.may_have_lost(epoch, offset)
            if is_known:
                entries[epoch] = min(offset, entries.get(epoch, offset))
        return [LeaderEpoch(epoch, offset) for epoch, offset in sorted(entries.items())]

    def _distance(self, number: int) -> tuple[int, int, int, int, int, int]:
        """Sort key for how far a copy reaches: highest epoch, then end offset, absence of damage, how far it was
        cleaned, and number of batches. The first of equal copies is greater.
        """
        read = self._reads[number]
        last = read.lineage.last_epoch
        is_sound = int(read.share.damage is None)
        return (-1 if last is None else last), read.end_offset, is_sound, read.cleaned_until, read.batches, -number

    def _rank(self, number: int) -> tuple[bool, int, int, int, int, int, int]:
        """Sort key for the choice of the copy that contributes batches that several have: the preferred copy is
        greatest, else the copy that reaches furthest.
        """
        is_preferred = self._prefer is not None and self._reads[number].copy.is_in(self._prefer)
        return is_preferred, *self._distance(number)

    def _walk(self, read: _Read) -> CopyWalk:
        is_damaged = read.share.damage is not None
        return CopyWalk(
            read.partition.segments,
            check_crc=is_damaged,
            resumes=read.resumes,
            displaced=read.displaced,
            limits=self._limits,
        )

    def _choice(self) -> MergedStretches:
        walks = [self._walk(read) for read in self._reads]
        cleaned = [read.cleaned_until for read in self._reads]
        begin = [read.start for read in self._reads]
        return MergedStretches(
            walks, self._lineages, start=self._start, best=self._best, cleaned=cleaned, begin=begin, limits=self._limits
        )

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the merged log in order, reading the copies again. Raises `StorageError` if one can no
        longer be read.
        """
        return self._rolling.pieces(self._choice())

    def preview(self) -> tuple[MergeResult, MergedLog]:
        """Return the counts of the merge and the layout of the merged log; nothing is written. The copies are read once
        more, and the share of each one in the merge is filled in. If nothing is kept, the log has one empty segment at
        the highest log end offset of the copies. Raises `StorageError` if a copy can no longer be read.
        """
        choice = self._choice()
        result = MergeResult(topic=self.name.topic, partition=self.name.partition, target=None, copies=self._shares)
        starts = [read.copy.start_in_checkpoint(read.end_offset) for read in self._reads]
        checkpointed = max((start for start in starts if start is not None), default=None)
        log = MergedLog(name=self.name, log_start_offset=self._start, checkpointed=checkpointed)
        ranges = _Ranges(result)
        epochs: list[LeaderEpoch] = []
        for piece in self._rolling.pieces(choice):
            if not log.segments or log.segments[-1].base_offset != piece.base_offset:
                log.segments.append(MergedSegment(piece.base_offset))
            log.segments[-1].size += piece.size
            result.batches_kept += piece.taken.end - piece.taken.start
            ranges.note(piece, self._reads[piece.taken.copy].copy.path)
            row = piece.taken.stretch.row(piece.taken.start)
            epoch = self._lineages.epoch_of(row)
            is_new = not epochs or epoch > epochs[-1].epoch
            if epoch != NO_PARTITION_LEADER_EPOCH and is_new and len(epochs) < _MOST_EPOCHS:
                epochs.append(LeaderEpoch(epoch, row.first))
        result.log_start_offset, result.log_end_offset = self._start, choice.end_offset
        result.bytes_kept = log.size
        self._note_tallies(result, choice)
        if not log.segments:
            log.segments.append(MergedSegment(max(read.end_offset for read in self._reads)))
            result.log_end_offset = max(result.log_end_offset, log.segments[0].base_offset)
        log.epochs = self._epochs(epochs, result.log_end_offset)
        known = (read.partition.metadata for read in self._reads)
        log.metadata = next((metadata for metadata in known if metadata is not None), None)
        return result, log

    def _note_tallies(self, result: MergeResult, choice: MergedStretches) -> None:
        result.gaps, result.gap_count, result.offsets_missing = choice.gaps, choice.gap_count, choice.offsets_missing
        for read, tally in zip(self._reads, choice.tallies, strict=True):
            share = read.share
            share.batches, share.records = tally.batches, tally.records
            share.lacks_records, share.lacks_from = tally.lacks_records, tally.lacks
            share.dropped_batches, share.dropped_records = tally.dropped_batches, tally.dropped_records
            share.dropped_from = tally.dropped
            share.passed_batches, share.passed_from = tally.passed_batches, tally.passed
            share.cleaned_batches = tally.cleaned_batches
        result.records_kept = sum(tally.records for tally in choice.tallies)
        places = [(read.copy.log_dir, read.copy.key) for read in self._reads if not read.share.dropped_batches]
        watermarks = [log_dir.high_watermarks.get(key) for log_dir, key in places if log_dir is not None]
        result.high_watermark = max((offset for offset in watermarks if offset is not None), default=None)

    def _epochs(self, known: Sequence[LeaderEpoch], end: int) -> tuple[LeaderEpoch, ...]:
        """Return the leader epochs of the merged log, which ends at offset `end`. `known` are the epochs of its
        batches. Epochs that begin at `end` or above are dropped.

        The copies' epoch lists also name epochs whose batches compaction removed. If the list with the highest epoch
        agrees with `known`, it is returned, followed by higher epochs from `known`. Otherwise only `known` is returned.
        """
        lineages = [Lineage.of(read.partition.leader_epochs, end) for read in self._reads]
        best = max(lineages, key=lambda lineage: (lineage.last_epoch or -1, len(lineage.entries)))
        latest = -1 if best.last_epoch is None else best.last_epoch
        agrees = all(best.end_of(entry.epoch) is not None and _epoch_at(best, entry) == entry.epoch
                     for entry in known if entry.epoch <= latest)  # fmt: skip
        if not agrees:
            return Lineage.of(known, end).entries
        return Lineage.of((*best.entries, *(entry for entry in known if entry.epoch > latest)), end).entries


def _epoch_at(lineage: Lineage, entry: LeaderEpoch) -> int | None:
    """Epoch that a lineage has at the entry's offset; None if it begins later."""
    return next((epoch.epoch for epoch in reversed(lineage.entries) if epoch.start_offset <= entry.start_offset), None)


class _Ranges:
    """Writer of the ranges of offsets that each copy contributed, in order, into a `MergeResult`."""

    def __init__(self, result: MergeResult) -> None:
        self._result = result
        self._source = ""

    def note(self, piece: Piece, source: str) -> None:
        """Record that the copy with path `source` contributed the next piece of the merged log: extend the last range
        if it is from the same copy, otherwise add one. All ranges are counted, but only the first 1000 are kept.
        """
        result, stretch = self._result, piece.taken.stretch
        first, last = stretch.row(piece.taken.start).first, stretch.row(piece.taken.end - 1).last
        if source != self._source:
            self._source = source
            result.range_count += 1
            if result.range_count <= _MOST_RANGES:
                result.ranges.append(MergedRange(first, last, source))
        elif result.range_count <= _MOST_RANGES:
            result.ranges[-1].last_offset = last
