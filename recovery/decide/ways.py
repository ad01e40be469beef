"""The choice: what each way of bringing a log directory back keeps, loses and needs, counted and not guessed.

A way is what one recovery, or none, would do.  Each is carried out in the virtual tree and what it leaves is counted
there, so the counts are those of its result.  Whether a way drops *sound* records, which could still be read, decides
whether recovery asks for consent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import field

from msgspec import Struct, structs

from kafkalog.classes import dataclass
from kafkalog.codec.model import NO_END, BatchHeader, RecordBatch
from kafkalog.log.storage.content import Content, Slice
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.damage.census import (
    Census,
    Damage,
    Identity,
    Span,
    cannot_be_opened,
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
"""Ranges of lost offsets that a way lists; of more, the last one reaches to the end of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRequest:
    """Mode and options of the recovery that takes a way; options that are not here are those that were asked for."""

    mode: Mode = Mode.SAFE
    proof: Proof | None = None
    """least proof for turning a flipped bit back; None: never"""
    full: bool = False
    """segments below the recovery point too, where that was not asked for"""
    copies: tuple[str, ...] = ()
    """directories that hold other copies, where the way takes from them"""

    @classmethod
    def of(cls, rules: Rules) -> RecoveryRequest:
        """The way that a recovery by these rules takes; mode strict leaves what mode safe leaves, or nothing."""
        spec = rules.mode.spec
        mode = Mode.SAFE if spec.way is None else rules.mode
        return cls(mode=mode, proof=rules.repair_bits if mode.spec.is_compared else None)

    @property
    def way(self) -> WaySpec:
        """Which of the ways it is."""
        way = self.mode.spec.way
        if way is None:
            raise AssertionError(self.mode)
        return REPAIR_BITS if self.mode.spec.is_safe and self.proof is not None else way

    @property
    def order(self) -> tuple[bool, bool]:
        """Among those of one name: what does more comes first."""
        return not self.full, self.proof is None

    @property
    def is_both(self) -> bool:
        """Salvage, helped by bit repair."""
        return self.proof is not None and not self.mode.spec.is_safe

    def applied_to(self, rules: Rules) -> Rules:
        """The rules by which it is taken."""
        return structs.replace(rules, mode=self.mode, repair_bits=self.proof, full=rules.full or self.full)


class LostRange(Struct, frozen=True):
    """Offsets that no consumer will read again."""

    partition: str
    """partition directory"""
    first: int
    """first offset"""
    last: int | None
    """last offset; null if unknown"""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A topic-partition: its live directories (two only if both claim it), and what the files beside the log say of it.

    A directory that was put away by name (`-stray`, or `-future` where there is no other) is one by itself: what is in
    it can be had back.
    """

    topic: str
    partition: int
    directories: tuple[str, ...]
    log_start: int
    high_watermark: int | None
    written: Written = field(default_factory=Written)
    """what must have been in its log, as the files beside it tell"""

    is_live: bool = True
    """a broker serves it under this name"""

    @property
    def name(self) -> str:
        """Name of its first directory."""
        return self.directories[0]

    @property
    def key(self) -> tuple[str, int, str]:
        """Topic and partition, and the directory that was put away by name."""
        return self.topic, self.partition, "" if self.is_live else self.name


@dataclass(slots=True, kw_only=True)
class Measured:
    """What one way makes of one partition; None where it cannot be told."""

    records_kept: int | None = None
    records_hidden: int = 0
    """of those kept, records after ones with higher offsets: who reads in order passes over them"""
    records_lost: int | None = None
    sound_lost: int = 0
    """of those lost, records that could still be read"""
    markers_lost: int = 0
    """sound control records that go: without its marker a transaction stays open"""
    markers_damaged: int = 0
    """control records that damage took: what their transactions wrote is open, or ends as the next one does"""
    epoch_falls: int = 0
    """places where the leader epoch falls: the checkpoint of epochs is rebuilt with a wrong one"""
    is_exact: bool = True
    """False: more may be lost, because damage hides how many there were"""
    is_estimate: bool = False
    """the count of lost records rests on offsets, or on counts that no checksum covers"""
    uncounted: int = 0
    """places whose records are in no count, because nothing tells how many there were"""
    bytes_cut: int | None = None
    damage_left: int = 0
    """places in the log that stay unreadable: a consumer stops there"""
    lost: list[LostRange] = field(default_factory=list)
    below_high_watermark: bool | None = None

    def held_elsewhere(self) -> Measured:
        """The measure where all that is lost here is still served, from another tier."""
        kept = None if self.records_kept is None else self.records_kept + (self.records_lost or 0)
        return Measured(
            records_kept=kept, records_hidden=self.records_hidden, records_lost=0, epoch_falls=self.epoch_falls,
            bytes_cut=self.bytes_cut, damage_left=self.damage_left, below_high_watermark=False,
        )  # fmt: skip

    @property
    def out_of_reach(self) -> int | None:
        """Records that are lost, or that nobody who reads in order would come across."""
        return None if self.records_lost is None else self.records_lost + self.records_hidden

    @property
    def leaves_to_mend(self) -> bool:
        """Whether something is damaged or out of its place still, or what could be read goes with what is."""
        return bool(self.damage_left or self.records_hidden or self.epoch_falls or self.sound_lost)

    @property
    def drops_sound(self) -> bool:
        """Whether records or markers go that could still be read."""
        return bool(self.sound_lost or self.markers_lost)

    @property
    def may_lose(self) -> bool:
        """Whether anything is lost or left wrong, or may be."""
        lost = self.records_lost or self.records_hidden or self.lost or self.markers_damaged or self.damage_left
        return bool(lost or self.epoch_falls or self.records_lost is None or not self.is_exact)

    @property
    def markers_out_of_reach(self) -> int:
        """Markers that end no transaction any more."""
        return self.markers_lost + self.markers_damaged


@dataclass(slots=True)
class RecoveryWay:
    """One way, for one partition or for a whole log directory."""

    way: str
    """its name in `WAYS`"""
    measured: Measured
    how: RecoveryRequest | None = None
    """the recovery that takes it; None if none does"""
    needs_consent: bool = False
    """records go that could still be read"""
    leaders: tuple[int, ...] = ()
    """brokers of which one has to lead before this one starts"""
    consequence: str = ""
    """in plain words"""
    refusal: str | None = None
    """why `recover` declines this way; such a way is never recommended"""

    @property
    def spec(self) -> WaySpec:
        """What kind of way it is."""
        return WAYS[self.way]


def recommended(ways: Sequence[RecoveryWay]) -> RecoveryWay | None:
    """The way that loses least, what nobody would come across counting as lost.

    None if nothing is known of any, or recovery declines all of which something is known.
    """
    order = {name: number for number, name in enumerate(WAYS)}
    known = [way for way in ways if way.measured.records_lost is not None and way.refusal is None]

    def rank(way: RecoveryWay) -> tuple[int, int, bool, int, bool, int]:
        found = way.measured
        return (
            found.out_of_reach or 0,
            found.markers_out_of_reach,
            not found.is_exact,
            found.epoch_falls,
            found.damage_left > 0,
            order[way.way],
        )

    return min(known, key=rank, default=None)


def total(parts: Iterable[Measured]) -> Measured:
    """The sum over partitions; a count that is not known for one of them is not known for all."""
    result = Measured(records_kept=0, records_lost=0, bytes_cut=0)
    are_committed: set[bool | None] = set()  # of each part that tells, or that loses something
    for part in parts:
        result.records_kept = _sum(result.records_kept, part.records_kept)
        result.records_lost = _sum(result.records_lost, part.records_lost)
        result.bytes_cut = _sum(result.bytes_cut, part.bytes_cut)
        result.sound_lost += part.sound_lost
        result.markers_lost += part.markers_lost
        result.markers_damaged += part.markers_damaged
        result.epoch_falls += part.epoch_falls
        result.records_hidden += part.records_hidden
        result.damage_left += part.damage_left
        result.is_exact = result.is_exact and part.is_exact
        result.is_estimate = result.is_estimate or part.is_estimate
        result.uncounted += part.uncounted
        result.lost += part.lost
        if part.below_high_watermark is not None or part.lost:
            are_committed.add(part.below_high_watermark)
    if True in are_committed or None not in are_committed:
        result.below_high_watermark = True in are_committed if are_committed else None
    return result


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def logs_of(tree: Tree, directories: Iterable[str]) -> list[Content]:
    """The logs that hold the data of some directories, under whatever names those have got."""
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
    """Count what a way's result holds of a partition, and what of the original it does not.

    `log_start` is the way's own, and so is `log_end`, if it has the log go on elsewhere than behind its last record.
    """
    return _Measurement(facts, before, original, after, log_start, log_end).measured


class _Measurement:
    """What a way's result holds of a partition, beside what could be read before."""

    def __init__(
        self, facts: PartitionFacts, before: Tree, original: Census, after: Tree, log_start: int, log_end: int
    ) -> None:
        self._facts, self._before, self._original, self._after = facts, before, original, after
        contents = logs_of(after, facts.directories)
        self._kept = KeptBytes(contents)
        originals = frozenset(path for each in facts.directories for _base, path in live_segments(before, each))
        is_in_order = not original.hidden  # else segments that were split read differently
        is_alike = log_start == facts.log_start and log_end >= original.end_offset
        if is_in_order and is_alike and self._holds_all(contents, originals):
            self._left = original  # nothing sound is missing, and nothing was put in: the same can be read
        else:
            now = dict(after.renamed_directories)
            names = [now.get(each, each) for each in facts.directories]
            self._left = census(after, [name for name in names if name in after.directories], log_start, log_end)
        left, held = self._left, sum(before.files[path].size for path in originals)
        self.measured = Measured(
            records_kept=left.records,
            records_hidden=left.hidden,
            epoch_falls=left.epoch_falls,
            bytes_cut=max(held - self._kept.size, 0),
            damage_left=sum(
                (self._stays(each) if left is original else not each.is_tail) and each.reaches(log_start)
                for each in left.damages
            ),
        )
        self._lost = 0
        """records that go"""
        self._gone = OffsetRanges()
        """their offsets"""
        self._count(log_end)

    def _holds_all(self, contents: Iterable[Content], originals: Set[str]) -> bool:
        """The logs afterwards hold every sound batch in its place, and nothing but bytes of the original logs."""
        parts = (part for content in contents for part in content.parts)
        if any(not isinstance(part, Slice) or part.origin not in originals for part in parts):
            return False
        spans = self._original.spans
        return not any(True for span in spans for _range in self._kept.missing(span.path, span.start, span.end))

    def _stays(self, damage: Damage) -> bool:
        """A damaged place is still in the log: a consumer stops there."""
        return not damage.is_tail and self._kept.holds(damage.path, damage.position)

    def _count(self, log_end: int) -> None:
        facts, original, measured = self._facts, self._original, self.measured
        if self._left is not original:
            self._count_sound()
        unknown_from = self._count_damaged()
        for start, end in list(self._never_there()):
            for first, last in list(self._gone.absent(start, end)):  # what is gone of it is counted
                self._lost += last - first + 1
                self._gone.add(first, last)
            self._estimate()
            if unknown_from is not None and unknown_from <= end:
                unknown_from = end + 1
        measured.records_lost = self._lost
        measured.uncounted += unknown_from is not None
        measured.lost = _ranges(facts.name, self._gone, unknown_from)
        if facts.high_watermark is not None:  # what is kept above the log's end, no leader serves
            is_lost = any(each.first < facts.high_watermark for each in measured.lost)
            measured.below_high_watermark = is_lost or log_end < min(facts.high_watermark, original.end_offset)
            if not measured.below_high_watermark and any(each.last is not None and each.last < log_end - 1
                                                         for each in measured.lost):  # fmt: skip
                measured.below_high_watermark = None  # the log goes on behind it: the checkpoint is an older one

    def _estimate(self) -> None:
        self.measured.is_exact, self.measured.is_estimate = False, True

    def _add_absent(self, first: int, last: int) -> None:
        """Offsets go, but for those that are left."""
        for absent in self._left.offsets.absent(first, last):
            self._gone.add(*absent)

    def _count_sound(self) -> None:
        """Add the sound batches that are not kept, and of which no copy is."""
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
                measured.sound_lost += count
                if cannot_be_opened(batch):
                    self._estimate()
        there = times_of(self._after, left.spans, repeated, original.unopened)
        for key, (count, first, last) in repeated.items():
            if count and not there[key] and key not in dropped:
                measured.sound_lost += count
                self._add_absent(first, last)
        self._lost += measured.sound_lost

    def _missing_batches(self) -> Iterator[tuple[RecordBatch, int, int, int]]:
        """Sound batches that are not kept in their place, with first and last offset, and the offset that comes next.

        That is the first offset of what is kept after them; `NO_END` if nothing is.
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
        """Add what was in damaged places that were not repaired; the offset from which nothing is known."""
        facts, left, gone, measured = self._facts, self._left, self._gone, self.measured
        unknown_from: int | None = None
        for damage in self._original.damages:
            start, end = damage.first_offset, damage.last_offset
            if start is None or not damage.reaches(facts.log_start):
                continue
            if damage.checksum is not None:
                self._count_misplaced(damage, damage.checksum)
                continue
            if self._is_held(start, damage):
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
                if not damage.is_exact or (there and records != end - start + 1):
                    self._estimate()
                self._lost += max(records - there, 0)
                for first, last in absent:
                    gone.add(first, last)
        return unknown_from

    def _count_misplaced(self, damage: Damage, checksum: int) -> None:
        """Count a batch out of its place, whose records can be read, if it goes and no copy of its bytes stays."""
        if damage.first_offset is None or damage.last_offset is None or self._stays(damage):
            return
        if not has_bytes(self._after, self._left.spans, checksum, damage.end - damage.position):
            self._lost += damage.records or 0
            self.measured.sound_lost += damage.records or 0
            self._add_absent(damage.first_offset, damage.last_offset)

    def _is_held(self, first: int, damage: Damage) -> bool:
        """Whether the result holds what a damaged place held, or all that is known of it and more after it."""
        last = damage.last_offset
        return self._left.offsets.covers(first, first + max(damage.records or 0, 1) - 1 if last is None else last)

    def _never_there(self) -> Iterator[tuple[int, int]]:
        """Offsets that must have been written and are in no batch: first and last of each range.

        They are where a segment is gone, and after the log's end up to the high watermark, to what the files beside the
        log name, and to the end that its indexes name if it ends in damage.
        """
        facts, original, left = self._facts, self._original, self._left
        for first, last in (*original.missing, *facts.written.lost_start):
            if last >= facts.log_start:
                yield from left.offsets.absent(max(first, facts.log_start), last)
        behind = max([left.end_offset, facts.log_start, facts.written.begins, *(last + 1 for _, last in self._gone)])
        indexed = indexed_end(self._before, facts.directories) if original.ends_in_damage else 0
        reached = max(facts.high_watermark or 0, facts.written.end, indexed)
        if behind < reached:
            yield behind, reached - 1


def _before(behind: int, first: int, last: int) -> tuple[int, int]:
    """The offsets that a batch takes where the next one begins with `behind`: its own, or those its place says."""
    return (first, last) if last < behind else (max(behind - 1 - (last - first), 0), behind - 1)


def _ranges(name: str, gone: OffsetRanges, unknown_from: int | None) -> list[LostRange]:
    found: list[LostRange] = []
    for first, last in gone:
        if len(found) < _SHOWN_RANGES:
            found.append(LostRange(name, first, last))
        else:
            found[-1] = LostRange(name, found[-1].first, last)
    if unknown_from is not None:
        found.append(LostRange(name, unknown_from, None))
    return found
