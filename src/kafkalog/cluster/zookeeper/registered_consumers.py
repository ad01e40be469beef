"""Consumer registrations in ZooKeeper: `/consumers/G/ids/C`, their subscriptions, and the information in their ids.

Follows `kafka.consumer.TopicCount`, `TopicFilter` and, for the ids, `ZookeeperConsumerConnector` (0.8.2 to 1.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from kafkalog.cluster.rules.patterns import PatternError, from_java, matching
from kafkalog.cluster.zookeeper.kafka_nodes import json_object
from kafkalog.codec.common.errors import FormatError
from kafkalog.log.directories.topic_filter import topic_filter

__all__ = ["ConsumerId", "RegisteredConsumer", "consumer_id", "is_client_id", "registered_consumer", "streams_by_topic"]

WHITE_LIST, BLACK_LIST = "white_list", "black_list"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
_MADE_ID = re.compile(r"(?P<host>.+)-(?P<ms>[0-9]{13})-(?P<uuid>[0-9a-f]{8})", re.DOTALL)
_OF_CLIENTS = re.compile(r"(?P<host>[^:]+):(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""form of ids of clients in Go (kazoo-go) and Python (pykafka), without the group's name"""
_LARGEST_INT = (1 << 31) - 1


class ConsumerId(Struct, frozen=True):
    """The parts of an id that a consumer generated for itself."""

    host: str
    started: int | None
    """start by the clock of the consumer's host, ms; None if the id does not contain it"""
    uuid: str
    """a random UUID; in ids with a time its first eight hexadecimal digits"""


def consumer_id(group: str, text: str) -> ConsumerId | None:
    """Parse a consumer id `<group>_<host>-<ms>-<8 hexadecimal digits>`, as Kafka's consumers generate it, or
    `<host>:<UUID>`.

    The time is in ms since 1970, None in the second form. Returns None for any other id, such as a configured
    `consumer.id`.
    """
    other = _OF_CLIENTS.fullmatch(text)
    if other is not None:
        return ConsumerId(other["host"], None, other["uuid"])
    match = _MADE_ID.fullmatch(text.removeprefix(f"{group}_")) if text.startswith(f"{group}_") else None
    return None if match is None else ConsumerId(match["host"], int(match["ms"]), match["uuid"])


def is_client_id(text: str) -> bool:
    """Whether the text is a complete `<host>:<UUID>`, without the number of a thread."""
    return _OF_CLIENTS.fullmatch(text) is not None


class RegisteredConsumer(Struct, frozen=True, kw_only=True):
    """A consumer's registration. If topics are chosen by a pattern, `subscription` has one entry: the regular
    expression with its number of streams.
    """

    consumer_id: str
    pattern: str
    """`static`, `white_list` or `black_list`"""
    subscription: Mapping[str, int]
    timestamp: int | None
    """time of the subscription, ms"""

    @property
    def by_pattern(self) -> bool:
        """Whether topics are chosen by a regular expression; False without any subscription."""
        return self.pattern in (WHITE_LIST, BLACK_LIST) and bool(self.subscription)


def registered_consumer(name: str, data: bytes | None) -> RegisteredConsumer:
    """Parse a consumer's registration; `name` is the consumer id. The timestamp is in ms since 1970, None if it is
    missing or invalid.

    Raises `FormatError` if the data is not a JSON object with pattern and subscription or a number of streams is
    invalid, because Kafka's consumers throw then.
    """
    fields = json_object(data) or {}
    pattern, subscription = fields.get("pattern"), fields.get("subscription")
    if not isinstance(pattern, str) or not isinstance(subscription, dict):
        raise FormatError(f"consumer {name} is registered without pattern or subscription")
    for topic, streams in subscription.items():
        if type(streams) is not int or not 1 <= streams <= _LARGEST_INT:
            raise FormatError(f"consumer {name} is registered with {str(streams)[:40]} streams for {topic[:300]}")
    stamp = fields.get("timestamp")
    timestamp = (
        int(stamp) if isinstance(stamp, str) and stamp.isascii() and stamp.isdigit() and len(stamp) < 19 else None
    )
    return RegisteredConsumer(consumer_id=name, pattern=pattern, subscription=subscription, timestamp=timestamp)


def streams_by_topic(
    consumer: RegisteredConsumer, topics: Iterable[str], *, exclude_internal_topics: bool = True
) -> dict[str, int]:
    """Return the number of streams of each topic that a consumer subscribes to. A pattern is matched against `topics`,
    the existing ones. Topics that are subscribed to by name are returned even if they do not exist.

    A white list is a pattern of topics to consume, a black list one of topics not to consume. Patterns do not match
    Kafka's internal topics unless `exclude_internal_topics` is False. Raises `FormatError` for a pattern that cannot be
    evaluated.
    """
    if not consumer.by_pattern:
        return dict(consumer.subscription)
    expression, streams = next(iter(consumer.subscription.items()))
    there = tuple(topics)
    try:
        matched = matching(from_java(topic_filter(expression)), there)
    except PatternError as error:
        raise FormatError(str(error)) from None
    wanted = consumer.pattern == WHITE_LIST
    return {
        topic: streams
        for topic in there
        if not (exclude_internal_topics and topic in INTERNAL_TOPICS) and (topic in matched) is wanted
    }
