"""Search for the place in a metadata log at which a controller took it for empty and appended bootstrap records to
older metadata.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.quorum_snapshots import MetadataSnapshot
from kafkalog.cluster.records.framed_records import decode_metadata
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.directories.partition import Partition

__all__ = ["FirstBatches", "StartedOver", "metadata_before"]

_TRANSACTION, _VERSION = "Bootstrap records", "metadata.version"


class StartedOver(Struct, frozen=True, kw_only=True):
    """Offset at which the metadata starts over, and the number of topics and ACLs before it."""

    offset: int
    """of the change of leader after which the bootstrap records come"""
    epoch: int
    topics: int
    acls: int

    def __str__(self) -> str:
        held = f"{self.topics} topics and {self.acls} access control entries"
        return (
            f"the metadata starts over at offset {self.offset}: in epoch {self.epoch} a controller took it for empty "
            f"and appended its bootstrap records; before them it held {held}"
        )


class FirstBatches:
    """Positions of the `LeaderChange` records that are directly followed by bootstrap records; pass every batch of the
    log in order.
    """

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []
        """offset and epoch of each change of leader before bootstrap records, without the first of an empty log"""
        self._leadership: tuple[int, int] | None = None
        self._has_records = False

    def note(self, batch: RecordBatch, *, is_change_of_leader: bool, limits: Limits) -> None:
        """Process the next batch of the log. `is_change_of_leader` tells whether it has a `LeaderChange` record. It
        starts metadata over if it has bootstrap records and is the first batch with metadata records after a change of
        leader. If it does, append (offset, epoch) of the batch with that change to `self.found`. Nothing is appended if
        these are the first metadata records of the log. Batches before format 2 are ignored.
        """
        header = batch.header
        if not isinstance(header, BatchHeader):
            return
        if is_change_of_leader:
            self._leadership = header.base_offset, header.partition_leader_epoch
        elif not header.is_control:
            if self._leadership is not None and self._has_records and _is_bootstrap(batch, limits):
                self.found.append(self._leadership)
            self._leadership, self._has_records = None, True


def _is_bootstrap(batch: RecordBatch, limits: Limits) -> bool:
    record = next(iter(decode_batch(batch, limits=limits).records), None)
    framed = None if record is None else decode_metadata(record.value)
    if framed is None or framed.decoded is None:
        return False
    name = framed.decoded.fields.get("name")
    return (framed.name, name) in (("BeginTransactionRecord", _TRANSACTION), ("FeatureLevelRecord", _VERSION))


def metadata_before(
    partition: Partition, candidates: Iterable[tuple[int, int]], snapshots: Iterable[MetadataSnapshot]
) -> StartedOver | None:
    """Return the first place among `candidates` at which metadata with topics or ACLs starts over; None if there is
    none.

    `candidates` are (offset, epoch) pairs as in `FirstBatches.found`, `snapshots` the valid snapshots of the log. The
    metadata before each candidate is read from disk. Raises `StorageError` for I/O errors.
    """
    whole = {snapshot.file for snapshot in snapshots}
    for offset, epoch in candidates:
        log = MetadataLog(partition)
        log.snapshots = tuple(snapshot for snapshot in log.snapshots if os.path.basename(snapshot[2]) in whole)
        image = log.state(offset).image
        if image.topics or image.acls:
            return StartedOver(offset=offset, epoch=epoch, topics=len(image.topics), acls=len(image.acls))
    return None
