"""Count the valid batches after damage in a log. A consumer stops at the first damage (`CompletedFetch`), and so do the
scans that find the readable part of a log; later batches are lost to it, but exist until the log is truncated. This
module counts them, in the same segment and in all later ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Unread
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.wording import counted
from kafkalog.codec.compression.specs import is_known_codec
from kafkalog.codec.headers.one_batch import AnyRun
from kafkalog.codec.model import CODEC_MASK, CONTROL_FLAG, NO_TIMESTAMP, BatchHeader, RecordBatch
from kafkalog.codec.plain.records import decode_batch, first_offset_of
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET, NO_OFFSET_LIMIT, out_of_place
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.segment import Segment

__all__ = ["BehindDamage", "tell_what_is_behind"]

_ENDING = codes_with(Trait.NO_BATCH | Trait.ENDS_READING) - {FindingCode.OFFSET_DISPLACED}
"""Codes of findings at which a consumer stops reading."""


class BehindDamage(Struct, kw_only=True):
    """Sound batches after the first damage of a partition, with the number of their records that a consumer would
    get.
    """

    batches: int = 0
    records: int = 0
    by_segment: dict[str, tuple[int, int]] = field(default_factory=dict)
    """batches and records by path of the log file"""
    next_offset: int = 0
    """offset after the last of them; 0 if there are none"""

    def of(self, segment: Segment) -> tuple[int, int]:
        """Return the numbers of batches and records in one segment."""
        return self.by_segment.get(segment.path, (0, 0))

    def __str__(self) -> str:
        return f"{counted(self.batches, 'sound batch')} with {counted(self.records, 'record')} after it"


Place = tuple[int, int]
"""Place of damage: number of its segment, and position in it."""


class _Around:
    """Records the last valid batch before each damage and the first one after it, which shows the offsets that cannot
    be read. If several damages have no valid batch between them, only the first of them gets the offsets.
    """

    def __init__(self, damages: Iterable[Place], segments: Sequence[Segment], limits: Limits) -> None:
        self._damages = sorted(set(damages))
        self._numbers = {segment.path: number for number, segment in enumerate(segments)}
        self._segments = segments
        self._limits = limits
        self._passed = 0
        self._before: tuple[int, int, int] | None = None
        """last sound batch: number of its segment, its last offset and largest timestamp"""
        self._unread: dict[Place, Unread | None] = {}

    def met(self, segment: Segment, first: RecordBatch, last: RecordBatch) -> None:
        """Record consecutive valid batches of a segment, from `first` to `last`. They show the unreadable offsets of
        the damage before `first`. Must be called in the order of the log. Nothing is recorded if `first` is itself one
        of the damages, that is, if its checksum is valid but its content is wrong.
        """
        number = self._numbers[segment.path]
        if (number, first.position) in self._damages:
            return  # what is wrong there is a batch with a valid checksum
        if self._passed < len(self._damages) and self._damages[self._passed] < (number, first.position):
            self._close((first_offset_of(first, self._limits), first.header.first_timestamp))
            while self._passed < len(self._damages) and self._damages[self._passed] < (number, first.position):
                self._passed += 1
        self._before = number, last.last_offset, last.header.max_timestamp

    def _close(self, after: tuple[int, int] | None) -> None:
        place = self._damages[self._passed]
        number, last_before, newest = self._before or (-1, 0, NO_TIMESTAMP)
        if number != place[0]:
            last_before, newest = self._segments[place[0]].base_offset - 1, NO_TIMESTAMP
        first_after, oldest = after or (None, NO_TIMESTAMP)
        if first_after is not None and first_after <= last_before + 1:
            return
        last = None if first_after is None else first_after - 1
        times = (moment if moment >= 0 else None for moment in (newest, oldest))
        self._unread[place] = Unread(last_before + 1, last, *times)

    def unread(self) -> dict[tuple[str, int], Unread | None]:
        """Return the unread offsets by path and position of the damage. A damage is missing if the batches around it
        leave no offset out, or if no valid batch separates it from the damage before it.
        """
        if self._passed < len(self._damages):
            self._close(None)
        return {(self._segments[number].path, position): unread for (number, position), unread in self._unread.items()}


class _Count:
    """Counts batches and their data records, one by one or in runs, in `found`. Records below offset `log_start` and
    records with repeated offsets are not counted.
    """

    def __init__(self, log_start: int, around: _Around, limits: Limits) -> None:
        self._limits = limits
        self._next_offset = log_start
        self._around = around
        self.found = BehindDamage()

    def take(self, run: AnyRun, segment: Segment, *, is_behind: bool) -> None:
        """Process the next run of batches. If `is_behind` is True, because the run is after the first damage, its
        batches and its data records with new offsets are counted. A batch whose offsets do not fit the segment is
        ignored, because no consumer reads it. Records of an unknown codec are not counted.
        """
        at_the_end = run.next_offset > NO_OFFSET_LIMIT  # of all offsets, where nobody reads a batch
        if len(run) == 1 or run.first_offset < self._next_offset or not run.are_codecs_known or at_the_end:
            for batch in run:
                self._one(batch, segment, is_behind=is_behind)
            return
        self._around.met(segment, run.batch(0), run.batch(len(run) - 1))
        self._next_offset = max(self._next_offset, run.next_offset)
        if is_behind:
            self._add(segment, len(run), run.data_records())

    def _one(self, batch: RecordBatch, segment: Segment, *, is_behind: bool) -> None:
        """Process the next batch, as `take` does."""
        header = batch.header
        last = header.last_offset
        first = header.first_offset
        if out_of_place(header.magic, first, last, segment.base_offset) is not None:
            return  # nobody reads it
        self._around.met(segment, batch, batch)
        records = self._records(batch, first) if is_behind else 0
        if last - segment.base_offset <= MAX_RELATIVE_OFFSET:  # else lower ones may follow, which are new all the same
            self._next_offset = max(self._next_offset, last + 1)
        if is_behind:
            self._add(segment, 1, records)

    def _records(self, batch: RecordBatch, first: int) -> int:
        header = batch.header
        codec = header.attributes & CODEC_MASK
        if header.last_offset < self._next_offset or not is_known_codec(codec, header.magic):
            return 0
        if isinstance(header, BatchHeader):
            if header.attributes & CONTROL_FLAG:
                return 0
            if first >= self._next_offset:
                return max(header.records_count, 0)
        elif not codec:
            return 1
        return sum(record.offset >= self._next_offset for record in decode_batch(batch, limits=self._limits).records)

    def _add(self, segment: Segment, batches: int, records: int) -> None:
        behind = self.found
        behind.batches += batches
        behind.records += records
        behind.next_offset = max(behind.next_offset, self._next_offset)
        before = behind.of(segment)
        behind.by_segment[segment.path] = (before[0] + batches, before[1] + records)


def tell_what_is_behind(
    findings: list[Finding],
    segments: Sequence[Segment],
    *,
    log_start: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    more: str = "",
) -> BehindDamage | None:
    """Read the log from the first damage in `findings` on. Return the number of valid batches and data records after
    it, in total and by segment (path of the log file). Not counted are records that are below offset `log_start`, have
    repeated offsets or an unknown codec, and batches whose offsets do not fit their segment. Return None if `findings`
    has no damage in these segments that ends reading. A batch with only a wrong base offset does not count as damage
    here.

    Changes `findings` in place. If batches follow the first damage, the counts and `more` are added to its text. A
    damage without a last offset gets its unreadable offsets, if they are known. Raises `StorageError` if a file cannot
    be read, and no other error.
    """
    numbers = {segment.path: number for number, segment in enumerate(segments)}
    damages = {
        (numbers[finding.file], finding.position): place
        for place, finding in reversed(list(enumerate(findings)))
        if finding.code in _ENDING and finding.file in numbers and finding.position is not None
    }
    if not damages:
        return None
    first, position = min(damages)
    around = _Around(damages, segments, limits)
    count = _Count(log_start, around, limits)
    reader = BatchReader(segments[first:], through_damage=True, limits=limits)
    for run in reader.by_run():
        segment = reader.segment
        if segment is None:
            continue
        parts = run.split_after(position) if segment is segments[first] else (run,)
        for part in parts:
            is_behind = segment is not segments[first] or part.position(0) > position
            count.take(part, segment, is_behind=is_behind)
    unread = around.unread()
    for place in damages.values():
        finding = findings[place]
        if finding.last_offset is None:  # else it is a batch that tells its offsets
            findings[place] = replace(finding, unread=unread.get((finding.file or "", finding.position or 0)))
    if count.found.batches:
        finding = findings[damages[first, position]]
        findings[damages[first, position]] = replace(finding, detail=f"{finding.detail}; {count.found}{more}")
    return count.found
