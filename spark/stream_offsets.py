"""Convert the offsets of a stream from and to JSON, as in Spark's Kafka source, and divide a limit among partitions.

The shares are as in `KafkaMicroBatchStream.rateLimit`. Nothing here opens a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kafkalog.codec.common.errors import UsageError
from kafkalog.spark.bounds import TopicPartition

__all__ = ["Offsets", "from_json", "shared_out", "to_json"]

Offsets = Mapping[TopicPartition, int]


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return the offsets like `{"topic": {"0": 23}}`, sorted by topic and partition number, because Spark compares
    offsets as text.
    """
    by_topic: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        by_topic.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return by_topic


def from_json(value: Any) -> dict[TopicPartition, int]:
    """Return (topic, partition) -> offset from JSON like `{"topic": {"0": 23}}`. Raises `UsageError` for another
    structure, such as offsets in the checkpoint of another source.
    """
    try:
        return {
            (topic, int(number)): int(offset)
            for topic, partitions in value.items()
            for number, offset in partitions.items()
        }
    except (AttributeError, OverflowError, TypeError, ValueError):
        raise UsageError(
            f'the checkpoint has offsets {value!r}, not JSON like {{"topic":{{"0":23}}}}; it is not one of a kafkalog '
            "stream, so use another checkpointLocation"
        ) from None


def shared_out(limit: int, sizes: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Divide `limit` among partitions in proportion to their sizes, which are numbers of offsets or bytes. Return
    partition -> share, at most its size. If the sizes add up to at most `limit`, they are returned unchanged. A
    partition with data never gets 0, so the shares may exceed `limit` slightly.
    """
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    shares = {}
    for key, size in sizes.items():
        share = limit * size / total
        shares[key] = min(size, math.ceil(share) if share < 1 else math.floor(share))
    return shares
