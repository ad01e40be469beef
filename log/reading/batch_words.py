"""A batch as an object under kafka-dump-log's names."""

from __future__ import annotations

from kafkalog.codec.model import BatchHeader, RecordBatch, codec_label

__all__ = ["batch_words"]


def batch_words(batch: RecordBatch) -> dict[str, object]:
    """A batch under kafka-dump-log's names; only valid batches get here."""
    header = batch.header
    timestamp = {header.timestamp_type.label: header.max_timestamp, "size": header.size, "magic": header.magic}
    end = {"compresscodec": codec_label(header.codec), "crc": header.crc, "isvalid": True}
    if not isinstance(header, BatchHeader):
        return {"offset": header.offset, "position": batch.position, **timestamp, **end}
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.records_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": batch.position,
        **timestamp,
        **end,
    }
