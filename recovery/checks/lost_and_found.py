"""Find sound batches in files outside the logs: files that a file system's repair put into `lost+found`, and files that
are not Kafka's. Find segments with a wrong name.

A batch does not name its topic. A file fits a partition if the log ends where the file begins, has a segment that
begins where the file ends (the segments of a log are contiguous, see `LogSegments`), or if the file lies at one edge of
a hole between segments. Other such files may lie between. A file does not fit if the high watermark says that the log
is complete, or other sound batches are in its place.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.codec.names import PARTITION_METADATA, DirectoryState, FileKind, segment_file
from kafkalog.codec.plain.records import first_offset_of
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.partition import Partition, open_segment
from kafkalog.log.disk.files import FileSource, status_of, unreadable
from kafkalog.recovery.checks.missing_partitions import lost_places, topic_id_in

__all__ = ["MISNAMED_BY", "EndsAt", "batches_outside", "known_ends", "misnamed_segments", "offered_once"]

EndsAt = Callable[[Partition, int], bool]
"""Function that returns whether the log of a partition ends at an offset, the one of the next record;
False if unknown
"""

MISNAMED_BY = frozenset(
    {FindingCode.OFFSET_BELOW_SEGMENT, FindingCode.SEGMENT_OVERLAP, FindingCode.OFFSET_DISPLACED}
)
"""codes of findings of which at least one is there if a segment has a wrong name"""
_MOST_FILES = 1000
"""most files of a lost+found that are read"""
_SMALLEST_BATCH = 26
"""bytes of an empty message of magic 0, with its offset and size (`Records.LOG_OVERHEAD`, `LegacyRecord`)"""
_ONCE_STOPPED = "once the broker is stopped"
_SEVERAL = "; several partitions may lack these offsets, so look at its records first"
_HELD = "holds all of it"
_MOST_DIGITS = 20
"""digits of the base offset in a segment's name (`LogFileUtils.filenamePrefixFromOffset`)"""


class _Held(Struct, frozen=True, kw_only=True):
    """Sound batches at the beginning of a file."""

    batches: int
    first: int
    last: int
    epoch: int

    def __str__(self) -> str:
        epoch = "" if self.epoch < 0 else f" of leader epochs up to {self.epoch}"
        return f"{counted(self.batches, 'sound batch')}{epoch} with offsets {self.first} to {self.last}"


def known_ends(ends: Mapping[str, int | None]) -> EndsAt:
    """Return a function that looks up log end offsets by the partition's path."""
    return lambda partition, offset: ends.get(partition.path) == offset


def batches_outside(log_dir: LogDir, ends_at: EndsAt) -> list[Finding]:
    """Return a BATCHES_OUTSIDE finding for each file outside the logs that begins with a sound batch. The finding says
    to which partitions the batches may belong, and which file to copy or rename. Or it says that a segment has them
    already, or that no partition fits.

    Reads at most 1000 files of each `lost+found` in the log directory or beside it, and the files that `log_dir`
    reports as foreign. A file in a partition directory gives no finding if the segment that begins at its first offset
    holds all of its batches. A file that cannot be read gives an UNREADABLE finding. `ends_at(partition, offset)` says
    whether the partition's log ends at that offset; it is called only if such a file exists.
    """
    findings, outside = [], {}
    lost = (path for place in lost_places(log_dir.path) for path in islice(_files(place), _MOST_FILES))
    for path in dict.fromkeys([*lost, *_foreign(log_dir)]):
        try:
            if (held := _held(path)) is not None:
                outside[path] = held
        except StorageError as error:
            findings.append(unreadable(error, path))
    fitting = _Fitting(log_dir, ends_at, outside.values())
    for path, held in outside.items():
        try:
            where = _where(held, path, log_dir, fitting)
        except StorageError as error:
            findings.append(unreadable(error, path))
            continue
        if where is not None:
            findings.append(Finding.of(FindingCode.BATCHES_OUTSIDE, 0, held.first, f"{held}: {where}", path))
    return findings


def offered_once(findings: Mapping[str, Sequence[Finding]]) -> dict[str, list[Finding]]:
    """Return the findings of several log directories, by path as in `findings`, with fewer BATCHES_OUTSIDE findings: a
    file beside the directories has one in each. If it fits partitions, only the findings of their directories remain;
    if these are several, each finding says so. If it fits none, only those of directories whose partitions have its
    batches already remain. Without any of these, the first remains. A relative path of a file is relative to its log
    directory.
    """
    by_file: dict[str, list[tuple[str, Finding]]] = {}
    for root, several in findings.items():
        for finding in several:
            if finding.code is FindingCode.BATCHES_OUTSIDE:
                place = os.path.normpath(os.path.join(root, finding.file or ""))
                by_file.setdefault(place, []).append((root, finding))
    kept: dict[tuple[str, Finding], Finding] = {}
    for of_file in by_file.values():
        offers = [each for each in of_file if _ONCE_STOPPED in each[1].detail]
        held = [each for each in of_file if each[1].detail.endswith(_HELD)]
        for root, finding in offers or held or of_file[:1]:
            more = _SEVERAL if len(offers) > 1 and not finding.detail.endswith(_SEVERAL) else ""
            kept[root, finding] = replace(finding, detail=finding.detail + more)
    return {
        root: [
            kept.get((root, finding), finding)
            for finding in several
            if finding.code is not FindingCode.BATCHES_OUTSIDE or (root, finding) in kept
        ]
        for root, several in findings.items()
    }


def misnamed_segments(segments: Sequence[tuple[int, str]]) -> list[Finding]:
    """Return a SEGMENT_MISNAMED finding for each segment with a wrong name. The finding gives the name under which the
    segment's batches belong. `segments` are base offset and path of all segments of a log, in order; the result is
    sorted by path.

    The batches of a segment begin at its base offset, or above it after compaction, and end below the next base offset.
    A name is wrong if it is above the first of the batches. It is also wrong if it is not above the end of the segment
    whose batches come before. Either names were exchanged: each has the name of another one in a group. Or a name is
    one that no other segment should have; the right one is then the first offset. There is no finding in three cases:
    the batches overlap the batches of another segment, a file with the right name exists, or a single batch with a
    wrong base offset explains the name as well.

    Reads the first batch of every segment, and all batches of the segments that may have a wrong name or stand beside
    one. Raises `StorageError` if a segment cannot be read.
    """
    bases = [base for base, _path in segments]
    homes, firsts = {}, list(bases)
    for number, (_base, path) in enumerate(segments):
        with FileSource(path) as source:
            first = next(iter(Scanner(source)), None)
        if first is None:
            continue
        firsts[number] = first_offset_of(first)
        home = bisect.bisect_right(bases, firsts[number]) - 1
        if home != number:
            homes[number] = home
    findings: list[Finding] = []
    while homes:
        exchanged = [next(iter(homes))]
        while (home := homes.pop(exchanged[-1], -1)) in homes:
            exchanged.append(home)
        if home in exchanged:
            findings += _exchanged(segments, [*exchanged[exchanged.index(home) :], home])
    if not findings:
        findings += _named_alone(segments, firsts)
    return sorted(findings, key=lambda finding: finding.file or "")


def _exchanged(segments: Sequence[tuple[int, str]], numbers: Sequence[int]) -> Iterator[Finding]:
    """Yield a finding for each segment of a group whose names were exchanged; nothing if one of them has no batches
    that fit under its new name. `numbers` are indexes into `segments`: the batches of each segment belong under the
    name of the next one, and the last index repeats the first. Reads all batches of these segments; raises
    `StorageError` if this fails.
    """
    bases = [base for base, _path in segments]
    batches = {number: _held(segments[number][1]) for number in numbers[:-1]}
    for number, home in pairwise(numbers):
        held = batches[number]
        if held is None or (home + 1 < len(bases) and held.last >= bases[home + 1]):
            return
    for number, home in pairwise(numbers):
        (base, path), held, name = segments[number], batches[number], segment_file(bases[home], FileKind.LOG)
        detail = f"{held} belong in {name}: rename this file alone to that; a full recovery then rebuilds what "
        detail += f"does not fit beside it; {len(numbers) - 1} segments have each other's names"
        yield Finding.of(FindingCode.SEGMENT_MISNAMED, None, base if held is None else held.first, detail, path)


def _named_alone(segments: Sequence[tuple[int, str]], firsts: Sequence[int]) -> Iterator[Finding]:
    """Yield a finding for each segment whose name is wrong, and is no other one's. `firsts` are the first offsets of
    the segments' batches; of a segment without batches, its base offset. Reads all batches of the segments that do not
    begin at their base offset, and of those whose batches come before them. Raises `StorageError` if this fails.
    """
    bases = {base for base, _path in segments}
    order = sorted(range(len(segments)), key=lambda number: (firsts[number], segments[number][0]))
    for before, number, behind in zip([None, *order], order, [*order[1:], None], strict=False):
        (base, path), first = segments[number], firsts[number]
        held = _held(path) if first != base else None
        if held is None or first in bases or (behind is not None and held.last >= firsts[behind]):
            continue
        end = -1
        if before is not None:
            previous = _held(segments[before][1])
            end = firsts[before] - 1 if previous is None else previous.last
        if end >= first or not _is_first_sure(path, base, end):
            continue
        is_low = before is not None and base <= end and _is_too_low(segments[before][1], base, first)
        if not is_low and first > base:
            continue
        name = segment_file(first, FileKind.LOG)
        why = "its name is above its first offset"
        if is_low:
            why = f"the segment before it ends at {end}, and consumers may skip what that has from offset {base} on"
        detail = f"{held} belong in {name}: rename this file alone to that; a full recovery then rebuilds what "
        detail += f"does not fit beside it; {why}"
        yield Finding.of(FindingCode.SEGMENT_MISNAMED, None, first, detail, path)


def _is_first_sure(path: str, base: int, end: int) -> bool:
    """Whether the first offset of the segment at `path`, which has the base offset `base` in its name, is right. False
    if only its first batch may have a wrong base offset: it would fit between `base` and the second, the second is not
    above it, or it alone is below `base`, or there is no second. The last two do not count if it continues `end`, the
    last offset before the segment, or the second continues it. Raises `StorageError` if the segment cannot be read.
    """
    with FileSource(path) as source:
        ranges = [(first_offset_of(batch), batch.last_offset) for batch in islice(Scanner(source), 2)]
    first, last = ranges[0]
    second = ranges[1][0] if len(ranges) > 1 else None
    if second is not None and (second <= last or second == base + last + 1 - first):
        return False
    is_continued = second is not None and (second == last + 1 or first > base or second < base)
    return is_continued or first == end + 1


def _is_too_low(before: str, base: int, first: int) -> bool:
    """Whether the segment at `before` reaches `base`, the base offset in the name of a segment that begins with offset
    `first`. False if one batch with a wrong base offset explains it: only one batch reaches `base`, and it neither
    continues the one before it, nor ends right before `first`. Raises `StorageError` if the segment cannot be read.
    """
    end, is_sure, count = None, False, 0
    with FileSource(before) as source:
        for batch in Scanner(source):
            if batch.last_offset >= base:
                count += 1
                is_sure = is_sure or first_offset_of(batch) == end or batch.last_offset + 1 == first
            end = batch.last_offset + 1
    return count > 1 or is_sure


def _files(place: str) -> Iterator[str]:
    """Yield the paths of the files in a directory, and then in its direct subdirectories, sorted by name within each
    directory. Symbolic links, deeper subdirectories and unreadable directories are skipped.
    """
    for directory, names, files in os.walk(place):
        names.sort()
        if directory != place:
            names.clear()
        yield from (path for name in sorted(files) if not os.path.islink(path := os.path.join(directory, name)))


def _foreign(log_dir: LogDir) -> Iterator[str]:
    findings: Iterable[Finding] = [
        *log_dir.findings, *(finding for partition in log_dir.partitions for finding in partition.findings)
    ]  # fmt: skip
    for finding in findings:
        if finding.code is FindingCode.FOREIGN_FILE and finding.file is not None and os.path.isfile(finding.file):
            yield finding.file


def _held(path: str) -> _Held | None:
    status = status_of(path)
    if status is None or status.st_size < _SMALLEST_BATCH:
        return None
    batches, first, last, epoch = 0, 0, -1, -1
    with FileSource(path) as source:
        for batch in Scanner(source):
            header = batch.header
            first = header.first_offset if batches == 0 else first
            last, epoch = max(last, header.last_offset), max(epoch, header.partition_leader_epoch)
            batches += 1
    return _Held(batches=batches, first=first, last=last, epoch=epoch) if batches else None


def _where(held: _Held, path: str, log_dir: LogDir, fitting: _Fitting) -> str | None:
    """Return text about the place to which the batches `held` of the file at `path` belong. It names each live
    partition that the batches fit, with the path to which to copy or rename the file. The partition in whose directory
    the file lies comes first. A partition whose file at that path has other sound batches does not fit. If none fits,
    the text names the file that already holds these batches, or that has others in their place in the same directory.
    Otherwise it says that no partition fits. If the file lies in no partition directory of `log_dir`, but beside a
    `partition.metadata`, no partition with another topic id fits.

    Return None if the file lies in the directory of a live partition whose segment at the file's first offset holds all
    of its batches. Reads existing segments with the same base offset; raises `StorageError` if this fails.
    """
    own = os.path.dirname(path)
    topic_id = None if any(each.path == own for each in log_dir.partitions) else topic_id_in(own)
    homes, taken = [], []
    for partition in sorted(log_dir.partitions, key=lambda each: each.path != own):
        is_own = partition.path == own
        if partition.state is not DirectoryState.LIVE or _is_of_another(partition, topic_id):
            continue
        why = fitting.reason(held, path, partition)
        home = os.path.join(partition.path, segment_file(held.first, FileKind.LOG))
        is_there = os.path.lexists(home)
        if why is None and not is_there:
            continue
        count = _batches_there(home, path, held) if is_there else 0
        if count == held.batches and is_own:
            return None
        if count == held.batches:
            taken.append(f"{home} {_HELD}")
        elif why is None:
            continue
        elif count is not None:
            is_misnamed = is_own and path.endswith(FileKind.LOG.value) and not is_there
            verb = "rename" if is_misnamed and _base_of(path) == held.first else "copy"
            homes.append(f"{why}: {verb} it to {home}{_words_of_present(count) if is_there else ''}")
        elif is_own:
            taken.append(f"{home} holds other sound batches, so do not copy it there")
    if homes:
        return f"{' or '.join(homes)}, {_ONCE_STOPPED}{_SEVERAL if len(homes) > 1 else ''}"
    if taken:
        return taken[0]
    if topic_id is not None:
        return f"by its {PARTITION_METADATA} the directory is of the topic with the id {topic_id}"
    return f"no partition in {log_dir.path} ends where it begins, or has a segment that begins where it ends"


def _is_of_another(partition: Partition, topic_id: str | None) -> bool:
    known = None if partition.metadata is None else partition.metadata.topic_id
    return None not in (known, topic_id) and known != topic_id


def _batches_there(home: str, path: str, held: _Held) -> int | None:
    """Return the number of sound batches in the segment at `home`, if the file at `path` has all of them too, at the
    same positions. If the segment begins with all batches of the file (`held`), return their number, whatever follows.
    Return None in other cases. Damaged parts of the segment are skipped. Raises `StorageError` if a file cannot be
    read.
    """
    count = end = 0
    with FileSource(home) as there, FileSource(path) as here:
        for batch in open_segment(home).batches(on_damage="skip"):
            if count == held.batches and batch.position == end:
                return count
            if there.read(batch.position, batch.size) != here.read(batch.position, batch.size):
                return None
            count, end = count + 1, end + batch.size
    return count


def _words_of_present(count: int) -> str:
    return f", of which that file holds {counted(count, 'batch')}" if count else ", which holds no sound batch now"


def _base_of(path: str) -> int | None:
    """Return the base offset in a name like `NNN.log`, with any number of digits; None for other names."""
    digits = os.path.basename(path).partition(FileKind.LOG.value)[0]
    return int(digits) if digits.isdecimal() and digits.isascii() and len(digits) <= _MOST_DIGITS else None


class _Fitting:
    """Decides which partitions of a log directory files with batches (`outside`) may belong to. `ends_at` is as in
    `batches_outside`. Raises `StorageError` if a segment cannot be read.
    """

    def __init__(self, log_dir: LogDir, ends_at: EndsAt, outside: Iterable[_Held]) -> None:
        self._log_dir, self._ends_at = log_dir, ends_at
        self._next = {held.first: held.last + 1 for held in outside if held.last >= held.first}
        self._previous = {end: first for first, end in self._next.items()}
        self._ends: dict[str, int | None] = {}
        """offset after the last batch of each segment that was read, None if it has no sound batch"""

    def reason(self, held: _Held, path: str, partition: Partition) -> str | None:
        """Return why the file at `path` with the batches `held` may be a segment of a partition, as text; None if it
        cannot be one. The reasons: a segment begins at the offset after the file's last, and no segment has batches in
        its place; the file lies at an edge of a hole between two segments; the log ends at the file's first offset; the
        partition has no segment; or the file lies in the partition's directory, and its name or a segment has the base
        offset of its first batch. Other files may lie between the file and the offset, for the first reason only if
        that segment is the partition's first. Without segments, the file must lie in the partition's directory or end
        below the high watermark.

        If the file begins at or above the high watermark, only the first two reasons count. All reasons count if the
        file lies in the partition's directory and a segment begins at the same offset.
        """
        bases = {segment.base_offset for segment in partition.segments}
        mark = self._log_dir.high_watermarks.get((partition.topic or "", partition.partition or 0))
        is_own = os.path.dirname(path) == partition.path
        if held.last + 1 in bases and not self._has_others(held, partition):
            return f"in {partition.name} a segment begins at {held.last + 1}"
        starts, ends = list(_chain(held.first, self._previous)), list(_chain(held.last + 1, self._next))
        begins = next((end for end in ends if end in bases), None)
        hole = self._hole(held, partition)
        if hole is not None and (hole[0] in starts or hole[1] + 1 == begins):
            return f"in {partition.name} offsets {hole[0]} to {hole[1]} are missing"
        if begins is not None and min(bases) == begins:
            return f"in {partition.name} a segment begins at {begins}, and other such files lead to it"
        if mark is not None and mark <= held.first and not (is_own and held.first in bases):
            return None
        known = "" if mark is None else f", and its high watermark was {mark}"
        if partition.segments and self._ends_at(partition, held.first):
            return f"{partition.name} ends at {held.first}{known}"
        end = next((at for at in starts if partition.segments and self._ends_at(partition, at)), None)
        if end is not None:
            return f"{partition.name} ends at {end}, and other such files lead from it{known}"
        if not partition.segments and (is_own or (mark is not None and mark > held.last)):
            return f"{partition.name} has no segment{known}"
        is_named_so = _base_of(path) == held.first or held.first in bases
        return f"it lies in {partition.name}{known}" if is_own and is_named_so else None

    def _hole(self, held: _Held, partition: Partition) -> tuple[int, int] | None:
        """First and last offset missing between two successive segments of a partition, if all offsets of `held` are
        among them; else None, also if the earlier segment has no valid batch.
        """
        before = [segment for segment in partition.segments if segment.base_offset <= held.first]
        behind = [segment.base_offset for segment in partition.segments if segment.base_offset > held.first]
        if not before or not behind or held.last >= behind[0] or before[-1].base_offset == held.first:
            return None
        end = self._end(before[-1].path)
        return (end, behind[0] - 1) if end is not None and end <= held.first else None

    def _has_others(self, held: _Held, partition: Partition) -> bool:
        """Return whether a segment of a partition has sound batches where `held` would be. Such a segment begins at or
        below the last offset of `held`, and its last sound batch ends at or above the first one. The segment that
        begins at the first offset of `held` is not considered.
        """
        bases = [segment.base_offset for segment in partition.segments]
        first = max(bisect.bisect_left(bases, held.first) - 1, 0)
        segments = partition.segments[first : bisect.bisect_right(bases, held.last)]
        ends = (self._end(segment.path) for segment in segments if segment.base_offset != held.first)
        return any(end is not None and end > held.first for end in ends)

    def _end(self, path: str) -> int | None:
        """Offset after the last sound batch of a segment; None without one."""
        if path not in self._ends:
            batches = _held(path)
            self._ends[path] = None if batches is None else batches.last + 1
        return self._ends[path]


def _chain(offset: int, following: Mapping[int, int]) -> Iterator[int]:
    """Yield an offset, and the offsets that `following` leads to, one after the other."""
    yield offset
    while offset in following:
        offset = following[offset]
        yield offset
