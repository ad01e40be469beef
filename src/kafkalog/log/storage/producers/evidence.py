"""Judge what a producer snapshot and the transaction indexes prove about transactions whose end markers are missing
from the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from kafkalog.codec.common.source import Source
from kafkalog.codec.files.index_files import ABORTED_TRANSACTION, ABORTED_TRANSACTION_VERSION, each_slot
from kafkalog.codec.headers.one_batch import AnyRun, OneBatch
from kafkalog.codec.model import AbortedTransaction, AnyHeader, ProducerEntry
from kafkalog.log.storage.producers.snapshot_check import OpenWithoutGap, SnapshotCheck

__all__ = ["Claim", "Evidence", "claims_of", "ended_since", "listed_aborted", "opened_of"]


def opened_of(entries: Iterable[ProducerEntry]) -> dict[int, int]:
    """Return the first offset of each open transaction in the entries of a producer snapshot, by producer id."""
    firsts = {entry.producer_id: entry.current_txn_first_offset for entry in entries}
    return {producer_id: first for producer_id, first in firsts.items() if first >= 0}


def ended_since(opened: Mapping[int, int], entries: Iterable[ProducerEntry], end: int) -> bool:
    """Whether at least one of the `opened` transactions (first offsets by producer id) that began below offset `end` is
    not open in the producer snapshot at `end`, which has these entries. A producer without an entry has expired, so its
    transaction is not open.
    """
    still_open = opened_of(entries)
    return any(still_open.get(producer_id) != first for producer_id, first in opened.items() if first < end)


def listed_aborted(source: Source, first: int, end: int) -> list[AbortedTransaction] | None:
    """Return the entries of a transaction index (`TransactionIndex`) in file order; an empty list for an empty file.
    Return None if the index cannot be trusted. This is so if an entry has an unknown version or is incomplete, or if
    its first offset is negative or not below its last offset (the marker's). It is also so if the last offsets do not
    increase or are outside the segment's offsets, `first` to `end` (exclusive). Raises `StorageError` if the index
    cannot be read.
    """
    listed: list[AbortedTransaction] = []
    before = first - 1
    for _number, fields in each_slot(source, ABORTED_TRANSACTION, pass_holes=True):
        entry = AbortedTransaction(*fields)
        is_next = before < entry.last_offset < end and 0 <= entry.first_offset < entry.last_offset
        if entry.version != ABORTED_TRANSACTION_VERSION or not is_next:
            return None
        listed.append(entry)
        before = entry.last_offset
    return listed if source.size % ABORTED_TRANSACTION.size == 0 else None


class Claim(Struct, frozen=True, kw_only=True):
    """An aborted transaction that a transaction index lists, although it does not follow from the batches."""

    producer_id: int
    first_offset: int
    marker: int
    is_marker_there: bool
    """whether the batches have this abort marker, with another first offset"""


def claims_of(derived: Iterable[AbortedTransaction], listed: Iterable[AbortedTransaction]) -> list[Claim] | None:
    """Compare the aborted transactions that transaction indexes list (`listed`) with those that follow from the batches
    (`derived`). Two transactions are the same if producer, first offset and marker offset are equal. Return a `Claim`
    for each listed transaction that was not derived, or whose marker is listed before it, in the order of `listed`.
    Return None if `listed` lacks the marker of a derived transaction.
    """
    firsts = {(entry.producer_id, entry.last_offset): entry.first_offset for entry in derived}
    claims: list[Claim] = []
    for entry in listed:
        first = firsts.pop((entry.producer_id, entry.last_offset), None)
        if first != entry.first_offset:
            claims.append(Claim(
                producer_id=entry.producer_id,
                first_offset=entry.first_offset,
                marker=entry.last_offset,
                is_marker_there=first is not None,
            ))
    return None if firsts else claims


class Evidence:
    """Comparison of a producer snapshot at offset `end`, and of the claims of transaction indexes, with the batches
    below `end`. `entries` are those of the snapshot.
    """

    def __init__(self, entries: Sequence[ProducerEntry], end: int, claims: Sequence[Claim] = ()) -> None:
        self._end = end
        self._still_open = opened_of(entries).keys()
        self._claims = _Claims(claims) if claims else None
        self._check = SnapshotCheck(entries, end)
        self._writing = OpenWithoutGap()
        self._has_enough = True
        self.is_a_segment_short = False
        """whether the last batches of a segment are missing: then a segment with its own index may be missing too"""

    def holds_in(self, runs: Iterable[tuple[int, AnyRun]]) -> bool:
        """Return whether the batches confirm the snapshot. They must reach offset `end`, and agree with the last batch
        of at least one producer in the snapshot. They must not contradict the snapshot or the indexes. `runs` must come
        in the order of the log, each with the base offset of its segment; iteration stops at offset `end`. Call only
        once.

        Sets `is_a_segment_short` if the batches of a segment end below `end` and below the base offset of the next one.
        """
        before: int | None = None
        expected = 0
        for base, run in runs:
            first, behind = run.first_offset, run.next_offset
            if before not in (None, base) and expected < min(base, self._end):
                self.is_a_segment_short = True
            if first >= self._end:
                break
            before, expected = base, behind
            for part in (run,) if behind <= self._end and self._claims is None else map(OneBatch, run):
                self._take(part)
        self._has_enough = expected >= self._end and self._writing.opened.keys() <= self._still_open
        return self._check.is_confirmed and not self.is_contradicted

    @property
    def is_contradicted(self) -> bool:
        """Whether a batch contradicts the snapshot or the indexes, or the batches do not reach offset `end`. Valid
        after `holds_in`.
        """
        is_untrue = self._claims is not None and self._claims.is_contradicted
        return is_untrue or self._check.problem is not None or not self._has_enough

    def _take(self, run: AnyRun) -> None:
        if run.first_offset >= self._end:
            return
        self._check.run(run)
        self._writing.run(run)
        if self._claims is not None:
            self._claims.batch(run.header(0))


class _Claims:
    """Comparison of claims with the batches, which must be passed in the order of the log. A claimed transaction may
    begin with a transactional batch of its producer, or at offsets that are missing. If its producer has an earlier
    transaction without a marker, offsets must be missing in between, so that the marker may be lost there.
    """

    def __init__(self, claims: Sequence[Claim]) -> None:
        self._firsts = sorted(claims, key=lambda claim: claim.first_offset)
        self._markers = sorted(claims, key=lambda claim: claim.marker)
        self._by_producer: dict[int, list[Claim]] = {}
        for claim in self._markers:
            self._by_producer.setdefault(claim.producer_id, []).append(claim)
        self._written: dict[int, int] = {}
        """last offset of each producer's transaction that is open by the batches"""
        self._next_offset: int | None = None
        self._behind_gap = 0
        """first offset after the last gap; 0 if there was none"""
        self.is_contradicted = False

    def batch(self, header: AnyHeader) -> None:
        """Compare the claims with the next batch. `is_contradicted` becomes True in three cases. The batch contains a
        claim's first offset, but the claimed transaction cannot begin there. The batch contains a claim's marker
        offset, but is not a control batch of the claim's producer, or `is_marker_there` is False. The batch is another
        marker of a claim's producer, between the claim's first offset and its marker.
        """
        if self._next_offset is not None and header.first_offset > self._next_offset:
            self._behind_gap = header.first_offset
        self._next_offset = header.next_offset
        for claim in _within(self._firsts, header, lambda claim: claim.first_offset):
            self.is_contradicted |= not self._begins(claim, header)
        for claim in _within(self._markers, header, lambda claim: claim.marker):
            is_its_own = header.is_control and header.producer_id == claim.producer_id
            self.is_contradicted |= not (claim.is_marker_there and is_its_own)
        claims = self._by_producer.get(header.producer_id)
        if claims is None or not header.is_transactional:
            return
        if header.is_control:
            place = bisect_right(claims, header.first_offset, key=lambda claim: claim.marker)
            self.is_contradicted |= place < len(claims) and claims[place].first_offset < header.first_offset
            self._written.pop(header.producer_id, None)
        else:
            self._written[header.producer_id] = header.last_offset

    def _begins(self, claim: Claim, header: AnyHeader) -> bool:
        """Whether the transaction of a claim can begin with this batch, which covers the claim's first offset."""
        if header.is_control or header.producer_id != claim.producer_id or header.first_offset != claim.first_offset:
            return False
        earlier = self._written.get(claim.producer_id)
        return header.is_transactional and (earlier is None or earlier < self._behind_gap)


def _within(claims: Sequence[Claim], header: AnyHeader, offset_of: Callable[[Claim], int]) -> Sequence[Claim]:
    """Return the claims whose offset, by the function `offset_of`, is among the offsets of this batch. `claims` must be
    sorted by that offset.
    """
    begin = bisect_left(claims, header.first_offset, key=offset_of)
    return claims[begin : bisect_right(claims, header.last_offset, key=offset_of)]
