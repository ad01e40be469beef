"""Assignors of the consumers that used ZooKeeper: they choose the thread that owns each partition.

Follows `kafka.consumer.RangeAssignor` and `kafka.consumer.RoundRobinAssignor` (0.8.2 to 1.1). Partitions are assigned
to threads `<consumer>-<n>`, one for each stream of a topic. Threads are sorted as strings, so `c-10` comes before
`c-2`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.assignors.assignors import TopicPartition, spread
from kafkalog.cluster.rules.java import java_sorted, string_hash
from kafkalog.codec.common.errors import LimitExceeded, UsageError

__all__ = ["OldConsumer", "Owners", "old_range", "old_round_robin", "threads_of"]

Owners = dict[TopicPartition, str]
"""(topic, partition) -> thread that should own it"""
_MOST_THREADS = 1_000_000


class OldConsumer(Struct, frozen=True):
    """A consumer with its number of streams (threads) by topic; topics without streams are not listed."""

    consumer_id: str
    streams: Mapping[str, int]


def threads_of(consumers: Iterable[OldConsumer]) -> dict[str, list[str]]:
    """Return topic -> names of the threads that consume it. Topics without threads are omitted.

    A name is `CONSUMER_ID-NUMBER`. The streams of a consumer are numbered from 0, and each is a thread. The names of a
    topic are sorted as Java sorts strings. Raises `LimitExceeded` if the group has more than a million threads over all
    topics.
    """
    threads_by_topic: dict[str, list[str]] = {}
    left = _MOST_THREADS
    for consumer in consumers:
        for topic, count in consumer.streams.items():
            left -= max(0, count)
            if left < 0:
                raise LimitExceeded(f"a group of more than {_MOST_THREADS:,} threads", limit="threads of a group")
            threads_by_topic.setdefault(topic, []).extend(f"{consumer.consumer_id}-{number}" for number in range(count))
    return {topic: java_sorted(threads) for topic, threads in threads_by_topic.items() if threads}


def old_range(partitions: Mapping[str, Sequence[int]], consumers: Sequence[OldConsumer]) -> Owners:
    """Assign partitions by range: each thread of a topic gets a contiguous block of its partitions. Return the thread
    name of each (topic, partition).

    Blocks are assigned to the threads in the order of their names. If the number does not divide evenly, the first
    threads get one partition more. `partitions` are the partition numbers by topic in any order; topics without
    consumers or partitions are skipped. Raises `LimitExceeded` if the group has more than a million threads.
    """
    owners: Owners = {}
    for topic, threads in threads_of(consumers).items():
        numbers = sorted(partitions.get(topic, ()))
        for index, block in enumerate(spread(len(numbers), len(threads))):
            owners.update(((topic, numbers[each]), threads[index]) for each in block)
    return owners


def _refuse_different(consumers: Sequence[OldConsumer]) -> None:
    known = {each.consumer_id: {t: n for t, n in each.streams.items() if n > 0} for each in consumers}
    known = {consumer: streams for consumer, streams in known.items() if streams}
    first: str | None = None
    for consumer in java_sorted(known):
        streams = known[consumer]
        if first is None:
            first = consumer
        elif streams.keys() != known[first].keys():
            topic = min(streams.keys() ^ known[first].keys())
            has, lacks = (consumer, first) if topic in streams else (first, consumer)
            raise UsageError(
                "round robin needs the same topics in every consumer of the group: "
                f"{has} subscribes to {topic}, {lacks} does not"
            )
        low, high = (of(streams, key=lambda topic: (streams[topic], topic)) for of in (min, max))
        if streams[low] != streams[high]:
            raise UsageError(
                "round robin needs the same number of streams for every topic of a consumer: "
                f"{consumer} has {streams[low]} for {low} and {streams[high]} for {high}"
            )


def old_round_robin(
    partitions: Mapping[str, Sequence[int]],
    consumers: Sequence[OldConsumer],
    *,
    same_topics: bool = True,
    brackets: bool = True,
) -> Owners:
    """Assign the partitions of all topics to the threads in turn. Partitions are sorted by the hash of their names,
    threads by name. Return (topic, partition) -> thread name.

    A thread is skipped for the partitions of a topic that it does not consume. Topics without threads are omitted. With
    `brackets`, names are hashed as `[topic,partition]` (Kafka up to 0.11), otherwise as `topic-partition` (1.0 and
    1.1). Partitions with equal hashes are sorted by topic and number; Kafka uses the order of its hash tables.

    With `same_topics` (Kafka up to 0.9), raises `UsageError` if two consumers subscribe to different topics. It is
    raised too if a consumer has different numbers of streams for its topics. Consumers without streams are ignored in
    these checks. Raises `LimitExceeded` if the group has more than a million threads.
    """
    if same_topics:
        _refuse_different(consumers)
    by_topic = threads_of(consumers)
    threads = java_sorted({thread for each in by_topic.values() for thread in each})
    place_of = {thread: at for at, thread in enumerate(threads)}
    takers = {topic: [place_of[thread] for thread in each] for topic, each in by_topic.items()}
    in_brackets, with_hyphen = "[{},{}]", "{}-{}"
    places = sorted((topic, number) for topic in by_topic for number in partitions.get(topic, ()))
    places.sort(key=lambda place: string_hash((in_brackets if brackets else with_hyphen).format(*place)))
    owners: Owners = {}
    at = 0
    for place in places:
        turn = takers[place[0]]
        at = turn[bisect_left(turn, at) % len(turn)]
        owners[place] = threads[at]
        at = (at + 1) % len(threads)
    return owners
