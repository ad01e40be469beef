"""Offsets of a stream: their JSON, which is that of Spark's Kafka source, and how a limit is shared out.

`KafkaMicroBatchStream.rateLimit` decides the shares.  Nothing here opens a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kafkalog.codec.errors import UsageError
from kafkalog.spark.bounds import TopicPartition

__all__ = ["Offsets", "from_json", "shared_out", "to_json"]

Offsets = Mapping[TopicPartition, int]


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """`{"topic": {"0": 5}}`, ordered: Spark compares offsets as text."""
    found: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return found


def from_json(value: Any) -> dict[TopicPartition, int]:
    """Offsets by topic and partition; `UsageError` where a checkpoint holds something else."""
    try:
        return {
            (topic, int(number)): int(offset)
            for topic, partitions in value.items()
            for number, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise UsageError(
            f'the checkpoint has offsets {value!r}, not JSON like {{"topic":{{"0":23}}}}; it is not one of a kafkalog '
            "stream, so use another checkpointLocation"
        ) from None


def shared_out(limit: int, sizes: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The part of `limit` for each partition, by what it has; none that has something gets nothing."""
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    shares = {}
    for key, size in sizes.items():
        share = limit * size / total
        shares[key] = min(size, math.ceil(share) if share < 1 else math.floor(share))
    return shares
