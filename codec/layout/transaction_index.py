"""`.txnindex`: aborted transactions (`org.apache.kafka.storage.internals.log.AbortedTxn`)."""

from construct import Int16sb, Int64sb, Struct

__all__ = ["ABORTED_TRANSACTION"]

ABORTED_TRANSACTION = Struct(
    "version" / Int16sb * "0",
    "producer_id" / Int64sb * "whose transaction was aborted",
    "first_offset" / Int64sb * "first offset of the transaction",
    "last_offset" / Int64sb * "offset of the abort marker",
    "last_stable_offset" / Int64sb * "first offset of the earliest transaction then still open, else the marker's + 1",
)
