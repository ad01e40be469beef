"""Going on behind damage: bits turned back where that is proven, and the log resumed at the next proven batch.

What `safe` would cut away is looked through here.  Everything that is kept passed the same checks as anything else;
what is lost is reported as exact offset ranges.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.scan import Scanner
from kafkalog.codec.source import BufferSource, Source
from kafkalog.log.resync import TAILS, Expected, Resync
from kafkalog.log.storage.content import Literal, Part, join
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.bitrepair import Neighbors, Proof, repair_at
from kafkalog.recovery.soundness import Cut, SoundLog, log_segments, offset_problem, tail_or_damage

__all__ = ["salvage"]

_NO_END = 2**63 - 1


@dataclass(slots=True)
class _Stop:
    """Where and why a stretch of sound batches ended."""

    position: int
    code: FindingCode
    detail: str
    is_tail: bool


class _Salvage:
    def __init__(self, tree: Tree, repair: Proof | None, resume: bool) -> None:
        self._tree = tree
        self._repair = repair
        self._resume = resume
        self._last: int | None = None
        self._epoch = -1
        self.result = SoundLog()

    def segment(self, base: int, path: str, next_base: int | None) -> bool:
        """Salvage one segment; False if the log ends in it."""
        source = self._tree.source(path)
        resync = Resync(source)
        parts: list[Part] = []
        position = 0
        goes_on = True
        while True:
            stop = self._stretch(source, position, base, has_later=next_base is not None)
            end = source.size if stop is None else stop.position
            parts += self._tree.files[path].slice(position, end).parts
            if stop is None:
                break
            mended = self._mend(source, path, stop)
            if mended is not None:
                repaired, position = mended
                parts += repaired
                continue
            resumed = self._resumed(resync, stop.position, next_base)
            if resumed is not None:
                self._note_cut(path, stop)
                position = resumed
                continue
            self._note_cut(path, stop)
            goes_on = self._resume or (next_base is None and stop.is_tail)
            break
        content = join(parts)
        self.result.sizes[path] = content.size
        if content != self._tree.files[path].slice(0, content.size):
            self.result.contents[path] = content
        return goes_on

    def _stretch(self, source: Source, start: int, base: int, *, has_later: bool) -> _Stop | None:
        """Take sound batches from a position on; None at the end of the file."""
        scanner = Scanner(source, position=start)
        for batch in scanner:
            header = batch.header
            last = header.last_offset
            first = header.base_offset if isinstance(header, BatchHeader) else last
            problem = offset_problem(header.magic, first, last, base, -1 if self._last is None else self._last)
            if problem is not None:
                return _Stop(batch.position, *problem, is_tail=False)
            self._note_gap(first)
            self._last = last
            self._epoch = max(self._epoch, header.partition_leader_epoch)
            self.result.end_offset = last + 1
        if scanner.stop is StopReason.END:
            return None
        stop = scanner.stop or StopReason.END
        next_offset = 0 if self._last is None else self._last + 1
        finding = tail_or_damage(source, scanner.findings[-1], stop, next_offset, has_later=has_later)
        return _Stop(scanner.valid_bytes, finding.code, finding.detail, stop in TAILS)

    _gap_from: int | None = None

    def _note_gap(self, first: int) -> None:
        """The first batch behind damage says how many offsets are gone."""
        if self._gap_from is not None and first > self._gap_from:
            self.result.lost.append((self._gap_from, first - 1))
        self._gap_from = None

    def _note_cut(self, path: str, stop: _Stop) -> None:
        if self.result.cut is None:
            self.result.cut = Cut(path, stop.position, stop.code, stop.detail)
        self._gap_from = (self._last + 1) if self._last is not None else None

    def _mend(self, source: Source, path: str, stop: _Stop) -> tuple[list[Part], int] | None:
        """The damaged batch with one bit turned over, and the position behind it; None if that is not proven."""
        if self._repair is None or self._last is None:
            return None
        neighbors = Neighbors(self._last + 1, None, self._epoch if self._epoch >= 0 else None)
        found = repair_at(source, stop.position, neighbors)
        if found is None or found[0].proof < self._repair:
            return None
        repair, size = found
        repaired = repair.apply(bytes(source.read(stop.position, size)))
        header = next(iter(Scanner(BufferSource(repaired)))).header
        if not isinstance(header, BatchHeader) or header.base_offset <= self._last:
            return None
        self._last = header.last_offset
        self.result.end_offset = header.next_offset
        detail = (
            f"bit {repair.bit} of byte {repair.position} of the batch ({repair.field}) turned over; proof "
            f"{repair.proof.name}; damage of three or more bits looks like this with probability {repair.chance:.1e}"
        )
        place = stop.position + repair.position
        self.result.repairs.append(
            Finding(FindingCode.CRC_MISMATCH, Severity.WARNING, place, header.base_offset, detail, path)
        )
        content, end = self._tree.files[path], stop.position + size
        byte = Literal(repaired[repair.position : repair.position + 1])  # the only one that differs
        return [*content.slice(stop.position, place).parts, byte, *content.slice(place + 1, end).parts], end

    def _resumed(self, resync: Resync, damaged_at: int, next_base: int | None) -> int | None:
        if not self._resume:
            return None
        expected = Expected(
            0 if self._last is None else self._last + 1, _NO_END if next_base is None else next_base, self._epoch
        )
        return resync.next_batch(damaged_at, expected)


def salvage(
    tree: Tree, directory: str, *, start: int = 0, repair: Proof | None = None, resume: bool = True
) -> SoundLog:
    """What can be kept of a partition from the segment that holds `start` on.

    `repair` is the least proof for turning a bit over (None: never); `resume` goes on behind damage that stays.
    """
    segments = log_segments(tree, directory)
    run = _Salvage(tree, repair, resume)
    first = max((number for number, (base, _) in enumerate(segments) if base <= start), default=0)
    for _base, path in segments[:first]:
        run.result.sizes[path] = tree.files[path].size
    for number, (base, path) in enumerate(segments[first:], first):
        next_base = segments[number + 1][0] if number + 1 < len(segments) else None
        if not run.segment(base, path, next_base):
            break
    return run.result
