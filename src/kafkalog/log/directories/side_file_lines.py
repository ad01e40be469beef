"""Entries of files beside the log (indexes, snapshots, checkpoints) as `dump --json` prints them and as Spark has them
in columns, under kafka-dump-log's names.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

__all__ = [
    "CheckpointLine", "CleanShutdownLine", "LeaderEpochLine", "OffsetIndexLine", "PartitionMetadataLine",
    "ProducerLine", "TimeIndexLine", "TransactionIndexLine",
]  # fmt: skip


class OffsetIndexLine(Struct, frozen=True, kw_only=True):
    """One entry of an offset index."""

    offset: int
    """indexed offset, absolute: last offset of an appended batch"""
    position: int
    """position in the log file at which a search for the indexed offset begins, in bytes"""


class TimeIndexLine(Struct, frozen=True, kw_only=True):
    """One entry of a time index."""

    timestamp: int
    """largest timestamp in the segment when the entry was written, in ms since 1970"""
    offset: int
    """offset, absolute, of the record with the timestamp, or last offset of its batch"""


class TransactionIndexLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of a transaction index: an aborted transaction."""

    version: int
    """version of the entry's format"""
    producer_id: int
    """producer id of the aborted transaction"""
    first_offset: int
    """first offset of the aborted transaction (inclusive)"""
    last_offset: int
    """offset of the transaction's abort marker (inclusive)"""
    last_stable_offset: int
    """last stable offset of the partition when the transaction was aborted"""


class ProducerLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of a producer snapshot."""

    producer_id: int
    """producer id"""
    producer_epoch: int
    """producer epoch"""
    coordinator_epoch: int
    """epoch of the transaction coordinator that wrote the producer's last transaction marker; -1 if none"""
    current_txn_first_offset: int | None
    """first offset of the producer's open transaction (inclusive); null if no transaction is open"""
    last_timestamp: int
    """timestamp of the producer's last batch or transaction marker, in ms since 1970; -1 if none"""
    first_sequence: int | UnsetType = UNSET
    """sequence number of the first record in the producer's last batch; left out if no batch is known"""
    last_sequence: int | UnsetType = UNSET
    """sequence number of the last record in the producer's last batch; left out if no batch is known"""
    last_offset: int | UnsetType = UNSET
    """last offset of the producer's last batch (inclusive); left out if no batch is known"""
    offset_delta: int | UnsetType = UNSET
    """last offset minus first offset of the producer's last batch; left out if no batch is known"""
    timestamp: int | UnsetType = UNSET
    """value of `lastTimestamp` again, in ms since 1970; left out if no batch is known"""


class CheckpointLine(Struct, frozen=True, kw_only=True):
    """One entry of an offset checkpoint."""

    topic: str
    """topic"""
    partition: int
    """partition number"""
    offset: int
    """checkpointed offset: recovery point, log start offset, high watermark or first dirty offset, depending on the
    file
    """


class LeaderEpochLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of leader-epoch-checkpoint."""

    epoch: int
    """leader epoch"""
    start_offset: int
    """first offset of the leader epoch (inclusive)"""


class PartitionMetadataLine(Struct, frozen=True, kw_only=True):
    """Content of partition.metadata."""

    version: int
    """version of the file's format"""
    topic_id: str
    """topic id"""


class CleanShutdownLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """Content of .kafka_cleanshutdown."""

    version: int | None
    """version of the file's format; null if the file is empty or cannot be parsed"""
    broker_epoch: int | None
    """epoch of the broker that stopped cleanly; null if the file is empty or cannot be parsed"""
