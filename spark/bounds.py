"""Parse the start and end of reading, in the options of Spark's Kafka source.

As in `KafkaSourceProvider.getKafkaOffsetRangeLimit` and `JsonUtils`, a timestamp for all partitions has priority over
timestamps by partition, and these over offsets. -2 is the earliest offset and -1 the latest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkalog.codec.common.errors import UsageError

__all__ = ["EARLIEST", "LATEST", "Bound", "TopicPartition", "parse_bound", "parse_partitions", "refuse_in_batch"]

EARLIEST = -2
LATEST = -1
_NUMBER_OF = {"earliest": EARLIEST, "latest": LATEST}

TopicPartition = tuple[str, int]


class Bound(Struct, frozen=True, kw_only=True):
    """Start or end of reading: an offset for all partitions (only EARLIEST or LATEST), offsets by partition, a
    timestamp in ms for all partitions, or timestamps by partition. The other fields are None.
    """

    option: str
    """the option set by the user, for messages"""
    offset: int | None = None
    offsets: tuple[tuple[TopicPartition, int], ...] | None = None
    timestamp: int | None = None
    timestamps: tuple[tuple[TopicPartition, int], ...] | None = None

    @property
    def named(self) -> frozenset[TopicPartition] | None:
        """Partitions named by the bound; None if it applies to all."""
        pairs = self.offsets if self.offsets is not None else self.timestamps
        return None if pairs is None else frozenset(key for key, _ in pairs)

    def offset_of(self, key: TopicPartition) -> int | None:
        """Return the offset for a partition, which may be EARLIEST or LATEST; None if the bound has timestamps. Raises
        `KeyError` if offsets are given and the partition is not among them.
        """
        return dict(self.offsets)[key] if self.offsets is not None else self.offset

    def timestamp_of(self, key: TopicPartition) -> int | None:
        """Return the timestamp for a partition in ms; None if the bound has offsets. Raises `KeyError` if timestamps by
        partition are given and it is not among them.
        """
        return dict(self.timestamps)[key] if self.timestamps is not None else self.timestamp


def _json(option: str, text: str, form: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"option {option} is neither of its words nor JSON like {form}: {text!r}") from None


def _by_partition(option: str, text: str) -> tuple[tuple[TopicPartition, int], ...]:
    form = '{"topic":{"0":23}}'
    value = _json(option, text, form)
    pairs: list[tuple[TopicPartition, int]] = []
    try:
        for topic, numbers in value.items():
            for partition, number in numbers.items():
                if isinstance(number, bool) or not isinstance(number, int):
                    raise TypeError(number)
                pairs.append(((topic, int(partition)), number))
    except (AttributeError, TypeError, ValueError):
        raise UsageError(f"option {option} needs JSON like {form}, not {text!r}") from None
    return tuple(pairs)


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """Return the (topic, partition) pairs in the text of the option `assign`, in its order. The text is JSON like
    `{"topic":[0,1]}`. Raises `UsageError`, which names `option`, for other text.
    """
    form = '{"topic":[0,1]}'
    value = _json(option, text, form)
    lists: list[Any] = [*value.values()] if isinstance(value, dict) else [None]
    if not all(isinstance(numbers, list) and {*map(type, numbers)} <= {int} for numbers in lists):
        raise UsageError(f"option {option} needs JSON like {form}, not {text!r}")
    return tuple((topic, number) for topic, numbers in value.items() for number in numbers)


def _timestamp(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"option {option} needs a time in milliseconds since 1970, not {text!r}") from None


def parse_bound(options: Mapping[str, str], edge: str, default: int) -> Bound:
    """Return the bound at `edge` ("starting" or "ending") from the options, whose names must be in lower case: by
    timestamp (ms), by timestamps or offsets per partition, or `earliest` and `latest`. Return the offset `default` if
    no option sets the bound. A timestamp takes precedence over timestamps per partition, and these over offsets. Raises
    `UsageError` for an invalid value.
    """
    timestamp, by_timestamp, by_offset = f"{edge}Timestamp", f"{edge}OffsetsByTimestamp", f"{edge}Offsets"
    if (text := options.get(timestamp.lower())) is not None:
        return Bound(option=timestamp, timestamp=_timestamp(timestamp, text.strip()))
    if (text := options.get(by_timestamp.lower())) is not None:
        return Bound(option=by_timestamp, timestamps=_by_partition(by_timestamp, text))
    if (text := options.get(by_offset.lower())) is not None:
        word = text.strip().lower()
        if word in _NUMBER_OF:
            return Bound(option=by_offset, offset=_NUMBER_OF[word])
        return Bound(option=by_offset, offsets=_by_partition(by_offset, text))
    return Bound(option=by_offset, offset=default)


def refuse_in_batch(start: Bound, end: Bound) -> None:
    """Check that the bounds suit a batch query. Raises `UsageError` if the start is the latest offset or the end is the
    earliest one, for all partitions or for a single one. Raises `UsageError` also if a bound names an offset below -2
    for a partition; -1 and -2 mean latest and earliest.
    """
    for bound, wrong, word in ((start, LATEST, "latest"), (end, EARLIEST, "earliest")):
        if bound.offset == wrong:
            raise UsageError(f"option {bound.option} cannot be {word} in a batch query")
        for (topic, partition), offset in bound.offsets or ():
            if offset == wrong:
                raise UsageError(f"option {bound.option} cannot be {word} for {topic}-{partition} in a batch query")
            if offset < EARLIEST:
                raise UsageError(f"option {bound.option} has offset {offset} for {topic}-{partition}")
