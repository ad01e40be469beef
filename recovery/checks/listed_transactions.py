"""Compare the entries of one `.txnindex` with the aborted transactions in the log (`TransactionIndex`)."""

from __future__ import annotations

from collections.abc import Mapping, Set

from kafkalog.codec.files.index_files import ABORTED_TRANSACTION_VERSION
from kafkalog.codec.model import AbortedTransaction
from kafkalog.recovery.checks.cleaned_beginnings import Beginning

__all__ = ["ListedTransactions"]


class ListedTransactions:
    """Compares the entries of one transaction index, added in order, with `wanted`, the aborted transactions that the
    index should list. `wanted` maps producer id and last offset to the first offset. An entry whose first offset is
    below the log start offset may belong to a deleted transaction and does not count as extra, unless its version is
    unknown.
    """

    def __init__(self, wanted: Mapping[tuple[int, int], int], log_start_offset: int = 0) -> None:
        self._wanted = wanted
        self._log_start_offset = log_start_offset
        self._missing = dict(wanted)
        self._extra = 0
        self._before: tuple[int, int, int] | None = None
        self.earlier: dict[tuple[int, int], Beginning] = {}
        """wanted transactions that are listed with a lower first offset"""

    def entry(self, entry: AbortedTransaction) -> None:
        """Compare the next entry of the index with the wanted transaction of the same producer and last offset. The
        first of these cases that applies counts:

        * The entry has an unknown version: it counts as extra, because Kafka 4.4 does not start on it.
        * The first offset agrees too: the transaction is listed.
        * The entry repeats the one before it: it is ignored.
        * Its first offset is below the wanted one: the first such entry of a transaction is kept in `earlier`.
        * Any other entry counts as extra if its first offset is not below the log start offset.
        """
        if entry.version != ABORTED_TRANSACTION_VERSION:
            self._extra += 1
            return
        key = entry.producer_id, entry.last_offset
        first = self._wanted.get(key)
        before, self._before = self._before, (*key, entry.first_offset)
        if first == entry.first_offset:
            self._missing.pop(key, None)
        elif self._before == before:
            return
        elif first is not None and entry.first_offset < first and key not in self.earlier:
            self.earlier[key] = Beginning(entry.producer_id, entry.first_offset, first)
        else:
            self._is_extra(entry.first_offset)

    def _is_extra(self, first_offset: int) -> None:
        if first_offset >= self._log_start_offset:
            self._extra += 1

    def differences(self, untrue: Set[Beginning]) -> tuple[int, int]:
        """Return the number of wanted transactions that are not listed, and the number of listed transactions that do
        not exist. Call this once, after all entries: it changes the counts.

        An entry that gives a wanted transaction a lower first offset (`earlier`) normally counts as listed. It counts
        as extra if the transaction is listed with its right first offset too. It does also if it is in `untrue`, the
        beginnings that the log contradicts (`untrue_beginnings`); the transaction is then not listed.
        """
        for key, beginning in self.earlier.items():
            if beginning in untrue or key not in self._missing:
                self._is_extra(beginning.said)
            else:
                del self._missing[key]
        return len(self._missing), self._extra
