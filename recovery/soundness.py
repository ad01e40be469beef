"""Where a log stops being sound: the strict walk that decides what `safe` keeps.

Stricter than the broker where the broker's later starts or its readers would stumble: checksum and size as there, and
also a known magic, a last offset that is not below the base, offsets that increase within and across segments.  What
merely disagrees (gaps, counts, timestamps, epochs, unreadable records) is no reason to cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from kafkalog.codec.findings import Finding, FindingCode, StopReason
from kafkalog.codec.model import AnyHeader, BatchHeader
from kafkalog.codec.names import FileKind, parse_segment_file
from kafkalog.codec.rules import MAGICS
from kafkalog.codec.scan import Scanner
from kafkalog.recovery.broker.tree import Content, Tree

if TYPE_CHECKING:
    from kafkalog.codec.fast.header_runs import HeaderRun

__all__ = ["Cut", "SoundLog", "end_of_last_sound", "log_segments", "offset_problem", "sound_prefix"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the sound part ends inside a partition: everything from here on goes."""

    path: str
    """of the log file"""
    position: int
    code: FindingCode
    detail: str


@dataclass(slots=True)
class SoundLog:
    """The result of a walk over the segments of one partition."""

    cut: Cut | None = None
    end_offset: int | None = None
    """offset behind the last sound batch; None if there is none"""
    sizes: dict[str, int] = field(default_factory=dict)
    """path of each log file -> its sound bytes; files behind the cut are not listed"""
    contents: dict[str, Content] = field(default_factory=dict)
    """path -> what is kept of a log that is not kept from its start on: pieces of it, or a repaired byte"""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """first and last offset of every range that is gone, damage having been passed"""
    repairs: list[Finding] = field(default_factory=list)
    """bits that were turned over, with their proof"""


def log_segments(tree: Tree, directory: str) -> list[tuple[int, str]]:
    """Base offset and path of the canonical log files, by base offset."""
    found = []
    for name in tree.names(directory):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.kind is FileKind.LOG and not parsed.pending:
            found.append((parsed.base_offset, f"{directory}/{name}"))
    return sorted(found)


_LAST_OFFSET = 2**63 - 1
_STOP_CODES = {
    StopReason.TORN_TAIL: FindingCode.TORN_TAIL,
    StopReason.ZERO_TAIL: FindingCode.ZERO_TAIL,
    StopReason.LIMIT: FindingCode.LIMIT_EXCEEDED,
}


def offset_problem(magic: int, first: int, last: int, base: int, before: int | None) -> tuple[FindingCode, str] | None:
    """Why a batch with these offsets is not sound in a segment that begins at `base`, behind offset `before`."""
    if magic not in MAGICS:
        return FindingCode.MAGIC_UNKNOWN, f"magic {magic}"
    if last < first or first < 0:
        return FindingCode.LAST_OFFSET_DELTA_INVALID, f"offsets {first} to {last}"
    if last < base:
        return FindingCode.OFFSET_BELOW_SEGMENT, f"offset {last} in a segment that begins at {base}"
    if before is not None and first <= before:
        return FindingCode.OFFSET_NOT_INCREASING, f"offset {first} behind {before}"
    if last >= _LAST_OFFSET:
        return FindingCode.OFFSET_ABOVE_SEGMENT, f"offset {last} in a segment that begins at {base}"
    return None


def _sound_batches(run: HeaderRun, base: int, before: int | None) -> int:
    """How many batches of a run have offsets without an `offset_problem`, from the first one on."""
    first, last = run["base_offset"], run.last_offsets
    fine = (last >= first) & (first >= 0) & (last >= base) & (last < _LAST_OFFSET)
    fine[1:] &= first[1:] > last[:-1]
    if before is not None:
        fine[0] &= bool(first[0] > before)
    return len(run) if fine.all() else int(fine.argmin())


class _Walk:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._before: tuple[str, int, int, int] | None = None
        """path, position, first offset and last offset of the batch before"""
        self._two_before = -1
        """last offset of the batch before that, or what lies before the segment"""
        self.result = SoundLog()

    def segment(self, base: int, path: str) -> bool:
        """Walk one segment; False if the log ends in it."""
        if self._before is None:
            self._two_before = base - 1
        position = 0
        table = self._tree.headers(path)
        source = self._tree.source(path)
        for run in () if table is None else table.runs(source, source.size):
            if not self._run(path, run, base):
                return False
            position = run.end
        scanner = Scanner(source, position=position)
        for batch in scanner:
            if not self._batch(path, batch.position, batch.header, base):
                return False
        self.result.sizes[path] = scanner.valid_bytes
        if scanner.stop is StopReason.END:
            return True
        stop = scanner.stop or StopReason.END
        finding = scanner.findings[-1]
        self._cut(path, scanner.valid_bytes, _STOP_CODES.get(stop, finding.code), finding.detail)
        return False

    def _batch(self, path: str, position: int, header: AnyHeader, base: int) -> bool:
        """Take in one batch; False if it is not sound."""
        last = header.last_offset
        first = header.base_offset if isinstance(header, BatchHeader) else last
        problem = offset_problem(header.magic, first, last, base, self._before_last)
        if problem is not None:
            code, detail = problem
            if code is FindingCode.OFFSET_NOT_INCREASING and self._before_is_outlier(first):
                self._cut_at_batch_before(f"offset {self._before_last} is far ahead of what follows")
            else:
                self._cut(path, position, code, detail)
            return False
        self._sound(path, position, first, last)
        return True

    def _sound(self, path: str, position: int, first: int, last: int) -> None:
        if self._before is not None:
            self._two_before = self._before[3]
        self._before = (path, position, first, last)
        self.result.end_offset = last + 1

    def _run(self, path: str, run: HeaderRun, base: int) -> bool:
        """Take in many batches; False if one of them is not sound."""
        count = _sound_batches(run, base, self._before_last)
        for number in range(max(count - 2, 0), count):  # only the last two are remembered
            first, last = int(run["base_offset"][number]), int(run.last_offsets[number])
            self._sound(path, int(run.positions[number]), first, last)
        return count == len(run) or self._batch(path, int(run.positions[count]), run.header(count), base)

    @property
    def _before_last(self) -> int | None:
        return None if self._before is None else self._before[3]

    def _before_is_outlier(self, first: int) -> bool:
        """The batch before jumped ahead, and this one goes on somewhere behind the one before that."""
        return self._before is not None and self._before[2] > self._two_before + 1 and first > self._two_before

    def _cut(self, path: str, position: int, code: FindingCode, detail: str) -> None:
        self.result.cut = Cut(path, position, code, detail)
        self.result.sizes[path] = position

    def _cut_at_batch_before(self, detail: str) -> None:
        if self._before is None:
            raise AssertionError(detail)
        path, position, _first, _last = self._before
        for later in [known for known in self.result.sizes if known > path]:
            del self.result.sizes[later]
        self._cut(path, position, FindingCode.OFFSET_NOT_INCREASING, detail)
        self.result.end_offset = self._two_before + 1


def end_of_last_sound(tree: Tree, directory: str) -> int | None:
    """The offset behind the sound batches of the last segment that begins with one; None if there is none.

    What stands behind that segment is walked on to, as far as a sound log would go on there.
    """
    segments = log_segments(tree, directory)
    for number in range(len(segments) - 1, -1, -1):
        if tree.files[segments[number][1]].size == 0:
            continue
        walk = _Walk(tree)
        for base, path in islice(segments, number, None):
            if not walk.segment(base, path):
                break
        if walk.result.end_offset is not None:
            return walk.result.end_offset
    return None


def sound_prefix(tree: Tree, directory: str, *, start: int = 0) -> SoundLog:
    """Walk the segments of a partition from the one that holds `start`; earlier ones count as sound.

    Sizes are bytes.
    """
    segments = log_segments(tree, directory)
    walk = _Walk(tree)
    first = max((number for number, (base, _) in enumerate(segments) if base <= start), default=0)
    for _base, path in segments[:first]:
        walk.result.sizes[path] = tree.files[path].size
    for base, path in segments[first:]:
        if not walk.segment(base, path):
            break
    return walk.result
