"""A served partition: its bounds, and the file range that answers a fetch (`UnifiedLog.read`).

A state is never changed but replaced after listing the directory again, and requests keep the one they began with. A
fetch does not read records. Its start is found with the verified offset index and a few headers after it. Its end is
also found with the index, so that a range ends with a whole batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.codec.rules.framing import BATCH_MAGIC
from kafkalog.log.directories.follow import Follower, Unread
from kafkalog.log.directories.locate import locate
from kafkalog.log.directories.partition import Partition
from kafkalog.log.reading.readable import OffsetAndTimestamp
from kafkalog.log.reading.transactions import StaysOpen
from kafkalog.log.walk.resync import Expected, Resync
from kafkalog.log.walk.segment import Segment, index_of
from kafkalog.log.walk.sliced import Sliced, run_slices
from kafkalog.server.committed import Committed, CommittedWalk
from kafkalog.server.files import Answered, Fact, FileRange, OpenLog, OpenLogs
from kafkalog.server.headers import DamagedError, Place, places
from kafkalog.server.times import looking_for_time
from kafkalog.server.walking import Patience, TooFarError, patient, walked

__all__ = ["Bounds", "Read", "ServedLog", "epoch_end"]


class Bounds(Struct, frozen=True):
    """Bounds of a log at one moment."""

    partition: Partition
    start: int
    """log start offset"""
    end: int
    """log end offset, which is also the high watermark"""


class Read(Struct, frozen=True):
    """Result of a fetch from an offset."""

    range: FileRange | None
    """None if there is nothing yet."""
    next_offset: int
    """the next offset if known, else an upper bound of it"""


class ServedLog:
    """A served partition. Safe for several threads. Raises `StorageError` if files cannot be read.

    With `as_of` (ms since 1970) the log ends before the first later record. With `on_damage` damaged batches are left
    out and reported to it; `complain` gets other messages.
    """

    def __init__(
        self,
        partition: Partition,
        files: OpenLogs,
        *,
        as_of: int | None = None,
        on_damage: Callable[[str], None] | None = None,
        complain: Callable[[str], None] = lambda _: None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._files = files
        self._complain = complain
        self._as_of = as_of
        self._on_damage = on_damage
        self._limits = limits
        self._lock = Lock()
        self._listed = partition
        self._follower = Follower(limits=limits)
        self._bounds: Bounds | None = None
        self._walk = self._new_walk()
        self._committed: Committed | None = None
        self._damage: set[tuple[str, int]] = set()
        self._stays_open = StaysOpen()
        self._told_of_undecided = 0
        self._times_of: Bounds | None = None
        self._times: dict[int | None, OffsetAndTimestamp | None] = {}
        self._sound: dict[tuple[str, int], int] = {}

    def _new_walk(self) -> CommittedWalk:
        return CommittedWalk(self._limits, goes_on=self._on_damage is not None)

    @property
    def listed(self) -> Partition:
        """The directory as listed last."""
        return self._listed

    def update(self, partition: Partition) -> bool:
        """Use a new listing of the partition; return whether it differs in segments, log start or leader epochs. If it
        does not, nothing changes. If it does, bounds that were known are determined again. Cached facts about a file
        are dropped if it was replaced, became shorter or has the same size but other bytes. Raises `StorageError` if
        the bounds or files cannot be read; the new listing is used even then.
        """
        with self._lock:
            before, same = self._listed, _stamps(self._listed) == _stamps(partition)
            if same:
                return False
            kept = {_stamp(each) for each in partition.segments}
            self._listed = partition
            known, self._bounds = self._bounds is not None, None
            rewritten = _rewritten(before, partition)
            if rewritten:  # what was read of it may not be there any more
                self._walk, self._committed = self._new_walk(), None
        for segment in before.segments:
            if segment.path in rewritten:
                self._files.forget(segment.path)
            elif _stamp(segment) not in kept:
                self._files.forget_replaced(segment.path)
        self._sound.clear()
        if known:
            self.bounds()
        return True

    def bounds(self) -> Bounds:
        """Return start and end of the log. They are determined at the first call after a new listing and then kept.
        Raises `StorageError` if the log cannot be read.
        """
        with self._lock:
            if self._bounds is None:
                self._bounds = self._look(self._listed)
            return self._bounds

    def _look(self, partition: Partition) -> Bounds:
        followed = self._follower.look(partition)
        start, end = partition.log_start_offset, followed.end_offset
        if followed.unread is not None:
            self._tell_of_end(followed.unread, end)
        if self._as_of is not None:
            later = partition.offset_for_timestamp(self._as_of + 1, through_damage=True)
            if later is not None:
                end = min(end, self._first_of_batch(partition, later.offset))
        if self._as_of is None:
            return Bounds(partition, start, max(start, end))
        return Bounds(partition, min(start, end), end)

    @staticmethod
    def _first_of_batch(partition: Partition, offset: int) -> int:
        """Return the base offset of the batch containing `offset`, since only whole batches are served."""
        place, _ = locate(partition, offset, through_damage=True)
        return offset if place is None else min(place.base_offset, offset)

    @property
    def epochs(self) -> tuple[LeaderEpoch, ...]:
        """Leader epochs that begin at or below the log end. Raises `StorageError` if the end must be read and cannot
        be.
        """
        return tuple(epoch for epoch in self._listed.leader_epochs if epoch.start_offset <= self.bounds().end)

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch; -1 if unknown."""
        return max((leader_epoch.epoch for leader_epoch in self._listed.leader_epochs), default=-1)

    @property
    def committed(self) -> Committed | None:
        """Transactions of the log. None unless known for all of it."""
        committed = self._committed
        return committed if committed is not None and committed.end >= self.bounds().end else None

    def find_committed(self) -> Committed:
        """Find the transactions, reading only what was not read yet. May take a while."""
        return run_slices(self.finding_committed())

    def finding_committed(self) -> Sliced[Committed]:
        """Find the transactions of the log up to its present end. This is a generator that yields between slices of
        work; the transactions are its return value. They are kept for later calls, and several callers share one
        reading of the log.

        An open transaction is reported as in `tell_of_open`. If transactions whose end is damaged are found, one
        message names the first of all and counts the others. Raises `StorageError` if a file cannot be read.
        """
        while True:
            walk = self._walk
            with walk.lock:
                bounds = self.bounds()
                committed = self._committed
                if committed is None or committed.end != bounds.end:
                    committed = walk.go(bounds.partition, bounds.end)
                    if committed is not None and walk is self._walk:
                        self._committed = committed
                        self._tell_of_undecided(committed)
            if committed is not None:
                if committed is self._committed:
                    self.tell_of_open(committed)
                return committed
            yield

    def of_time(self, timestamp: int | None) -> Sliced[OffsetAndTimestamp | None]:
        """Find the first record with at least this timestamp (ms since 1970), or for None the record with the largest
        timestamp. A generator that yields between slices of work; its return value is the record's offset and
        timestamp, or None if there is none.

        Records after damage are included. Results for up to 100 timestamps are kept while the log is unchanged.
        """
        bounds = self.bounds()
        if self._times_of is not bounds:
            self._times_of, self._times = bounds, {}
        times = self._times
        if timestamp not in times:
            offset_and_timestamp = yield from looking_for_time(bounds.partition, timestamp)
            if len(times) >= _TIMES:
                times.clear()
            times[timestamp] = offset_and_timestamp
            return offset_and_timestamp
        return times[timestamp]

    def tell_of_open(self, committed: Committed, offset: int | None = None) -> None:
        """Report the earliest open transaction to `complain`, once, if the log was not modified for 60 seconds. Before
        that, a live writer may still end it; so this is called at every fetch. `offset` is the one to fetch: nothing is
        reported if it is below the last stable offset, because the client does not wait yet. Raises `StorageError` if
        the log's end must be read and cannot be.
        """
        does_not_wait = offset is not None and offset < committed.last_stable_offset
        if committed.why_it_ends is None or does_not_wait:
            return
        partition = self.bounds().partition
        name = f"{partition.topic}-{partition.partition}"
        with self._lock:
            news = self._stays_open.news(name, partition.segments, committed.last_stable_offset, committed.why_it_ends)
        if news is not None:
            self._complain(news)

    def _tell_of_undecided(self, committed: Committed) -> None:
        """Report transactions whose end is hidden by damage, if there are more of them than at the last report.
        `complain` then gets one message: the finding about the first one, and the number of the others.
        """
        undecided = [each for some in committed.undecided.values() for each in some]
        if len(undecided) <= self._told_of_undecided:
            return
        self._told_of_undecided = len(undecided)
        finding = min(undecided, key=lambda each: each.first_offset).finding
        more = f" (and {len(undecided) - 1} more)" if len(undecided) > 1 else ""
        what = "what there is of it is left out" if self._on_damage else "who reads committed data gets an error there"
        self._complain(f"{finding}{more}; {what}")

    def reading(
        self, offset: int, max_bytes: int, upper: int, *, at_least_one: bool, committed: Committed | None = None
    ) -> Sliced[None]:
        """Search in slices for the batches that `read` would return for these arguments, so that a later `read` finds
        them quickly. This is a generator that yields between slices and returns None. Damage ends the search without an
        error. Raises `NoneLeftError` if too many logs are open, `StorageError` if the log cannot be read.
        """
        patience, before = Patience(_SLICE_HEADERS, may_search=True), -1
        with suppress(DamagedError):
            while True:
                try:
                    self.read(
                        offset, max_bytes, upper, at_least_one=at_least_one, patience=patience, committed=committed
                    )
                except TooFarError as far:  # without an end where a slice would begin where this one began
                    is_further, before = far.reached != before, far.reached
                    patience = Patience(_SLICE_HEADERS, may_search=True) if is_further else patient()
                    yield
                else:
                    return

    def read(
        self, offset: int, max_bytes: int, upper: int, *, at_least_one: bool, patience: Patience | None = None,
        committed: Committed | None = None,
    ) -> Read:  # fmt: skip
        """Return a file range of whole batches, and the next offset to fetch (`upper` if it is unknown). The range
        begins with the batch that contains `offset`, or with the next one, and has at most `max_bytes`; all its offsets
        are below `upper`. With `at_least_one` the first batch is included even if it is larger. If there is no batch
        below `upper`, or the first one is too large, the range is None and the next offset is `offset`.

        With `on_damage`, damage is reported and left out. At most 4 MiB are then returned, checksums are verified, and
        batches of transactions that are undecided in `committed` are left out too. Without it, bytes that are not a
        batch raise `DamagedError`.

        `patience` limits the number of headers read: raises `TooFarError` if more are needed (None: no limit). Raises
        `NoneLeftError` if too many logs are open, `StorageError` if the log cannot be read.
        """
        patience = patience or patient()
        if self._on_damage is not None:
            max_bytes = min(max_bytes, _CHECKED_BYTES)
        bounds = self.bounds()
        segments = bounds.partition.segments
        if offset >= upper or not segments:
            return Read(None, offset)
        for number in range(index_of(segments, offset), len(segments)):
            segment = segments[number]
            if segment.base_offset >= upper:
                break
            log = self._files.get(segment)
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            limit = self._limit(log, segment, upper, following, patience)
            known = log.answers.get((offset, max_bytes, limit))
            if known is not None and self._on_damage is None:
                return _read(log, known, upper)
            first = self._first(log, segment, offset, limit, patience, committed, is_last=following is None)
            if first is None:
                continue
            if first.size > max_bytes and not at_least_one:
                return Read(None, offset)
            end, next_offset = self._end(log, segment, first, min(first.position + max_bytes, limit))
            if self._on_damage is not None:
                end, next_offset = self._sound_end(log, first, end, next_offset, committed)
            if next_offset is not None and next_offset < upper:
                log.learn(Fact.BATCH_OF, next_offset, end)
            answered = first.position, end - first.position, next_offset
            if answered[1] <= max_bytes:  # one batch that is larger is there only for who gets nothing else
                log.keep((offset, max_bytes, limit), answered)
            return _read(log, answered, upper)
        return Read(None, offset)

    def _limit(self, log: OpenLog, segment: Segment, upper: int, following: int | None, patience: Patience) -> int:
        """Return the position in a segment's log file at which the batches to return end. If `following`, the base
        offset of the next segment (None for the last one), is at most `upper`, it is the end of the file. Otherwise it
        is found by reading headers, and remembered: the start of the first batch that reaches the offset `upper`. If
        there is none, it is the end of the file, or the start of bytes at its end that are no whole batch. Raises
        `TooFarError` if `patience` is exhausted.
        """
        size = min(log.size, segment.size)
        if following is not None and following <= upper:
            return size
        known = log.recall(Fact.END_BELOW, (upper, size))
        if known is not None:
            return known
        end = self._walk_to(log, segment, upper, size, patience)
        log.learn(Fact.END_BELOW, (upper, size), end)
        return end

    def _walk_to(self, log: OpenLog, segment: Segment, upper: int, size: int, patience: Patience) -> int:
        position = self._position_of(log, segment, upper)
        while True:
            before: Place | None = None
            try:
                for place in walked(places(log, position, size), log.waypoints, patience):
                    if place.last_offset >= upper:
                        return place.position
                    position, before = place.end, place
            except DamagedError as damage:
                position = damage.position
            if position >= size:
                return position
            again = self._behind(log, segment, self._damaged_from(log, position, before), patience)
            if again is None:
                return position
            position = again

    def _damaged_from(self, log: OpenLog, position: int, before: Place | None) -> int:
        """Return the position at which the damage found at `position` begins. If `before`, the batch that ends there,
        has a wrong checksum, it is the position of that batch, because its length may be wrong too. `before` is None if
        no batch ends there.
        """
        if before is None:
            return position
        if self._sound_batch(log, before) is None:
            return before.position
        log.waypoints.passed(before.position, before.end, before.last_offset)
        return position

    def _position_of(self, log: OpenLog, segment: Segment, offset: int) -> int:
        """Where a walk starts: from the index or from earlier walks."""
        return max(segment.position_of(offset, log.source, limits=self._limits), log.waypoints.before(offset))

    def _behind(self, log: OpenLog, segment: Segment, position: int, patience: Patience) -> int | None:
        """Return the position of the next valid batch after damaged bytes at `position`, in the same log file; None if
        there is none. The result is remembered. Raises `TooFarError` if the search would be too long for `patience`.
        """
        known = log.recall(Fact.BEHIND, position)
        if known is None:
            patience.search(log.waypoints, log.size - position)
            found = Resync(log.source, self._limits).next_batch(
                position, Expected.in_segment(segment.base_offset, segment.base_offset + MAX_RELATIVE_OFFSET + 1)
            )
            known = -1 if found is None else found
            log.learn(Fact.BEHIND, position, known)
        if known >= 0:
            log.waypoints.skipped(position, known)
        return None if known < 0 else known

    def _first(
        self, log: OpenLog, segment: Segment, offset: int, limit: int, patience: Patience,
        committed: Committed | None, *, is_last: bool,
    ) -> Place | None:  # fmt: skip
        """Return the first batch of this segment whose last offset is at or after `offset`. Return None if no such
        batch begins before the position `limit`.

        With `on_damage`, damage is reported to it and skipped; a batch with a wrong checksum counts as damage. With
        `committed`, batches whose transaction is undecided because of damage are skipped too.

        Without `on_damage`, neither checksums nor `committed` are checked, and bytes that are not a batch raise
        `DamagedError`. An incomplete batch at the end of the last segment (`is_last`) raises it too, because a client
        would otherwise wait forever. In other segments it is skipped, as a broker does.

        Raises `TooFarError` if `patience` is exhausted, `StorageError` if the log cannot be read.
        """
        position = log.recall(Fact.BATCH_OF, offset)
        if position is None:
            position = self._position_of(log, segment, offset)
        while True:
            before: Place | None = None
            try:
                for place in walked(places(log, position, limit), log.waypoints, patience):
                    position, before = place.end, place
                    if place.last_offset >= offset:
                        batch = None if self._on_damage is None else self._sound_batch(log, place)
                        if self._on_damage is not None and batch is None:
                            self._tell(log, place.position, place.end, place)
                            if position < limit and self._batch_at(log, position, limit) is None:
                                break
                        elif batch is None or committed is None or not committed.holds_back(batch.header):
                            return place
                if position >= limit:
                    return None
                if self._on_damage is None and not is_last:
                    self._tell_of_cut(log, position)
                    return None
            except DamagedError as damage:
                position = damage.position
            if self._on_damage is None:
                raise DamagedError(position)
            position = self._damaged_from(log, position, before)
            again = self._behind(log, segment, position, patience)
            self._tell(log, position, log.size if again is None else again)
            if again is None or again >= limit:
                return None
            position = again

    def _end(self, log: OpenLog, segment: Segment, first: Place, target: int) -> tuple[int, int | None]:
        """Return the position after the last whole batch that ends at or before the position `target`, and the offset
        after that batch (None if unknown). The result is at least the end of the batch `first`. If the offset index
        does not help, not all headers up to `target` are read, and the result is that of an earlier batch.
        """
        if first.end >= target:
            return first.end, first.last_offset + 1
        hint = self._indexed_before(log, segment, target, first.end)
        if hint is not None:
            relative, position = hint
            # the entry's offset is the last one of what was appended there at once
            offsets = range(segment.base_offset, segment.base_offset + relative + 1)
            found = _up_to(log, position, None, target, offsets)
            if found is not None:
                return found
        return _up_to(log, first.end, first.last_offset + 1, target) or (first.end, first.last_offset + 1)

    @staticmethod
    def _indexed_before(log: OpenLog, segment: Segment, target: int, behind: int) -> tuple[int, int] | None:
        """Return relative offset and position of the last offset index entry with a position below `target`; the entry
        is not verified. Return None if there is no usable index, or if that position is not above `behind`.
        """
        index = log.index(segment.files.get(FileKind.OFFSET_INDEX))
        if index is None:
            return None
        try:
            found = log.index_block(index, target).last_before(target)
        except StorageError:
            return None
        return found if found is not None and found[1] > behind else None

    def _sound_batch(self, log: OpenLog, place: Place) -> RecordBatch | None:
        return self._batch_at(log, place.position, place.end)

    def _batch_at(self, log: OpenLog, position: int, end: int) -> RecordBatch | None:
        return next(iter(Scanner(log.source, position=position, end=end, limits=self._limits)), None)

    def _sound_end(
        self, log: OpenLog, first: Place, end: int, next_offset: int | None, committed: Committed | None
    ) -> tuple[int, int | None]:
        """Return the position at which the valid part of a file range ends, and the offset after that part. The range
        begins at the batch `first` and ends at position `end`. The valid part ends before the first batch that is
        invalid, incomplete or of an unknown magic. It also ends before a batch whose transaction is undecided because
        of damage (`committed`).

        If the whole range is valid, the result is `end` and `next_offset`. If not even the first batch is valid, the
        offset is None. Ranges that were found valid are remembered. Raises `StorageError` if the log cannot be read.
        """
        may_hold = committed is not None and bool(committed.undecided)
        known = self._sound.get((log.path, first.position))
        if known == end and not may_hold:
            return end, next_offset
        scanner = Scanner(log.source, position=first.position, end=end, limits=self._limits)
        last: RecordBatch | None = None
        for batch in scanner:
            is_held_back = may_hold and committed is not None and committed.holds_back(batch.header)
            if is_held_back or not 0 <= batch.header.magic <= BATCH_MAGIC:
                return batch.position, None if last is None else last.header.next_offset
            last = batch
        if scanner.valid_bytes >= end:
            if len(self._sound) > _REMEMBERED:
                self._sound.clear()
            self._sound[log.path, first.position] = end
            return end, next_offset
        return scanner.valid_bytes, None if last is None else last.header.next_offset

    def _tell_of_end(self, unread: Unread, end: int) -> None:
        if (unread.path, unread.start) not in self._damage:
            self._damage.add((unread.path, unread.start))
            self._complain(
                f"{unread.path}: bytes {unread.start} to {unread.end}, with which the log ends, are damaged and not "
                f"served; clients are told that it ends at offset {end}"
            )

    def _tell_of_cut(self, log: OpenLog, position: int) -> None:
        if (log.path, position) not in self._damage:
            self._damage.add((log.path, position))
            self._complain(
                f"{log.path}: bytes {position} to {log.size} are no whole batch, and not served: clients go on with "
                "the next segment, as a broker lets them"
            )

    def _tell(self, log: OpenLog, position: int, end: int, batch: Place | None = None) -> None:
        if (log.path, position) in self._damage or self._on_damage is None:
            return
        self._damage.add((log.path, position))
        what = "no batches" if batch is None else "a damaged batch"
        if batch is not None and batch.base_offset is not None:
            what += f" of the offsets {batch.base_offset} to {batch.last_offset}"
        self._on_damage(f"{log.path}: bytes {position} to {end} are {what}, and left out")


_REMEMBERED = 10_000
_TIMES = 100
"""Timestamps remembered per log."""
_MOST_HEADERS = 2000
_SLICE_HEADERS = 20_000
_CHECKED_BYTES = 4 << 20
"""Size of a response up to which checksums are verified first, if damage is left out."""


def _read(log: OpenLog, answered: Answered, upper: int) -> Read:
    position, size, next_offset = answered
    return Read(FileRange(log, position, size), upper if next_offset is None else min(next_offset, upper))


def _up_to(
    log: OpenLog, position: int, next_offset: int | None, target: int, offsets: range | None = None
) -> tuple[int, int | None] | None:
    """Read up to 2000 headers from the batch at byte `position` on. Return the position after the last of these batches
    that ends at or before the position `target`, and the offset after that batch.

    If the first batch already ends after `target`, return `position` and `next_offset`, or with `offsets` that batch's
    base offset. Return None if no batch begins at `position`, or if its last offset is not in `offsets`. Raises
    `StorageError` if the log cannot be read.
    """
    is_first, end = True, position
    with suppress(DamagedError):  # whoever fetches from there is told
        for count, place in enumerate(places(log, position, log.size), 1):
            if is_first and offsets is not None:
                if place.last_offset not in offsets:
                    return None
                next_offset = place.base_offset
            is_first = False
            if place.end > target:
                break
            end, next_offset = place.end, place.last_offset + 1
            if end == target or count >= _MOST_HEADERS:  # less than was asked for, as far as the index does not help
                break
    return None if is_first else (end, next_offset)


def _stamp(segment: Segment) -> tuple[str, int, int]:
    return segment.path, segment.size, segment.modified_ns


def _rewritten(before: Partition, now: Partition) -> set[str]:
    """Return the paths of the log files that have changed other than by appending: they became shorter, or have the
    same size but another modification time.
    """
    known = {segment.path: segment for segment in now.segments}
    pairs = ((segment, known[segment.path]) for segment in before.segments if segment.path in known)
    return {
        old.path for old, new in pairs if new.size < old.size or (new.size == old.size and _stamp(new) != _stamp(old))
    }


def _stamps(partition: Partition) -> object:
    return tuple(map(_stamp, partition.segments)), partition.log_start_offset, partition.leader_epochs


def epoch_end(epochs: tuple[LeaderEpoch, ...], wanted: int, end: int) -> tuple[int, int]:
    """Return the largest leader epoch that is not above `wanted`, and its end offset
    (`LeaderEpochFileCache.endOffsetFor`). `end` is the log end offset, with which the latest epoch ends.

    If all epochs are above `wanted`, return `wanted` and the start of the first epoch. Return (-1, -1) if `wanted` is
    negative or above all epochs, or there are none.
    """
    ordered = sorted(epochs)
    if not ordered or wanted < 0 or wanted > ordered[-1].epoch:
        return -1, -1
    if wanted == ordered[-1].epoch:
        return wanted, end
    number = bisect_right(ordered, wanted, key=lambda each: each.epoch)
    if number == 0:
        return wanted, ordered[0].start_offset
    return ordered[number - 1].epoch, ordered[number].start_offset
