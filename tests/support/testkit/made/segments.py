"""Segments of about 64 KiB put together from batches that real brokers wrote, renumbered one after the other.

Offsets lie outside every checksum of Kafka's formats, so a batch that is given another one keeps its checksum.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from kafkalog.codec.model import BatchHeader, Codec, RecordBatch
from kafkalog.codec.plain.scanner import scan
from testkit.recorded.broker_dirs import brokers

__all__ = ["KINDS", "SIZE", "segment"]

SIZE = 64 * 1024
KINDS = ("plain", "gzip", "snappy", "lz4", "zstd", "magic 0", "magic 1", "transactional")
_SOURCES = {"magic 0": "1.1.1/codecs", "magic 1": "1.1.1/codecs", "transactional": "4.1.1/txn"}


def _wanted(batch: RecordBatch, kind: str) -> bool:
    header = batch.header
    match kind:
        case "magic 0" | "magic 1":
            return header.magic == int(kind[-1]) and header.codec == Codec.NONE
        case "transactional":
            return header.is_transactional or header.is_control
        case "plain":
            return header.magic == 2 and header.codec == Codec.NONE
    return header.magic == 2 and header.codec == Codec[kind.upper()]


def _recorded(kind: str) -> Iterator[bytes]:
    """All fitting batches of a recorded broker, again and again."""
    batches = [
        bytes(batch.data)
        for root in brokers(_SOURCES.get(kind, "4.1.1/codecs"))
        for log in sorted(root.glob("[!_]*-*/*.log"))
        for batch in scan(log.read_bytes()).batches
        if _wanted(batch, kind) and batch.size < SIZE // 8
    ]
    assert batches
    while True:
        yield from batches


@cache
def segment(kind: str) -> bytes:
    """A segment that begins at offset 0, as large as whole batches make it up to 64 KiB."""
    data = bytearray()
    offset = 0
    for original in _recorded(kind):
        if len(data) + len(original) > SIZE:
            break
        batch = bytearray(original)
        header = scan(original).batches[0].header
        batch[0:8] = offset.to_bytes(8, "big")
        offset += header.last_offset_delta + 1 if isinstance(header, BatchHeader) else 1
        data += batch
    result = scan(bytes(data), base_offset=0)
    assert result.valid_bytes == len(data)
    assert {finding.severity.value for finding in result.findings} <= {"info", "error"}
    return bytes(data)
