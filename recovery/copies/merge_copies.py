"""The copies of one topic-partition, read for a merge: what each has, and what all of them give together.

Every copy is walked once with checksums.  After that the choice can be made as often as it is asked for, in walks that
hold one window of each copy: once to see what the merged log would be, and once more to write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from kafkalog.classes import dataclass
from kafkalog.codec.errors import StorageError
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH
from kafkalog.codec.names import PartitionName
from kafkalog.codec.text import LeaderEpoch, OffsetCheckpointEntry, PartitionMetadata
from kafkalog.log.directories.partition import Partition
from kafkalog.recovery.copies.common_history import Lineage
from kafkalog.recovery.copies.copy_walk import CopyWalk, Resumes
from kafkalog.recovery.copies.jumps import Displaced, Jumps, without_disproved
from kafkalog.recovery.copies.merge_result import CopyShare, MergedRange, MergeResult
from kafkalog.recovery.copies.merge_segments import Piece, Rolling
from kafkalog.recovery.copies.merged_stretches import Lineages, MergedStretches
from kafkalog.recovery.copies.volumes import Copy, reason

__all__ = ["MergeCopies", "MergedLog", "MergedSegment"]

_MOST_RANGES = 1000
_MOST_EPOCHS = 100_000
"""Leader epochs that are taken from the batches of one copy, at most."""


@dataclass(slots=True)
class MergedSegment:
    """A segment of the merged log."""

    base_offset: int
    size: int = 0


@dataclass(slots=True)
class MergedLog:
    """What is to be written, but for the bytes."""

    name: PartitionName
    log_start_offset: int
    segments: list[MergedSegment] = field(default_factory=list)
    epochs: tuple[LeaderEpoch, ...] = ()
    metadata: PartitionMetadata | None = None
    checkpointed: int | None = None
    """the largest log start offset in the checkpoints of the copies; None without any"""

    @property
    def start_entry(self) -> OffsetCheckpointEntry | None:
        """The log start offset for the checkpoint; None if the first segment's name tells it.

        A tiered log begins below its first local segment, and only the checkpoint says where.
        """
        start = self.log_start_offset
        if start <= self.segments[0].base_offset:
            if self.checkpointed is None:
                return None
            start = self.checkpointed
        return OffsetCheckpointEntry(self.name.topic, self.name.partition, start)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)


@dataclass(slots=True)
class _Read:
    """What the first walk over a copy has found."""

    copy: Copy
    share: CopyShare
    starts: dict[int, int] = field(default_factory=dict)
    """leader epoch -> offset of its first batch"""
    cleaned_until: int = 0
    end_offset: int = 0
    resumes: Resumes = field(default_factory=dict)
    jumps: Jumps = field(default_factory=Jumps)
    displaced: Displaced = field(default_factory=dict)

    @property
    def deleted_until(self) -> int:
        """See `Copy.deleted_until`."""
        return self.copy.deleted_until(self.end_offset)

    @property
    def start(self) -> int:
        """The first offset that a consumer may read here."""
        base = self.partition.segments[0].base_offset if self.partition.segments else 0
        return max(base, self.deleted_until)

    @property
    def partition(self) -> Partition:
        """The directory; it could be read."""
        if self.copy.partition is None:
            raise AssertionError(self.copy.path)
        return self.copy.partition


class MergeCopies:
    """Several copies of one topic-partition; `StorageError` if none of them can be read.

    `is_compacted` says that gaps below the last segments are not loss; `prefer` is the copy that gives what several
    have of the same leader epoch, if it is one of them; `on_read` is told of log bytes as they are first read.
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
        self.name = PartitionName(*copies[0].key)
        everything = [self._read(copy, on_read=on_read) for copy in copies]
        everything = [self._disproved(each, everything) for each in everything]
        self._shares = [each.share for each in everything]
        self._reads = [each for each in everything if each.share.error is None]
        if not self._reads:
            raise StorageError(None, "; ".join(f"{each.path} cannot be read: {each.error}" for each in self._shares))
        self._lineages = self._all_lineages()
        self._best = max(range(len(self._reads)), key=self._rank)
        partitions = [each.partition for each in self._reads]
        self._start = max(min(each.start for each in self._reads), *(each.deleted_until for each in self._reads))
        sources = {segment.path: segment for each in partitions for segment in each.segments}
        self._rolling = Rolling(self._start, segment_bytes, sources)

    def _disproved(self, read: _Read, everything: Sequence[_Read]) -> _Read:
        others = [each for each in everything if each.copy is not read.copy and each.share.error is None]
        return without_disproved(read, lambda: {each.copy.path: self._walk(each) for each in others}, self._read)

    def _read(self, copy: Copy, wrong: Displaced | None = None, on_read: Callable[[int], None] | None = None) -> _Read:
        found = _Read(copy, CopyShare(copy.path, error=copy.error), displaced=wrong or {})
        if copy.partition is None:
            return found
        segments = copy.partition.segments
        if copy.log_dir is not None:
            found.cleaned_until = copy.log_dir.cleaner_offsets.get(copy.key, 0)
        if self._is_compacted and segments:
            found.cleaned_until = max(found.cleaned_until, segments[-1].base_offset)
        walk = CopyWalk(
            segments, resumes=found.resumes, displaced=found.displaced, limits=self._limits, on_bytes=on_read
        )
        try:
            for stretch in walk:
                for epoch, offset in stretch.epochs():
                    if epoch in found.starts or len(found.starts) < _MOST_EPOCHS:
                        found.starts[epoch] = min(offset, found.starts.get(epoch, offset))
                found.cleaned_until = max(found.cleaned_until, stretch.cleaned_until())
        except StorageError as error:
            found.share.error = reason(error, copy.path)
        found.share.damage, found.share.damaged_places = walk.damage, walk.damaged_places
        unread = copy.unread_log
        if unread is not None:
            found.share.damaged_places += 1
            if walk.sound_end_offset is None or unread[0] <= walk.sound_end_offset:
                found.share.damage = unread[1]
        found.share.unread = copy.unread_places
        found.end_offset, found.jumps = walk.end_offset, walk.jumps
        return found

    def _all_lineages(self) -> Lineages:
        """Epochs begin where batches say, and where the list of a broker does, if there are batches of them."""
        listed = [entry for each in self._reads for entry in each.partition.leader_epochs]
        known = frozenset(entry.epoch for entry in listed)
        starts: dict[int, int] = {}
        for each in self._reads:
            for epoch, offset in each.starts.items():
                if not known or epoch in known:
                    starts[epoch] = min(offset, starts.get(epoch, offset))
        for entry in listed:
            if entry.epoch in starts:
                starts[entry.epoch] = min(entry.start_offset, starts[entry.epoch])
        return Lineages(known, starts)

    def _rank(self, number: int) -> tuple[bool, int, int, int, int, int]:
        """Which copy rather gives what several have: one preferred, the highest epoch, the longest, the sounder one."""
        each = self._reads[number]
        known = [epoch for epoch in each.starts if epoch in self._lineages.starts]
        is_preferred = self._prefer is not None and each.copy.is_in(self._prefer)
        sound = int(each.share.damage is None)
        return is_preferred, max(known, default=-1), each.end_offset, sound, each.cleaned_until, -number

    def _walk(self, each: _Read) -> CopyWalk:
        is_damaged = each.share.damage is not None
        return CopyWalk(
            each.partition.segments,
            check_crc=is_damaged,
            resumes=each.resumes,
            displaced=each.displaced,
            limits=self._limits,
        )

    def _choice(self) -> MergedStretches:
        walks = [self._walk(each) for each in self._reads]
        cleaned = [each.cleaned_until for each in self._reads]
        begin = [each.start for each in self._reads]
        return MergedStretches(
            walks, self._lineages, start=self._start, best=self._best, cleaned=cleaned, begin=begin, limits=self._limits
        )

    def pieces(self) -> Iterator[Piece]:
        """What belongs into the merged log, in order."""
        return self._rolling.pieces(self._choice())

    def preview(self) -> tuple[MergeResult, MergedLog]:
        """What the merged log would be; a walk in which nothing but counts and the list of segments is kept."""
        choice = self._choice()
        result = MergeResult(self.name.topic, self.name.partition, None, copies=self._shares)
        starts = [each.copy.start_in_checkpoint(each.end_offset) for each in self._reads]
        checkpointed = max((each for each in starts if each is not None), default=None)
        log = MergedLog(self.name, self._start, checkpointed=checkpointed)
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
            log.segments.append(MergedSegment(max(each.end_offset for each in self._reads)))
            result.log_end_offset = max(result.log_end_offset, log.segments[0].base_offset)
        log.epochs = self._epochs(epochs, result.log_end_offset)
        known = (each.partition.metadata for each in self._reads)
        log.metadata = next((metadata for metadata in known if metadata is not None), None)
        return result, log

    def _note_tallies(self, result: MergeResult, choice: MergedStretches) -> None:
        result.gaps, result.gap_count, result.offsets_missing = choice.gaps, choice.gap_count, choice.offsets_missing
        for each, tally in zip(self._reads, choice.tallies, strict=True):
            share = each.share
            share.batches, share.records = tally.batches, tally.records
            share.lacks_records, share.lacks_from = tally.lacks_records, tally.lacks
            share.dropped_batches, share.dropped_records = tally.dropped_batches, tally.dropped_records
            share.dropped_from = tally.dropped
            share.passed_batches, share.passed_from = tally.passed_batches, tally.passed
            share.cleaned_batches = tally.cleaned_batches
        result.records_kept = sum(tally.records for tally in choice.tallies)
        places = [(each.copy.log_dir, each.copy.key) for each in self._reads if not each.share.dropped_batches]
        watermarks = [log_dir.high_watermarks.get(key) for log_dir, key in places if log_dir is not None]
        result.high_watermark = max((offset for offset in watermarks if offset is not None), default=None)

    def _epochs(self, found: Sequence[LeaderEpoch], end: int) -> tuple[LeaderEpoch, ...]:
        """The list of the copy whose lineage goes furthest, if the batches agree with it; else what these say.

        A broker's own list knows epochs of which compaction has left no batch, and where they began.
        """
        lineages = [Lineage.of(each.partition.leader_epochs, end) for each in self._reads]
        best = max(lineages, key=lambda lineage: (lineage.last_epoch or -1, len(lineage.entries)))
        latest = -1 if best.last_epoch is None else best.last_epoch
        agrees = all(best.end_of(entry.epoch) is not None and _epoch_at(best, entry) == entry.epoch
                     for entry in found if entry.epoch <= latest)  # fmt: skip
        if not agrees:
            return Lineage.of(found, end).entries
        return Lineage.of((*best.entries, *(entry for entry in found if entry.epoch > latest)), end).entries


def _epoch_at(lineage: Lineage, entry: LeaderEpoch) -> int | None:
    """The epoch that a list gives to the offset of a batch."""
    return next((each.epoch for each in reversed(lineage.entries) if each.start_offset <= entry.start_offset), None)


class _Ranges:
    """Which copy gave which offsets, the first ranges of them."""

    def __init__(self, result: MergeResult) -> None:
        self._result = result
        self._source = ""

    def note(self, piece: Piece, source: str) -> None:
        """A copy has given a piece."""
        result, stretch = self._result, piece.taken.stretch
        first, last = stretch.row(piece.taken.start).first, stretch.row(piece.taken.end - 1).last
        if source != self._source:
            self._source = source
            result.range_count += 1
            if result.range_count <= _MOST_RANGES:
                result.ranges.append(MergedRange(first, last, source))
        elif result.range_count <= _MOST_RANGES:
            result.ranges[-1].last_offset = last
