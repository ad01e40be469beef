"""A segment byte by byte: stretches that are sound, and what else there is between them.

One walk through damage (`BatchReader`) tells where batches are; what no batch covers is named after the finding there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.errors import StorageError
from kafkalog.codec.finding_codes import Trait, codes_with
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import CODEC_MASK, CONTROL_FLAG, BatchHeader, RecordBatch
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.cursor import ENDING_CODES
from kafkalog.log.walk.missing import first_offset_of
from kafkalog.log.walk.segment import Segment

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["BatchFacts", "Kind", "Listener", "SegmentMap", "Stretch", "segment_maps"]

_FINEST = 240
"""Stretches of sound batches that a segment is shown in, at most about so many."""
_MOST = 400
"""Stretches of any kind in one segment; where there are more, neighbors are put together."""


class Kind(enum.StrEnum):
    """What a stretch of bytes is, by the letter that stands beside its color; the worst comes last."""

    SOUND = "S"
    AFTER = "A"
    """sound, but after damage: no consumer gets there"""
    ZEROS = "Z"
    TORN = "T"
    MISPLACED = "M"
    """a batch with a valid checksum that does not belong where it is"""
    NONSENSE = "N"
    """a valid checksum, and a structure that no broker writes"""
    CORRUPT = "C"
    UNREAD = "U"

    @property
    def words(self) -> str:
        """What it is, for people."""
        return _WORDS[self]

    @property
    def rank(self) -> int:
        """How bad it is beside others."""
        return list(Kind).index(self)


_WORDS = {
    Kind.SOUND: "sound batches",
    Kind.AFTER: "sound, after damage",
    Kind.ZEROS: "zero tail",
    Kind.TORN: "torn tail",
    Kind.MISPLACED: "does not belong here",
    Kind.NONSENSE: "structural nonsense",
    Kind.CORRUPT: "corruption",
    Kind.UNREAD: "not read",
}
_MISPLACED = codes_with(Trait.MISPLACED)
_TAILS = {FindingCode.TORN_TAIL: Kind.TORN, FindingCode.ZERO_TAIL: Kind.ZEROS}


class BatchFacts(Struct, frozen=True):
    """What, of one batch, the report adds up; offsets are inclusive, the timestamp in ms (-1: none)."""

    position: int
    size: int
    first_offset: int
    last_offset: int
    records: int
    """that a consumer would see; of sets of messages before v2 the offsets they span"""
    timestamp: int
    codec: int
    begins: int
    """the timestamp that it begins with, in ms (-1: none)"""


class Listener(Protocol):
    """Is told of every batch that can be read."""

    def batch(self, facts: BatchFacts) -> None:
        """One batch."""


class Stretch(Struct, frozen=True):
    """Bytes of one kind, from `start` to before `end`; offsets are inclusive and None where no batch tells them."""

    kind: Kind
    start: int
    end: int
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    detail: str = ""
    places: int = 1
    """stretches that were put together because there are too many"""

    def joined(self, other: Stretch) -> Stretch:
        """Two neighbors as one, named after the worse."""
        worse = max(self, other, key=lambda each: each.kind.rank)
        offsets = [
            each
            for each in (self.first_offset, self.last_offset, other.first_offset, other.last_offset)
            if each is not None
        ]
        return Stretch(
            worse.kind,
            self.start,
            other.end,
            self.batches + other.batches,
            self.records + other.records,
            min(offsets, default=None),
            max(offsets, default=None),
            worse.detail,
            self.places + other.places if self.kind is not other.kind else max(self.places, other.places),
        )


class SegmentMap(Struct, frozen=True):
    """One segment in stretches that cover all of it, in order."""

    segment: Segment
    stretches: tuple[Stretch, ...]

    @property
    def is_sound(self) -> bool:
        """Nothing but sound batches that a consumer gets to."""
        return all(each.kind is Kind.SOUND for each in self.stretches)

    @property
    def is_damaged(self) -> bool:
        """Something in it is not sound; what merely comes after damage is."""
        return any(each.kind not in (Kind.SOUND, Kind.AFTER) for each in self.stretches)

    @property
    def worst(self) -> Kind:
        """The worst kind of all its stretches."""
        return max((each.kind for each in self.stretches), key=lambda kind: kind.rank, default=Kind.SOUND)

    def at_most(self, count: int) -> SegmentMap:
        """The map in so many stretches at most: neighbors are put together."""
        return replace(self, stretches=tuple(_at_most(list(self.stretches), count)))


def _at_most(stretches: list[Stretch], count: int) -> list[Stretch]:
    while len(stretches) > count:
        pairs = [stretches[number : number + 2] for number in range(0, len(stretches), 2)]
        stretches = [pair[0].joined(pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
    return stretches


class _Drawing:
    """The stretches of one segment while it is walked over."""

    def __init__(self, segment: Segment, known: Sequence[Finding], is_behind: bool) -> None:
        self.segment = segment
        self.findings = [each for each in known if each.position is not None]
        self._seen = {(each.code, each.position) for each in self.findings}
        self._marked = {each.position for each in self.findings}
        self._ending = {each.position for each in self.findings if each.code in ENDING_CODES}
        self.position = 0
        self._is_behind = is_behind
        self._fine = max(segment.size // _FINEST, 1)
        self._stretches: list[Stretch] = []

    def hole(self, end: int) -> None:
        """No batch covers what is before `end`; what it is is told by the findings at the end."""
        if end > self.position:
            self._add(Stretch(Kind.CORRUPT, self.position, end))
            self._is_behind = True

    def found(self, finding: Finding) -> None:
        """The walk has found something in this segment."""
        if (finding.code, finding.position) not in self._seen:
            self.findings.append(finding)
            self._marked.add(finding.position)
            if finding.code in ENDING_CODES:
                self._ending.add(finding.position)

    def batch(self, facts: BatchFacts) -> None:
        """A batch that can be read."""
        self.hole(facts.position)
        kind = Kind.AFTER if self._is_behind else Kind.SOUND
        end = facts.position + facts.size
        self._add(Stretch(kind, facts.position, end, 1, facts.records, facts.first_offset, facts.last_offset))
        self._is_behind = self._is_behind or facts.position in self._ending

    def _add(self, stretch: Stretch) -> None:
        last = self._stretches[-1] if self._stretches else None
        self.position = stretch.end
        if (
            last is not None
            and last.kind is stretch.kind
            and stretch.batches
            and stretch.end - last.start <= self._fine
            and not self._marked.intersection((last.start, stretch.start))
        ):
            self._stretches[-1] = last.joined(stretch)
            return
        self._stretches.append(stretch)

    def ended(self, unreadable: str | None) -> tuple[SegmentMap, bool]:
        """All of it, and whether no consumer reads what comes after it."""
        findings = self.findings
        size = self.segment.size
        if unreadable is not None and self.position < size:
            self._add(Stretch(Kind.UNREAD, self.position, size, detail=unreadable))
            self._is_behind = True
        elif self.position < size:
            is_behind = self._is_behind
            self.hole(size)
            if _kind_of(_at(findings, self._stretches[-1].start)) in (Kind.TORN, Kind.ZEROS):
                self._is_behind = is_behind
        stretches = _at_most(list(self._named(findings)), _MOST)
        return SegmentMap(self.segment, tuple(stretches)), self._is_behind

    def _named(self, findings: Sequence[Finding]) -> Iterator[Stretch]:
        """Stretches with the kinds and sentences of the findings in them."""
        placed = sorted(
            (each for each in findings if each.position is not None and each.severity is not Severity.INFO),
            key=lambda each: each.position or 0,
        )
        number = 0
        for stretch in self._stretches:
            inside: list[Finding] = []
            while number < len(placed) and (placed[number].position or 0) < stretch.end:
                inside.append(placed[number])
                number += 1
            if stretch.kind is Kind.UNREAD:
                yield stretch
                continue
            if not stretch.batches:
                found = next((each for each in inside if each.position == stretch.start), None)
                yield replace(stretch, kind=_kind_of(found), detail="" if found is None else _sentence(found))
                continue
            if not inside:
                yield stretch
                continue
            worst = max(inside, key=lambda each: _kind_of_batch(each).rank)
            more = f", and {len(inside) - 1} more here" if len(inside) > 1 else ""
            yield replace(stretch, kind=_kind_of_batch(worst), detail=_sentence(worst) + more)


def _at(findings: Sequence[Finding], position: int) -> Finding | None:
    return next((each for each in findings if each.position == position), None)


def _kind_of(found: Finding | None) -> Kind:
    """The kind of bytes that are no batch."""
    if found is None:
        return Kind.CORRUPT
    return Kind.UNREAD if found.code is FindingCode.LIMIT_EXCEEDED else _TAILS.get(found.code, Kind.CORRUPT)


def _kind_of_batch(found: Finding) -> Kind:
    """The kind of a batch with a valid checksum."""
    return Kind.MISPLACED if found.code in _MISPLACED else Kind.NONSENSE


def _sentence(found: Finding) -> str:
    return f"{found.code}: {found.detail}"


def segment_maps(
    segments: Sequence[Segment],
    known: Mapping[str, Sequence[Finding]],
    listener: Listener,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[SegmentMap]:
    """The maps of a partition's segments, in order; `known` are findings by log file from those who looked closer.

    `listener` is told of the batches.  What the operating system cannot read is a stretch that was not read.
    """
    left, is_behind = list(segments), False
    while left:
        walk = _Walk(left, known, listener, limits, on_bytes, is_behind=is_behind)
        count = 0
        for made in walk:
            count += 1
            yield made
        left, is_behind = left[count:], walk.is_behind


class _Walk:
    """One walk over segments; it ends at the last one, or after the first that cannot be read."""

    def __init__(
        self,
        segments: Sequence[Segment],
        known: Mapping[str, Sequence[Finding]],
        listener: Listener,
        limits: Limits,
        on_bytes: Callable[[int], None] | None,
        *,
        is_behind: bool,
    ) -> None:
        self._reader = BatchReader(segments, through_damage=True, limits=limits, on_bytes=on_bytes, hold=False)
        self._segments = iter(segments)
        self._known = known
        self._listener = listener
        self._limits = limits
        self._noted = 0
        self._drawing: _Drawing | None = None
        self.is_behind = is_behind

    def __iter__(self) -> Iterator[SegmentMap]:
        unreadable: str | None = None
        try:
            for found in self._reader.by_run():
                yield from self._come_to(self._reader.segment)
                self._note()
                if self._drawing is not None:
                    for facts in _facts(found, self._limits):
                        self._drawing.batch(facts)
                        self._listener.batch(facts)
        except StorageError as error:
            unreadable = str(error.strerror or error)
            yield from self._come_to(self._reader.segment)
        else:
            yield from self._come_to(None)
        yield from self._finish(unreadable)

    def _come_to(self, segment: Segment | None) -> Iterator[SegmentMap]:
        """End what comes before a segment, and begin with it; None: the last one."""
        while self._drawing is None or self._drawing.segment is not segment:
            following = next(self._segments, None)
            if following is None:
                return
            yield from self._finish(None)
            self._drawing = _Drawing(following, self._known.get(following.path, ()), self.is_behind)

    def _note(self) -> None:
        """Take over what the reader has found since."""
        for finding in self._reader.findings[self._noted :]:
            if self._drawing is not None and finding.file == self._drawing.segment.path:
                self._drawing.found(finding)
        self._noted = len(self._reader.findings)

    def _finish(self, unreadable: str | None) -> Iterator[SegmentMap]:
        """The map of the segment that was walked over."""
        drawing, self._drawing = self._drawing, None
        if drawing is not None:
            for finding in self._reader.findings:
                if finding.file == drawing.segment.path:
                    drawing.found(finding)
            made, self.is_behind = drawing.ended(unreadable)
            yield made


def _facts(found: BatchRun | RecordBatch, limits: Limits) -> Iterator[BatchFacts]:
    if isinstance(found, RecordBatch):
        header = found.header
        first = first_offset_of(found, limits)
        if isinstance(header, BatchHeader):
            records = 0 if header.is_control else max(header.records_count, 0)
        else:
            records = max(header.last_offset - first + 1, 0)
        codec = header.attributes & CODEC_MASK
        last, times = header.last_offset, (header.first_timestamp, header.max_timestamp)
        yield BatchFacts(found.position, found.size, first, last, records, times[1], codec, begins=times[0])
        return
    columns = (
        found.positions,
        found.sizes,
        found["base_offset"],
        found.last_offsets,
        found["records_count"],
        found["max_timestamp"],
        found["attributes"],
        found.first_timestamps,
    )
    rows = zip(*(each.tolist() for each in columns), strict=True)
    for position, size, first, last, count, time, attributes, begins in rows:
        records = 0 if attributes & CONTROL_FLAG else max(count, 0)
        yield BatchFacts(position, size, first, last, records, time, attributes & CODEC_MASK, begins=begins)
