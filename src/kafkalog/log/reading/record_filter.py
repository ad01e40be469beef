"""Filter of the records of a partition: bounds, isolation level, and conditions on batch headers."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import force_setattr

from kafkalog.codec.common.arguments import check_fields
from kafkalog.log.reading.readable import READ_UNCOMMITTED, check_isolation_level
from kafkalog.log.walk.batch_filter import BatchFilter, Codecs, ProducerIds, batch_filter

__all__ = ["EVERY_RECORD", "RecordFilter", "conditions_of"]


class RecordFilter(Struct, frozen=True, kw_only=True):
    """Filter of records; a field that is None accepts all.

    Starts are inclusive and ends exclusive. Batches that the last three fields exclude are neither decompressed nor
    decoded, so damage inside them is not found. Entries of magic 0 and 1 have no producer and are never in a
    transaction. Raises `UsageError` for an isolation level, producer id or compression that does not exist.
    """

    start_offset: int | None = None
    """first offset; None: the log start offset"""
    end_offset: int | None = None
    """offset after the last record"""
    start_timestamp: int | None = None
    """ms since 1970; records from the first one with at least this timestamp"""
    end_timestamp: int | None = None
    """ms since 1970; records before the first one with at least this timestamp"""
    isolation_level: str | None = None
    """`read_uncommitted` or `read_committed`; None: `read_uncommitted`, but `read_committed` for an export"""
    producer_ids: ProducerIds = None
    """one producer id or several"""
    codecs: Codecs = None
    """names or numbers of compressions, one or several"""
    transactional: bool | None = None
    """True: only batches of transactions; False: only others"""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.isolation_level is not None:
            check_isolation_level(self.isolation_level)
        batches = conditions_of(self)
        if batches is not None:  # the values may come from an iterator, which can be read only once
            force_setattr(self, "producer_ids", batches.producer_ids)
            force_setattr(self, "codecs", batches.codecs)

    @property
    def isolation(self) -> str:
        """Isolation level for reading, `read_uncommitted` by default."""
        return self.isolation_level or READ_UNCOMMITTED


def conditions_of(filter: RecordFilter) -> BatchFilter | None:
    """Return the filter's conditions on batch headers (producer ids, compressions, transactional); None if it has none.
    Raises `UsageError` for an invalid one.
    """
    return batch_filter(filter.producer_ids, filter.codecs, filter.transactional)


EVERY_RECORD = RecordFilter()
