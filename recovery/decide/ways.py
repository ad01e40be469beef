"""Describe and compare ways of recovering a log directory: the records that each keeps and loses, and what it needs.

A way is the effect of one recovery, or of none. Each way is carried out on a tree in memory, and the records that it
keeps and loses are counted in the result. Recovery asks for consent if a way drops *sound* records, which could still
be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from msgspec import Struct, field, structs

from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.model import NO_END, BatchHeader, RecordBatch
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE
from kafkalog.log.storage.content import Content, Slice
from kafkalog.log.storage.log_file import is_passed_over
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.damage.census import (
    Census,
    Damage,
    Identity,
    Span,
    census,
    count_of,
    has_bytes,
    identity,
    live_segments,
    sound_batches,
    times_of,
)
from kafkalog.recovery.damage.kept_bytes import KeptBytes
from kafkalog.recovery.damage.offset_ranges import OffsetRanges
from kafkalog.recovery.decide.written_end import Written, indexed_end
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.modes.spec import WaySpec
from kafkalog.recovery.modes.table import REPAIR_BITS, WAYS, Mode

__all__ = [
    "LostRange", "Measured", "PartitionFacts", "RecoveryRequest", "RecoveryWay", "logs_of",
    "measure", "recommended", "total",
]  # fmt: skip

_SHOWN_RANGES = 1000
"""Most ranges of lost offsets that are listed for a way. If there are more, the last one extends to the end of all."""


class RecoveryRequest(Struct, frozen=True, kw_only=True):
    """Mode and options of the recovery that carries out a way. All other options are those of the user's request."""

    mode: Mode = Mode.SAFE
    proof: Proof | None = None
    """least proof with which flipped bits are corrected; None: they are not corrected"""
    full: bool = False
    """whether segments below the recovery point are examined too, although the user did not ask for it"""
    copies: tuple[str, ...] = ()
    """directories of other copies, if the way reads from them"""

    @classmethod
    def of(cls, rules: Rules) -> RecoveryRequest:
        """Return the recovery that `rules` describe, with their mode and proof; `full` and `copies` keep their
        defaults. Mode strict becomes mode safe, because strict leaves the same or does nothing. The proof is None if
        plans do not compare the resulting mode.
        """
        spec = rules.mode.spec
        mode = Mode.SAFE if spec.way is None else rules.mode
        return cls(mode=mode, proof=rules.repair_bits if mode.spec.is_compared else None)

    @property
    def way(self) -> WaySpec:
        """Kind of way that this recovery carries out. Raises `AssertionError` if its mode has no way."""
        way = self.mode.spec.way
        if way is None:
            raise AssertionError(self.mode)
        return REPAIR_BITS if self.mode.spec.is_safe and self.proof is not None else way

    @property
    def order(self) -> tuple[bool, bool]:
        """Sort key among ways of one name: `full` comes first, then those with a proof."""
        return not self.full, self.proof is None

    @property
    def is_both(self) -> bool:
        """Whether this is salvage combined with bit repair."""
        return self.proof is not None and not self.mode.spec.is_safe

    def applied_to(self, rules: Rules) -> Rules:
        """Return `rules` with the mode and proof of this request, and `full` if either of them has it."""
        return structs.replace(rules, mode=self.mode, repair_bits=self.proof, full=rules.full or self.full)


class LostRange(Struct, frozen=True):
    """Offsets that no consumer will read again."""

    partition: str
    """partition directory"""
    first: int
    """first offset"""
    last: int | None
    """last offset; null if unknown"""


class PartitionFacts(Struct, frozen=True, kw_only=True):
    """One topic-partition: its live directories (two only if both claim it), and what the files beside its logs say.

    A directory that is out of service by its name (`-stray`, or `-future` without a current log) counts as a partition
    of its own, because its records can be restored.
    """

    topic: str
    partition: int
    directories: tuple[str, ...]
    log_start: int
    high_watermark: int | None
    written: Written = field(default_factory=Written)
    """what must have been written to the log, according to the files beside it"""

    is_live: bool = True
    """whether a broker serves the partition under this name"""

    is_uncleaned: bool = False
    """whether the cleaner removed nothing, as the topic is known not to be compacted: an offset in no batch is lost"""

    preallocated: int | None = None
    """size in bytes that a new segment has at once, in zeros; None if segments are not preallocated"""

    @property
    def name(self) -> str:
        """Name of the partition's first directory."""
        return self.directories[0]

    @property
    def key(self) -> tuple[str, int, str]:
        """Topic, partition, and the directory's name if it is out of service, else an empty string."""
        return self.topic, self.partition, "" if self.is_live else self.name


class Measured(Struct, kw_only=True):
    """Counts of what one way keeps and loses of one partition. A count is None if it is unknown."""

    records_kept: int | None = None
    is_kept_estimate: bool = False
    """whether `records_kept` has records whose number is not certain, because another copy has them"""
    records_hidden: int = 0
    """kept records that a consumer skips: they follow records with higher offsets, lie above the log's end, or at
    offsets where an empty segment begins
    """
    records_lost: int | None = None
    sound_lost: int = 0
    """lost records that could still be read"""
    unopened_lost: int = 0
    """lost records of batches that cannot be decompressed, although their checksum is right"""
    markers_lost: int = 0
    """sound control records that are lost: without its marker a transaction stays open"""
    markers_damaged: int = 0
    """control records lost to damage: their transactions stay open, or end as the producer's next transaction does"""
    held_back: int = 0
    """offsets that consumers of committed data do not get, as they stop at a transaction whose end marker is lost; set
    when ways are compared (`aftermath.held_back`)
    """
    epoch_falls: int = 0
    """batches at which the leader epoch decreases: the epoch checkpoint is rebuilt with a wrong epoch"""
    overlaps: int = 0
    """logs in which a segment has transactions with offsets of the next one: readers may get aborted records"""
    is_exact: bool = True
    """False: more records may be lost, because damage hides how many there were"""
    is_estimate: bool = False
    """whether the number of lost records is derived from offsets, or from counts that no checksum covers"""
    of_offsets: int = 0
    """how many of `records_lost` are offsets of which no header is left: at most as many records had them"""
    perhaps_elsewhere: int = 0
    """how many of `records_lost` another replica may have: they lie above the high watermark in the checkpoint"""
    uncounted: int = 0
    """damaged places whose records are not counted, because their number is unknown"""
    uncounted_zeros: int = 0
    """places among `uncounted` that are only zero bytes at a log's end, where perhaps no record was"""
    beyond_known: int = 0
    """if the log lost its end: offsets above the end that the files here show, up to the end that copies give the log;
    other ways do not count what was there
    """
    from_copies: int = 0
    """kept records that other copies hold at offsets inside this log which it lacks, although nothing of it is damaged
    or lost; 0 for a way that reads no copies
    """
    bytes_cut: int | None = None
    damage_left: int = 0
    """unreadable places that stay in the log: a consumer stops at each, except at those in `damage_passed`"""
    damage_passed: int = 0
    """places among `damage_left` after which a consumer goes on: in the next segment (`is_passed_over`), or behind a
    batch below its segment's base offset
    """
    lost: list[LostRange] = field(default_factory=list)
    below_high_watermark: bool | None = None
    """whether committed records are lost. True: something is lost below the high watermark in the checkpoint. False:
    no record is lost. None: unknown, as what was committed above the checkpoint is in no file
    """

    def held_below(self, local: Measured) -> Measured:
        """Return the counts for the case that the remote tier serves the records that are lost below the local log:
        these count as kept. `local` has the counts of the local log alone. `records_kept` stays None if it is None.
        Neither object is changed.
        """
        kept = self.records_kept
        if kept is not None:
            kept += max((self.records_lost or 0) - (local.records_lost or 0), 0)
        below = local.below_high_watermark if local.lost or local.may_lose_records else False
        return structs.replace(
            local, records_kept=kept, records_hidden=self.records_hidden, epoch_falls=self.epoch_falls,
            overlaps=self.overlaps, bytes_cut=self.bytes_cut, damage_left=self.damage_left,
            damage_passed=self.damage_passed, below_high_watermark=below,
        )  # fmt: skip

    @property
    def out_of_reach(self) -> int | None:
        """Number of records that are lost, or hidden from a consumer that reads in order, without those that another
        replica may have; None if unknown.
        """
        return None if self.records_lost is None else self.records_lost + self.records_hidden - self.perhaps_elsewhere

    @property
    def sort_key(self) -> tuple[int, int, bool, int, int, int, bool, int, bool]:
        """Sort key of counts whose loss is known: the least is the best (see `recommended`)."""
        return (
            (self.out_of_reach or 0) - self.beyond_known,
            self.markers_out_of_reach,
            not self.is_exact,
            -self.from_copies,
            self.overlaps,
            self.epoch_falls,
            self.damage_left > self.damage_passed,
            self.held_back,
            self.damage_left > 0,
        )

    @property
    def leaves_to_mend(self) -> bool:
        """Whether damage, hidden records, overlaps or decreasing epochs are left, or sound records are dropped."""
        left = self.damage_left or self.records_hidden or self.overlaps or self.epoch_falls
        return bool(left or self.sound_lost or self.unopened_lost)

    @property
    def drops_sound(self) -> bool:
        """Whether batches with a right checksum are dropped: their records, or transaction markers."""
        return bool(self.sound_lost or self.unopened_lost or self.markers_lost)

    @property
    def may_lose(self) -> bool:
        """Whether anything is lost, hidden or left damaged, or may be because the counts are unknown or not exact."""
        lost = self.records_lost or self.records_hidden or self.lost or self.markers_out_of_reach or self.damage_left
        return bool(lost or self.overlaps or self.epoch_falls or self.records_lost is None or not self.is_exact)

    @property
    def is_lost_before(self) -> bool:
        """Whether offsets are lost although nothing on the disk is cut or left damaged: they are gone already."""
        return bool(self.lost) and self.bytes_cut == 0 and not (self.drops_sound or self.damage_left)

    @property
    def may_lose_records(self) -> bool:
        """Whether records are lost, or may be because the counts are unknown or not exact."""
        return bool(self.records_lost != 0 or not self.is_exact or self.uncounted)

    @property
    def markers_out_of_reach(self) -> int:
        """Number of transaction markers that are lost, sound or damaged."""
        return self.markers_lost + self.markers_damaged


class RecoveryWay(Struct, frozen=True, kw_only=True):
    """One way, for one partition or for a whole log directory."""

    way: str
    """its name in `WAYS`"""
    measured: Measured
    how: RecoveryRequest | None = None
    """the recovery that carries it out; None if no recovery does"""
    needs_consent: bool = False
    """whether records are lost that could still be read"""
    leaders: tuple[int, ...] = ()
    """broker ids; one of these brokers has to lead before this one starts"""
    consequence: str = ""
    """what follows from taking this way, in plain words"""
    refusal: str | None = None
    """why `recover` declines this way, None if it does not; a declined way is never recommended"""
    partitions: tuple[str, ...] = ()
    """partition directories that `how` is for, if that is applied to one partition at a time; else empty"""
    rest: RecoveryWay | None = None
    """the recovery of all other partitions, which comes after that; None if `how` is for all of them"""

    @property
    def spec(self) -> WaySpec:
        """Entry of this way in `WAYS`."""
        return WAYS[self.way]

    @property
    def then(self) -> RecoveryWay | None:
        """What `rest` does, if that is more than mode safe does without consent; else None."""
        rest = self.rest
        return rest if rest is not None and (rest.how != RecoveryRequest() or rest.needs_consent) else None


def recommended(ways: Sequence[RecoveryWay]) -> RecoveryWay | None:
    """Return the way that loses the fewest records; hidden records count as lost, those that another replica may have
    do not. Return None if recovery declines every way whose loss is known, or no loss is known.

    Ways with equal losses are compared by these criteria, in order: fewer lost markers, an exact number, more records
    from copies, fewer overlaps, fewer decreasing epochs, no damage at which consumers stop, fewer offsets held back
    from consumers of committed data, no remaining damage, and the order of `WAYS`.
    """
    order = {name: number for number, name in enumerate(WAYS)}
    known = [way for way in ways if way.measured.records_lost is not None and way.refusal is None]

    return min(known, key=lambda way: (*way.measured.sort_key, order[way.way]), default=None)


def total(parts: Iterable[Measured]) -> Measured:
    """Return the sum of the counts `parts` over partitions. `records_kept`, `records_lost` and `bytes_cut` are None if
    they are None for any partition. `lost` has the ranges of all. `is_exact` is True if it is for all partitions,
    `is_estimate` and `is_kept_estimate` if they are for any. Without partitions all numbers are 0.

    `below_high_watermark` is True if it is True for any partition. Else it is None if it is None for a partition that
    loses offsets or may lose records, or for all partitions. Else it is False.
    """
    result = Measured(records_kept=0, records_lost=0, bytes_cut=0)
    are_committed: set[bool | None] = set()  # of each part that tells, or that loses something
    for part in parts:
        result.records_kept = _sum(result.records_kept, part.records_kept)
        result.is_kept_estimate = result.is_kept_estimate or part.is_kept_estimate
        result.records_lost = _sum(result.records_lost, part.records_lost)
        result.bytes_cut = _sum(result.bytes_cut, part.bytes_cut)
        result.sound_lost += part.sound_lost
        result.unopened_lost += part.unopened_lost
        result.markers_lost += part.markers_lost
        result.markers_damaged += part.markers_damaged
        result.held_back += part.held_back
        result.epoch_falls += part.epoch_falls
        result.overlaps += part.overlaps
        result.records_hidden += part.records_hidden
        result.from_copies += part.from_copies
        result.damage_left += part.damage_left
        result.damage_passed += part.damage_passed
        result.is_exact = result.is_exact and part.is_exact
        result.is_estimate = result.is_estimate or part.is_estimate
        result.of_offsets += part.of_offsets
        result.perhaps_elsewhere += part.perhaps_elsewhere
        result.beyond_known += part.beyond_known
        result.uncounted += part.uncounted
        result.uncounted_zeros += part.uncounted_zeros
        result.lost += part.lost
        if part.below_high_watermark is not None or part.lost or part.may_lose_records:
            are_committed.add(part.below_high_watermark)
    if True in are_committed or None not in are_committed:
        result.below_high_watermark = True in are_committed if are_committed else None
    return result


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def logs_of(tree: Tree, directories: Iterable[str]) -> list[Content]:
    """Return the content of each log file that `live_segments` returns, `.swap` files included: directory by directory
    in the given order, within a directory by base offset. `directories` are the names that they had before `tree`
    renamed any; removed directories are skipped. Raises `StorageError` if a `.swap` file cannot be read.
    """
    now = dict(tree.renamed_directories)
    return [
        tree.files[path]
        for directory in directories
        if now.get(directory, directory) in tree.directories
        for _base, path in live_segments(tree, now.get(directory, directory))
    ]


def measure(
    facts: PartitionFacts, before: Tree, original: Census, after: Tree, log_start: int, log_end: int = NO_END
) -> Measured:
    """Count the records of one partition that a way keeps and loses; return the counts. Raises `StorageError` if a log
    cannot be read.

    `before` and `original` are the tree and the census before the way, `after` is the tree that it leaves. `log_start`
    and `log_end` are the offsets at which the way's log begins and ends; `NO_END` if it ends after its last record.
    """
    return _Measurement(facts, before, original, after, log_start, log_end).measured


class _Measurement:
    """Comparison of the records that a way leaves with those that could be read before. Creating it, and its methods,
    raise `StorageError` if a file cannot be read.
    """

    def __init__(
        self, facts: PartitionFacts, before: Tree, original: Census, after: Tree, log_start: int, log_end: int
    ) -> None:
        self._facts, self._before, self._original, self._after = facts, before, original, after
        contents = logs_of(after, facts.directories)
        self._kept = KeptBytes(contents)
        originals = frozenset(path for name in facts.directories for _base, path in live_segments(before, name))
        now = dict(after.renamed_directories)
        names = [now.get(directory, directory) for directory in facts.directories]
        names = [name for name in names if name in after.directories]
        is_in_order = not original.hidden  # else segments that were split read differently
        is_alike = log_start == facts.log_start and log_end >= original.end_offset
        if is_in_order and is_alike and self._holds_all(contents, originals):
            self._left = original  # nothing sound is missing, and nothing was put in: the same can be read
        else:
            self._left = census(after, names, log_start, log_end)
        left, held = self._left, sum(before.files[path].size for path in originals)
        stay = [
            damage
            for damage in left.damages
            if (self._stays(damage) if left is original else not damage.is_tail) and damage.reaches(log_start)
        ]
        self.measured = Measured(
            records_kept=left.records,
            records_hidden=left.hidden,
            epoch_falls=left.epoch_falls,
            overlaps=int(left.overlaps),
            bytes_cut=max(held - self._kept.size, 0),
            damage_left=len(stay),
            damage_passed=sum(map(self._is_passed, stay)),
        )
        self._lost = 0
        """number of lost records"""
        self._gone = OffsetRanges()
        """offsets of lost records"""
        if log_start > facts.log_start and names:
            self._count_below(census(after, names, facts.log_start, log_end), log_start)
        self._count(log_end)

    def _count_below(self, kept: Census, log_start: int) -> None:
        """Count the records that are kept below the resulting log start, which is above the original one."""
        self.measured.sound_lost += max(kept.records - self._left.records, 0)
        for first, last in kept.offsets:
            if first < log_start and last >= self._facts.log_start:
                self._gone.add(max(first, self._facts.log_start), min(last, log_start - 1))

    def _holds_all(self, contents: Iterable[Content], originals: Set[str]) -> bool:
        """Whether `contents`, the logs afterwards, hold every sound byte range of the original logs, and no byte that
        is not from the original logs. `originals` are the paths of the original logs.
        """
        parts = (part for content in contents for part in content.parts)
        if any(not isinstance(part, Slice) or part.origin not in originals for part in parts):
            return False
        spans = self._original.spans
        return not any(True for span in spans for _range in self._kept.missing(span.path, span.start, span.end))

    def _stays(self, damage: Damage) -> bool:
        """Whether damaged bytes stay in the log; False for damage at the log's end."""
        return not damage.is_tail and self._kept.holds(damage.path, damage.position)

    def _is_passed(self, damage: Damage) -> bool:
        if damage.code is FindingCode.OFFSET_BELOW_SEGMENT:
            return True
        tree = self._before if self._left is self._original else self._after
        directory = damage.path.rpartition("/")[0]
        has_next = any(path > damage.path for _base, path in live_segments(tree, directory))
        return has_next and is_passed_over(tree.source(damage.path), damage.position)

    def _count(self, log_end: int) -> None:
        facts, original, measured = self._facts, self._original, self.measured
        if self._left is not original:
            self._count_sound()
        unknown_from = self._count_damaged()
        missing = list(self._never_there())
        known_end = self._end_known_beside()
        is_filled = not original.damages and original.end_offset < self._left.end_offset <= known_end  # from copies
        is_short = original.end_offset < known_end and (is_filled or any(end + 1 == known_end for _, end in missing))
        is_noted = CLEAN_SHUTDOWN_FILE not in self._before.files
        if (
            unknown_from is None
            and is_short
            and is_noted
            and (not original.damages or known_end == facts.high_watermark)
        ):  # what a broker notes while it runs is older than the log's end
            unknown_from = known_end
        for start, end in missing:
            for first, last in list(self._gone.absent(start, end)):  # what is gone of it is counted
                self._lost += last - first + 1
                measured.of_offsets += last - first + 1
                self._gone.add(first, last)
            self._estimate()
            if unknown_from is not None and unknown_from <= end:
                unknown_from = end + 1
        if original.end_offset < known_end and not original.damages:
            measured.beyond_known = max(self._left.end_offset - known_end, 0)
        measured.records_lost = self._lost
        measured.uncounted += unknown_from is not None
        measured.lost = _ranges(facts.name, self._gone, unknown_from)
        if facts.high_watermark is not None:  # what is kept above the log's end, no leader serves
            is_lost = any(lost_range.first < facts.high_watermark for lost_range in measured.lost)
            if is_lost or log_end < min(facts.high_watermark, original.end_offset):
                measured.below_high_watermark = True
            elif not measured.may_lose_records:  # else unknown: the high watermark on disk is seconds old
                measured.below_high_watermark = False

    def _estimate(self) -> None:
        self.measured.is_exact, self.measured.is_estimate = False, True

    def _add_absent(self, first: int, last: int) -> None:
        """Add the offsets from `first` to `last` that the result does not hold to the lost ones. Those below the log
        start offset are left out: they were deleted before.
        """
        for absent in self._left.offsets.absent(max(first, self._facts.log_start), last):
            self._gone.add(*absent)

    def _count_sound(self) -> None:
        """Count the sound batches that are removed without a remaining copy: their records are added to the lost ones
        and to `sound_lost` or `unopened_lost`, their transaction markers to `markers_lost`. Their offsets become lost
        offsets, unless the result has them. Batches with offsets that the result has, or that are lost already, count
        only as `sound_lost`, and their markers not at all. Reads the removed parts of the original logs; raises
        `StorageError` if that fails.
        """
        facts, original, left, measured = self._facts, self._original, self._left, self.measured
        dropped: set[Identity] = set()
        repeated: dict[Identity, tuple[int, int, int]] = {}
        for batch, first, last, behind in self._missing_batches():
            key = identity(batch, first)
            count = count_of(batch, first, facts.log_start)
            if left.offsets.touches(first, last) or self._gone.touches(first, last):
                # a second copy, or other records with the same offsets
                repeated[key] = count, *_before(behind, first, last)
                continue
            if isinstance(batch.header, BatchHeader) and batch.header.is_control:
                measured.markers_lost += max(batch.header.records_count, 0)
            if count:
                self._add_absent(*_before(behind, first, last))
                dropped.add(key)
                if original.cannot_be_opened(batch, key):
                    measured.unopened_lost += count
                    if not isinstance(batch.header, BatchHeader):
                        self._estimate()
                else:
                    measured.sound_lost += count
        there = times_of(self._after, left.spans, repeated, original.unopened)
        for key, (count, first, last) in repeated.items():
            if count and not there[key] and key not in dropped:
                measured.sound_lost += count
                self._add_absent(first, last)
        self._lost += measured.sound_lost + measured.unopened_lost

    def _missing_batches(self) -> Iterator[tuple[RecordBatch, int, int, int]]:
        """Yield each sound batch that is not kept: the batch, its first and last offset, and the offset at which the
        next kept batch of its span of sound bytes begins. This offset is `NO_END` if no batch of the span follows.
        Batches below the log start offset are left out. Raises `StorageError` if a log cannot be read.
        """
        before, original = self._before, self._original
        for span in original.spans:
            for start, end in self._kept.missing(span.path, span.start, span.end):
                behind: int | None = None
                for batch, first, last in sound_batches(before, Span(span.path, start, end), original.unopened):
                    if behind is None:
                        following = sound_batches(before, Span(span.path, end, span.end))
                        behind = next((offset for _batch, offset, _last in following), NO_END)
                    if last >= self._facts.log_start:
                        yield batch, first, last, behind

    def _count_damaged(self) -> int | None:
        """Add the records in damaged places to the lost ones. Also count the damaged markers, and the places that have
        a known end but an unknown number of records. Displaced batches are counted by `_count_misplaced`. Places are
        skipped if they lie below the log start offset, or have no known first offset. They are also skipped if they are
        zeros that prove no loss (`_was_never_written`), or if the result has all their offsets. A place with a known
        end adds no records if all its offsets are lost already. The counts become estimates if numbers are derived from
        offsets. Return the offset from which on the loss is unknown; None if all counted places have a known end.
        """
        facts, left, gone, measured = self._facts, self._left, self._gone, self.measured
        unknown_from: int | None = None
        for damage in self._original.damages:
            start, end = damage.first_offset, damage.last_offset
            if start is None or not damage.reaches(facts.log_start):
                continue
            if damage.checksum is not None:
                self._count_misplaced(damage, damage.checksum)
                continue
            if self._is_held(start, damage) or self._was_never_written(damage):
                continue
            measured.markers_damaged += damage.markers
            records = damage.records
            if end is not None and records is not None and start < facts.log_start:
                if records != end - start + 1:
                    self._estimate()
                start, records = facts.log_start, min(records, end - facts.log_start + 1)
            if end is None:
                measured.is_exact = False
                unknown_from = start
                measured.uncounted_zeros += damage.code is FindingCode.ZERO_TAIL and not records
                if records:
                    self._lost += records
                    unknown_from = start + records
                    gone.add(start, unknown_from - 1)
            elif records is None:
                measured.is_exact = False
                measured.uncounted += 1
            elif end >= start and not gone.covers(start, end):
                absent = list(left.offsets.absent(start, end))
                there = end - start + 1 - sum(last - first + 1 for first, last in absent)  # what a copy has put in
                if damage.is_tail and not damage.is_exact:  # what was written behind the incomplete batch is unknown
                    measured.is_exact = False
                    measured.uncounted += 1
                elif not damage.is_exact or (there and records != end - start + 1):
                    self._estimate()
                self._lost += max(records - there, 0)
                for first, last in absent:
                    gone.add(first, last)
        return unknown_from

    def _was_never_written(self, damage: Damage) -> bool:
        """Whether damage is zeros behind the offset at which the log ended when a broker stopped in order: nothing was
        written after that. Zeros up to the size of a preallocated segment were there from its beginning, and show no
        loss either.
        """
        closed_at = self._facts.written.closed_at
        is_behind = closed_at is not None and damage.first_offset is not None and closed_at <= damage.first_offset
        return damage.code is FindingCode.ZERO_TAIL and (is_behind or damage.end == self._facts.preallocated)

    def _count_misplaced(self, damage: Damage, checksum: int) -> None:
        """Count the records of a displaced batch (`damage`) that is removed, if its offsets are known and no batch with
        its checksum and size is left. Add them to the lost ones, and to `sound_lost`, because they can be read now. Its
        offsets become lost offsets, unless the result has them. Raises `StorageError` if a log cannot be read.
        """
        if damage.first_offset is None or damage.last_offset is None or self._stays(damage):
            return
        if not has_bytes(self._after, self._left.spans, checksum, damage.end - damage.position):
            self._lost += damage.records or 0
            self.measured.sound_lost += damage.records or 0
            self._add_absent(damage.first_offset, damage.last_offset)

    def _is_held(self, first: int, damage: Damage) -> bool:
        """Whether the result has all offsets of a damaged place that begins at offset `first`. If the last offset of
        the damage is unknown, the offsets of its known number of records are compared, at least one.
        """
        last = damage.last_offset
        return self._left.offsets.covers(first, first + max(damage.records or 0, 1) - 1 if last is None else last)

    def _never_there(self) -> Iterator[tuple[int, int]]:
        """Yield the first and last offset of each range that must have been written but is in no batch of the result.
        Offsets below the log start offset are left out. Such ranges lie

        * at missing segments, and where copies of other batches lie;
        * beyond the end of an undamaged log of a topic that is never compacted, before records that copies put in;
        * after both the end of the result and the last offset that already counts as lost, up to the highest end that
          files beside the log show (`_end_known_beside`).
        """
        facts, original, left = self._facts, self._original, self._left
        for first, last in (*original.missing, *original.overwritten, *facts.written.lost_start):
            if last >= facts.log_start:
                yield from left.offsets.absent(max(first, facts.log_start), last)
        if facts.is_uncleaned and not original.damages and left.end_offset > original.end_offset:
            first = max(original.end_offset, facts.log_start, facts.written.begins)
            yield from left.offsets.absent(first, left.end_offset - 1)
        behind = max([left.end_offset, facts.log_start, facts.written.begins, *(last + 1 for _, last in self._gone)])
        reached = self._end_known_beside()
        if behind < reached:
            yield behind, reached - 1

    def _end_known_beside(self) -> int:
        """Return the highest end of the log that the files beside it show, among them the high watermark; 0 if they
        show none. Indexes count as `indexed_end` says.
        """
        facts = self._facts
        indexed = indexed_end(self._before, facts.directories, ends_in_damage=self._original.ends_in_damage)
        return max(facts.high_watermark or 0, facts.written.end, indexed)


def _before(behind: int, first: int, last: int) -> tuple[int, int]:
    """First and last offset to count for a batch before another one, whose first offset is `behind`. They are the
    batch's own offsets if these are below `behind`. Otherwise these are wrong, and as many offsets directly below
    `behind` are counted.
    """
    return (first, last) if last < behind else (max(behind - 1 - (last - first), 0), behind - 1)


def _ranges(name: str, gone: OffsetRanges, unknown_from: int | None) -> list[LostRange]:
    ranges: list[LostRange] = []
    for first, last in gone:
        if len(ranges) < _SHOWN_RANGES:
            ranges.append(LostRange(name, first, last))
        else:
            ranges[-1] = LostRange(name, ranges[-1].first, last)
    if unknown_from is not None:
        ranges.append(LostRange(name, unknown_from, None))
    return ranges
