"""Streams over the topics of log directories, as in Kafka's high-level consumer (`ConsumerConnector`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from kafkalog.codec.common.arguments import checked
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import PathLike
from kafkalog.log.reading.consumer_view import READ_UNCOMMITTED, Reset, check_isolation_level
from kafkalog.producer.offset_store import OffsetsFile, OffsetStore, TopicPartition
from kafkalog.producer.positions import Positions
from kafkalog.producer.sharing import in_ranges, least_loaded
from kafkalog.producer.stream import ConsumerStream
from kafkalog.producer.streams import INTERNAL_TOPICS, MessageAndMetadata, balanced, topic_chooser

__all__ = ["Consumer", "follow"]


@checked()
class Consumer:
    """Reads topics as streams and tracks their offsets. Use as a context manager, or call `shutdown`.

    Streams are iterators. Each is read by one thread, and several may be read at once. Every partition belongs to one
    stream, permanently. Nothing is written to the directories, except committed offsets if `offsets` is a
    `GroupOffsets` of one of them.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        offsets: OffsetStore | PathLike | None = None,
        *,
        reset: Reset | None = "earliest",
        isolation_level: str = READ_UNCOMMITTED,
        follow: bool = False,
        consumer_timeout_ms: int | None = None,
        poll_ms: int = 100,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Read the log directories at `path` (one or several), starting at the committed offsets, which are loaded now.

        * `offsets`: store of committed offsets: the path of a file, or `GroupOffsets` for a group in
          `__consumer_offsets`; None: nothing is loaded, and `commit_offsets` fails
        * `reset`: start of a partition without a committed offset, or with one that is out of range: `earliest`,
          `latest` (the end when the partition is first seen), or None to raise an error
        * `isolation_level`: `read_committed` or `read_uncommitted`
        * `follow`: streams wait at the end and look for new records, topics and partitions every `poll_ms` ms; they end
          after `shutdown`. By default they end at the current end of the logs.
        * `consumer_timeout_ms`: with `follow`, also end a stream after this time without a record; None: never
        * `limits`: what a batch or file may hold at most (`Limits`)

        Directories are listed when streams are created, and logs are read when streams are iterated. Raises
        `UsageError` for impossible arguments, and the errors of the store, such as `FormatError` or `StorageError`.
        """
        check_isolation_level(isolation_level)
        if not 1 <= poll_ms < 2**31 or (consumer_timeout_ms is not None and consumer_timeout_ms < 0):
            raise UsageError("poll_ms must be positive, and consumer_timeout_ms not negative")
        several = [path] if isinstance(path, str | os.PathLike) else path
        self._store = OffsetsFile(offsets) if isinstance(offsets, str | os.PathLike) else offsets
        committed = {} if self._store is None else dict(self._store.load())
        self._saved = dict(committed)
        self._positions = Positions(
            [os.fspath(each) for each in several], committed, reset=reset, isolation_level=isolation_level,
            follow=follow, consumer_timeout_ms=consumer_timeout_ms, poll_ms=poll_ms, limits=limits,
        )  # fmt: skip
        self._has_streams = False

    def create_message_streams(self, topic_count_map: Mapping[str, int]) -> dict[str, list[ConsumerStream]]:
        """Return streams by topic: `topic_count_map` has the number of streams for each topic. The directories are
        listed now.

        The sorted partitions of a topic are divided among its streams in ranges, as by `RangeAssignor`; streams are
        empty if there are fewer partitions. If the consumer follows, partitions and topics that are created later are
        added to the streams with the fewest partitions. Raises `UsageError` for a number below 1, if the consumer
        already has streams, or after `shutdown`; also for a path without Kafka data, or a partition in several
        directories. Raises `StorageError` if a directory or log cannot be read. If `reset` is None, raises `UsageError`
        for a partition without a committed offset and `OffsetOutOfRangeError` for one out of range.
        """
        for topic, count in topic_count_map.items():
            _check_count(count, f"of {topic}")
        streams = {topic: self._streams(count) for topic, count in topic_count_map.items()}

        def assign(new: Sequence[Partition]) -> None:
            for topic, own in streams.items():
                keys = sorted(_key(partition) for partition in new if partition.topic == topic)
                if any(stream.owned for stream in own):
                    _join(own, keys)
                    continue
                for stream, share in zip(own, in_ranges(keys, len(own)), strict=True):
                    stream.owned.update(dict.fromkeys(share))

        self._begin(streams.__contains__, assign)
        return streams

    def create_message_streams_by_filter(
        self,
        num_streams: int = 1,
        *,
        whitelist: str | None = None,
        blacklist: str | None = None,
        exclude_internal: bool = True,
    ) -> list[ConsumerStream]:
        """Return `num_streams` streams over all topics selected by one regular expression (`TopicFilter`); the
        directories are listed now.

        `whitelist` must match the whole name of a topic, or `blacklist` must not; a comma means "or". Without both all
        topics are read. `exclude_internal` leaves out Kafka's own topics (`__consumer_offsets` and so on) even if they
        match. Each stream gets about the same number of bytes, perhaps nothing. If the consumer follows, partitions
        that are found later go to the streams with the fewest partitions. Raises `UsageError` for both filters, an
        invalid expression, a number below 1, if the consumer already has streams, or after `shutdown`; for directories
        and committed offsets the errors of `create_message_streams`: `UsageError`, `OffsetOutOfRangeError` and
        `StorageError`.
        """
        _check_count(num_streams, "by filter")
        lets_through = topic_chooser(None, whitelist, blacklist)
        streams = self._streams(num_streams)

        def assign(new: Sequence[Partition]) -> None:
            if any(stream.owned for stream in streams):
                _join(streams, sorted(map(_key, new)))
                return
            for stream, share in zip(streams, balanced(new, num_streams), strict=True):
                stream.owned.update(dict.fromkeys(map(_key, share)))

        self._begin(lambda topic: lets_through(topic) and not (exclude_internal and topic in INTERNAL_TOPICS), assign)
        return streams

    def _streams(self, count: int) -> list[ConsumerStream]:
        return [ConsumerStream(self._positions) for _ in range(count)]

    def _begin(self, chosen: Callable[[str], bool], assign: Callable[[Sequence[Partition]], None]) -> None:
        positions = self._positions
        with positions.guard:
            if positions.closed.is_set():
                raise UsageError("the consumer is shut down")
            if self._has_streams:
                raise UsageError("a consumer creates streams once")
            positions.chosen, positions.assign = chosen, assign
            positions.look()
            self._has_streams = True

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The next offset of each partition: after the last record returned by a stream."""
        with self._positions.guard:
            return dict(self._positions.offsets)

    @property
    def open_transactions(self) -> dict[TopicPartition, str]:
        """Partitions whose committed data ends at an open transaction, each with an explanation.

        A transaction that is open for long is also logged once, to `kafkalog.consumer`.
        """
        return self._positions.open_transactions

    def commit_offsets(self) -> None:
        """Store, for each partition, the offset after the last record that its stream returned; the next consumer
        starts there.

        Only offsets that changed since the last commit are written. If no record was returned yet, the start offset of
        the partition is stored. Raises `UsageError` if the consumer has no store, and `StorageError` or other errors of
        the store.
        """
        if self._store is None:
            raise UsageError("the consumer has no place to store offsets")
        with self._positions.guard:
            now = self.offsets
            changed = {key: offset for key, offset in now.items() if self._saved.get(key) != offset}
            if changed:
                self._store.commit(changed)
                self._saved.update(changed)

    def shutdown(self) -> None:
        """End all streams. Records after the last committed offsets are read again by the next consumer."""
        self._positions.closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


def _check_count(count: int, what: str) -> None:
    if count < 1:
        raise UsageError(f"{count} streams {what}: one at least")


def _key(partition: Partition) -> TopicPartition:
    name = partition.name
    if name is None:
        raise UsageError(f"{partition.path} is a segment; streams read partitions")
    return name.topic, name.partition


def _join(streams: Sequence[ConsumerStream], keys: Iterable[TopicPartition]) -> None:
    """Assign later partitions to the streams with the fewest."""
    for key in keys:
        streams[least_loaded([len(stream.owned) for stream in streams])].owned[key] = None


def follow(
    path: PathLike | Sequence[PathLike],
    *,
    topics: Iterable[str] | None = None,
    whitelist: str | None = None,
    blacklist: str | None = None,
    reset: Reset | None = "latest",
    isolation_level: str = READ_UNCOMMITTED,
    consumer_timeout_ms: int | None = None,
    poll_ms: int = 100,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[MessageAndMetadata]:
    """Return an iterator over the records of log directories as they are written, including topics created later.

    The iterator yields (topic, partition, record) and waits for more; it ends once `consumer_timeout_ms` have passed
    without a record (None: never). Topics are selected by name or by one regular expression; by default all are read.
    Kafka's own topics are read only if `topics` names them. A live broker may be writing the directories. They are
    listed before the function returns. Raises `UsageError` for impossible arguments, a path without Kafka data, or a
    partition in several directories, and `StorageError` if a directory or log cannot be read. Iterating raises both
    too, and `FormatError` at damage if valid batches follow it; damage at the end of a log is taken for a batch that is
    still being written.

    * `path`: a log directory, or several
    * `topics`: names of topics; excludes both filters
    * `whitelist`: regular expression for topics to read
    * `blacklist`: regular expression for topics not to read
    * `reset`: where each partition begins: `earliest`, or `latest` for its end when first seen; None: `UsageError` is
      raised if there is a partition
    * `isolation_level`: `read_committed` or `read_uncommitted`
    * `consumer_timeout_ms`: end after this time without a record, in ms
    * `poll_ms`: how often to look for more, in ms
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    if topics is not None:
        if whitelist is not None or blacklist is not None:
            raise UsageError("topics, whitelist and blacklist exclude each other")
        if isinstance(topics, str):
            raise UsageError("topics is a list of names")
        whitelist = "|".join(re.escape(topic) for topic in topics)
    consumer = Consumer(
        path, reset=reset, isolation_level=isolation_level, follow=True, consumer_timeout_ms=consumer_timeout_ms,
        poll_ms=poll_ms, limits=limits,
    )  # fmt: skip
    named = topics is not None
    (stream,) = consumer.create_message_streams_by_filter(
        1, whitelist=whitelist, blacklist=blacklist, exclude_internal=not named
    )
    return iter(stream)
