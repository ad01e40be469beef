"""Which records `dump` prints: filters on time, key, value and header; those on batches are `batch_filter`'s."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kafkalog.codec.errors import UsageError
from kafkalog.codec.model import Record, RecordBatch

__all__ = ["RecordFilter"]


@dataclass(frozen=True)
class RecordFilter:
    """All conditions must hold; a condition that is None or empty always does.  Times are ms, the end exclusive."""

    start_time: int | None = None
    end_time: int | None = None
    key: bytes | None = None
    value_regex: re.Pattern[bytes] | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    """name, and value or None for any"""

    @classmethod
    def of(
        cls,
        *,
        start_time: int | None,
        end_time: int | None,
        key: str | None,
        value_regex: str | None,
        headers: Sequence[str],
    ) -> RecordFilter:
        """From the words of the command line; raises `UsageError` for a broken regular expression."""
        try:
            pattern = None if value_regex is None else re.compile(value_regex.encode("utf-8", "surrogateescape"))
        except re.error as error:
            raise UsageError(f"{value_regex!r} is not a regular expression: {error}") from None
        wanted = []
        for text in headers:
            name, equals, value = text.partition("=")
            wanted.append((name, value.encode("utf-8", "surrogateescape") if equals else None))
        return cls(
            start_time=start_time,
            end_time=end_time,
            key=None if key is None else key.encode("utf-8", "surrogateescape"),
            value_regex=pattern,
            headers=tuple(wanted),
        )

    @property
    def is_empty(self) -> bool:
        """Whether everything passes."""
        return self == RecordFilter()

    def accepts_batch(self, batch: RecordBatch) -> bool:
        """What can be said from a batch's header alone; True does not mean that any record passes."""
        return self.start_time is None or batch.header.max_timestamp >= self.start_time

    def accepts(self, record: Record) -> bool:
        """Whether the record passes; its batch's header is asked separately."""
        if self.start_time is not None and record.timestamp < self.start_time:
            return False
        if self.end_time is not None and record.timestamp >= self.end_time:
            return False
        if self.key is not None and record.key != self.key:
            return False
        if self.value_regex is not None and (record.value is None or not self.value_regex.search(record.value)):
            return False
        return all(self._has_header(record, name, value) for name, value in self.headers)

    @staticmethod
    def _has_header(record: Record, name: str, value: bytes | None) -> bool:
        return any(header.key == name and (value is None or header.value == value) for header in record.headers)
