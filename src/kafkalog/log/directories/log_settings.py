"""Settings on which the bytes of a log depend, under Kafka's names (`LogConfig`, `ProducerStateManagerConfig`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.names import parse_java_long

__all__ = ["LogSettings"]

_BROKER_NAMES = {
    "log.segment.bytes": "segment.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.index.interval.bytes": "index.interval.bytes",
    "message.max.bytes": "max.message.bytes",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.cleanup.policy": "cleanup.policy",
    "log.preallocate": "preallocate",
    "transactional.id.expiration.ms": "transactional.id.expiration.ms",
}
"""Names of topic settings by their names as broker settings. If both are given, the topic's name has priority."""

_IGNORED = frozenset(
    {
        "max.message.bytes",
        "message.timestamp.type",
        "cleanup.policy",
        "retention.ms",
        "retention.bytes",
        "segment.ms",
        "file.delete.delay.ms",
        "compression.type",
        "transactional.id.expiration.ms",
        "num.recovery.threads.per.data.dir",
    }
)
"""Known names that do not change the result of a recovery."""


_FLAGS = {"true": True, "false": False}


def _number(text: str) -> int | None:
    number = parse_java_long(text.strip())
    return None if number is None or number < 0 else number


def _read(kind: type, text: str) -> int | None:
    """Return a value of this type as Kafka parses it; None if it is not one."""
    return _FLAGS.get(text.strip().lower()) if kind is bool else _number(text)


def _by_topic_name(values: Mapping[str, str]) -> dict[str, str]:
    topic = {name: value for name, value in values.items() if name not in _BROKER_NAMES}
    broker = {_BROKER_NAMES[name]: value for name, value in values.items() if name in _BROKER_NAMES}
    return {**broker, **topic}


class LogSettings(Struct, frozen=True, kw_only=True):
    """Settings of a log that a recovery uses. Sizes are in bytes, times in ms; no value is negative. Defaults are
    Kafka's.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    preallocate: bool = False
    """whether a new segment gets its full size at once, in zeros"""
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
    remote_storage_enable: bool = False
    remote_log_storage_system_enable: bool = True
    """Kafka's default is false, but then no topic can have remote storage"""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise UsageError(f"{name} is {getattr(self, name)}; the smallest possible value is 0")

    @property
    def has_remote_log(self) -> bool:
        """Whether the topic has remote storage and the broker's remote storage system is on
        (`UnifiedLog.isRemoteLogEnabled`).
        """
        return self.remote_storage_enable and self.remote_log_storage_system_enable

    @classmethod
    def from_server_properties(cls, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the entries of `properties`, a broker's properties, whose names this class knows: settings that matter
        to a recovery, and some that it ignores. All others are left out. Names and values are unchanged.
        """
        known = {*_BROKER_NAMES, *_DEFAULTS}
        return {name: value for name, value in properties.items() if name in known}

    @classmethod
    def known_to_topics(cls, values: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that matter to a recovery and have a valid value, as a dict from topic name to text.
        `values` may use topic or broker names, such as `segment.bytes` or `log.segment.bytes`; a topic name takes
        precedence. Other names and invalid values are left out.
        """
        return {
            name: value
            for name, value in _by_topic_name(values).items()
            if name in _DEFAULTS and _read(type(_DEFAULTS[name]), value) is not None
        }

    @classmethod
    def from_names(cls, values: Mapping[str, str]) -> LogSettings:
        """Return settings from texts under Kafka's topic or broker names; a topic name takes precedence. Missing
        settings have Kafka's defaults; known settings that do not matter to a recovery are ignored. Raises `UsageError`
        for an unknown name or an invalid value.
        """
        fields: dict[str, Any] = {}
        for name, text in _by_topic_name(values).items():
            if name in _IGNORED:
                continue
            if name not in _DEFAULTS:
                raise UsageError(f"unknown setting {name!r}: recovery knows {', '.join(sorted(_DEFAULTS))}")
            kind = type(_DEFAULTS[name])
            value = _read(kind, text)
            if value is None:
                needed = "true or false" if kind is bool else "a number"
                raise UsageError(f"setting {name} needs {needed}, not {text!r}")
            fields[name.replace(".", "_")] = value
        return cls(**fields)

    def as_names(self) -> dict[str, str]:
        """Return the settings as texts by their topic names, which `from_names` accepts."""
        return {name: str(getattr(self, name.replace(".", "_"))).lower() for name in _DEFAULTS}


_DEFAULTS: dict[str, int] = {
    name.replace("_", "."): default
    for name, default in zip(LogSettings.__struct_fields__, LogSettings.__struct_defaults__, strict=True)
}
"""Kafka's default of each setting, by its topic name."""
