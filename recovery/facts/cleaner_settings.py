"""Parse the settings on which a pass of the log cleaner depends, under Kafka's names (`LogConfig`, `CleanerConfig`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec import Struct

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.compression.specs import LEVEL_SETTINGS
from kafkalog.codec.names import parse_java_long
from kafkalog.log.storage.cleaning.offset_map import SLOT_BYTES

__all__ = ["COMPACTION_POLICY", "CleanerConfig", "known_settings"]

COMPACTION_POLICY = "cleanup.policy"

_TOPIC_NAMES = {
    "log.cleanup.policy": COMPACTION_POLICY,
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.retention.ms": "retention.ms",
    "log.retention.bytes": "retention.bytes",
    "log.segment.bytes": "segment.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.index.interval.bytes": "index.interval.bytes",
}
"""Broker names of topic settings; the topic's own name takes precedence."""

_HOUR_MS = 60 * 60 * 1000
_OTHER_UNITS = (("log.retention.hours", _HOUR_MS), ("log.retention.minutes", 60 * 1000))
"""Older names of `log.retention.ms`, the weakest first."""

_INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
"""Setting with which Kafka 4.1's own tests have small segments; takes precedence over `segment.bytes`."""

_WITHOUT_EFFECT = frozenset(
    {
        *LEVEL_SETTINGS,
        "compression.type",
        "file.delete.delay.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.enable",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.message.timestamp.type",
        "log.preallocate",
        "max.message.bytes",
        "message.max.bytes",
        "message.timestamp.type",
        "num.recovery.threads.per.data.dir",
        "preallocate",
        "segment.jitter.ms",
        "segment.ms",
        "transactional.id.expiration.ms",
    }
)
"""Known names that do not change the result of a pass."""

_INT, _LONG = 2**31 - 1, 2**63 - 1
_RANGES = {
    "segment.bytes": (1, _INT),
    "segment.index.bytes": (4, _INT),
    "index.interval.bytes": (0, _INT),
    "producer.id.expiration.ms": (1, _INT),
    "min.compaction.lag.ms": (0, _LONG),
    "max.compaction.lag.ms": (1, _LONG),
    "delete.retention.ms": (0, _LONG),
    "retention.ms": (-1, _LONG),
    "retention.bytes": (-_LONG - 1, _LONG),
    "log.cleaner.threads": (1, _INT),
    "log.cleaner.dedupe.buffer.size": (1, _LONG),
}
_SHARES = ("min.cleanable.dirty.ratio", "log.cleaner.io.buffer.load.factor")
_POLICIES = frozenset({"compact", "delete"})


def known_settings(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that matter to the log cleaner, under the names of topic settings. `values` may have topic or
    broker names; a topic name takes precedence. Other settings are dropped, and values are not checked.
    `internal.segment.bytes` replaces `segment.bytes`.

    If retention is not given in ms, the broker's value in minutes, or else in hours, becomes `retention.ms`: -1 if it
    is negative, unchanged if it is not a number.
    """
    found: dict[str, str] = {}
    for name, unit in _OTHER_UNITS:
        if name in values:
            number = parse_java_long(values[name].strip())
            found["retention.ms"] = values[name] if number is None else str(number * unit if number >= 0 else -1)
    for name, topic_name in _TOPIC_NAMES.items():
        if name in values:
            found[topic_name] = values[name]
    known = {*_RANGES, *_SHARES, COMPACTION_POLICY}
    found |= {name: value for name, value in values.items() if name in known}
    if _INTERNAL_SEGMENT_BYTES in values:
        found["segment.bytes"] = values[_INTERNAL_SEGMENT_BYTES]
    return found


class CleanerConfig(Struct, frozen=True, kw_only=True):
    """Cleaner settings of one topic; sizes in bytes, times in ms. Defaults are Kafka's."""

    is_compacted: bool = False
    deletes_old: bool = True
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    producer_id_expiration_ms: int = 24 * _HOUR_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _LONG
    delete_retention_ms: int = 24 * _HOUR_MS
    retention_ms: int = 7 * 24 * _HOUR_MS
    retention_bytes: int = -1
    log_cleaner_threads: int = 1
    log_cleaner_dedupe_buffer_size: int = 128 * 1024 * 1024
    log_cleaner_io_buffer_load_factor: float = 0.9

    @property
    def offset_map_slots(self) -> int:
        """Number of slots in the offset map of one cleaner thread: its share of the buffer, divided by the bytes of a
        slot.
        """
        return min(self.log_cleaner_dedupe_buffer_size // self.log_cleaner_threads, _INT) // SLOT_BYTES

    @property
    def offset_map_limit(self) -> int:
        """Most keys in the offset map."""
        return int(self.offset_map_slots * self.log_cleaner_io_buffer_load_factor)

    @classmethod
    def from_names(cls, values: Mapping[str, str]) -> CleanerConfig:
        """Return the cleaner's settings from values by Kafka's topic or broker names, with Kafka's defaults for the
        others. Known names without effect on the cleaner are ignored. Raises `UsageError` for an unknown name, and for
        a value that is malformed or out of its range. Raises it also if the slots of the offset map, times the load
        factor, are not more than one.
        """
        known = known_settings(values)
        names = {*_TOPIC_NAMES, *_WITHOUT_EFFECT, *(name for name, _unit in _OTHER_UNITS), _INTERNAL_SEGMENT_BYTES}
        for name in values:
            if name not in names and name not in known:
                decide = ", ".join(sorted([*_RANGES, *_SHARES, COMPACTION_POLICY]))
                raise UsageError(f"unknown setting {name!r}: the cleaner knows {decide}")
        fields: dict[str, bool | float] = {}
        for name, text in known.items():
            if name == COMPACTION_POLICY:
                policies = _policies(text)
                fields |= {"is_compacted": "compact" in policies, "deletes_old": "delete" in policies}
            else:
                read: Callable[[str, str], float] = _share if name in _SHARES else _number
                fields[name.replace(".", "_")] = read(name, text)
        config = cls(**fields)  # type: ignore[arg-type]
        if config.offset_map_limit < 1 or config.offset_map_slots * config.log_cleaner_io_buffer_load_factor <= 1:
            raise UsageError(
                "log.cleaner.dedupe.buffer.size, log.cleaner.threads and log.cleaner.io.buffer.load.factor leave no "
                "room for the offset of more than one key"
            )
        return config


def _policies(text: str) -> set[str]:
    policies = {word.strip().lower() for word in text.split(",") if word.strip()}
    if not policies <= _POLICIES:
        raise UsageError(f"{COMPACTION_POLICY} is compact, delete or both, not {text!r}")
    return policies


def _number(name: str, text: str) -> int:
    low, high = _RANGES[name]
    number = parse_java_long(text.strip())
    if number is None or not low <= number <= high:
        raise UsageError(f"setting {name} needs a number from {low} to {high}, not {text!r}")
    return number


def _share(name: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise UsageError(f"setting {name} needs a number from 0 to 1, not {text!r}")
    return share
