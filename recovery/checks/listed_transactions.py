"""What one `.txnindex` lists, against the aborted transactions that the log itself has (`TransactionIndex`)."""

from __future__ import annotations

from collections.abc import Mapping, Set

from kafkalog.codec.index_files import ABORTED_TRANSACTION_VERSION
from kafkalog.codec.model import AbortedTransaction
from kafkalog.recovery.checks.cleaned_beginnings import Beginning

__all__ = ["ListedTransactions"]


class ListedTransactions:
    """Told of the entries in their order; `wanted` are first offsets by producer id and last offset.

    What lies below the log's start offset may be listed and not be there.
    """

    def __init__(self, wanted: Mapping[tuple[int, int], int], log_start_offset: int = 0) -> None:
        self._wanted = wanted
        self._log_start_offset = log_start_offset
        self._missing = dict(wanted)
        self._extra = 0
        self._before: tuple[int, int, int] | None = None
        self.earlier: dict[tuple[int, int], Beginning] = {}
        """those that are listed with a lower first offset"""

    def entry(self, entry: AbortedTransaction) -> None:
        """The next one; in a version that does not exist it lists nothing (Kafka 4.4 does not start on it)."""
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
        """How many of the wanted transactions are not listed, and how many are that are not there; asked for once.

        `untrue` are beginnings that the log contradicts.
        """
        for key, beginning in self.earlier.items():
            if beginning in untrue or key not in self._missing:
                self._is_extra(beginning.said)
            else:
                del self._missing[key]
        return len(self._missing), self._extra
