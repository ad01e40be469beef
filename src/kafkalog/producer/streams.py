"""Partitions divided into a few streams, as in Kafka's high-level consumer (`TopicFilter`).

Topics are selected by a list, a whitelist or a blacklist. Each partition belongs to one stream, and the streams get
about the same number of bytes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import Record
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, COORDINATOR_TOPICS, DirectoryState
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.topic_filter import topic_filter
from kafkalog.log.reading.consumer_view import READ_UNCOMMITTED, Telling, check_isolation_level
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.reading.records import RecordReader
from kafkalog.log.walk.on_damage import STOP, raised

__all__ = [
    "INTERNAL_TOPICS",
    "LOGGER",
    "MessageAndMetadata",
    "Stream",
    "balanced",
    "open_streams",
    "topic_chooser",
]

LOGGER = logging.getLogger("kafkalog.consumer")
"""Receives warnings about open transactions at the end of committed data."""

INTERNAL_TOPICS = frozenset({*COORDINATOR_TOPICS, CLUSTER_METADATA_TOPIC})


class MessageAndMetadata(NamedTuple):
    """A record and its partition."""

    topic: str
    partition: int
    record: Record


class Stream(Struct, frozen=True):
    """Iterates over the records of its partitions, one partition after the other, each in offset order.

    At damage, reading ends and `FormatError` is raised, as for a consumer.
    """

    partitions: tuple[Partition, ...]
    isolation_level: str = READ_UNCOMMITTED
    limits: Limits = DEFAULT_LIMITS

    @property
    def size(self) -> int:
        """Total size of the log files."""
        return sum(partition.size for partition in self.partitions)

    def __iter__(self) -> Iterator[MessageAndMetadata]:
        telling = Telling()
        for partition in self.partitions:
            name = partition.name
            if name is None:
                continue
            reader: RecordReader = partition.records(
                RecordFilter(isolation_level=self.isolation_level), on_damage=STOP, limits=self.limits
            )
            for record in reader:
                yield MessageAndMetadata(name.topic, name.partition, record)
            if reader.open_transaction is not None:
                LOGGER.warning("%s: %s", name, reader.open_transaction)
            for finding in reader.findings:
                if finding is not reader.ended_by:
                    telling(finding)
            if reader.ended_by is not None:
                raise raised(reader.ended_by)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(topic_filter(text))
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{text!r} is not a regular expression: {error}") from None


def topic_chooser(topics: Iterable[str] | None, whitelist: str | None, blacklist: str | None) -> Callable[[str], bool]:
    """Return a function that tells whether a topic name is selected: it is in `topics`, matches `whitelist`, or does
    not match `blacklist`. If all three are None, every topic is selected.

    The filters are regular expressions for whole names, with commas for alternatives (`TopicFilter`). Raises
    `UsageError` if more than one argument is not None, `topics` is a string or mapping, or an expression is invalid.
    """
    if sum(way is not None for way in (topics, whitelist, blacklist)) > 1:
        raise UsageError("topics, whitelist and blacklist exclude each other")
    if topics is not None:
        if isinstance(topics, str | Mapping):
            raise UsageError("topics is a list of names; only Consumer takes a number of streams for each")
        return frozenset(topics).__contains__
    if whitelist is not None:
        wanted = _pattern(whitelist)
        return lambda topic: wanted.fullmatch(topic) is not None
    unwanted = None if blacklist is None else _pattern(blacklist)
    return lambda topic: unwanted is None or unwanted.fullmatch(topic) is None


def open_streams(
    log_dir: LogDir,
    count: int,
    *,
    topics: Iterable[str] | None = None,
    whitelist: str | None = None,
    blacklist: str | None = None,
    exclude_internal: bool = True,
    isolation_level: str = READ_UNCOMMITTED,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Stream]:
    """Return `count` streams over the live partitions of the selected topics. Some are empty if there are few
    partitions.

    Each partition is in one stream. The largest partitions are assigned first, each to the stream with the fewest bytes
    so far; within a stream partitions are ordered by directory name. If no topic is selected, all streams are empty. No
    log is read until a stream is iterated. Raises `UsageError` for a count below 1, an invalid expression, an unknown
    `isolation_level`, or `topics` that is a string or mapping. Raises it also for more than one of `topics`,
    `whitelist` and `blacklist`.

    * `log_dir`: from `open_log_dir`
    * `topics`: names of topics (`Consumer` takes a number of streams for each)
    * `whitelist`: regular expression for whole names of topics to read, with commas between alternatives
    * `blacklist`: regular expression for whole names of topics not to read
    * `exclude_internal`: leave out Kafka's own topics, unless `topics` names them
    * `isolation_level`: `read_committed` or `read_uncommitted`
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    if count < 1:
        raise UsageError("count must be positive")
    check_isolation_level(isolation_level)
    chosen = topic_chooser(topics, whitelist, blacklist)
    live = [
        partition
        for partition in log_dir.partitions
        if partition.name is not None
        and partition.state is DirectoryState.LIVE
        and chosen(partition.name.topic)
        and not (exclude_internal and topics is None and partition.name.topic in INTERNAL_TOPICS)
    ]
    shares = balanced(live, count)
    return [Stream(tuple(sorted(share, key=lambda each: str(each.name))), isolation_level, limits) for share in shares]


def balanced(partitions: Iterable[Partition], count: int) -> list[list[Partition]]:
    """Divide partitions into `count` lists of about the same number of bytes. The largest partition comes first. Each
    is added to the list with the fewest bytes so far; of several such lists, to the one with the fewest partitions.
    Lists may be empty.
    """
    shares: list[list[Partition]] = [[] for _ in range(count)]
    sizes = [0] * count
    for partition in sorted(partitions, key=lambda each: (-each.size, str(each.name))):
        least = min(range(count), key=lambda number: (sizes[number], len(shares[number])))
        shares[least].append(partition)
        sizes[least] += partition.size
    return shares
