"""`.snapshot`: producer state before an offset (`org.apache.kafka.storage.internals.log.ProducerStateManager`)."""

from construct import Int16sb, Int32sb, Int32ub, Int64sb, Struct

__all__ = ["PRODUCER_ENTRY", "SNAPSHOT_HEADER"]

SNAPSHOT_HEADER = Struct(
    "version" / Int16sb * "1",
    "crc" / Int32ub * "CRC-32C from the entry count to the end of the file",
    "count" / Int32sb * "number of entries",
)

PRODUCER_ENTRY = Struct(
    "producer_id" / Int64sb * "id of the producer",
    "producer_epoch" / Int16sb * "its epoch",
    "last_sequence" / Int32sb * "of the last data batch of this epoch; -1 none",
    "last_offset" / Int64sb * "of the last data batch of this epoch; -1 none",
    "offset_delta" / Int32sb * "last offset minus base offset of that batch; 0 if none",
    "timestamp" / Int64sb * "ms; of the last data batch, or of a later marker",
    "coordinator_epoch" / Int32sb * "of the last marker; -1 none seen",
    "current_txn_first_offset" / Int64sb * "first offset of the open transaction; -1 none",
)
