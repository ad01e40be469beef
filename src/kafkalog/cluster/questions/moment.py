"""A past moment of a cluster, given as a time, an offset or a ZooKeeper transaction."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_log import MetadataLog, MetadataState
from kafkalog.cluster.records.replay import Until
from kafkalog.cluster.zookeeper import ZooKeeperDirectory
from kafkalog.cluster.zookeeper.moments import zxid_at
from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.errors import UsageError

__all__ = ["NOW", "Moment", "metadata_offset", "reading_until", "refuse_beyond_end", "zookeeper_transaction"]


class Moment(Struct, frozen=True, kw_only=True):
    """A moment of the past; without any field it is the end of the logs. If several fields are given, the earliest of
    these moments counts.
    """

    time: int | None = None
    """ms since 1970"""
    offset: int | None = None
    """the state before this offset, of `__consumer_offsets` for groups and of `__cluster_metadata` for metadata"""
    zxid: int | None = None
    """the state after this ZooKeeper transaction"""

    @property
    def is_now(self) -> bool:
        """Whether this is the end of the logs."""
        return self.time is None and self.offset is None and self.zxid is None

    def __post_init__(self) -> None:
        check_fields(self)


NOW = Moment()


def reading_until(moment: Moment) -> Until:
    """Return the point at which reading of `__consumer_offsets` stops for a moment, whose `zxid` is not used."""
    return Until(moment.offset, moment.time)


def metadata_offset(log: MetadataLog, moment: Moment) -> int | None:
    """Return the offset of the metadata log at which a moment ends (exclusive). It is the moment's offset, or the
    offset of the first record later than the moment's time, or the smaller one of both. Return None, for the end of the
    log, if the moment has neither offset nor time. Return None also if it has only a time, and no record before the
    first damage is later. Raises `UsageError` if the moment is a ZooKeeper transaction. Raises it also for a time
    before the first record of a log that does not begin at offset 0. Raises `StorageError` if files cannot be read.
    """
    if moment.zxid is not None:
        detail = " is an offset of the metadata log here, or a time, not a ZooKeeper transaction"
        raise UsageError(Sentence(Ask.AS_OF, detail))
    at_time = None if moment.time is None else log.offset_at(moment.time)
    return _earlier(moment.offset, at_time)


def refuse_beyond_end(offset: int | None, state: MetadataState) -> None:
    """Raise `UsageError` if the state that was read ends below `offset`, because the metadata log ends there, is
    damaged or begins later. None is accepted.
    """
    if offset is not None and offset > state.next_offset:
        detail = f" {offset} is beyond the end of the metadata log, which is offset {state.next_offset}"
        raise UsageError(Sentence(Ask.AS_OF, detail))


def zookeeper_transaction(directory: ZooKeeperDirectory, moment: Moment) -> int | None:
    """Return the zxid of the last ZooKeeper transaction at a moment; None for the last one of all. If the moment has no
    zxid, its offset is used as one, because ZooKeeper has no offsets. If it also has a time, the smaller zxid is
    returned.

    Raises `UsageError` for a time before the beginning of the logs, or for any time if there are no transactions.
    Raises `StorageError` if a file cannot be read.
    """
    at_time = None if moment.time is None else zxid_at(directory, moment.time)
    return _earlier(moment.offset if moment.zxid is None else moment.zxid, at_time)


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
