"""Find out which transaction of the coordinator's log an open one is, and so whether it was committed or aborted
although its end marker is missing.

A transactional id has one transaction at a time: its coordinator writes the decision with the partitions, then a marker
into each of them, and only then takes the next transaction (`TransactionMetadata`, `TransactionMarkerChannelManager`).
So the markers of a producer in a partition have the order of the coordinator's transactions that list the partition,
and the open transaction follows the last marker. Compaction leaves the last records of an id, without a gap. Nothing is
decided if several transactions fit and ended differently, or if none fits.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import BatchHeader, ControlType, TransactionState
from kafkalog.log.directories.partition import Partition
from kafkalog.log.reading.transactions import marker_of
from kafkalog.log.walk.on_damage import SKIP

__all__ = [
    "UNDECIDED", "UNKNOWN_HISTORY", "Decided", "Decision", "EndMarker", "History", "LastMarker", "Listed", "Opened",
    "by_markers", "decided_by", "decision_of", "last_marker_of", "read_opened",
]  # fmt: skip

TopicPartition = tuple[str, int]

UNDECIDED = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
"""states in which a coordinator has yet to write markers"""
SOURCE = "the coordinator's log, which lists the partition"
_MOST_SKEW = 10_000
"""most ms by which the clocks of the brokers that wrote a decision and its marker may differ"""
_MOST_DELAY = 60_000
"""most ms from a decision until its marker is written, if no broker is out of reach"""
_DRIFT = 20
"""ms by which that difference may vary"""
_MOST_MARKERS = 1000
"""markers before an open transaction that are kept at least; each is compared with each transaction of the producer"""


class Decided(enum.StrEnum):
    """End of a transaction."""

    COMMIT = "commit"
    ABORT = "abort"

    @property
    def word(self) -> str:
        """`committed` or `aborted`."""
        return "committed" if self is Decided.COMMIT else "aborted"


def decided_by(status: int) -> Decided | None:
    """Return the decision that a coordinator's state number stands for; None if the state is not a decision."""
    if status in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT):
        return Decided.COMMIT
    return Decided.ABORT if status in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT) else None


class Decision(Struct, frozen=True, kw_only=True):
    """Decision about a transaction that lacks its marker, and the record that shows it."""

    decided: Decided | None
    """None if it is not known: more than one transaction fits, or none"""
    source: str
    is_pending: bool = False
    """whether it may be the one that the coordinator has not yet ended, and will end"""
    is_forgotten: bool = False
    """whether the coordinator has it as ongoing, because its log has lost the decision, and will abort it"""


class Listed(Struct, frozen=True, kw_only=True):
    """A transaction in a coordinator's log."""

    status: int
    """number of its last `TransactionState`"""
    epochs: tuple[int, ...]
    """epochs that its batches may have"""
    marker_epoch: int
    partitions: frozenset[TopicPartition] | None
    """None if only the record of its completion is left, which lists none"""
    started: int
    """ms since 1970 by the coordinator's clock"""
    decided_at: int
    """time of the decision, ms since 1970; of the last record if it is ongoing"""
    has_own_epoch: bool
    """whether no other transaction of the producer has this epoch (KIP-890, version 2)"""
    followed_at: int | None = None
    """start of the id's next transaction, ms since 1970; None if there is none"""

    @property
    def decided(self) -> Decided | None:
        """How it ended; None if it is ongoing."""
        return decided_by(self.status)


class History(Struct, frozen=True):
    """The transactions of a producer in a coordinator's log, in order."""

    transactions: tuple[Listed, ...]
    begins: int | None = None
    """epoch from which on none is missing; None if earlier ones of the first one's epoch may be missing"""


UNKNOWN_HISTORY = History((), 1 << 15)
"""of a producer whose transactions may all be missing"""


class EndMarker(Struct, frozen=True, kw_only=True):
    """The control record that ended a producer's transaction in a partition."""

    is_commit: bool
    timestamp: int
    """time of the broker that wrote it, ms since 1970"""
    epoch: int
    of_epoch: int
    """epoch of the batches that it ended"""
    of_timestamp: int = -1
    """largest timestamp of these batches, ms since 1970 by the producer's clock"""

    @property
    def decided(self) -> Decided:
        """How the transaction ended."""
        return Decided.COMMIT if self.is_commit else Decided.ABORT


class Opened(Struct, frozen=True, kw_only=True):
    """What a partition shows of a producer's open transaction."""

    epoch: int | None = None
    """epoch of its batches; None if none of them can be read"""
    timestamp: int = -1
    """timestamp of its first batch, ms since 1970"""
    markers: list[EndMarker] = []
    """the producer's markers before it, in order, without a gap"""
    is_from_start: bool = False
    """whether these are all since the partition was created"""


def read_opened(
    partition: Partition, firsts: Mapping[int, int | None], start_offset: int = 0, limits: Limits = DEFAULT_LIMITS
) -> dict[int, Opened]:
    """Return, by producer id, what a partition shows of the producer's open transaction and of the markers before it.
    `firsts` has the first offset of each open transaction, or None for a producer without one, whose markers are all
    wanted. If no batch of the open transaction can be read, the result for it is an empty `Opened`. Raises
    `StorageError` if a file cannot be read.

    Markers are left out below `start_offset` and before damage or a gap in the offsets. So are a marker that ends
    nothing or cannot be decoded, and those before it, because one may be missing there or have been written twice. If
    there are more than `2 * _MOST_MARKERS` before an open transaction, the first are left out too.
    """
    opened = {producer_id: Opened(is_from_start=True) for producer_id in firsts}
    since_gap = set(firsts)  # only these can have anything that the next gap makes doubtful
    epochs: dict[int, tuple[int, int]] = {}
    reader = partition.batches(start_offset=start_offset, on_damage=SKIP, limits=limits)
    end, passed = 0, 0
    for batch in reader:
        header = batch.header
        if len(reader.passed) > passed or header.first_offset > end:
            passed = len(reader.passed)
            epochs.clear()
            for producer_id in since_gap:
                if opened[producer_id].epoch is None:
                    opened[producer_id] = Opened()
            since_gap.clear()
        end = max(end, header.next_offset)
        if not isinstance(header, BatchHeader) or not header.is_transactional or header.producer_id not in opened:
            continue
        known, first = opened[header.producer_id], firsts[header.producer_id]
        since_gap.add(header.producer_id)
        if first is not None and header.last_offset >= first:
            if known.epoch is None and not header.is_control:
                epoch, timestamp = header.producer_epoch, header.max_timestamp
                opened[header.producer_id] = replace(known, epoch=epoch, timestamp=timestamp)
        elif not header.is_control:
            newest = max(epochs.get(header.producer_id, (0, -1))[1], header.max_timestamp)
            epochs[header.producer_id] = header.producer_epoch, newest
        else:
            of_epoch, newest = epochs.pop(header.producer_id, (None, -1))
            try:
                marker = marker_of(batch, limits)
            except FormatError:
                marker = None
            if marker is None or of_epoch is None:
                opened[header.producer_id] = Opened()
            else:
                if first is not None and len(known.markers) == 2 * _MOST_MARKERS:
                    known = replace(known, markers=known.markers[-_MOST_MARKERS:], is_from_start=False)
                    opened[header.producer_id] = known
                known.markers.append(
                    EndMarker(
                        is_commit=marker.marker.type is ControlType.COMMIT,
                        timestamp=header.max_timestamp,
                        epoch=header.producer_epoch,
                        of_epoch=of_epoch,
                        of_timestamp=newest,
                    )
                )
    return {producer_id: Opened() if known.epoch is None and firsts[producer_id] is not None else known
            for producer_id, known in opened.items()}  # fmt: skip


def decision_of(history: History, place: TopicPartition, opened: Opened) -> Decision | None:
    """Return how the open transaction of a producer in partition `place` ended, by the coordinator's log. Return None
    if it certainly began after all transactions in that log, so that the coordinator has no such transaction. `decided`
    of the result is None if no transaction fits, or if the log may have lost the transaction. It is None too if those
    that fit ended differently, have not ended, or ended before the open transaction began.
    """
    ours = [each for each in history.transactions if each.partitions is None or place in each.partitions]
    fitting = [number for number in range(-1, len(ours) + 1) if _fits(number, ours, history, opened)]
    if fitting == [len(ours)]:
        return None
    fits = [ours[number] if 0 <= number < len(ours) else None for number in fitting]
    decided = {None if listed is None or listed.decided_at + _MOST_SKEW < opened.timestamp else listed.decided
               for listed in fits}  # fmt: skip
    may_be_last = bool(ours) and len(ours) - 1 in fitting and ours[-1] is history.transactions[-1]
    is_pending = may_be_last and ours[-1].status in UNDECIDED
    return Decision(decided=decided.pop() if len(decided) == 1 else None, source=SOURCE, is_pending=is_pending)


class LastMarker(Struct, frozen=True, kw_only=True):
    """The last marker of a producer in a partition of its ongoing transaction."""

    place: TopicPartition
    decided: Decided
    is_certain: bool
    """whether, by order, epochs and times of the markers there, it can be no earlier transaction's"""
    of_timestamp: int
    """largest timestamp of the batches that it ended, ms since 1970 by the producer's clock; -1 if this is unknown or
    the marker may be older than the transaction"""

    def ends(self, opened: Opened) -> bool:
        """Whether it is the marker of the producer's transaction that is open in another partition: certainly, or
        because it ended records that were written later than the first ones there.
        """
        return self.is_certain or 0 <= opened.timestamp <= self.of_timestamp


def last_marker_of(history: History, place: TopicPartition, there: Opened) -> LastMarker | None:
    """Return the last marker of a producer in `place`, a partition of the last transaction of `history`, which is
    ongoing there. Return None if there is no marker, or if it is certainly an earlier transaction's. `there` has the
    producer's markers in that partition.
    """
    last = history.transactions[-1]
    if not there.markers or there.markers[-1].of_epoch not in last.epochs:
        return None
    marker, unknown = there.markers[-1], replace(there, epoch=None)
    ours = [each for each in history.transactions if each.partitions is None or place in each.partitions]
    is_certain = not any(_fits(number, ours, history, unknown) for number in range(-1, len(ours)))
    of_timestamp = marker.of_timestamp if marker.timestamp >= last.started else -1
    return LastMarker(place=place, decided=marker.decided, is_certain=is_certain, of_timestamp=of_timestamp)


def _fits(number: int, ours: Sequence[Listed], history: History, opened: Opened) -> bool:
    """Whether the open transaction can be `ours[number]`. `ours` are the transactions of `history` that may have the
    partition. The number -1 is for a transaction before them that the log no longer has, and `len(ours)` for one after
    all of them.

    Each marker before the open transaction must belong to an earlier transaction, which is in `ours` or no longer in
    the log. A marker must have the decision and the epochs of its transaction. One difference of the two clocks must
    explain the times of all markers. At least one marker must have been written soon after its decision.
    """
    low, high = float(-_MOST_SKEW), float(_MOST_SKEW)
    delays: list[int] = []
    every, markers = history.transactions, opened.markers
    if number < 0:
        if not _may_be_missing(opened.epoch, history):
            return False
        began = every[0].started if every else None
    elif number == len(ours):
        if ours and (ours[-1].decided is None or _is_below(opened.epoch, ours[-1].marker_epoch)):
            return False
        began = None
    else:
        if opened.epoch is not None and opened.epoch not in ours[number].epochs:
            return False
        began = ours[number].started
    if began is not None and markers:
        low = max(low, markers[-1].timestamp - began)
    pairs = list(zip(reversed(markers), reversed(ours[: max(number, 0)]), strict=False))
    for marker, pair in pairs:
        if pair.partitions is None:  # the partition may not have been part of it
            return min(delays, default=0) <= _MOST_SKEW + _MOST_DELAY
        if (pair.decided, pair.marker_epoch) != (marker.decided, marker.epoch) or marker.of_epoch not in pair.epochs:
            return False
        low = low if pair.followed_at is None else max(low, marker.timestamp - pair.followed_at)
        delays.append(marker.timestamp - pair.decided_at)
        high = min(high, delays[-1])
        if low > high + _DRIFT:
            return False
    if low > high + _DRIFT or min(delays, default=0) > _MOST_SKEW + _MOST_DELAY:
        return False
    if len(pairs) < len(markers):
        return all(_may_be_missing(marker.of_epoch, history) for marker in markers[: len(markers) - len(pairs)])
    unpaired = ours[: max(number - len(pairs), 0)]
    return not opened.is_from_start or all(each.partitions is None for each in unpaired)


def _may_be_missing(epoch: int | None, history: History) -> bool:
    """Whether a transaction whose batches have this epoch (None: unknown) may be one that the coordinator's log no
    longer has.
    """
    if history.begins is not None:
        return _is_below(epoch, history.begins)
    first = history.transactions[0]
    return _is_below(epoch, max(first.epochs) + (not first.has_own_epoch))


def _is_below(epoch: int | None, other: int) -> bool:
    return epoch is None or epoch < other


def by_markers(
    decision: Decision | None,
    opened: Opened,
    elsewhere: Iterable[tuple[TopicPartition, Opened]],
    *,
    has_own_epoch: bool,
) -> Decision | None:
    """Return the decision about the open transaction that the producer's markers in other partitions (`elsewhere`)
    show. Only markers of the same epoch count, and of these only ones that are at most `_MOST_SKEW` older than the last
    marker in this partition. If there are none, return `decision`.

    An epoch identifies the transaction only if each transaction of the producer has an epoch of its own (KIP-890). A
    COMMIT marker above the epoch of its batches proves this. An ABORT marker above it proves this only with
    `has_own_epoch`, because a coordinator also raises the epoch to abort after a timeout. `decided` of the result is
    None if a marker that counts does not prove it, or if the markers contradict each other.
    """
    since = opened.markers[-1].timestamp - _MOST_SKEW if opened.markers else -1
    found = {
        (marker.decided if marker.epoch > marker.of_epoch and (marker.is_commit or has_own_epoch) else None): place
        for place, there in elsewhere
        for marker in there.markers
        if marker.of_epoch == opened.epoch and marker.timestamp >= since
    }
    if not found:
        return decision
    ((decided, (topic, partition)),) = list(found.items())[:1]
    return Decision(decided=decided if len(found) == 1 else None, source=f"the marker in {topic}-{partition}")
