"""Convert a batch to a dict with the names that kafka-dump-log prints."""

from __future__ import annotations

from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.rules.batch_fields import BATCH_FIELDS, POSITION

__all__ = ["batch_words"]


def batch_words(batch: RecordBatch) -> dict[str, object]:
    """Return the header fields of a valid batch as a dict with kafka-dump-log's names; `position` is in bytes. The
    timestamp's key is its type: `CreateTime`, `LogAppendTime` or `NoTimestampType`. A message of magic 0 or 1 has
    `offset` as its first key, and only the fields of its format. `isvalid` is always True.
    """
    header = batch.header
    words: dict[str, object] = {} if isinstance(header, BatchHeader) else {"offset": header.offset}
    for name, field in BATCH_FIELDS.items():
        if field.is_of(header) and name != "timestampType":
            word = header.timestamp_type.label if name == "timestamp" else name
            words[word] = batch.position if name == POSITION else field.of_header(header)
    return {**words, "isvalid": True}
