"""When records were written that damage took, and how many of them can still be made out by eye.

What a damaged header says is a claim: its checksum does not fit.  Files are read again here, a header for each batch,
and only for the places that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kafkalog.codec.errors import KafkaLogError
from kafkalog.codec.finding_codes import Trait, codes_with
from kafkalog.codec.findings import BatchOutline, Finding, FindingCode, outline_of
from kafkalog.codec.framing import BATCH_MAGIC, MAGIC_POSITION, entry_size
from kafkalog.codec.index_files import OFFSET_ENTRY, OffsetEntry
from kafkalog.codec.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.model import BATCH, BatchHeader
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain import PLAIN
from kafkalog.codec.wording import moment_text
from kafkalog.log.disk.files import FileSource, read_small
from kafkalog.recovery.decide.ways import LostRange
from kafkalog.recovery.explain.before_damage import records_before_damage

__all__ = ["LostBatch", "is_of_batch", "lost_batch_at", "when_written"]

_WALKED = 1 << 16
"""Headers that are read at most on the way to a damaged place."""
_NEAR = MIB
"""Bytes from the start of a segment that are walked over without asking the index for a later place to begin at."""
_INDEX_BYTES = 16 * MIB
_BY_EYE_BYTES = 16 * MIB
"""A larger batch is not decoded here."""
_MOST_OFFSETS = 1 << 24
"""in one batch whose header is believed: more than fit into the largest that a broker takes"""
_OF_BATCHES = codes_with(Trait.TAIL | Trait.NO_BATCH) - {FindingCode.LIMIT_EXCEEDED}


class LostBatch(Struct, frozen=True):
    """What the bytes at a damaged place of a log tell."""

    outline: BatchOutline | None = None
    """what the header there claims; None if no batch of magic 2 with such a header can be there"""
    newest_before: int | None = None
    """largest timestamp of the sound batch before it in the segment, in ms; None if that is not known"""
    by_eye: int = 0
    """records that decode although nothing proves them"""
    next_offset: int | None = None
    """the offset after the batch before it; None if that is not known"""

    def holds(self, lost: LostRange) -> bool:
        """Whether the range begins in this batch, or where the log is damaged and the header tells no offset."""
        if self.outline is not None:
            return self.outline.first_offset <= lost.first <= self.outline.last_offset
        return self.next_offset is not None and self.next_offset == lost.first

    @property
    def since(self) -> str:
        """When the batch was written, in words; empty if that is not known."""
        if self.outline is not None and self.outline.times:
            return f"{self.outline.times} by its header"
        return "" if self.newest_before is None else f"after {moment_text(self.newest_before)}"


def is_of_batch(finding: Finding) -> bool:
    """Whether a finding is about a place in a log at which a batch is, or was."""
    return finding.code in _OF_BATCHES and finding.file is not None and finding.position is not None


def lost_batch_at(path: str, position: int) -> LostBatch:
    """What is known of the batch at a damaged place of a segment; nothing if the file cannot be read."""
    try:
        with FileSource(path) as source:
            before = _header_before(source, path, position)
            outline = _outline(source, position)
            if before is None:
                return LostBatch(outline, by_eye=_by_eye(source, position))
            if outline is not None and outline.first_offset <= before.last_offset:
                outline = None
            newest = before.max_timestamp if before.max_timestamp >= 0 else None
            return LostBatch(outline, newest, _by_eye(source, position), before.last_offset + 1)
    except (KafkaLogError, OSError):
        return LostBatch()


def when_written(lost: LostRange, batches: Sequence[LostBatch]) -> str:
    """When a lost range was written, in words; empty if none of the damaged batches of its partition tells."""
    return next((batch.since for batch in batches if batch.since and batch.holds(lost)), "")


def _outline(source: FileSource, position: int) -> BatchOutline | None:
    header = _header(source, position)
    outline = None if header is None else outline_of(header)
    if outline is None or not outline.is_possible or outline.last_offset - outline.first_offset >= _MOST_OFFSETS:
        return None
    return outline


def _header(source: FileSource, position: int) -> BatchHeader | None:
    data = source.read(position, BATCH.size)
    return PLAIN.batch_header(data, 0) if len(data) == BATCH.size and data[MAGIC_POSITION] == BATCH_MAGIC else None


def _by_eye(source: FileSource, position: int) -> int:
    head = source.read(position, BATCH.size)
    if len(head) < BATCH.size or not BATCH.size <= entry_size(head, 0) <= _BY_EYE_BYTES:
        return 0
    return len(records_before_damage(source.read(position, entry_size(head, 0)), position, DEFAULT_LIMITS).records)


def _header_before(source: FileSource, path: str, position: int) -> BatchHeader | None:
    """The header of the batch that ends where the damage begins; None if no walk leads there."""
    place, header = _start_before(path, position), None
    for _ in range(_WALKED):
        if place >= position:
            break
        header = _header(source, place)
        if header is None or header.size < BATCH.size:
            return None
        place += header.size
    return header if place == position else None


def _start_before(path: str, position: int) -> int:
    """Where a batch begins at or before a position, by the index if that is far into the segment."""
    if position <= _NEAR:
        return 0
    try:
        index = read_small(f"{path.removesuffix(FileKind.LOG.value)}{FileKind.OFFSET_INDEX.value}", _INDEX_BYTES)
    except (KafkaLogError, OSError):
        return 0
    return max((entry for entry in _positions(index) if entry < position), default=0)


def _positions(index: bytes) -> Iterator[int]:
    whole = len(index) - len(index) % OFFSET_ENTRY.size
    for entry in OFFSET_ENTRY.struct.iter_unpack(index[:whole]):
        yield OffsetEntry(*entry).position
