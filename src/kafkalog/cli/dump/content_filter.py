"""Filters on a record's time, key, value and headers; filters on batches are in `batch_filter`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kafkalog.cli.dump.patterns import Pattern
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.model import Record, RecordBatch

__all__ = ["ContentFilter"]


class ContentFilter(Struct, frozen=True, kw_only=True):
    """Filter on records: all its conditions must hold. A condition that is None or empty always holds. Times are ms
    since 1970; the end is exclusive.
    """

    start_time: int | None = None
    end_time: int | None = None
    key: bytes | None = None
    key_regex: Pattern | None = None
    value_regex: Pattern | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    """name, and value or None for any"""
    header_regexes: Sequence[tuple[str, Pattern]] = ()

    @classmethod
    def of(
        cls,
        *,
        start_time: int | None,
        end_time: int | None,
        key: str | None,
        key_regex: str | None,
        value_regex: str | None,
        headers: Sequence[str],
        header_regexes: Sequence[str],
    ) -> ContentFilter:
        """Return the filter for the texts of command-line options. Times are ms, and `end_time` is exclusive. A text of
        `headers` is NAME (with any value) or NAME=VALUE, and a text of `header_regexes` is NAME=REGEX. Keys and values
        are compared as UTF-8. Raises `UsageError` for an invalid regular expression, or a header regex without `=`.
        """
        wanted = []
        for text in headers:
            name, equals, value = text.partition("=")
            wanted.append((name, value.encode("utf-8", "surrogateescape") if equals else None))
        patterns = []
        for text in header_regexes:
            name, equals, regex = text.partition("=")
            if not equals:
                raise UsageError(f"--header-regex {text[:100]!r} is not NAME=REGEX")
            patterns.append((name, Pattern(regex)))
        return cls(
            start_time=start_time,
            end_time=end_time,
            key=None if key is None else key.encode("utf-8", "surrogateescape"),
            key_regex=None if key_regex is None else Pattern(key_regex),
            value_regex=None if value_regex is None else Pattern(value_regex),
            headers=tuple(wanted),
            header_regexes=tuple(patterns),
        )

    @property
    def is_empty(self) -> bool:
        """Whether everything passes."""
        return self == ContentFilter()

    @property
    def has_patterns(self) -> bool:
        """Whether there are regular expressions, which need `patterns.searching`."""
        return bool(self.key_regex or self.value_regex or self.header_regexes)

    def accepts_batch(self, batch: RecordBatch) -> bool:
        """Test a batch by its header alone; True does not mean that any record passes."""
        return self.start_time is None or batch.header.max_timestamp >= self.start_time

    def accepts(self, record: Record) -> bool:
        """Return whether the record fulfills the conditions on time (the end is exclusive), key, value and headers. The
        conditions on its batch are checked by `accepts_batch`. With regular expressions, `patterns.searching` must be
        entered. Raises `UsageError` if one takes too long.
        """
        if self.start_time is not None and record.timestamp < self.start_time:
            return False
        if self.end_time is not None and record.timestamp >= self.end_time:
            return False
        if self.key is not None and record.key != self.key:
            return False
        if not all(self._has_header(record, name, value) for name, value in self.headers):
            return False
        return self._matches(record)

    def _matches(self, record: Record) -> bool:
        if self.key_regex is not None and not self.key_regex.found_in(record.key):
            return False
        if self.value_regex is not None and not self.value_regex.found_in(record.value):
            return False
        return all(
            any(header.key == name and pattern.found_in(header.value) for header in record.headers)
            for name, pattern in self.header_regexes
        )

    @staticmethod
    def _has_header(record: Record, name: str, value: bytes | None) -> bool:
        return any(header.key == name and (value is None or header.value == value) for header in record.headers)
