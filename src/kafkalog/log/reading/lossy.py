"""Find values of records that tables cannot hold: times beyond the calendar, and header names that are not UTF-8. Such
times are null in Arrow, and invalid bytes of names are U+FFFD; `records` and `dump` show the original values.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.codec.common.findings import Finding, FindingCode, Severity

__all__ = ["Lossy", "before_and_from_null_time"]

_REPLACED = "\N{REPLACEMENT CHARACTER}"


def before_and_from_null_time(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows before the first one whose time is null, and the rows from there on; a part without rows is left
    out. If no time is null, or there is no column `timestamp`, yield the batch.
    """
    row = _first_null_time(batch)
    if not row:  # none, or the first
        yield batch
        return
    yield batch.slice(0, row)
    yield batch.slice(row)


def _first_null_time(batch: pa.RecordBatch) -> int | None:
    if "timestamp" not in batch.schema.names or not (times := batch.column("timestamp")).null_count:
        return None
    row: int = pc.index(times.is_null(), True).as_py()
    return row


class Lossy:
    """Finder of values that a table cannot hold, in the Arrow batches of a partition, which must be passed in order.
    Only the first value of each kind is reported. `path` is the file name in the findings.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._found: set[FindingCode] = set()

    def __call__(self, batch: pa.RecordBatch) -> Iterator[Finding]:
        """Yield findings about values in this Arrow batch that a table cannot hold: TIMESTAMP_OUT_OF_RANGE (ERROR) and
        HEADER_KEY_NOT_TEXT (WARNING; also for a name that has U+FFFD itself), each at its first row and only once per
        partition. Columns `timestamp` and `headers` that the batch does not have are not checked.
        """
        names = batch.schema.names
        row = _first_null_time(batch)
        if row is not None:
            detail = (
                "the time of the record is beyond what a table can hold, as nanoseconds in place of milliseconds are, "
                "so that it is null there"
            )
            yield from self._first(FindingCode.TIMESTAMP_OUT_OF_RANGE, Severity.ERROR, detail, batch, row)
        if "headers" in names and (headers := batch.column("headers")).null_count < len(headers):
            replaced = pc.match_substring(headers.flatten().field("key"), _REPLACED)
            if pc.any(replaced).as_py():
                row = pc.list_parent_indices(headers)[pc.index(replaced, True).as_py()].as_py()
                detail = "the name of a header is not UTF-8, or has U+FFFD: a table has U+FFFD in place of its bytes"
                yield from self._first(FindingCode.HEADER_KEY_NOT_TEXT, Severity.WARNING, detail, batch, row)

    def _first(
        self, code: FindingCode, severity: Severity, detail: str, batch: pa.RecordBatch, row: int
    ) -> Iterator[Finding]:
        if code in self._found:
            return
        self._found.add(code)
        offset = batch.column("offset")[row].as_py() if "offset" in batch.schema.names else None
        yield Finding(code, severity, None, offset, detail, self._path)
