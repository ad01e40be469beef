"""Map a segment byte by byte: stretches of sound batches, and the stretches of bytes between them.

One walk through damage (`BatchReader`) finds the batches. Bytes that no batch covers are named after the finding there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.headers.one_batch import AnyRun
from kafkalog.codec.model import CODEC_MASK, BatchHeader
from kafkalog.codec.plain.records import first_offset_of
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.cursor import ENDING_CODES
from kafkalog.log.walk.segment import Segment

__all__ = ["BatchFacts", "Kind", "Listener", "SegmentMap", "Stretch", "segment_maps"]

_FINEST = 240
"""Stretches of sound batches in which a segment is shown, approximately at most."""
_MOST = 400
"""Most stretches of all kinds in one segment; if there are more, neighbors are joined."""


class Kind(enum.StrEnum):
    """Kind of a stretch of bytes, with the letter that is shown beside its color; the worst comes last."""

    SOUND = "S"
    AFTER = "A"
    """sound, but after damage: no consumer reaches it"""
    ZEROS = "Z"
    TORN = "T"
    MISPLACED = "M"
    """a batch with a valid checksum at the wrong place"""
    NONSENSE = "N"
    """a batch with a valid checksum and a structure that no broker writes"""
    CORRUPT = "C"
    UNREAD = "U"

    @property
    def words(self) -> str:
        """Description for people."""
        return _WORDS[self]

    @property
    def rank(self) -> int:
        """Severity as a number; higher is worse."""
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
    """Facts of one batch that a report adds up. Offsets are inclusive, timestamps in ms since 1970, -1 if there is
    none.
    """

    position: int
    size: int
    first_offset: int
    last_offset: int
    records: int
    """records that a consumer would see; for magic 0 and 1 the number of offsets in the message set"""
    timestamp: int
    codec: int
    begins: int
    """first timestamp of the batch in ms; -1 if there is none"""


class Listener(Protocol):
    """Receiver of every batch that can be read."""

    def batch(self, facts: BatchFacts) -> None:
        """Receive one batch."""


class Stretch(Struct, frozen=True):
    """Bytes of one kind, from `start` to `end` (exclusive). Offsets are inclusive; None if no batch has them."""

    kind: Kind
    start: int
    end: int
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    detail: str = ""
    places: int = 1
    """number of stretches that were joined because there were too many"""

    def joined(self, other: Stretch) -> Stretch:
        """Return one stretch for this one and the next one, `other`. Its kind is the worse kind of the two, with the
        detail of that stretch, or of this one if the kinds are equal. Numbers of batches and records are added.
        `places` is the sum if the kinds differ, otherwise the larger number.
        """
        worse = max(self, other, key=lambda stretch: stretch.kind.rank)
        offsets = [
            stretch
            for stretch in (self.first_offset, self.last_offset, other.first_offset, other.last_offset)
            if stretch is not None
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
    """One segment as stretches that cover all of it, in order."""

    segment: Segment
    stretches: tuple[Stretch, ...]

    @property
    def is_sound(self) -> bool:
        """Whether the segment has only sound batches that a consumer reaches."""
        return all(stretch.kind is Kind.SOUND for stretch in self.stretches)

    @property
    def is_damaged(self) -> bool:
        """Whether something in the segment is not sound. Sound batches after damage do not count."""
        return any(stretch.kind not in (Kind.SOUND, Kind.AFTER) for stretch in self.stretches)

    @property
    def worst(self) -> Kind:
        """Worst kind of all stretches; sound if there are none."""
        return max((stretch.kind for stretch in self.stretches), key=lambda kind: kind.rank, default=Kind.SOUND)

    def at_most(self, count: int) -> SegmentMap:
        """Return the map with at most `count` stretches: neighbors are joined."""
        return replace(self, stretches=tuple(_at_most(list(self.stretches), count)))


def _at_most(stretches: list[Stretch], count: int) -> list[Stretch]:
    while len(stretches) > count:
        pairs = [stretches[number : number + 2] for number in range(0, len(stretches), 2)]
        stretches = [pair[0].joined(pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
    return stretches


class _Drawing:
    """Builds the map of one segment while its batches are read."""

    def __init__(self, segment: Segment, known: Sequence[Finding], is_behind: bool) -> None:
        self.segment = segment
        self.findings = [finding for finding in known if finding.position is not None]
        self._seen = {(finding.code, finding.position) for finding in self.findings}
        self._marked = {finding.position for finding in self.findings}
        self._ending = {finding.position for finding in self.findings if finding.code in ENDING_CODES}
        self.position = 0
        self._is_behind = is_behind
        self._fine = max(segment.size // _FINEST, 1)
        self._stretches: list[Stretch] = []

    def hole(self, end: int) -> None:
        """Mark the bytes up to `end` as unreadable; their kind is set when the walk ends."""
        if end > self.position:
            self._add(Stretch(Kind.CORRUPT, self.position, end))
            self._is_behind = True

    def found(self, finding: Finding) -> None:
        """Add a finding of the walk about this segment: a batch at its position becomes a stretch of its own. If the
        finding stops consumers there, later batches count as `Kind.AFTER`. Does nothing if the walk or an earlier check
        has reported the same code at the same position.
        """
        if (finding.code, finding.position) not in self._seen:
            self._seen.add((finding.code, finding.position))
            self.findings.append(finding)
            self._marked.add(finding.position)
            if finding.code in ENDING_CODES:
                self._ending.add(finding.position)

    def batch(self, facts: BatchFacts) -> None:
        """Add a batch that can be read. Bytes between the previous batch and this one become a hole. The batch counts
        as `Kind.AFTER` if consumers stop at damage before it, and otherwise as sound. If a finding at this batch's own
        position stops consumers, all later batches count as `Kind.AFTER`.
        """
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
        """Return the finished map, and whether consumers stop before the next segment. They do if they stop at damage
        in this segment or before it, or if the rest of it could not be read; a torn or zero-filled end does not stop
        them. `unreadable` is the I/O error if the rest could not be read, else None. If there are more than `_MOST`
        stretches, neighbors are joined.
        """
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
        """Yield the stretches in order, with kind and description from the warnings and errors among the findings.

        A stretch of batches gets them from the worst finding in it, and the description also says how many others there
        are. It is unchanged if it has no finding. A stretch without batches gets them from the first finding at its
        start; without one it is `Kind.CORRUPT` with an empty description. A stretch that could not be read is
        unchanged.
        """
        placed = sorted(
            (
                placed_finding
                for placed_finding in findings
                if placed_finding.position is not None and placed_finding.severity is not Severity.INFO
            ),
            key=lambda placed_finding: placed_finding.position or 0,
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
                finding = next(
                    (placed_finding for placed_finding in inside if placed_finding.position == stretch.start), None
                )
                yield replace(stretch, kind=_kind_of(finding), detail="" if finding is None else _sentence(finding))
                continue
            if not inside:
                yield stretch
                continue
            worst = max(inside, key=lambda placed_finding: _kind_of_batch(placed_finding).rank)
            more = f", and {len(inside) - 1} more here" if len(inside) > 1 else ""
            yield replace(stretch, kind=_kind_of_batch(worst), detail=_sentence(worst) + more)


def _at(findings: Sequence[Finding], position: int) -> Finding | None:
    return next((finding for finding in findings if finding.position == position), None)


def _kind_of(finding: Finding | None) -> Kind:
    """Kind of bytes that no batch covers, by the finding there."""
    if finding is None:
        return Kind.CORRUPT
    return Kind.UNREAD if finding.code is FindingCode.LIMIT_EXCEEDED else _TAILS.get(finding.code, Kind.CORRUPT)


def _kind_of_batch(finding: Finding) -> Kind:
    """Kind of a batch with a valid checksum, by its finding."""
    return Kind.MISPLACED if finding.code in _MISPLACED else Kind.NONSENSE


def _sentence(finding: Finding) -> str:
    return f"{finding.code}: {finding.detail}"


def segment_maps(
    segments: Sequence[Segment],
    known: Mapping[str, Sequence[Finding]],
    listener: Listener,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[SegmentMap]:
    """Yield the maps of a partition's segments in order. If the operating system cannot read bytes of a segment, its
    rest becomes a stretch of kind unread, and the next segment is read; this raises no error.

    `known` are findings by log file from earlier checks. `listener.batch` is called for every batch that can be read,
    and `on_bytes` with the number of bytes read.
    """
    left, is_behind = list(segments), False
    while left:
        walk = _Walk(left, known, listener, limits, on_bytes, is_behind=is_behind)
        count = 0
        for segment_map in walk:
            count += 1
            yield segment_map
        left, is_behind = left[count:], walk.is_behind


class _Walk:
    """One walk over segments, up to the last one, or up to and including the first one that cannot be read."""

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
            for run in self._reader.by_run():
                yield from self._come_to(self._reader.segment)
                self._note()
                if self._drawing is not None:
                    for facts in _facts(run, self._limits):
                        self._drawing.batch(facts)
                        self._listener.batch(facts)
        except StorageError as error:
            unreadable = str(error.strerror or error)
            yield from self._come_to(self._reader.segment)
        else:
            yield from self._come_to(None)
        yield from self._finish(unreadable)

    def _come_to(self, segment: Segment | None) -> Iterator[SegmentMap]:
        """Yield the maps of the segments before `segment` that were not yielded yet, and begin the map of `segment`
        itself, unless it has begun. With None, yield the maps of all remaining segments but the last, and begin the map
        of the last one.
        """
        while self._drawing is None or self._drawing.segment is not segment:
            following = next(self._segments, None)
            if following is None:
                return
            yield from self._finish(None)
            self._drawing = _Drawing(following, self._known.get(following.path, ()), self.is_behind)

    def _note(self) -> None:
        """Take over the reader's new findings."""
        for finding in self._reader.findings[self._noted :]:
            if self._drawing is not None and finding.file == self._drawing.segment.path:
                self._drawing.found(finding)
        self._noted = len(self._reader.findings)

    def _finish(self, unreadable: str | None) -> Iterator[SegmentMap]:
        """Finish the current segment, if there is one: yield its map, and set `is_behind` to whether damage has stopped
        consumers. Afterwards no segment is current. `unreadable` is the I/O error that ended its reading, else None.
        """
        drawing, self._drawing = self._drawing, None
        if drawing is not None:
            for finding in self._reader.findings:
                if finding.file == drawing.segment.path:
                    drawing.found(finding)
            segment_map, self.is_behind = drawing.ended(unreadable)
            yield segment_map


def _facts(run: AnyRun, limits: Limits) -> Iterator[BatchFacts]:
    for batch in run:
        header = batch.header
        first = first_offset_of(batch, limits)
        if isinstance(header, BatchHeader):
            records = 0 if header.is_control else max(header.records_count, 0)
        else:
            records = max(header.last_offset - first + 1, 0)
        codec = header.attributes & CODEC_MASK
        last, times = header.last_offset, (header.first_timestamp, header.max_timestamp)
        yield BatchFacts(batch.position, batch.size, first, last, records, times[1], codec, begins=times[0])
