"""Find the next genuine batch of a log after damage. A Kafka log can be stored inside the values of another one, so
valid batches with correct checksums may be content: a checksum alone proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import chain, takewhile

from msgspec import Struct

from kafkalog.codec.common.findings import StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.source import Source, Window, next_data
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, AnyHeader, BatchHeader, RecordBatch
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.scanner import Scanner, offset_behind
from kafkalog.codec.rules.batches import NO_OFFSET_LIMIT
from kafkalog.codec.rules.framing import BATCH_CRC_START, MAGIC_POSITION, SMALLEST_MESSAGE, entry_size

__all__ = ["Expected", "Resync"]

_EFFORT = 64
"""Most bytes checked for each byte searched: crafted headers must not make the search quadratic."""
_DEEPEST = 200
"""Most consecutive damaged places that a proof may pass."""
_ZEROS = bytes(LOG_OVERHEAD.size)
_OTHER_BYTE = re.compile(rb"[^\0]")
_V2 = 2
_LENGTH_BITS = 32
_FEW_OFFSETS = 1 << 16
_MAGIC_BYTE = b"\x02"
_PIECE = 1 << 20


class Expected(Struct, frozen=True):
    """Offsets that a batch after the damage must have: from `next_offset` to `end_offset` (exclusive)."""

    next_offset: int
    end_offset: int

    @classmethod
    def in_segment(cls, next_offset: int, next_segment: int | None) -> Expected:
        """Return the offsets for a segment. `next_segment` is the base offset of the next one; None if this is the
        last.
        """
        return cls(next_offset, NO_OFFSET_LIMIT if next_segment is None else next_segment)

    @property
    def is_in_last_segment(self) -> bool:
        """Whether no later segment bounds the offsets."""
        return self.end_offset == NO_OFFSET_LIMIT


def _is_plausible(header: AnyHeader, expected: Expected) -> bool:
    if not isinstance(header, BatchHeader):
        return header.magic < _V2 and expected.next_offset <= header.last_offset < expected.end_offset
    return (
        header.magic == _V2
        and expected.next_offset <= header.base_offset
        and header.last_offset_delta >= 0
        and header.last_offset < expected.end_offset
        and 0 <= header.records_count <= header.last_offset_delta + 1
        and 0 <= header.attributes < 1 << 7
        and header.size >= BATCH.size
    )


def _behind(header: AnyHeader, expected: Expected) -> Expected:
    """Return the offsets that the batch after this one must have."""
    return Expected(header.last_offset + 1, expected.end_offset)


def _candidates(source: Source, start: int, expected: Expected) -> Iterator[int]:
    """Yield the positions of possible v2 batches from `start` on, by the magic byte."""
    return (find - MAGIC_POSITION for find in _finds(source, start + MAGIC_POSITION, _MAGIC_BYTE))


def _old_candidates(source: Source, start: int, expected: Expected) -> Iterator[int]:
    """Yield the positions of possible v0 and v1 entries from `start` on, in ascending order. An entry begins with its
    offset. So a position qualifies if its first six bytes are equal to the first six bytes of the expected offset, or
    to that value plus 1.
    """
    high = max(expected.next_offset, 0) >> 16  # an entry may claim an offset below zero
    positions = [_finds(source, start, prefix.to_bytes(6, "big")) for prefix in (high, high + 1) if prefix < 1 << 47]
    return merge(*positions)


def _all_candidates(source: Source, start: int, expected: Expected) -> Iterator[int]:
    """Yield the positions of possible batches of any magic from `start` on."""
    return merge(_candidates(source, start, expected), _old_candidates(source, start, expected))


def _finds(source: Source, start: int, wanted: bytes) -> Iterator[int]:
    base = start
    while base < source.size:
        # behind an offset of zeros comes a size, which is none
        reach = len(wanted) if any(wanted) else LOG_OVERHEAD.size
        base = max(next_data(source, base, source.size) - reach + 1, base)
        piece = bytes(source.read(base, _PIECE))
        found = piece.find(wanted)
        while found >= 0:
            if piece.startswith(_ZEROS, found):  # a size comes before so many zeros end
                other = _OTHER_BYTE.search(piece, found)
                found = (len(piece) if other is None else other.start()) - len(_ZEROS) + 1
                found = piece.find(wanted, max(found, 0))
                if found < 0:
                    break
            yield base + found
            found = piece.find(wanted, found + 1)
        if len(piece) < len(wanted) or base + len(piece) >= source.size:
            return
        base += len(piece) - len(wanted) + 1


def _header_at(window: Window, position: int, size: int) -> BatchHeader | None:
    if position + BATCH.size > size:
        return None
    view = window.view(position, BATCH.size)
    return BatchHeader(*BATCH.struct.unpack_from(view)) if len(view) >= BATCH.size else None


def _chain_end(
    source: Source, position: int, expected: Expected, limits: Limits
) -> tuple[int, StopReason, RecordBatch | None]:
    """Follow the chain of valid batches that begins at `position`. Each batch must have offsets that plausibly continue
    the batch before it. Return the byte position of the chain's end, the reason for its end, and its last batch. If the
    chain is empty, the position is `position` and the batch is None. If it ends at a valid batch that is not plausible,
    the reason is CORRUPT. Raises `StorageError` if the log cannot be read.
    """
    scanner = Scanner(source, position=position, limits=limits)
    last: RecordBatch | None = None
    following = expected
    for batch in scanner:
        header = batch.header
        if not _is_plausible(header, following):
            return batch.position, StopReason.CORRUPT, last
        following = _behind(header, following)
        last = batch
    return scanner.valid_bytes, scanner.stop or StopReason.END, last


class Resync:
    """Search for the continuation of one log after damage. Positions that were proven, and the remaining effort, are
    remembered between searches. Batches larger than `limits` are not examined. The search ends without result if the
    source becomes shorter. All methods that search raise `StorageError` if the log cannot be read.
    """

    def __init__(self, source: Source, limits: Limits = DEFAULT_LIMITS) -> None:
        self.source = source
        self._limits = limits
        self._window = Window(source, limits.read_window_bytes)
        self._proven: set[int] = set()
        self._mended: dict[int, int | None] = {}
        self._torn: dict[int, bool] = {}
        self._effort = _EFFORT * source.size

    def next_batch(self, damaged_at: int, expected: Expected, *, end: int | None = None) -> int | None:
        """Return the byte position of the first batch after the damaged one at `damaged_at` that provably continues the
        log and begins before `end` (None: end of file). Return None if there is none or the search takes too long.
        `expected` has the offsets that the batch may have.

        The end by the length of the damaged batch, also with one bit corrected, is tried first. If a proven batch
        begins there, the bytes inside the damaged batch are not examined.
        """
        end = self.source.size if end is None else end
        position = self._behind_own_end(damaged_at, expected)
        if position is None:
            position = self._search(damaged_at, expected, _DEEPEST, end)
        return None if position is None or position >= end else position

    def _behind_own_end(self, position: int, expected: Expected) -> int | None:
        """Follow the lengths of damaged v2 batches from byte position `position` to the first valid batch, over at most
        `_DEEPEST` of them, and return its position. If flipping one bit of a length makes the checksum right, the
        corrected length is followed. Return None if there is no valid batch or its offsets are not the expected ones.
        The valid batch must be followed by a header with a higher offset, or by no valid v2 batch at all; otherwise
        return None.
        """
        for _ in range(_DEEPEST):
            header = _header_at(self._window, position, self.source.size)
            has_end = header is not None and header.magic == _V2 and header.size >= BATCH.size
            own_end = position + header.size if header is not None and has_end else None
            is_right = header is not None and own_end is not None and self._is_followed(header, own_end)
            behind = own_end if is_right else self._mended_end(position) or own_end
            if behind is None:
                return None
            if behind >= self.source.size:
                return None
            batch = next(iter(Scanner(self.source, position=behind, limits=self._limits)), None)
            if batch is not None:
                following = offset_behind(self.source, behind + batch.size)
                goes_on = following is not None and following > batch.last_offset
                is_behind = goes_on or self._is_torn_tail(behind + batch.size)
                return behind if is_behind and _is_plausible(batch.header, expected) else None
            position = behind
        return None

    def _is_followed(self, header: BatchHeader, end: int) -> bool:
        """Whether the batch at position `end` begins with the offset after this header's, so that the header's length
        is right.
        """
        behind = _header_at(self._window, end, self.source.size)
        return behind is not None and behind.magic == _V2 and behind.base_offset == header.next_offset

    def behind_mended(self, position: int) -> int | None:
        """Return the position of a batch with a valid checksum that follows the damaged one at `position`, if flipping
        one bit of that one's length makes its checksum right; otherwise None. The following batch's header may hold
        impossible values: even then the log does not end inside the damaged batch.
        """
        end = self._mended_end(position)
        if end is None or end >= self.source.size:
            return None
        return None if next(iter(Scanner(self.source, position=end, limits=self._limits)), None) is None else end

    def _mended_end(self, position: int) -> int | None:
        """Return the byte position of the batch's end if its checksum is right after flipping one bit of its length;
        otherwise None.
        """
        if position not in self._mended:
            self._mended[position] = self._mend(position)
        return self._mended[position]

    def _mend(self, position: int) -> int | None:
        source = self.source
        header = _header_at(self._window, position, source.size)
        if header is None or header.magic != _V2:
            return None
        length = header.batch_length & 2**_LENGTH_BITS - 1  # its sign may be the bit
        sizes = (LOG_OVERHEAD.size + (length ^ 1 << bit) for bit in range(_LENGTH_BITS))
        most = min(source.size - position, self._limits.batch_bytes)
        ends = sorted(position + size for size in sizes if BATCH.size <= size <= most)
        return self._end_with_checksum(position, header.crc, ends)

    def _end_with_checksum(self, position: int, wanted: int, ends: Iterable[int]) -> int | None:
        """Return the first of the increasing positions `ends` at which the batch that begins at `position` has the
        checksum `wanted` (CRC-32C); a position whose previous byte is in a hole is skipped. Return None if there is
        none, or the search takes too long. The remaining effort is reduced by the number of bytes read.
        """
        position_read, crc = position + BATCH_CRC_START, 0
        for end in ends:
            if next_data(self.source, end - 1, end) == end:
                continue  # nobody wrote a batch that ends in a hole
            while position_read < end:
                data = self.source.read(position_read, min(end - position_read, _PIECE))
                self._effort -= len(data)
                if not data or self._effort < 0:
                    return None
                crc, position_read = crc32c(data, crc), position_read + len(data)
            if crc == wanted:
                return end
        return None

    def _search(self, damaged_at: int, expected: Expected, depth: int, end: int) -> int | None:
        source = self.source
        head = self._window.view(damaged_at, LOG_OVERHEAD.size)
        if len(head) == LOG_OVERHEAD.size:
            size = entry_size(head, 0)
            behind = damaged_at + size
            if size > LOG_OVERHEAD.size and behind < source.size and self._is_proven(behind, expected, depth):
                return behind if behind < end else None
        proven_end = self._proven_end(damaged_at)
        own_end = self._own_end(damaged_at) if proven_end is None else proven_end
        following = self._offset_behind_tail(damaged_at, expected)
        is_open = following is None or not expected.is_in_last_segment
        candidates = self._candidates(damaged_at)
        is_trusted = proven_end is not None or self._is_next(damaged_at, expected)
        begin = own_end if own_end is not None and is_trusted else damaged_at + 1
        for position in candidates(source, begin, expected):
            if self._effort < 0 or position >= end:
                return None
            head = self._window.view(position, MAGIC_POSITION + 1)
            if len(head) <= MAGIC_POSITION:
                return None
            size = entry_size(head, 0)
            if size < LOG_OVERHEAD.size + SMALLEST_MESSAGE or position + size > source.size:
                continue
            header = _header_at(self._window, position, source.size)
            if head[MAGIC_POSITION] == _V2 and (header is None or not _is_plausible(header, expected)):
                continue
            self._effort -= size
            is_next = header is not None and header.base_offset == following  # the claimed length is wrong then
            is_behind = is_next or (own_end is not None and position >= own_end)
            if not self._is_proven(position, expected, depth, is_behind=is_behind):
                continue
            if is_open or is_next:
                return position
            if _chain_end(source, position, expected, self._limits)[1] in (StopReason.END, StopReason.ZERO_TAIL):
                return position
        return None

    def _proven_end(self, position: int) -> int | None:
        """Return the end of the damaged batch at byte position `position` if a corrected length or its checksum shows
        it; otherwise None.
        """
        end = self._mended_end(position)
        return self._end_by_checksum(position) if end is None else end

    def _end_by_checksum(self, position: int) -> int | None:
        """Return the end of the v2 batch at byte position `position`, found by its checksum. Each possible start of
        another batch is tried, and then the end of the file. Return None if the checksum is right with none of them, it
        is not a v2 batch, or the search takes too long.
        """
        source = self.source
        header = _header_at(self._window, position, source.size)
        if header is None or header.magic != _V2:
            return None
        most = min(source.size, position + self._limits.batch_bytes)
        begins = _candidates(source, position + BATCH.size, Expected(0, NO_OFFSET_LIMIT))
        ends = takewhile(lambda end: end <= most, chain(begins, [source.size]))
        return self._end_with_checksum(position, header.crc, ends)

    def _is_next(self, position: int, expected: Expected) -> bool:
        """Whether a damaged batch has a plausible header, or begins at the expected offset."""
        header = _header_at(self._window, position, self.source.size)
        if header is None or header.magic != _V2:
            return False
        return header.base_offset == expected.next_offset or _is_plausible(header, expected)

    def _own_end(self, position: int) -> int | None:
        """Return the end that a damaged batch claims; None if it is impossible or beyond the file."""
        head = self._window.view(position, LOG_OVERHEAD.size)
        size = entry_size(head, 0) if len(head) == LOG_OVERHEAD.size else 0
        is_there = LOG_OVERHEAD.size + SMALLEST_MESSAGE <= size <= self.source.size - position
        return position + size if is_there else None

    def _offset_behind_tail(self, position: int, expected: Expected) -> int | None:
        """Return the offset after the damaged batch at byte `position`. Return None unless its length goes beyond the
        end of the file, and its header is plausible and has the expected offset.

        Everything up to the end of the file may be content of this batch, even valid batches of a log in a record's
        value. The last segment was never compacted, so a genuine next batch begins at the returned offset.
        """
        header = _header_at(self._window, position, self.source.size)
        if header is None or position + header.size <= self.source.size:
            return None
        is_next = header.base_offset == expected.next_offset and _is_plausible(header, expected)
        return header.next_offset if is_next else None

    def _candidates(self, damaged_at: int) -> Callable[[Source, int, Expected], Iterator[int]]:
        """Return the function that yields the positions of possible batches. If the log's first entry is v0 or v1, the
        function looks for entries of any magic by their offsets. After an upgrade v2 batches may follow. Otherwise it
        looks for v2 batches only, by their magic byte. If the first entry is the damaged one, it looks for both.
        """
        if damaged_at == 0:
            return _all_candidates
        head = self._window.view(0, MAGIC_POSITION + 1)
        is_old = len(head) > MAGIC_POSITION and head[MAGIC_POSITION] < _V2
        return _old_candidates if is_old else _candidates

    def _is_proven(self, position: int, expected: Expected, depth: int, *, is_behind: bool = False) -> bool:
        """Return whether the batches from byte position `position` genuinely continue the log. Their offsets must be
        plausible. They must end at the end of the log, at an unfinished tail, or at further damage after which the log
        continues. Up to `depth` such damages are searched in turn. `is_behind` says that the damaged batch ends at or
        before the position, by its length, its checksum or the offset at the position. The batches may then also be
        followed by bytes without any valid batch.

        Reduces the remaining effort and remembers proven positions. For a proven position, only the first batch is
        checked again.
        """
        if position in self._proven:
            first = next(iter(Scanner(self.source, position=position, limits=self._limits)), None)
            return first is not None and _is_plausible(first.header, expected)
        end, stop, last = _chain_end(self.source, position, expected, self._limits)
        self._effort -= end - position + BATCH.size
        if last is None:
            return False
        if self._ends_well(end, stop, last.header, expected, depth) or (is_behind and self._is_torn_tail(end)):
            self._proven.add(position)
            return True
        return False

    def _is_torn_tail(self, position: int) -> bool:
        """Return whether no valid v2 batch begins at or after byte position `position`, so that the rest is an
        incomplete tail. Return False if one does, or if the search takes too long. Reduces the remaining effort, and
        remembers the answer.
        """
        if position not in self._torn:
            self._torn[position] = self._has_no_batch(position)
        return self._torn[position]

    def _has_no_batch(self, position: int) -> bool:
        for candidate in _candidates(self.source, position, Expected(0, NO_OFFSET_LIMIT)):
            head = self._window.view(candidate, MAGIC_POSITION + 1)
            size = entry_size(head, 0) if len(head) > MAGIC_POSITION else 0
            if size < BATCH.size or candidate + size > self.source.size:
                continue
            self._effort -= size
            if self._effort < 0 or next(iter(Scanner(self.source, position=candidate, limits=self._limits)), None):
                return False
        return True

    def _ends_well(self, end: int, stop: StopReason, last: AnyHeader, expected: Expected, depth: int) -> bool:
        source = self.source
        if stop in (StopReason.END, StopReason.ZERO_TAIL):
            return True
        after = _behind(last, expected)
        if end + LOG_OVERHEAD.size >= source.size:
            return True  # fewer bytes than a header to the end: a torn tail
        head = bytes(self._window.view(end, MAGIC_POSITION + 1))
        if len(head) <= MAGIC_POSITION:
            return True
        offset, length = LOG_OVERHEAD.struct.unpack_from(head)
        behind = end + LOG_OVERHEAD.size + length
        continues = _may_follow(last, offset, head[-1], after.next_offset)
        if length > 0 and behind >= source.size and continues:
            return True  # the last batch, torn or damaged
        if length > 0 and behind < source.size and _chain_end(source, behind, after, self._limits)[2] is not None:
            return True
        if depth == 0 or not (continues or _is_hole(source, end)):
            return False
        return self._search(end, after, depth - 1, source.size) is not None


def _may_follow(last: AnyHeader, offset: int, magic: int, next_offset: int) -> bool:
    """Whether offset and magic of a damaged batch can come after `last`."""
    if isinstance(last, BatchHeader):
        return magic == _V2 and offset == next_offset
    return magic < _V2 and next_offset <= offset < next_offset + _FEW_OFFSETS


def _is_hole(source: Source, position: int) -> bool:
    """Whether zeros are in place of a header, as on a disk that lost a write. Raises `StorageError` if the log cannot
    be read.
    """
    end = min(position + BATCH.size, source.size)
    return next_data(source, position, end) == end or not any(source.read(position, end - position))
