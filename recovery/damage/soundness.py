"""Find where a log stops being sound, by a walk over its batches. Its result decides what mode safe keeps.

It is stricter than a broker's recovery where later starts or readers would fail. As there, checksum and size must be
right. In addition the magic must be known, a last offset must not be below the base offset, and the log must end with
its highest offset.

Contradictions such as gaps, counts, timestamps, epochs and unreadable records are no reason to truncate. Neither are
batches with repeated offsets (a copy, an older piece of the log) if later batches continue the log: readers skip them
and brokers keep them. If none continues, a broker would take an older offset for the log's end and hide what lies
above, so the log is cut after its highest offset.

An offset that the segment's indexes cannot hold stops a broker if lower ones follow, so the log is cut before it. A
broker believes the offsets of a displaced batch and keeps it; so does this walk, which asks `rules.out_of_place` (ADR
19).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.model import AnyHeader
from kafkalog.codec.native.tables import HeaderColumn, OrderOfRun
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET, out_of_place
from kafkalog.log.storage.content import Content
from kafkalog.log.storage.tree import Tree
from kafkalog.log.walk.cursor import Cursor

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderRun

__all__ = ["Cut", "SoundLog", "bytes_above", "end_of_last_sound", "sound_prefix", "walk_segments", "with_next"]


_TAIL_CODES = codes_with(Trait.TAIL)


class Cut(Struct, frozen=True, kw_only=True):
    """Place at which the sound part of a partition ends: everything from here on is removed."""

    path: str
    """path of the log file"""
    position: int
    code: FindingCode
    detail: str

    @property
    def severity(self) -> Severity:
        """Severity as a finding: info for repeated offsets, warning for an incomplete write, else error."""
        if self.code is FindingCode.OFFSET_NOT_INCREASING:
            return Severity.INFO
        return Severity.WARNING if self.code in _TAIL_CODES else Severity.ERROR


class SoundLog(Struct, kw_only=True):
    """The result of a walk over the segments of one partition."""

    cut: Cut | None = None
    end_offset: int | None = None
    """offset after the last sound batch; None if there is none"""
    sizes: dict[str, int] = {}
    """path of each log file -> its sound bytes; files after the cut are missing"""
    contents: dict[str, Content] = {}
    """path -> content to keep, for a log that is kept in pieces or with repaired bytes"""
    lost: list[tuple[int, int]] = []
    """first and last offset of each range lost to damage that the walk continued after"""
    resumed: list[int | None] = []
    """first offset after each damaged place except a tail; None if the log does not continue there"""
    repairs: list[Finding] = []
    """findings about flipped bits that were corrected, with their proof"""
    repeat: Cut | None = None
    """the first batch that is kept although its first offset is repeated; None if there is none"""
    last_repeat: Cut | None = None
    """the last such batch"""
    log_end_offset: int = 0
    """offset at which a broker's log ends: after the last batch, and not below the last segment's base offset, even if
    that is empty
    """
    ends_at_rest: bool = False
    """whether the only reason to cut is that the last batches do not reach the highest offset"""

    @property
    def size(self) -> int:
        """Bytes of the logs that are sound, or kept."""
        return sum(self.sizes.values())


def walk_segments(
    tree: Tree, directory: str, start: int, sizes: dict[str, int], walk: Callable[[int, str, int | None], bool]
) -> None:
    """Call `walk` for each segment of a partition, from the one that holds offset `start` on, until it returns False.
    Its arguments are base offset, path, and base offset of the next segment (None for the last). Earlier segments count
    as sound and are not read: their sizes in bytes are put into `sizes` by path.
    """
    segments = tree.logs(directory)
    first = max((number for number, (base, _) in enumerate(segments) if base <= start), default=0)
    sizes.update((path, tree.files[path].size) for _base, path in segments[:first])
    for segment in with_next(segments, first):
        if not walk(*segment):
            break


def with_next(segments: Sequence[tuple[int, str]], first: int = 0) -> Iterator[tuple[int, str, int | None]]:
    """Yield base offset and path of each segment from index `first` on, and the base offset of the next segment, None
    for the last.
    """
    for number in range(first, len(segments)):
        base, path = segments[number]
        yield base, path, segments[number + 1][0] if number + 1 < len(segments) else None


_NONE = -1
"""Value before the first offset: every offset of a sound batch is higher."""


class _Front(Struct, frozen=True, kw_only=True):
    """The latest batch that reaches the highest offset so far."""

    path: str
    position: int
    first: int
    last: int
    overflows: bool
    """whether the indexes of its segment cannot hold its offset"""


class _Rest(Struct, frozen=True):
    """Place at which the batches after the front begin, all of which end below it."""

    path: str
    position: int
    first: int
    """first offset of the first of them"""


class _Walk:
    """Walk over batches in order, which collects a `SoundLog` in `result`. The front is the latest batch that reaches
    the highest offset so far; the rest are the batches after it, which all end below that offset. The cut is the place
    at which the sound part ends.
    """

    def __init__(self, tree: Tree, until: Cut | None) -> None:
        self._tree = tree
        self._until = until
        self._highest = _NONE
        self._front: _Front | None = None
        self._rest: _Rest | None = None
        self._repeat: Cut | None = None
        self._first_repeat: Cut | None = None
        """the last and the first repeated batch; kept only if a later batch reaches the highest offset again"""
        self.misplaced: Cut | None = None
        """place at which a second walk has to end"""
        self.result = SoundLog()

    def segment(self, base: int, path: str, next_base: int | None) -> bool:
        """Walk one segment; return whether the log continues in the next one. False if damage was found, or the walk
        has to end in this segment. `next_base` is the base offset of the next segment, None for the last. Sets the size
        of the sound part, in bytes, in the result, and the cut if there is one; neither if `misplaced` is set. Raises
        `StorageError` if the file cannot be read.
        """
        if base > self._highest:  # the log goes on from there, even if nothing is in it
            self._go_on()
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
        cursor = Cursor(source, base, next_base, expected=max(self._highest + 1, base))
        finding = cursor.ended(scanner, through_damage=False).findings[-1]
        self._cut(path, scanner.valid_bytes, finding.code, finding.detail)
        return False

    def _batch(self, path: str, position: int, header: AnyHeader, base: int) -> bool:
        """Add one batch of the segment with base offset `base`: update highest offset, front, rest and repeats. Return
        whether the walk continues. It ends at a batch that is not sound, and at the batch of `until`: the cut in the
        result is then this batch. It also ends, without a cut, at a batch below the front if the indexes of the front's
        segment cannot hold the front's offset. `misplaced` is then the front.
        """
        if self._ends_at(path, position):
            return False
        last = header.last_offset
        first = header.first_offset
        problem = out_of_place(header.magic, first, last, base)
        if problem is not None:
            self._cut(path, position, *problem)
            return False
        if first <= self._highest:
            self._note_repeat(path, position, first, self._highest)
        if last >= self._highest:
            self._set_front(path, position, first, last, base)
        elif self._front is not None and self._front.overflows:
            self.misplaced = self._front_as_cut(last)
            return False
        else:
            self._add_to_rest(path, position, first)
        return True

    def _ends_at(self, path: str, position: int) -> bool:
        until = self._until
        if until is None or (until.path, until.position) != (path, position):
            return False
        self._cut(path, position, until.code, until.detail)
        return True

    def _set_front(self, path: str, position: int, first: int, last: int, base: int) -> None:
        self._front = _Front(
            path=path, position=position, first=first, last=last, overflows=last - base > MAX_RELATIVE_OFFSET
        )
        self._highest = last
        self._go_on()
        self.result.end_offset = last + 1

    def _go_on(self) -> None:
        """Keep all batches so far: they are not the end of the log."""
        self._rest = None
        self.result.repeat = self.result.repeat or self._first_repeat
        self.result.last_repeat = self._repeat

    def _front_as_cut(self, last: int) -> Cut:
        front = self._front
        if front is None:
            raise AssertionError(last)
        detail = f"offset {front.last} does not fit into its segment, and {last} follows"
        return Cut(path=front.path, position=front.position, code=FindingCode.OFFSET_ABOVE_SEGMENT, detail=detail)

    def _add_to_rest(self, path: str, position: int, first: int) -> None:
        self._rest = self._rest or _Rest(path, position, first)

    def _note_repeat(self, path: str, position: int, first: int, before: int) -> None:
        detail = f"offset {first} after {before}"
        self._repeat = Cut(path=path, position=position, code=FindingCode.OFFSET_NOT_INCREASING, detail=detail)
        self._first_repeat = self._first_repeat or self._repeat

    def _run(self, path: str, run: HeaderRun, base: int) -> bool:
        """Add the batches of a run of the segment with base offset `base`; return False if one is not sound, or the
        walk has to end there. The result and `misplaced` change as by `_batch`.
        """
        from kafkalog.codec.headers.continuity import in_place

        count = in_place(run, base)
        if self._until is not None and self._until.path == path:
            number = run.number_at(self._until.position)
            count = count if number is None else min(count, number)
        overflows = count and run.part(0, count).next_offset - 1 - base > MAX_RELATIVE_OFFSET
        if overflows or (self._front is not None and self._front.overflows):
            return all(self._batch(path, run.position(n), run.header(n), base) for n in range(len(run)))
        if count:
            self._take_in(path, run, count, base)
        return count == len(run) or self._batch(path, run.position(count), run.header(count), base)

    def _take_in(self, path: str, run: HeaderRun, count: int, base: int) -> None:
        """Add the first `count` batches of a run, which are known to be sound: update highest offset, front, rest and
        repeats as `_batch` would for each.
        """
        part = run.part(0, count)
        order = part.order(self._highest)
        rest = order[OrderOfRun.REST]
        first_repeat, last_repeat = order[OrderOfRun.FIRST_REPEAT], order[OrderOfRun.LAST_REPEAT]
        if first_repeat >= 0:
            self._repeated(path, part, first_repeat, order[OrderOfRun.BEFORE_FIRST])
            self._repeated(path, part, last_repeat, order[OrderOfRun.BEFORE_LAST])
        if rest:
            number = rest - 1
            first = part.value(HeaderColumn.BASE_OFFSET, number)
            self._set_front(path, part.position(number), first, part.last_offset(number), base)
        if rest < count:  # all of it lies below the highest offset
            self._repeated(path, part, rest, order[OrderOfRun.BEFORE_REST])
            self._add_to_rest(path, part.position(rest), part.value(HeaderColumn.BASE_OFFSET, rest))

    def _repeated(self, path: str, run: HeaderRun, number: int, before: int) -> None:
        self._note_repeat(path, run.position(number), run.value(HeaderColumn.BASE_OFFSET, number), before)

    def _cut(self, path: str, position: int, code: FindingCode, detail: str) -> None:
        self.result.cut = Cut(path=path, position=position, code=code, detail=detail)
        paths = list(self.result.sizes)
        for later in paths[paths.index(path) + 1 :] if path in paths else []:
            del self.result.sizes[later]
        self.result.sizes[path] = position

    # -- the end ------------------------------------------------------------------------------------------------------

    def end_behind_front(self) -> None:
        """Cut the log after its highest offset."""
        if self._front is not None and self._rest is not None:
            detail = f"offset {self._rest.first} after {self._front.last}, and nothing continues from there"
            self.result.ends_at_rest = self.result.cut is None
            self._cut(self._rest.path, self._rest.position, FindingCode.LOG_END_BELOW_OFFSET, detail)


def end_of_last_sound(tree: Tree, directory: str) -> int | None:
    """Return the offset after the highest one of the sound batches at the end of a log, up to the first damage there;
    None if no segment begins with a sound batch. The walk begins in the last segment that does; segments before it are
    not read. Raises `StorageError` if a log cannot be read.
    """
    segments = tree.logs(directory)
    for number in range(len(segments) - 1, -1, -1):
        if tree.files[segments[number][1]].size == 0:
            continue
        walk = _Walk(tree, None)
        for segment in with_next(segments, number):
            if not walk.segment(*segment):
                break
        end = walk.result.end_offset
        if walk.misplaced is not None:
            end = sound_prefix(tree, directory, start=segments[number][0]).end_offset
        if end is not None:
            return end
    return None


def sound_prefix(tree: Tree, directory: str, *, start: int = 0, until: Cut | None = None) -> SoundLog:
    """Return the sound part of a partition's log: the size in bytes to keep of each segment, the end offset, and the
    cut where it ends. The walk begins in the segment that holds offset `start`; earlier segments count as sound. It
    ends at the first damage, or before that at the batch at which `until` points, if given, and that batch is cut off.
    Last batches that all end below the highest offset are cut off too. Nothing is written. Raises `StorageError` if a
    log cannot be read.
    """
    walk = _walk(tree, directory, start, until)
    if walk.misplaced is not None:
        walk = _walk(tree, directory, start, walk.misplaced)
    walk.end_behind_front()
    bases = [base for base, path in tree.logs(directory) if path in walk.result.sizes]
    walk.result.log_end_offset = max(walk.result.end_offset or 0, *bases[-1:], 0)
    return walk.result


def bytes_above(tree: Tree, directory: str, end_offset: int) -> int:
    """Return the total size in bytes of the batches whose last offset is at least `end_offset`. Each segment is read up
    to its first damaged frame; checksums are not verified. Raises `StorageError` if a log cannot be read.
    """
    return sum(
        batch.size
        for _base, path in tree.logs(directory)
        for batch in Scanner(tree.source(path), check_crc=False)
        if batch.last_offset >= end_offset
    )


def _walk(tree: Tree, directory: str, start: int, until: Cut | None) -> _Walk:
    walk = _Walk(tree, until)
    walk_segments(tree, directory, start, walk.result.sizes, walk.segment)
    return walk
