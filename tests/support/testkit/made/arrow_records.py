"""Arrow tables of records as the recorded lines of a consumer have them, to compare by value."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]
_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def row_of_line(line: dict[str, Any]) -> Row:
    """A line of expected/read_*.jsonl."""
    headers = [(key, _bytes(value)) for key, value in line.get("headers", [])]
    return (
        line["topic"],
        line["partition"],
        line["offset"],
        line.get("timestamp"),
        line.get("timestampType"),
        _bytes(line["key"]),
        _bytes(line["value"]),
        headers or None,
    )


def rows_of_table(table: pa.Table, like: dict[tuple[str, int, int], dict[str, Any]]) -> list[Row]:
    """The rows of the partitions that ``like`` has, sorted by place; times only where ``like`` has them.

    Internal topics are in the files, but nobody consumed them.
    """
    consumed = {(topic, partition) for topic, partition, _ in like}
    timeless = {place for place, line in like.items() if "timestamp" not in line}
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    columns = [table[name].to_pylist() for name in ("topic", "partition", "offset", "timestampType")]
    contents = [table[name].to_pylist() for name in ("key", "value", "headers")]
    found = []
    for topic, partition, offset, kind, time, key, value, headers in zip(*columns, times, *contents, strict=True):
        if (topic, partition) not in consumed:
            continue
        known = (topic, partition, offset) not in timeless
        pairs = None if headers is None else [(each["key"], each["value"]) for each in headers]
        shown = (time // 1000, _TYPES[kind]) if known else (None, None)
        found.append((topic, partition, offset, *shown, key, value, pairs))
    return sorted(found, key=lambda row: row[:3])


def expected_rows(like: dict[tuple[str, int, int], dict[str, Any]]) -> list[Row]:
    """The recorded lines in the same form and order."""
    return [row_of_line(like[place]) for place in sorted(like)]
