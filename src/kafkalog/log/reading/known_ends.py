"""Find out from the producer snapshot and the transaction indexes how transactions ended whose end markers are lost.

If records are missing between others, the batches do not show whether a transaction that began before the gap has
ended: by batches alone it stays open, or ends with the marker of its producer's next transaction. But a broker loads
the newest producer snapshot when it starts, and a consumer's fetch reads the transaction indexes. These files are
believed only if all existing batches agree with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import NO_END, AbortedTransaction
from kafkalog.codec.names import FileKind
from kafkalog.log.disk.files import FileSource
from kafkalog.log.reading.opened_below import WithSnapshots, snapshot_of_start, start_of_state
from kafkalog.log.reading.transactions import KnownTransactions
from kafkalog.log.storage.producers.evidence import Evidence, claims_of, ended_since, listed_aborted, opened_of
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.segment import Segment

if TYPE_CHECKING:
    from kafkalog.codec.headers.one_batch import AnyRun

__all__ = ["known_transactions"]


def known_transactions(
    partition: WithSnapshots,
    aborted: Sequence[AbortedTransaction],
    opened: dict[int, int],
    limits: Limits = DEFAULT_LIMITS,
) -> KnownTransactions | None:
    """Return the transactions at the offset of the producer snapshot, according to the snapshot and the transaction
    indexes. Return them only if these files show the end of a transaction that the batches do not show. Otherwise
    return None, and also if the files are missing, damaged or contradicted by a batch.

    `aborted` and `opened` (first offsets by producer id) are the transactions according to the batches alone. If the
    files may show such an end, the log is read up to the snapshot's offset for comparison. Raises `StorageError` if it
    cannot be read.
    """
    snapshot = snapshot_of_start(partition, limits)
    if snapshot is None or not snapshot.entries:
        return None
    listed = _listed(partition.segments, snapshot.offset)
    if listed is None:
        return None
    start = start_of_state(partition) or 0
    derived = [entry for entry in aborted if entry.last_offset < snapshot.offset]
    known = [entry for entry in listed if entry.last_offset >= start]
    claims = claims_of(derived, known)
    if claims is None or not (claims or ended_since(opened, snapshot.entries, snapshot.offset)):
        return None
    evidence = Evidence(snapshot.entries, snapshot.offset, claims)
    reader = BatchReader(partition.segments, start_offset=start_of_state(partition), limits=limits)
    if not evidence.holds_in(_with_bases(reader)) or evidence.is_a_segment_short:
        return None
    return KnownTransactions(snapshot.offset, tuple(listed), opened_of(snapshot.entries))


def _with_bases(reader: BatchReader) -> Iterator[tuple[int, AnyRun]]:
    for run in reader.by_run():
        yield 0 if reader.segment is None else reader.segment.base_offset, run


def _listed(segments: Sequence[Segment], end: int) -> list[AbortedTransaction] | None:
    """Return the aborted transactions that the transaction indexes list and whose markers are below offset `end`, in
    segment order. Only segments that begin below `end` are used, and a segment without an index is skipped. None if an
    index cannot be read or is not valid for its segment.
    """
    listed: list[AbortedTransaction] = []
    for segment, behind in zip_longest(segments, segments[1:]):
        path = segment.files.get(FileKind.TRANSACTION_INDEX)
        if path is None or segment.base_offset >= end:
            continue
        try:
            with FileSource(path) as source:
                entries = listed_aborted(source, segment.base_offset, NO_END if behind is None else behind.base_offset)
        except (FileNotFoundError, StorageError):
            return None
        if entries is None:
            return None
        listed.extend(entry for entry in entries if entry.last_offset < end)
    return listed
