"""A batch as an object under kafka-dump-log's names."""

from __future__ import annotations

from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.rules.batch_fields import BATCH_FIELDS, POSITION

__all__ = ["batch_words"]


def batch_words(batch: RecordBatch) -> dict[str, object]:
    """Return a valid batch under kafka-dump-log's names. The timestamp's name is its type; an entry of magic 0 or 1 has
    one offset.
    """
    header = batch.header
    words: dict[str, object] = {} if isinstance(header, BatchHeader) else {"offset": header.offset}
    for name, field in BATCH_FIELDS.items():
        if field.is_of(header) and name != "timestampType":
            word = header.timestamp_type.label if name == "timestamp" else name
            words[word] = batch.position if name == POSITION else field.of_header(header)
    return {**words, "isvalid": True}
