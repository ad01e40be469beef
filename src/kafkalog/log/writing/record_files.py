"""Read records from files as Arrow batches: from Parquet, Arrow, and the JSON lines of `kafkalog dump --json`. The
columns are those of `Partition.to_arrow` that a file has; `value` is required.
"""

from __future__ import annotations

import json
import os
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from kafkalog.codec.columnar.schema import TYPES
from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.codec.common.limits import MIB
from kafkalog.log.disk.files import PathLike
from kafkalog.log.writing.record_places import of_file

__all__ = ["LONGEST_LINE", "read_record_file"]

LONGEST_LINE = 256 * MIB
"""Most bytes of one JSON line: a record of the largest size that Kafka accepts fits in base64."""
_LINES = 10_000
_HELD_BYTES = 32 * MIB
_HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
"""type of headers, with names as bytes: `dump --json` prints names that are not UTF-8 with surrogates, as Python reads
them
"""
_SCHEMA = pa.schema(
    [
        ("topic", TYPES["topic"]), ("partition", TYPES["partition"]), ("offset", pa.int64()), ("timestamp", pa.int64()),
        ("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS),
    ]
)  # fmt: skip
_Bytes = Callable[[Any], bytes | None]


def read_record_file(path: PathLike, *, encoding: str = "text") -> Iterator[pa.RecordBatch]:
    """Yield the records of a file as Arrow batches. The suffix, in upper or lower case, determines the format:
    `.parquet`, `.arrow`, `.arrows` (stream), `.feather` or `.jsonl` (lines of `kafkalog dump --json`). `encoding` is
    the encoding of keys and values in JSON lines: `text` with `_b64` siblings, or `base64`. The schema metadata of each
    batch has the places of its rows (`record_places`). When iteration begins, raises `UsageError` for another suffix or
    a missing file; later `FormatError` for other content (with the line number in JSON lines), and `StorageError` for
    I/O errors.
    """
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in (".parquet", ".arrow", ".arrows", ".feather", ".jsonl"):
        raise UsageError(f"{name} is not a .parquet, .arrow, .arrows, .feather or .jsonl file")
    try:
        with open(name, "rb") as stream:  # for a table too: pyarrow's error about a directory has no number
            yield from _json_lines(stream, name, encoding) if suffix == ".jsonl" else _table(name, suffix)
    except FileNotFoundError:
        raise UsageError(f"{name} does not exist") from None
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(error.errno, error.strerror or str(error), name) from error


def _table(name: str, suffix: str) -> Iterator[pa.RecordBatch]:
    try:
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(name) as file:
                yield from _counted(file.iter_batches(), name)
        elif suffix == ".arrows":
            with pa.OSFile(name) as source, pa.ipc.open_stream(source) as stream:
                yield from _counted(stream, name)
        else:
            with pa.OSFile(name) as source, pa.ipc.open_file(source) as file:
                yield from _counted(map(file.get_batch, range(file.num_record_batches)), name)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        # pyarrow raises an OSError without a number for content that it cannot decompress or parse
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise FormatError(f"not what its name says: {why}", source=name) from None


def _counted(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    count = 0
    for batch in batches:
        yield of_file(batch, name, "record", range(count + 1, count + 1 + batch.num_rows))
        count += batch.num_rows


def _json_lines(stream: BinaryIO, name: str, encoding: str) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    position = held = number = 0
    decode = _base64 if encoding == "base64" else _text
    while True:
        line = stream.readline(LONGEST_LINE)
        if not line or len(rows) >= _LINES or held + len(line) > _HELD_BYTES:
            if rows:
                yield of_file(pa.RecordBatch.from_pylist(rows, schema=_SCHEMA), name, "line", lines)
            rows, lines, held = [], [], 0
        if not line:
            return
        number += 1
        if line.strip():
            try:
                rows.append(_row(line, decode))
                lines.append(number)
            except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
                reason = f"line {number} is not a record of dump --json: {error or type(error).__name__}"
                raise FormatError(reason, position=position, source=name) from None
        position += len(line)
        held += len(line)


def _text(value: Any) -> bytes | None:
    return None if value is None else value.encode("utf-8", "surrogateescape")


def _base64(value: Any) -> bytes | None:
    try:
        return None if value is None else a2b_base64(value, strict_mode=True)
    except Base64Error as error:
        raise ValueError(f"{str(value)[:20]!r} is not base64: {error}") from None


def _row(line: bytes, decode: _Bytes) -> dict[str, Any]:
    fields = json.loads(line)
    if "endTxnMarker" in fields or "controlType" in fields:
        raise ValueError("a control record, which only a coordinator writes")
    if "value" not in fields:
        raise ValueError("there is no value")
    headers, decode_header = fields.get("headers"), decode
    if headers is None and fields.get("headers_b64") is not None:
        headers, decode_header = fields["headers_b64"], _base64
    return {
        "topic": _typed(fields, "topic", str),
        "partition": _typed(fields, "partition", int, 31),
        "offset": _typed(fields, "offset", int, 63),
        "timestamp": _typed(fields, "timestamp", int, 63),
        "key": _base64(fields["key_b64"]) if fields.get("key_b64") is not None else decode(fields.get("key")),
        "value": _base64(fields["value_b64"]) if fields.get("value_b64") is not None else decode(fields["value"]),
        "headers": [_header(pair, decode_header) for pair in headers or ()],
    }


def _header(pair: Any, decode: _Bytes) -> dict[str, bytes | None]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError(f"a header is {str(pair)[:40]!r}, not a list of name and value")
    key, value = pair
    if not isinstance(key, str):
        raise TypeError("a header without a name")
    return {"key": key.encode("utf-8", "surrogateescape"), "value": decode(value)}


def _typed(fields: dict[str, Any], name: str, kind: type, bits: int = 0) -> Any:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or isinstance(value, bool) or (bits and not -(2**bits) <= value < 2**bits):
        raise ValueError(f"{name} is {str(value)[:40]!r}")
    if isinstance(value, str):
        value.encode()  # a lone surrogate cannot be a column
    return value
