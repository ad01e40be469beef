"""Determine the state of producers after lost batches, from the producer snapshots and transaction indexes of the
directory.

If an end marker is lost, a scan of the log leaves its transaction open, and readers of committed data stop there; or it
ends the transaction with the marker of the next one. A producer snapshot behind the lost batches shows that the
transaction ended, and the transaction index of the segment with the marker whether it was aborted. Both are used only
together, and only if the batches that are left agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kafkalog.codec.common.errors import FormatError, LimitExceeded
from kafkalog.codec.files.index_files import read_producer_snapshot
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.model import NO_END, AbortedTransaction, ProducerEntry
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.storage.producers.evidence import Claim, Evidence, claims_of, ended_since, listed_aborted, opened_of
from kafkalog.log.storage.tree import Tree

__all__ = ["KnownState", "are_known_to_have_ended", "opens_as", "states_behind"]

Span = tuple[int, int]
"""two offsets: of the base of a segment and of the next one; or the first and the last that are lost"""


class KnownState(NamedTuple):
    """A tree in which a partition directory has the original producer snapshot at `offset`, from which a start knows
    the state of the producers.
    """

    tree: Tree
    offset: int
    proven: int
    """offset of the snapshot that batches confirm, at which the state must be as it tells"""


def states_behind(
    original: Tree, rebuilt: Tree, directory: str, lost: Sequence[Span] = ()
) -> Iterator[KnownState]:
    """Yield states from which the log can be recovered without leaving ended transactions open. The tree of each is a
    copy of `rebuilt` with an original producer snapshot after lost batches. It has the original transaction indexes of
    the segments that end after the first lost offset, up to `proven`. At most three are yielded, first those that prove
    more. Nothing is yielded if nothing is lost, or if these files show no more than the batches do or do not prove how
    the transactions ended.

    `rebuilt` has the logs that are kept of `original`, with all other files rebuilt. `lost` has the offset ranges
    (first, last) that this recovery leaves out. If it is empty, the first gap between the log's batches counts as lost.
    Neither tree is changed. Raises `StorageError` if a file cannot be read.
    """
    spans = list(pairwise(base for base, _path in rebuilt.logs(directory)))
    offsets = _that_tell_more(original, rebuilt, directory, spans)
    if not offsets:
        return
    gap = min(first for first, _last in lost) if lost else _first_gap(rebuilt, directory)
    if gap is None:
        return
    behind = [offset for offset in offsets if offset > gap]
    for proven in dict.fromkeys(behind[-1:] + behind[:1]):
        concerned = [span for span in spans if gap < span[1] <= proven]
        tree = _with_indexes(original, rebuilt, directory, concerned, lost)
        if tree is None:
            continue
        for offset in dict.fromkeys((behind[0], proven)):
            if offset != proven and _is_contradicted(original, rebuilt, directory, offset):
                continue
            known = tree.copy()
            _put(known, original, f"{directory}/{segment_file(offset, FileKind.PRODUCER_SNAPSHOT)}")
            yield KnownState(known, offset, proven)


def opens_as(result: Tree, original: Tree, directory: str, offset: int) -> bool:
    """Whether the producer snapshots of both trees at `offset` have the same open transactions. False if one of the
    snapshots is missing, too large or invalid. Raises `StorageError` if one cannot be read.
    """
    some, others = _entries(result, directory, offset), _entries(original, directory, offset)
    return some is not None and others is not None and opened_of(some) == opened_of(others)


def are_known_to_have_ended(known: Tree, scanned: Tree, directory: str, end: int) -> bool:
    """Whether the producer snapshot at offset `end` in `known` shows that transactions which are open in `scanned` have
    ended, and the batches confirm it. False if that snapshot is missing, too large or invalid. Both trees must have the
    same logs. Raises `StorageError` if a file cannot be read.
    """
    entries, opened = _entries(known, directory, end), opened_of(_entries(scanned, directory, end) or ())
    if entries is None or not ended_since(opened, entries, end):
        return False
    return Evidence(entries, end).holds_in(_batches(scanned, directory, end))


def _that_tell_more(original: Tree, rebuilt: Tree, directory: str, spans: Sequence[Span]) -> list[int]:
    """Return the ends of segments at which the original files prove more than the rebuilt ones, as ascending offsets.
    An end counts if an original producer snapshot is there, and one of two things holds. That snapshot shows that a
    transaction has ended which is open in the rebuilt snapshot. Or the original transaction index of this or an earlier
    segment lists a transaction that the rebuilt index lacks. `spans` are base offset and next base offset of each
    segment but the last. Raises `StorageError` if a file cannot be read.
    """
    offsets = []
    is_another_list = False
    for span in spans:
        derived, listed = _listed(rebuilt, directory, span), _listed(original, directory, span)
        if derived is not None and listed is not None:
            is_another_list = is_another_list or bool(claims_of(derived, listed))
        entries, opened = _entries(original, directory, span[1]), _entries(rebuilt, directory, span[1]) or ()
        if entries is not None and (is_another_list or ended_since(opened_of(opened), entries, span[1])):
            offsets.append(span[1])
    return offsets


def _with_indexes(
    original: Tree, rebuilt: Tree, directory: str, concerned: Sequence[Span], lost: Sequence[Span]
) -> Tree | None:
    """Return a copy of `rebuilt` with the original transaction indexes of the segments `concerned` (base offset and
    next base offset; at least one). Return None in these cases:

    * An index is damaged, or an original one lacks a transaction of the rebuilt one.
    * The batches do not confirm these indexes and the original snapshot after the last segment.
    * The last offset of one of the segments is in `lost`.
    * `lost` is empty and a segment ends below the next one: another segment, with its own index, may have been between
      them.

    Reads the batches before the end of the last segment in `concerned`. Raises `StorageError` if a file cannot be read.
    """
    tree, end = rebuilt.copy(), concerned[-1][1]
    claims: list[Claim] = []
    if any(first < behind <= last + 1 for _base, behind in concerned for first, last in lost):
        return None
    for span in concerned:
        derived, listed = _listed(rebuilt, directory, span), _listed(original, directory, span)
        more = None if derived is None or listed is None else claims_of(derived, listed)
        if more is None:
            return None
        claims += more
        _put(tree, original, f"{directory}/{segment_file(span[0], FileKind.TRANSACTION_INDEX)}")
    evidence = Evidence(_entries(original, directory, end) or (), end, claims)
    if not evidence.holds_in(_batches(rebuilt, directory, end)) or (evidence.is_a_segment_short and not lost):
        return None
    return tree


def _is_contradicted(original: Tree, rebuilt: Tree, directory: str, offset: int) -> bool:
    evidence = Evidence(_entries(original, directory, offset) or (), offset)
    evidence.holds_in(_batches(rebuilt, directory, offset))
    return evidence.is_contradicted


def _batches(tree: Tree, directory: str, end: int) -> Iterator[tuple[int, OneBatch]]:
    """Yield the batches of the segments that begin below `end` as runs, each with the base offset of its segment."""
    for base, path in tree.logs(directory):
        for batch in Scanner(tree.source(path), check_crc=False) if base < end else ():
            yield base, OneBatch(batch)


def _first_gap(tree: Tree, directory: str) -> int | None:
    """Return the first missing offset: the offset after the first batch whose next batch begins higher. Return None if
    there is no such gap. Reads the log up to that gap, and each segment only up to its first damage. Raises
    `StorageError` if a log cannot be read.
    """
    expected: int | None = None
    for _base, run in _batches(tree, directory, NO_END):
        if expected is not None and run.first_offset > expected:
            return expected
        expected = run.next_offset
    return None


def _entries(tree: Tree, directory: str, offset: int) -> list[ProducerEntry] | None:
    """Return the entries of the producer snapshot at an offset; None if it is missing, cannot be parsed or is too
    large. Raises `StorageError` if it cannot be read.
    """
    path = f"{directory}/{segment_file(offset, FileKind.PRODUCER_SNAPSHOT)}"
    try:
        return list(read_producer_snapshot(tree.source(path))) if path in tree.files else None
    except (FormatError, LimitExceeded):
        return None


def _listed(tree: Tree, directory: str, span: Span) -> list[AbortedTransaction] | None:
    """Entries of the transaction index of a segment; empty if there is no file, None if it is damaged."""
    path = f"{directory}/{segment_file(span[0], FileKind.TRANSACTION_INDEX)}"
    return listed_aborted(tree.source(path), *span) if path in tree.files else []


def _put(tree: Tree, original: Tree, path: str) -> None:
    """Give a file in `tree` its original content, or remove it if it is missing there."""
    if path in original.files:
        tree.files[path] = original.files[path]
    else:
        tree.files.discard(path)
