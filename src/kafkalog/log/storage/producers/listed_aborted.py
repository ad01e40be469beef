"""Read the transaction index of a segment as a whole, in order to believe it only if it is plausible."""

from __future__ import annotations

from kafkalog.codec.common.source import Source
from kafkalog.codec.files.index_files import ABORTED_TRANSACTION, ABORTED_TRANSACTION_VERSION, each_slot
from kafkalog.codec.model import AbortedTransaction

__all__ = ["listed_aborted"]


def listed_aborted(source: Source, first: int, end: int) -> list[AbortedTransaction] | None:
    """Return the entries of a transaction index (`TransactionIndex`) in file order; None if it cannot be trusted: an
    unknown version, an incomplete entry, first offset negative or not below the last one, or a marker offset that does
    not increase or is outside `first` to `end` (exclusive), the offsets of the segment. An empty file gives an empty
    list.
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
