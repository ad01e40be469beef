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
    stream, permanently. Nothing is written to the directories, except by `offsets` if it stores them there.
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
        """Read the log directories at `path`, starting at the committed offsets.

        `offsets` stores them: the path of a file, or `GroupOffsets` for a group in `__consumer_offsets`. With None they
        are not stored. `reset` is the start for a partition without an offset, or with one that is out of range:
        `earliest`, `latest` (its end when first seen), or None for an error.

        With `follow` streams do not end. They look for more every `poll_ms`, including new topics and partitions. They
        end with `shutdown`, or after `consumer_timeout_ms` without a record if that is given.
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
        """Streams by topic, as many for each as the map says. Its partitions are distributed among them in ranges.

        Some streams are empty if there are few partitions. A topic that does not exist yet is added when it is created,
        if the consumer follows. A consumer creates streams once.
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
        """`num_streams` streams over all topics that match a regular expression (`TopicFilter`). Commas mean "or".

        Each gets about the same number of bytes at first. Partitions of a later topic go to the streams with the fewest
        partitions. Without a filter all topics are read. A consumer creates streams once.
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

        A transaction that stays open is also logged once, to `kafkalog.consumer`.
        """
        return self._positions.open_transactions

    def commit_offsets(self) -> None:
        """Store the offsets after all records returned so far, so that the next consumer resumes there."""
        if self._store is None:
            raise UsageError("the consumer has no place to store offsets")
        with self._positions.guard:
            now = self.offsets
            changed = {key: offset for key, offset in now.items() if self._saved.get(key) != offset}
            if changed:
                self._store.commit(changed)
                self._saved.update(changed)

    def shutdown(self) -> None:
        """End all streams. The next consumer reads again what was not committed."""
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
    """Return the records of log directories as they are written, including those of topics created later.

    Topics are selected by name or by regular expression, by default all but Kafka's own. `reset` says where each
    partition begins: at its start, or at its end when first seen. The iterator waits for more until
    `consumer_timeout_ms` have passed without a record. A live broker may be writing the directories.

    * `path`: a log directory, or several
    * `topics`: names of topics; excludes both filters
    * `whitelist`: regular expression for topics to read
    * `blacklist`: regular expression for topics not to read
    * `isolation_level`: `read_committed` or `read_uncommitted`
    * `poll_ms`: how often to look for more
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    if topics is not None:
        if whitelist is not None or blacklist is not None:
            raise UsageError("topics, whitelist and blacklist exclude each other")
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
