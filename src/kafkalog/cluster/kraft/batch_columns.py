"""Headers of the batches in a metadata log, stored in columns so that two copies of the log can be compared."""

from __future__ import annotations

from array import array

from kafkalog.codec.model import BatchHeader

__all__ = ["BatchColumns"]


class BatchColumns:
    """Base offset, end offset, leader epoch and checksum of each batch of a metadata log. Followers copy batches
    unchanged, so equal headers mean equal bytes.
    """

    __slots__ = ("base", "crc", "end", "epoch")

    def __init__(self) -> None:
        self.base, self.end, self.epoch, self.crc = array("q"), array("q"), array("i"), array("Q")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchColumns):
            return NotImplemented
        return (self.base, self.end, self.epoch, self.crc) == (other.base, other.end, other.epoch, other.crc)

    __hash__ = None  # type: ignore[assignment]

    def add(self, header: BatchHeader) -> None:
        """Append a batch."""
        self.base.append(header.base_offset)
        self.end.append(header.next_offset)
        self.epoch.append(header.partition_leader_epoch)
        self.crc.append(header.crc)

    def __len__(self) -> int:
        return len(self.base)

    def row(self, number: int) -> tuple[int, int, int, int]:
        """Return base offset, offset after the last record, leader epoch and checksum of the batch with this index."""
        return self.base[number], self.end[number], self.epoch[number], self.crc[number]
