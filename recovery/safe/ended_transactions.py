"""State of the producers behind lost batches, according to the snapshots and transaction indexes of the directory.

If an end marker is lost, a scan of the log leaves its transaction open, and readers of committed data stop there. A
producer snapshot behind the lost batches tells that the transaction ended, and the transaction index of the segment
with the marker whether it was aborted. Both are used only together, and only if the batches that are left agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from kafkalog.codec.errors import FormatError, LimitExceeded
from kafkalog.codec.index_files import (
    ABORTED_TRANSACTION,
    ABORTED_TRANSACTION_VERSION,
    each_slot,
    read_producer_snapshot,
)
from kafkalog.codec.model import AbortedTransaction, ProducerEntry
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.codec.scanner import Scanner
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.checks.producer_snapshots import OpenWithoutGap, SnapshotCheck

__all__ = ["are_known_to_have_ended", "state_behind"]

Span = tuple[int, int]
"""first and last offset of batches that are lost"""


def state_behind(
    original: Tree, rebuilt: Tree, directory: str, lost: Span, all_lost: Sequence[Span]
) -> tuple[Tree, int] | None:
    """Return `rebuilt` with the original producer snapshot behind `lost` and the transaction indexes up to there, and
    the snapshot's offset, from which the log is to be recovered.

    None if no transaction is open there that the snapshot knows to have ended, or if the files do not prove how it
    ended. `rebuilt` has the same logs with all other files rebuilt.
    """
    segments = rebuilt.logs(directory)
    bases = [base for base, _path in segments]
    for number, base in enumerate(bases):
        entries = _entries(original, directory, base) if base > lost[1] else None
        opened = _open(_entries(rebuilt, directory, base) or ())
        if entries is None or not _ends_some(entries, opened, rebuilt, directory, base):
            continue
        tree = rebuilt.copy()
        for first, behind in pairwise(bases[: number + 1]):
            if behind > lost[0] and not _put_index(tree, original, directory, (first, behind), all_lost):
                return None
        _put(tree, original, f"{directory}/{segment_file(base, FileKind.PRODUCER_SNAPSHOT)}")
        return tree, base
    return None


def are_known_to_have_ended(known: Tree, scanned: Tree, directory: str, end: int) -> bool:
    """Whether the producer snapshot at offset `end` in `known` tells that transactions ended which are open in
    `scanned`, and no batch contradicts it. Both trees have the same logs.
    """
    entries, opened = _entries(known, directory, end), _open(_entries(scanned, directory, end) or ())
    return entries is not None and _ends_some(entries, opened, scanned, directory, end)


def _ends_some(
    entries: Sequence[ProducerEntry], opened: Mapping[int, int], tree: Tree, directory: str, end: int
) -> bool:
    """Whether some of the `opened` transactions are not open by a snapshot's `entries`, which a batch below `end`
    confirms and none contradicts. A producer that is not listed has no open transaction, and has expired.
    """
    still_open = _open(entries)
    if all(still_open.get(producer_id) == first for producer_id, first in opened.items()):
        return False
    check, writing = SnapshotCheck(entries, end), OpenWithoutGap()
    for base, path in tree.logs(directory):
        for batch in Scanner(tree.source(path), check_crc=False) if base < end else ():
            check.batch(batch.header)
            writing.batch(batch.header)
    return check.is_confirmed and check.problem is None and writing.producers <= still_open.keys()


def _entries(tree: Tree, directory: str, offset: int) -> list[ProducerEntry] | None:
    """Entries of the producer snapshot at an offset; None if it is missing or unreadable."""
    path = f"{directory}/{segment_file(offset, FileKind.PRODUCER_SNAPSHOT)}"
    try:
        return list(read_producer_snapshot(tree.source(path))) if path in tree.files else None
    except (FormatError, LimitExceeded):
        return None


def _open(entries: Sequence[ProducerEntry]) -> dict[int, int]:
    """First offsets of open transactions by producer id."""
    return {
        entry.producer_id: entry.current_txn_first_offset for entry in entries if entry.current_txn_first_offset >= 0
    }


def _put_index(tree: Tree, original: Tree, directory: str, offsets: Span, all_lost: Sequence[Span]) -> bool:
    """Put the original transaction index of the segment from the first to before the second of `offsets` into `tree`.
    Return False if it does not prove which transactions with a lost marker were aborted.

    Apart from those it must list what the batches tell. Of a segment whose last batches are lost it is unknown whether
    another segment followed, with an index of its own.
    """
    path = f"{directory}/{segment_file(offsets[0], FileKind.TRANSACTION_INDEX)}"
    if any(first < offsets[1] <= last + 1 for first, last in all_lost):
        return False
    markers = _markers(original, path, offsets)
    derived = _markers(tree, path, offsets)
    if markers is None or derived is None or not derived <= markers:
        return False
    if not all(any(first <= offset <= last for first, last in all_lost) for _producer, offset in markers - derived):
        return False
    _put(tree, original, path)
    return True


def _markers(tree: Tree, path: str, offsets: Span) -> set[tuple[int, int]] | None:
    """Producer id and marker's offset of each entry of a transaction index; empty if there is no file, None if it is
    damaged.
    """
    if path not in tree.files:
        return set()
    source = tree.source(path)
    markers, before = set(), offsets[0] - 1
    for _number, fields in each_slot(source, ABORTED_TRANSACTION, pass_holes=True):
        entry = AbortedTransaction(*fields)
        is_next = before < entry.last_offset < offsets[1] and 0 <= entry.first_offset < entry.last_offset
        if entry.version != ABORTED_TRANSACTION_VERSION or not is_next:
            return None
        markers.add((entry.producer_id, entry.last_offset))
        before = entry.last_offset
    return markers if source.size % ABORTED_TRANSACTION.size == 0 else None


def _put(tree: Tree, original: Tree, path: str) -> None:
    """Give a file in `tree` its original content, or remove it if it is missing there."""
    if path in original.files:
        tree.files[path] = original.files[path]
    else:
        tree.files.discard(path)
