"""Estimate when records lost to damage were written, and how many of them can still be decoded.

A damaged header is only a claim, because its checksum does not match. Files are read again, a header for each batch,
and only for the places that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import BatchOutline, Finding, FindingCode, outline_of
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.common.wording import moment_text
from kafkalog.codec.files.index_files import OFFSET_ENTRY, OffsetEntry
from kafkalog.codec.model import BATCH, BatchHeader
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.rules.framing import BATCH_MAGIC, MAGIC_POSITION, entry_size
from kafkalog.log.disk.files import FileSource, read_small
from kafkalog.recovery.decide.ways import LostRange
from kafkalog.recovery.explain.before_damage import records_before_damage

__all__ = ["LostBatch", "is_of_batch", "lost_batch_at", "when_written"]

_WALKED = 1 << 16
"""Most headers that are read on the way to a damaged place."""
_NEAR = MIB
"""Bytes from the start of a segment that are walked without asking the index for a later start."""
_INDEX_BYTES = 16 * MIB
_BY_EYE_BYTES = 16 * MIB
"""Largest batch in bytes that is decoded here."""
_MOST_OFFSETS = 1 << 24
"""most offsets of a batch whose header is believed: more than fit into the largest that a broker accepts"""
_OF_BATCHES = codes_with(Trait.TAIL | Trait.NO_BATCH) - {FindingCode.LIMIT_EXCEEDED}


class LostBatch(Struct, frozen=True, kw_only=True):
    """Facts from the bytes at a damaged place of a log."""

    outline: BatchOutline | None = None
    """the header's claims; None if no batch of magic 2 with such a header can be there"""
    newest_before: int | None = None
    """largest timestamp of the sound batch before it in the segment, in ms since 1970; None if unknown"""
    by_eye: int = 0
    """number of records that can be decoded, although nothing proves them"""
    next_offset: int | None = None
    """offset after the batch before it; None if unknown"""

    def holds(self, lost: LostRange) -> bool:
        """Whether the lost range begins in this batch or, without a readable header, at the damage."""
        if self.outline is not None:
            return self.outline.first_offset <= lost.first <= self.outline.last_offset
        return self.next_offset is not None and self.next_offset == lost.first

    @property
    def since(self) -> str:
        """Text of the time at which the batch was written; empty if unknown."""
        if self.outline is not None and self.outline.times:
            return f"{self.outline.times} by its header"
        return "" if self.newest_before is None else f"after {moment_text(self.newest_before)}"


def is_of_batch(finding: Finding) -> bool:
    """Whether a finding is about a place in a log at which a batch is, or was."""
    return finding.code in _OF_BATCHES and finding.file is not None and finding.position is not None


def lost_batch_at(path: str, position: int) -> LostBatch:
    """Return facts about the damaged place at byte `position` of the segment's log file `path`. They are the largest
    timestamp of the batch before the place, the offset after that batch, and the claims of the damaged header. The last
    fact is the number of records that can be decoded although nothing proves them. A fact that cannot be determined is
    None, or 0 for the number. The claims are ignored if their first offset is not above the batch before. Return an
    empty `LostBatch` if the file cannot be read.
    """
    try:
        with FileSource(path) as source:
            before = _header_before(source, path, position)
            outline = _outline(source, position)
            if before is None:
                return LostBatch(outline=outline, by_eye=_by_eye(source, position))
            if outline is not None and outline.first_offset <= before.last_offset:
                outline = None
            newest = before.max_timestamp if before.max_timestamp >= 0 else None
            return LostBatch(
                outline=outline,
                newest_before=newest,
                by_eye=_by_eye(source, position),
                next_offset=before.last_offset + 1,
            )
    except (KafkaLogError, OSError):
        return LostBatch()


def when_written(lost: LostRange, batches: Sequence[LostBatch]) -> str:
    """Text of the time at which a lost range was written, from the damaged batches; empty if unknown."""
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
    """Return the header of the batch that ends exactly at byte `position`. Headers are read forward from the last index
    entry before it, or from the start of the segment. Return None if no batch ends at `position`, or if a header is not
    of a batch of magic 2. Return None too if more than `_WALKED` headers would have to be read. Raises `StorageError`
    if the file cannot be read.
    """
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
    """Return the byte position from which to read forward to `position`: the position of the last entry in the offset
    index that lies before it. Return 0 if `position` is at most `_NEAR` bytes into the segment, or if the index has no
    such entry or cannot be read.
    """
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
