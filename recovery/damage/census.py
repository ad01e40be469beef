"""Count the records of a partition that can be read, their offsets, and the damage between them (a `Census`).

Every log is walked with checksums from its start to its end. After damage the walk continues at the next batch that is
proven to continue the log, as in mode salvage. So the census is the most that a recovery can keep without repairing
anything.

Only records that a consumer sees count (`CompletedFetch`): no control records, nothing below the log start offset, no
copy of a batch that was counted. A displaced batch counts at the offsets that it claims, as a broker serves it
(ADR 19).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError, LimitExceeded, StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, StopReason
from kafkalog.codec.common.source import Source
from kafkalog.codec.compression.specs import is_known_codec
from kafkalog.codec.files.index_files import OFFSET_ENTRY
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.model import BATCH, CODEC_MASK, CONTROL_FLAG, NO_END, BatchHeader, RecordBatch
from kafkalog.codec.names import CLEANED, SWAP, FileKind, parse_segment_file
from kafkalog.codec.native.tables import HeaderColumn, RunFacts
from kafkalog.codec.plain.records import decode_batch, records_payload
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import NO_OFFSET_LIMIT, below_segment, out_of_place
from kafkalog.log.storage.tree import Tree
from kafkalog.log.walk.cursor import Cursor
from kafkalog.log.walk.ending import EndOfWalk
from kafkalog.log.walk.missing import MissingOffsets, was_emptied
from kafkalog.recovery.damage.offset_ranges import OffsetRanges
from kafkalog.recovery.damage.soundness import with_next

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderRun

__all__ = [
    "Census", "Damage", "Identity", "Span", "census", "count_of", "has_bytes", "identity",
    "live_segments", "overlaps", "sound_batches", "times_of",
]  # fmt: skip

_V2 = 2
_MOST_REPEATS = 100_000
"""Most batches with repeated offsets that are compared to tell copies from other records. Further ones
are not counted.
"""

Identity: TypeAlias = tuple[int, int, int, int]
"""First offset, last offset, checksum and size (bytes) of a batch."""
Unopened: TypeAlias = tuple[int, int, int]
"""Last offset, checksum and size of a compressed message of magic 0 or 1 that cannot be decompressed."""
NOTHING_UNOPENED: Mapping[Unopened, int] = MappingProxyType({})


class Span(Struct, frozen=True):
    """Byte range of a log that holds consecutive sound batches; `end` is exclusive."""

    path: str
    start: int
    end: int


class Damage(Struct, frozen=True, kw_only=True):
    """Byte range of a log that cannot be read, with what is known of the records in it; `end` is exclusive."""

    path: str
    position: int
    end: int
    code: FindingCode
    detail: str
    is_tail: bool
    """whether it is an incomplete batch or zeros at the log's end; offsets and records are then as its header claims"""
    first_offset: int | None = None
    last_offset: int | None = None
    """None if unknown"""
    records: int | None = None
    """number of lost records; a minimum if `last_offset` is None; None if unknown"""
    markers: int = 0
    """number of damaged batches that ended a transaction, according to their headers"""
    is_exact: bool = False
    """whether `records` comes from the headers of the damaged batches, not from the missing offsets"""
    checksum: int | None = None
    """checksum of a displaced batch, whose own bytes are right; None for other damage"""
    expected_offset: int = 0
    """offset that the log should have at this position"""

    @property
    def is_readable(self) -> bool:
        """Whether this is a displaced batch, whose records can be read."""
        return self.checksum is not None

    def reaches(self, log_start: int) -> bool:
        """Whether some of its records may be at or above `log_start`. For a displaced batch the expected offset counts
        too.
        """
        last = self.last_offset
        return last is None or max(last, self.expected_offset if self.is_readable else last) >= log_start


class Census(Struct, kw_only=True):
    """Records that can be read of one partition, and its damage."""

    records: int = 0
    hidden: int = 0
    """records among `records` that a consumer reading in order skips: after higher offsets, above the log's end, or
    behind an empty segment to which a fetch of their offsets leads
    """
    epoch_falls: int = 0
    """batches with a lower leader epoch than the batch before: one of the two is wrong"""
    offsets: OffsetRanges = msgspec.field(default_factory=OffsetRanges)
    spans: list[Span] = []
    damages: list[Damage] = []
    epoch: int = -1
    """highest leader epoch of a sound batch; -1 if there is none"""
    below: list[Finding] = []
    """findings about batches that begin below the base offset of their segment and that a consumer gets nevertheless:
    no segment before has their offsets or higher ones, so that a fetch goes on to this one, or they end above it
    """
    missing: list[tuple[int, int]] = []
    """offset ranges (first, last) missing between two segments of a log without other gaps: a segment or its end is
    lost
    """
    overwritten: list[tuple[int, int]] = []
    """offset ranges (first, last) missing where copies of other batches of the log lie, which a lost or misdirected
    write leaves; empty if the log has other gaps
    """
    unopened: dict[Unopened, int] = {}
    """messages that cannot be decompressed -> first offset that each is assumed to have"""
    _opens: dict[Identity, bool] = {}
    """known answers of `cannot_be_opened`"""
    overlaps: bool = False
    """whether a segment has a batch of a transaction with offsets of the next one, by its header"""

    @property
    def is_damaged(self) -> bool:
        """Whether there is damage other than an incomplete batch or zeros at the log's end."""
        return any(not damage.is_tail for damage in self.damages)

    @property
    def ends_in_damage(self) -> bool:
        """Whether the log ends in an incomplete batch, in zeros, or in damage whose last offset is unknown."""
        return any(damage.is_tail or damage.last_offset is None for damage in self.damages)

    def cannot_be_opened(self, batch: RecordBatch, key: Identity) -> bool:
        """Whether a batch is compressed and cannot be decompressed, or is a compressed message of magic 0 or 1 of which
        some records cannot be read. `key` is its identity, by which answers are kept.
        """
        if key not in self._opens:
            self._opens[key] = _cannot_be_opened(batch)
        return self._opens[key]

    @property
    def end_offset(self) -> int:
        """Offset after the highest that can be read; 0 if there is none."""
        return max((last for _first, last in self.offsets), default=-1) + 1


def live_segments(tree: Tree, directory: str) -> list[tuple[int, str]]:
    """Return base offset and path of the log files that hold the data of a partition directory, sorted by base offset.
    A complete, sound replacement (`.swap`) counts in place of the segments with base offsets in its range. It does not
    count if a `.cleaned` file has the same or a lower base offset, because a start would then delete it.

    An empty or damaged replacement counts only if the original is missing. A start would put it in place and lose the
    rest. Reads the replacements; raises `StorageError` if this fails.
    """
    originals = {base for base, _path in tree.logs(directory)}
    swaps = []
    names = tree.names(directory)
    if not any(name.endswith(SWAP) for name in names):
        return tree.logs(directory)
    parsed_names = [(name, parse_segment_file(name)) for name in names]
    cleaned = [
        parsed.base_offset for _name, parsed in parsed_names if parsed is not None and parsed.pending == CLEANED
    ]
    complete_below = min(cleaned, default=None)
    for name, parsed in parsed_names:
        if parsed is None or parsed.kind is not FileKind.LOG or parsed.pending != SWAP:
            continue
        if complete_below is None or parsed.base_offset < complete_below:
            path = f"{directory}/{name}"
            scanner = Scanner(tree.source(path))
            last = max((batch.last_offset for batch in scanner), default=None)
            is_whole = last is not None and scanner.stop is StopReason.END
            if is_whole or parsed.base_offset not in originals:
                swaps.append((parsed.base_offset, path, parsed.base_offset if last is None else last))
    kept = [
        (base, path)
        for base, path in tree.logs(directory)
        if not any(first <= base <= last for first, _path, last in swaps)
    ]
    return sorted([*kept, *((base, path) for base, path, _last in swaps)])


def census(
    tree: Tree,
    directories: Sequence[str],
    log_start: int,
    log_end: int = NO_END,
    *,
    cleaned_until: int = 0,
    is_uncleaned: bool = False,
) -> Census:
    """Count the readable records of one topic-partition, and collect the damage. If several directories claim the
    partition, all are counted together: copies of a batch once, different batches with the same offsets all. Control
    records, and records below the log start offset `log_start`, do not count. Records from `log_end` on count, and also
    as hidden, because a broker would write new records there.

    Offsets below `cleaned_until` are not reported as missing. With `is_uncleaned`, missing offsets of the first batches
    of a segment are reported too (`MissingOffsets.found_if_uncleaned`). Raises `StorageError` if a log cannot be read.
    """
    walk = _Walk(tree, log_start, log_end, cleaned_until)
    for directory in directories:
        segments = live_segments(tree, directory)
        walk.directory(segments)
        for segment in with_next(segments):
            walk.segment(*segment)
    walk.end(is_uncleaned=is_uncleaned)
    return walk.result


def overlaps(tree: Tree, directory: str) -> bool:
    """Whether a segment has a batch of a transaction whose last offset belongs to the next segment. A census has this
    in `Census.overlaps`; this function is for logs without one. Reads only the end of each segment, from the last entry
    of its offset index on; the whole segment if its end reaches the next one's offsets or cannot be read. Raises
    `StorageError` if a log cannot be read.
    """
    return any(
        next_base is not None and _reaches(tree, path, next_base)
        for _base, path, next_base in with_next(live_segments(tree, directory))
    )


def _reaches(tree: Tree, path: str, next_base: int) -> bool:
    """Whether the segment at `path` has a batch of a transaction whose last offset is at or above `next_base`. Reads
    the end of the segment, from the last entry of its offset index on. The whole segment is read only if that end
    reaches `next_base` or has no batch, or if the index is missing, empty or ends in zeros. Raises `StorageError` if
    the log cannot be read.
    """
    source = tree.source(path)
    index = f"{path.removesuffix(FileKind.LOG.value)}{FileKind.OFFSET_INDEX.value}"
    size = tree.source(index).size if index in tree.files else 0
    start = size - size % OFFSET_ENTRY.size - OFFSET_ENTRY.size
    position = OFFSET_ENTRY.struct.unpack(tree.source(index).read(start, OFFSET_ENTRY.size))[1] if start >= 0 else 0
    end = Scanner(source, position=position, check_crc=False)
    if position > 0 and max((batch.last_offset for batch in end), default=next_base) < next_base:
        return False
    return any(
        batch.last_offset >= next_base and isinstance(batch.header, BatchHeader) and batch.header.is_transactional
        for batch in Scanner(source, check_crc=False)
    )


def sound_batches(
    tree: Tree, span: Span, unopened: Mapping[Unopened, int] = NOTHING_UNOPENED
) -> Iterator[tuple[RecordBatch, int, int]]:
    """Yield each batch of a span that a census has found sound, with its first and last offset (inclusive), in file
    order. Checksums are not verified again. `unopened` is from that census. Raises `StorageError` if the log cannot be
    read.
    """
    for batch in Scanner(tree.source(span.path), position=span.start, end=span.end, check_crc=False):
        yield batch, *_offsets(batch, unopened)


def identity(batch: RecordBatch, first: int) -> Identity:
    """Return the key that is equal for copies of a batch, and differs for other batches with the same offsets."""
    return first, batch.header.last_offset, batch.header.crc, batch.size


def times_of(
    tree: Tree, spans: Iterable[Span], keys: Collection[Identity], unopened: Mapping[Unopened, int] = NOTHING_UNOPENED
) -> Counter[Identity]:
    """Return how often a batch with each identity in `keys` occurs in `spans`; an identity that does not occur has no
    entry. Reads the spans, unless `keys` is empty. `unopened` are the assumed first offsets of messages that cannot be
    decompressed (`Census.unopened`). Raises `StorageError` if a log cannot be read.
    """
    counts: Counter[Identity] = Counter()
    if keys:
        for span in spans:
            for batch, first, _last in sound_batches(tree, span, unopened):
                key = identity(batch, first)
                if key in keys:
                    counts[key] += 1
    return counts


def has_bytes(tree: Tree, spans: Iterable[Span], checksum: int, size: int) -> bool:
    """Whether `spans` hold a batch with this stored checksum and this size in bytes, whatever its offsets. Reads the
    spans up to the first match; checksums are not verified. Raises `StorageError` if a log cannot be read.
    """
    return any(
        batch.size == size and batch.header.crc == checksum
        for span in spans
        for batch in Scanner(tree.source(span.path), position=span.start, end=span.end, check_crc=False)
    )


def _offsets(batch: RecordBatch, unopened: Mapping[Unopened, int] = NOTHING_UNOPENED) -> tuple[int, int]:
    """Return the first and last offset of a batch, both inclusive. For an uncompressed message of magic 0 or 1 they are
    equal. For a compressed one, the first offset is taken from `unopened`, or from its content, and is at most the last
    offset. If it is not in `unopened` and cannot be decompressed, both are the last offset.
    """
    header = batch.header
    if isinstance(header, BatchHeader):
        return header.base_offset, header.last_offset
    if header.attributes & CODEC_MASK:
        first = unopened.get(_unopened_key(batch))
        if first is not None:
            return first, header.last_offset
        inner = decode_batch(batch).records
        if inner:
            return min(inner[0].offset, header.last_offset), header.last_offset
    return header.last_offset, header.last_offset


def _unopened_key(batch: RecordBatch) -> Unopened:
    return batch.header.last_offset, batch.header.crc, batch.size


def _cannot_be_opened(batch: RecordBatch) -> bool:
    header = batch.header
    if not isinstance(header, BatchHeader):
        return _is_unopened_message(batch)
    try:
        records_payload(batch)
    except LimitExceeded:  # which a consumer opens
        return False
    except FormatError:
        return True
    return False


def _is_unopened_message(batch: RecordBatch) -> bool:
    header = batch.header
    if isinstance(header, BatchHeader) or not header.attributes & CODEC_MASK:
        return False
    return decode_batch(batch).finding is not None


def count_of(batch: RecordBatch, first: int, log_start: int) -> int:
    """Return the number of records of a batch that a consumer sees from offset `log_start` on; 0 for control batches
    and unknown codecs. `first` is the first offset of the batch. Records are decoded only if the batch begins below
    `log_start`, or is a compressed message of magic 0 or 1. Otherwise the count in the header is used. If a message of
    magic 0 or 1 cannot be decoded whole, its offsets from `log_start` on are counted.
    """
    header = batch.header
    if header.attributes & CONTROL_FLAG and isinstance(header, BatchHeader):
        return 0
    if not is_known_codec(header.codec, header.magic):
        return 0  # no consumer opens it
    partly = first < log_start
    if not partly and isinstance(header, BatchHeader):
        return max(header.records_count, 0)
    if not partly and not header.attributes & CODEC_MASK:
        return 1
    decoded = decode_batch(batch)
    if decoded.finding is not None and not isinstance(header, BatchHeader):
        return max(header.last_offset - max(first, log_start) + 1, 0)  # by its offsets: nothing else tells
    return sum(record.offset >= log_start for record in decoded.records)


class _Walk:
    """Walk over the segments of a partition that adds what it finds to `result`, a `Census`."""

    def __init__(self, tree: Tree, log_start: int, log_end: int, cleaned_until: int) -> None:
        self._tree = tree
        self._log_start = log_start
        self._log_end = log_end
        self._next_offset = 0
        """offset after the last batch, ignoring batches whose offsets do not fit between their neighbors"""
        self._reached = log_start
        """offset after the highest so far, at which a consumer reading in order would fetch next"""
        self._epoch_before = -1
        """leader epoch of the previous batch"""
        self._pending: list[int] = []
        """indexes in `damages` of the displaced batches since the last batch in place"""
        self._repeats: dict[Identity, tuple[int, int, int]] = {}
        """batches with repeated offsets -> how often they occur, their records, and how many of those are hidden"""
        self._bases: list[int] = []
        """base offsets of the directory's segments, ascending"""
        self._empty: set[int] = set()
        """those of segments without a byte"""
        self._unreached: list[tuple[int, int, int]] = []
        """batches to which no fetch leads: first and last offset, and number of records"""
        self._unreached_in = 0
        """base offset of the segment with the last of them"""
        self._behind = OffsetRanges()
        """offsets of the segments after one with such a batch"""
        self._continued = 0
        """offset after the highest of the directory so far; offsets of the next segment do not count"""
        self._stale: list[Identity] = []
        """consecutive batches that end below it, since the last one that did not"""
        self._suspects: list[tuple[int, int, list[Identity]]] = []
        """ranges of offsets (first, last) that are missing after such batches, and these batches"""
        self._cleaned_until = cleaned_until
        self._missing = MissingOffsets(cleaned_until)
        self._path = ""
        self._start = 0
        """start of the current span, in bytes"""
        self.result = Census()

    def directory(self, segments: Iterable[tuple[int, str]]) -> None:
        """Finish the directory before, if there is one, and start the next of the directories that claim the partition.
        `segments` are the base offset and the path of each of its segments, by base offset.
        """
        self._settle_unreached()
        self._reached = self._log_start
        self._continued = 0
        self._stale = []
        self._epoch_before = -1
        self._bases, self._empty = [], set()
        for base, path in segments:
            self._bases.append(base)
            if not self._tree.files[path].size:
                self._empty.add(base)

    def segment(self, base: int, path: str, next_base: int | None) -> None:
        source = self._tree.source(path)
        self._settle(base)
        self._goes_on(base, base)
        index = f"{path.removesuffix(FileKind.LOG.value)}{FileKind.TIME_INDEX.value}"
        times = self._tree.source(index) if index in self._tree.files else None
        self._missing.segment(base, next_base, was_emptied=was_emptied(source.size, times))
        self._next_offset = max(self._next_offset, base)
        table = self._tree.headers(path)
        self._path, self._start, position = path, 0, 0
        cursor = Cursor(source, base, next_base)
        for run in () if table is None else table.runs(source, source.size):
            self._run(run, source, base, next_base)
            position = run.end
        while True:
            scanner = Scanner(source, position=position)
            for batch in scanner:
                self._batch(batch, base, next_base)
            self._end_span(scanner.valid_bytes)
            if scanner.stop is StopReason.END:
                return
            cursor.took(self._next_offset)
            ended = cursor.ended(scanner, through_damage=True)
            damage = self._damage(path, source, ended, next_base)
            self.result.damages.append(damage)
            self._stale = []
            # by its headers it ends before the next segment begins: the rest was in another one
            is_whole = damage.is_exact and ended.resumed is None and next_base is not None
            self._missing.damaged(damage.last_offset if is_whole else None)
            if ended.resumed is None:
                return
            self._start = position = ended.resumed

    def _end_span(self, position: int) -> None:
        if self._start < position:
            self.result.spans.append(Span(self._path, self._start, position))

    def _run(self, run: HeaderRun, source: Source, base: int, next_base: int | None) -> None:
        """Add the batches of a run to the `Census`. A run of ordinary batches is added at once; other batches are read
        one by one. Ordinary batches have magic 2, known codecs, and ascending offsets above all offsets so far. They
        are not below the log start offset or the base offset `base`, and are below `next_base` and the end of the log.
        Raises `StorageError` if the log cannot be read.
        """
        first = run.first_offset
        ordinary = (
            run.fact(RunFacts.OLDER) == 0
            and first >= max(self._next_offset, self._reached, self._log_start, base)
            and run.fact(RunFacts.TURNED) == 0
            and run.fact(RunFacts.NOT_ABOVE) == 0
            and run.are_codecs_known
            and run.final_offset < min(NO_OFFSET_LIMIT if next_base is None else next_base, self._log_end)
        )
        if not ordinary:
            for batch in Scanner(source, position=run.position(0), end=run.end, check_crc=False):
                self._batch(batch, base, next_base)
            return
        self._settle(first)
        self._goes_on(first, run.final_offset + 1)
        self._missing.run(run)
        self.result.records += run.data_records()
        for last_before, following, _position in run.gaps():
            self.result.offsets.add(first, last_before)
            first = following
        self.result.offsets.add(first, run.final_offset)
        epochs = run.row(HeaderColumn.PARTITION_LEADER_EPOCH)
        self.result.epoch_falls += run.fact(RunFacts.EPOCH_FALLS) + (epochs[0] < self._epoch_before)
        self._epoch_before = epochs[-1]
        self.result.epoch = max(self.result.epoch, run.largest_epoch)
        self._next_offset = run.final_offset + 1
        self._reached = max(self._reached, self._next_offset)

    def _batch(self, batch: RecordBatch, base: int, next_base: int | None) -> None:
        if _is_unopened_message(batch) and len(self.result.unopened) < _MOST_REPEATS:
            first = min(max(self._next_offset, base), batch.last_offset)
            self.result.unopened.setdefault(_unopened_key(batch), first)
        first, last = _offsets(batch, self.result.unopened)
        problem = out_of_place(batch.header.magic, first, last, base)
        result = self.result
        is_below = problem is not None and problem[0] is FindingCode.OFFSET_BELOW_SEGMENT and self._is_next(first)
        if problem is not None and not is_below:
            self._misplaced(batch, *problem)
            return
        if first < base:
            code, detail = below_segment(first, base)
            result.below.append(Finding.of(code, batch.position, first, detail, self._path))
        self._settle(first)
        if last < self._continued:
            self._note_stale(identity(batch, first))
        else:
            self._goes_on(first, last + 1 if next_base is None else min(last + 1, next_base))
        self._missing.batches(first, last, is_cleaned=OneBatch(batch).is_cleaned)
        if last >= self._log_start:
            count = count_of(batch, first, self._log_start)
            hidden = 0
            if first < self._reached:
                hidden = count - count_of(batch, first, self._reached)
            if last >= self._log_end:
                hidden += count_of(batch, first, max(self._reached, self._log_end))
            if result.offsets.touches(first, last):
                self._repeat(identity(batch, first), count, hidden)
            else:
                result.records += count
                result.hidden += hidden
                if not hidden and self._is_unreached(first, base):
                    self._unreached.append((first, last, count))
                    self._unreached_in = base
        result.offsets.add(first, last)
        if self._unreached and base > self._unreached_in:
            self._behind.add(first, last)
        self._reached = max(self._reached, last + 1)
        if isinstance(batch.header, BatchHeader):
            result.epoch_falls += batch.header.partition_leader_epoch < self._epoch_before
            self._epoch_before = batch.header.partition_leader_epoch
        result.epoch = max(result.epoch, batch.header.partition_leader_epoch)
        if next_base is None or last < next_base:  # else an offset that was damaged: what follows is lower
            self._next_offset = max(self._next_offset, last + 1)
        elif batch.header.is_transactional:
            result.overlaps = True

    def _is_next(self, first: int) -> bool:
        """Whether a consumer that reads in order gets a batch with this first offset, although the base offset of its
        segment is higher. The fetch leads to a segment before that one, and on from there if it has no such offsets
        (`LocalLog.read`). False below the first segment, where the log does not begin yet.
        """
        return self._bases[0] <= first and first >= self._reached

    def _is_unreached(self, first: int, base: int) -> bool:
        """Whether a fetch at offset `first` leads to an empty segment and not to the segment at `base`, which has a
        batch there. A broker reads from the segment with the greatest base offset at or below the offset that is asked
        for, and then from the next one (`LocalLog.read`).
        """
        number = bisect_right(self._bases, first) - 1
        return number >= 0 and self._bases[number] > base and self._bases[number] in self._empty

    def _settle_unreached(self) -> None:
        """Count as hidden the records to which no fetch leads and that no later segment of the directory has."""
        self.result.hidden += sum(
            count for first, last, count in self._unreached if not self._behind.touches(first, last)
        )
        self._unreached, self._behind = [], OffsetRanges()

    def _repeat(self, key: Identity, count: int, hidden: int) -> None:
        """Remember a batch with repeated offsets (at most 100,000). At the end, `_count_repeats` decides whether it is
        a copy.
        """
        times = self._repeats[key][0] if key in self._repeats else 0
        if times or len(self._repeats) < _MOST_REPEATS:
            self._repeats[key] = times + 1, count, hidden

    def _count_repeats(self) -> None:
        """Add to the census the records of batches with repeated offsets that have no copy elsewhere in the log. Reads
        the sound parts of the log again if there are any repeats. Raises `StorageError` if that fails.
        """
        times = times_of(self._tree, self.result.spans, self._repeats, self.result.unopened)
        for key, (repeated, count, hidden) in self._repeats.items():
            if times[key] == repeated:  # none of them is the first with its offsets
                self.result.records += count
                self.result.hidden += hidden

    def _misplaced(self, batch: RecordBatch, code: FindingCode, detail: str) -> None:
        """Add a batch that cannot be in this segment (`out_of_place`) to the damages, with `code` and `detail`, and end
        the span of sound bytes before it. Its checksum is right, but consumers cannot read it.

        The damage gets the offsets in the batch's header; a negative last offset delta counts as 0. If they are
        negative or too large for 64 bits, it gets offsets from the next expected one on. The batch is remembered as
        pending, because `_settle` may correct the offsets.
        """
        self._end_span(batch.position)
        first, last = _offsets(batch, self.result.unopened)
        if first <= last < self._continued:
            self._note_stale(identity(batch, first))
            self._missing.batches(first, last)
        self._pending.append(len(self.result.damages))
        end = self._start = batch.position + batch.size
        header = batch.header
        records, first = 1, last
        if isinstance(header, BatchHeader):
            records = 0 if header.attributes & CONTROL_FLAG else max(header.records_count, 0)
            first, last = header.base_offset, header.base_offset + max(header.last_offset_delta, 0)
        if not 0 <= first <= last <= NO_OFFSET_LIMIT:
            first, last = self._next_offset, self._next_offset + max(records - 1, 0)
        self.result.damages.append(
            Damage(
                path=self._path,
                position=batch.position,
                end=end,
                code=code,
                detail=detail,
                is_tail=False,
                first_offset=first,
                last_offset=last,
                records=records,
                is_exact=True,
                checksum=header.crc,
                expected_offset=self._next_offset,
            )
        )

    def _note_stale(self, key: Identity) -> None:
        """Remember a batch that lies below the offsets before it (at most 100,000 in a row), for `_goes_on`."""
        if len(self._stale) < _MOST_REPEATS:
            self._stale.append(key)

    def _goes_on(self, first: int, end: int) -> None:
        """Record that the directory goes on with offsets from `first` to `end` (exclusive). The batches in `_stale` may
        have overwritten the offsets that are missing before `first`.
        """
        if self._stale and first > self._continued:
            self._suspects.append((self._continued, first - 1, self._stale))
        self._stale = []
        self._continued = max(self._continued, end)

    def _overwritten(self) -> list[tuple[int, int]]:
        """Return the ranges of offsets (first and last) that are missing after batches below the offsets so far. A
        range counts only if each of these batches is a copy of another one. Parts that the cleaner has reached are left
        out. Reads the sound parts of the log and the displaced batches if there may be such ranges; raises
        `StorageError` if that fails.
        """
        stale = Counter(key for _first, _last, keys in self._suspects for key in keys)
        misplaced = (Span(each.path, each.position, each.end) for each in self.result.damages if each.is_readable)
        times = times_of(self._tree, [*self.result.spans, *misplaced], stale, self.result.unopened)
        return [
            (max(first, self._cleaned_until), last)
            for first, last, keys in self._suspects
            if last >= self._cleaned_until and all(times[key] > stale[key] for key in keys)
        ]

    def _settle(self, behind: int) -> None:
        """Correct the offsets of a displaced batch once the offset `behind` of the next batch or segment is known. The
        batch belongs at this place if exactly as many offsets are missing before `behind` as the batch has. This is
        done only if a single batch was displaced since the last batch in place. Forgets all pending displaced batches.
        """
        if len(self._pending) == 1:
            number = self._pending[0]
            damage = self.result.damages[number]
            size = (damage.last_offset or 0) - (damage.first_offset or 0) + 1
            if behind - self._next_offset == size:
                self.result.damages[number] = replace(damage, first_offset=self._next_offset, last_offset=behind - 1)
        self._pending.clear()

    def end(self, *, is_uncleaned: bool) -> None:
        """Finish after the last segment: count the repeated batches, and set the missing and overwritten ranges of the
        result. The latter stay empty if the log has other gaps. Raises `StorageError` if a log cannot be read.
        """
        self._pending.clear()
        self._settle_unreached()
        self._count_repeats()
        self.result.missing = self._missing.found_if_uncleaned if is_uncleaned else self._missing.found
        if not (self._missing.was_cleaned if is_uncleaned else self._missing.has_gaps):
            self.result.overwritten = self._overwritten()

    def _damage(self, path: str, source: Source, ended: EndOfWalk, next_base: int | None) -> Damage:
        """Return a description of the damage at the end of a walk (`ended`) over the segment at `path`. `next_base` is
        the base offset of the next segment, None for the last. The damage reaches to the next proven batch of the
        segment, or to the end of the file. If the headers of the damaged batches lead exactly to there, they give the
        record counts. At the end of the file they give the last offset too. Otherwise all offsets before the next batch
        or segment count as damaged. The last offset is None if nothing shows how far the damage reached. An incomplete
        batch or zeros at the log's end are described by `_tail`. Reads the damaged part; raises `StorageError` if this
        fails.
        """
        finding, position, resumed = ended.findings[-1], ended.position, ended.resumed
        end = source.size if resumed is None else resumed
        first = self._next_offset
        behind = next_base
        if resumed is not None:
            behind = _offsets(next(iter(Scanner(source, position=resumed))))[0]
        last: int | None
        last, records, markers, is_exact = _headers_between(source, position, end, first, behind)
        if resumed is None and next_base is None and not is_exact:
            last = None  # how far the damage reached, nothing tells
        if ended.is_tail:
            return self._tail(path, source, position, end, finding)
        if behind is not None and not (is_exact and resumed is None):
            last = max(behind - 1, first - 1)
            records = records if is_exact else max(last + 1 - first, 0)
        return Damage(
            path=path,
            position=position,
            end=end,
            code=finding.code,
            detail=finding.detail,
            is_tail=False,
            first_offset=first,
            last_offset=last,
            records=records,
            markers=markers,
            is_exact=is_exact,
        )

    def _tail(self, path: str, source: Source, position: int, end: int, finding: Finding) -> Damage:
        """Return a description of damage at the log's end, from byte `position` to `end`. If the header of the
        incomplete batch is readable and plausible, it gives the first offset and the number of lost records. Without a
        record count in it, its offsets are counted; a control batch that is merely cut off has no records. The records
        may have been acknowledged, because only flushed data survives a power failure.

        If the header is not usable, the number is None and the first offset is the expected one. The last offset is
        known only if the header is usable and the batch is merely cut off. Otherwise it is None, because zeros may hide
        further batches. Raises `StorageError` if a file cannot be read.
        """
        damage = Damage(
            path=path,
            position=position,
            end=end,
            code=finding.code,
            detail=finding.detail,
            is_tail=True,
            first_offset=self._next_offset,
        )
        claim = finding.batch
        if claim is None or claim.first_offset < self._next_offset or claim.last_offset >= NO_OFFSET_LIMIT:
            return damage
        records = claim.records or claim.last_offset - claim.first_offset + 1
        last = claim.last_offset if finding.code is FindingCode.TORN_TAIL else None
        damage = replace(damage, first_offset=claim.first_offset, last_offset=last, records=records)
        is_marker = last is not None and _is_control(source, position)
        return replace(damage, records=0, markers=1, is_exact=True) if is_marker else damage


def _is_control(source: Source, position: int) -> bool:
    """Whether a control batch of magic 2 begins at `position`, by its header; False if the header is incomplete. Raises
    `StorageError` if a file cannot be read.
    """
    data = source.read(position, BATCH.size)
    if len(data) < BATCH.size:
        return False
    header = BatchHeader(*BATCH.struct.unpack_from(data))
    return header.magic == _V2 and bool(header.attributes & CONTROL_FLAG)


def _headers_between(
    source: Source, position: int, end: int, first: int, behind: int | None
) -> tuple[int, int, int, bool]:
    """Read the headers of damaged batches from byte `position` to `end`, as long as they are plausible. Return their
    last offset (`first` - 1 if there is none), their number of records, their number of control batches, and whether
    the headers are complete. `first` is the expected offset. All offsets must be below `behind`, if it is known.

    The headers are complete if they lead exactly to `end`. They are also complete if the last batch is incomplete but
    ends just below `behind`; this batch is counted. At the log's end (`behind` is None) an incomplete batch after at
    least one other is accepted too, but is not counted. Raises `StorageError` if the file cannot be read or became
    shorter.
    """
    records, markers, expected = 0, 0, first
    limit = NO_OFFSET_LIMIT if behind is None else behind
    while position < end:
        if end - position < BATCH.size:
            return expected - 1, records, markers, behind is None and expected > first
        data = source.read(position, BATCH.size)
        if len(data) < BATCH.size:
            raise StorageError.became_shorter(position)
        header = BatchHeader(*BATCH.struct.unpack_from(data))
        if header.magic != _V2 or not expected <= header.base_offset <= header.last_offset < limit:
            break
        if not 0 <= header.records_count <= header.last_offset_delta + 1 or header.size < BATCH.size:
            break
        is_cut = header.size > end - position
        if is_cut and header.last_offset + 1 != behind:
            return expected - 1, records, markers, behind is None and expected > first
        if header.attributes & CONTROL_FLAG:
            markers += 1
        else:
            records += header.records_count
        expected = header.last_offset + 1
        position = end if is_cut else position + header.size
    return expected - 1, records, markers, position == end
