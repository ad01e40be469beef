"""The declared layouts as C constants: the text of `layout.h`, and the values from which a library was built.

`python -m kafkalog.codec.native.layout` prints the header. `library` compares the constants when it loads the compiled
code, so that a library built from other declarations is never called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from zlib import crc32

from kafkalog.codec.compression.specs import KNOWN_CODECS
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.layout import zstd_frame
from kafkalog.codec.model import (
    BATCH,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD,
    MAX_SEQUENCE,
    MESSAGE_V0,
    MESSAGE_V1,
    MICROSECONDS,
    NO_END,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    Codec,
)
from kafkalog.codec.native import tables
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.codec.rules.framing import BATCH_MAGIC, MAGIC_POSITION, SMALLEST_MESSAGE
from kafkalog.codec.rules.record_shape import CONTENT_LENGTH, SMALLEST_HEADER, SMALLEST_RECORD

__all__ = ["constants", "header_text", "stream_constants"]

_LAYOUTS = {"BATCH": BATCH, "MESSAGE_V0": MESSAGE_V0, "MESSAGE_V1": MESSAGE_V1, "LOG_OVERHEAD": LOG_OVERHEAD}
_STREAM_BITS = {
    "ZSTD_HAS_CHECKSUM": zstd_frame.ZSTD_DESCRIPTOR.bit("has_checksum"),
    "ZSTD_WINDOW_MANTISSA": zstd_frame.ZSTD_WINDOW_BITS.bit("mantissa"),
    "ZSTD_WINDOW_EXPONENT": zstd_frame.ZSTD_WINDOW_BITS.bit("exponent"),
}
_STRUCTS: dict[str, tuple[type[tables.Rows], frozenset[tables.Rows]]] = {
    "arrow_buffers": (tables.ArrowBuffer, frozenset(tables.ArrowBuffer) - {tables.ArrowBuffer.VIEWED_NUMBER}),
    "filled": (tables.Filled, frozenset()),
    "decompressor": (tables.Decompressor, frozenset({tables.Decompressor.MEMORY})),
    "viewed": (tables.Viewed, frozenset({tables.Viewed.WINDOW, tables.Viewed.MEMORY})),
    "walk": (tables.Walk, frozenset()),
    "key_map": (tables.KeyMap, frozenset()),
    "recovered": (tables.Recovered, frozenset()),
    "continuity": (tables.ContinuityState, frozenset()),
    "run_facts": (tables.RunFacts, frozenset()),
    "order_of_run": (tables.OrderOfRun, frozenset()),
}
"""Members of a struct by its name, and those of them that are addresses."""
_COLUMNS: dict[str, type[tables.Rows]] = {
    "batches": tables.HeaderColumn,
    "messages": tables.MessageColumn,
    "message_sets": tables.MessageSet,
    "encoded": tables.Encoded,
    "index_entries": tables.IndexEntry,
    "appended": tables.Appended,
    "retained": tables.RetainedBatch,
    "kept": tables.KeptBatch,
    "listed_producers": tables.ListedProducer,
}
"""Rows of the table for a struct of columns, by the struct's name."""
_READERS = {"b": "big8", "h": "big16", "i": "big32", "I": "big32u", "q": "big64"}
"""Function of `kafkalog.h` that reads a declared field, by the field's format."""


def constants() -> dict[str, int]:
    """Return the constants that compiled code needs from the declarations, by their names in C. The constants about
    compressed streams are not included; `stream_constants` returns them.
    """
    named: dict[str, int] = {}
    for name, layout in _LAYOUTS.items():
        named[f"{name}_SIZE"] = layout.size
        for field in layout.fields:
            named[f"{name}_{field.name.upper()}_AT"] = field.position
    named |= {f"CODEC_{codec.name}": int(codec) for codec in Codec}
    named |= {
        "CODEC_MASK": int(CODEC_MASK), "KNOWN_CODECS": KNOWN_CODECS[2], "TIMESTAMP_TYPE_FLAG": int(TIMESTAMP_TYPE_FLAG),
        "CONTROL_FLAG": int(CONTROL_FLAG), "DELETE_HORIZON_FLAG": int(DELETE_HORIZON_FLAG),
        "TRANSACTIONAL_FLAG": int(TRANSACTIONAL_FLAG),
        "BATCH_MAGIC": BATCH_MAGIC, "MAGIC_AT": MAGIC_POSITION, "SMALLEST_MESSAGE": SMALLEST_MESSAGE,
        "SMALLEST_RECORD": SMALLEST_RECORD, "SMALLEST_HEADER": SMALLEST_HEADER,
        "CONTENT_LENGTH_SIZE": CONTENT_LENGTH.size, "MAX_RELATIVE_OFFSET": MAX_RELATIVE_OFFSET,
        "MAX_SEQUENCE": MAX_SEQUENCE, "MICROSECONDS": MICROSECONDS, "NO_END": NO_END, "NO_TIMESTAMP": NO_TIMESTAMP,
        "NO_PRODUCER_ID": NO_PRODUCER_ID, "EMPTY": tables.EMPTY, "UNDECODED": tables.UNDECODED,
        "MEMORY_IS_FULL": tables.MEMORY_IS_FULL, "ROW_BYTES": tables.ROW_BYTES,
    }  # fmt: skip
    named |= {
        f"NAMES_OF_{name.upper()}": crc32(" ".join(tables.names(rows)).encode())
        for name, rows in ({name: rows for name, (rows, _) in _STRUCTS.items()} | _COLUMNS).items()
    }
    return named


def stream_constants() -> dict[str, int]:
    """Return the constants about compressed streams, by their names in C. Imports the packages of all compressions."""
    from kafkalog.codec.compression import gzip, lz4, snappy, zstd

    named = {
        "LZ4_FIRST_WORD": int.from_bytes(lz4.WRITTEN_HEADER[:4], "little"),
        "LZ4_SECOND_WORD": int.from_bytes(lz4.WRITTEN_HEADER[-4:], "little"),
        "LZ4_HEADER_SIZE": len(lz4.WRITTEN_HEADER), "LZ4_BLOCK_SIZE": lz4.BLOCK_SIZE, "LZ4_STORED": lz4.STORED_BLOCK,
        "ZSTD_MAGIC": zstd_frame.FRAME_MAGIC, "ZSTD_DESCRIPTOR_AT": zstd.HEADER.position("descriptor"),
        "ZSTD_WINDOW_AT": zstd.HEADER.size, "ZSTD_HEADER_SIZE": zstd.HEADER.size + zstd.WINDOW,
        "ZSTD_SMALLEST_WINDOW": zstd_frame.SMALLEST_WINDOW,
        "SNAPPY_MAGIC": int.from_bytes(snappy.MAGIC, "big", signed=True), "SNAPPY_HEADER_SIZE": len(snappy.HEADER),
        "SNAPPY_NEXT_HEADER": snappy.NEXT_HEADER, "SNAPPY_LENGTH_SIZE": snappy.LENGTH.size,
        "GZIP_HEADER_SIZE": gzip.HEADER.size, "GZIP_TRAILER_SIZE": gzip.TRAILER.size,
        "GZIP_CHECKSUM_AT": gzip.TRAILER.position("checksum"),
        "GZIP_CONTENT_SIZE_AT": gzip.TRAILER.position("content_size"),
        "GZIP_PLAIN_START": int.from_bytes(gzip.PLAIN_START, "little"),
    }  # fmt: skip
    for name, bit in _STREAM_BITS.items():
        named |= {name: bit.mask, f"{name}_SHIFT": bit.lowest}
    return named


def _fields(name: str, layout: FixedLayout) -> str:
    listed = "".join(
        f" \\\n    field({field.name}, {field.position}, {_READERS[field.format]})" for field in layout.fields
    )
    return f"/* name, position, how it is read */\n#define {name}_FIELDS(field){listed}\n"


def _struct(name: str, rows: type[tables.Rows], addresses: frozenset[tables.Rows]) -> str:
    listed = "".join(
        f"    {'uint8_t *' if row in addresses else 'int64_t '}{row.name.lower()};\n" for row in rows
    )
    return f"struct {name} {{\n{listed}}};\n"


def _columns(name: str, rows: type[tables.Rows]) -> str:
    listed = "".join(f"    int64_t *{row.name.lower()};\n" for row in rows)
    filled = "".join(f"        cells + {int(row)} * stride,\n" for row in rows)
    return (
        f"struct {name} {{\n{listed}    int64_t columns;\n}};\n"
        f"static inline struct {name} {name}_of(int64_t *cells, int64_t stride, int64_t columns) {{\n"
        f"    return (struct {name}){{\n{filled}        columns,\n    }};\n}}\n"
    )


def _parts() -> Iterator[str]:
    named = constants() | stream_constants()
    yield (
        "/* Written by `python -m kafkalog.codec.native.layout` from the declarations; do not edit. */\n"
        "#ifndef KAFKALOG_LAYOUT_H\n#define KAFKALOG_LAYOUT_H\n#include <stdint.h>\n"
    )
    yield "".join(f"#define {name} INT64_C({value})\n" for name, value in named.items())
    yield "#define CONSTANTS(each)" + "".join(f" \\\n    each({name})" for name in named) + "\n"
    for name in ("BATCH", "MESSAGE_V0"):
        yield _fields(name, _LAYOUTS[name])
    yield "/* Structs: an array of int64 in Python, with an element for each member. */\n"
    for name, (rows, addresses) in _STRUCTS.items():
        yield _struct(name, rows, addresses)
    yield "/* Tables: a pointer to each row, and the number of columns. */\n"
    for name, rows in _COLUMNS.items():
        yield _columns(name, rows)
    yield "#endif\n"


def header_text() -> str:
    """Return the text of `layout.h`."""
    return "\n".join(_parts())


if __name__ == "__main__":
    sys.stdout.write(header_text())
