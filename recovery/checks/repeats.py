"""Detect batches that every reader skips because their offsets are repeated, and whose content exists nowhere else in
the segment.

A retried append leaves a batch twice, and nothing is missing then. A batch with other bytes holds records that no
consumer gets: its base offset, which no checksum covers, was lowered by damage, or parts of two logs were joined.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.source import Source
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.plain.scanner import Scanner

__all__ = ["Repeats"]

_MOST = 100_000
"""Most batches that are compared; further ones are ignored."""
_Same = tuple[int, int, int, int]


class Repeats:
    """Batches of one segment that readers skip because their offsets are repeated. `unlike` reports the batches that
    have no copy in the segment.
    """

    def __init__(self) -> None:
        self._met: dict[_Same, int] = {}
        self._told = range(0)

    def told(self, offsets: range) -> None:
        """Note that a finding about a gap of these offsets has already announced batches that come late."""
        self._told = offsets

    def met(self, batch: RecordBatch) -> None:
        """Add a batch that readers skip because its offsets are repeated. It is ignored if it holds no records, is a
        control batch, or lies within the gap passed to `told`. Once 100,000 different batches were added, all others
        are ignored.
        """
        header = batch.header
        holds_records = not isinstance(header, BatchHeader) or (header.records_count > 0 and not header.is_control)
        is_told = header.first_offset in self._told and header.last_offset in self._told
        if holds_records and not is_told and len(self._met) < _MOST:
            self._met.setdefault(_key(batch), batch.position)

    def unlike(self, source: Source, end: int, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[Finding]:
        """Yield one OFFSET_DISPLACED warning if some of the added batches have no copy in the segment. It has the
        position and offsets of the first such batch, and the number of the others. All batches before byte position
        `end` are read again for this, unless no batch was added. Raises `StorageError` if the segment cannot be read.
        """
        if not self._met:
            return
        copied = set()
        for batch in Scanner(source, end=end, limits=limits):
            key = _key(batch)
            if self._met.get(key, batch.position) != batch.position:
                copied.add(key)
        others = [(key, position) for key, position in self._met.items() if key not in copied]
        if others:
            (first, last, _, _), position = others[0]
            more = f", and {len(others) - 1} such batches after it" if len(others) > 1 else ""
            detail = f"offsets {first} to {last} after higher ones, in a batch unlike any that stands there{more}: no"
            detail += " consumer gets its records; no checksum covers its base offset, which may be wrong"
            yield Finding(FindingCode.OFFSET_DISPLACED, Severity.WARNING, position, first, detail)


def _key(batch: RecordBatch) -> _Same:
    header = batch.header
    return header.first_offset, header.last_offset, header.crc, batch.size
