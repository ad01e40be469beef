"""The settings that decide bytes, under Kafka's names (`LogConfig`, `ProducerStateManagerConfig`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkalog.codec.errors import UsageError
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
"""Broker names of topic settings; the topic's own name wins where both are given."""

_IGNORED = frozenset(
    {
        "max.message.bytes",
        "message.timestamp.type",
        "cleanup.policy",
        "preallocate",
        "retention.ms",
        "retention.bytes",
        "segment.ms",
        "file.delete.delay.ms",
        "compression.type",
        "transactional.id.expiration.ms",
        "num.recovery.threads.per.data.dir",
    }
)
"""Known names that change nothing about recovery's bytes."""


_FLAGS = {"true": True, "false": False}


def _number(text: str) -> int | None:
    number = parse_java_long(text.strip())
    return None if number is None or number < 0 else number


def _read(kind: type, text: str) -> int | None:
    """A value of that kind, as Kafka reads it; None if it is none."""
    return _FLAGS.get(text.strip().lower()) if kind is bool else _number(text)


class LogSettings(Struct, frozen=True, kw_only=True):
    """What recovery needs to know; sizes in bytes, times in ms.  Defaults are Kafka's."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
    remote_storage_enable: bool = False
    remote_log_storage_system_enable: bool = True
    """Kafka's default is false, but no topic gets remote storage where it is"""

    @property
    def has_remote_log(self) -> bool:
        """`UnifiedLog.isRemoteLogEnabled`, of a topic that may have remote storage at all."""
        return self.remote_storage_enable and self.remote_log_storage_system_enable

    @classmethod
    def from_server_properties(cls, properties: Mapping[str, str]) -> dict[str, str]:
        """The settings of a broker that recovery knows; the others have nothing to do with it."""
        known = {*_BROKER_NAMES, *_DEFAULTS}
        return {name: value for name, value in properties.items() if name in known}

    @classmethod
    def known_to_topics(cls, values: Mapping[str, str]) -> dict[str, str]:
        """The settings that decide bytes and make sense, under the topic's names.

        What is else there is not for recovery.
        """
        named = {_BROKER_NAMES.get(name, name): value for name, value in values.items()}
        return {
            name: value
            for name, value in named.items()
            if name in _DEFAULTS and _read(type(_DEFAULTS[name]), value) is not None
        }

    @classmethod
    def from_names(cls, values: Mapping[str, str]) -> LogSettings:
        """The settings under Kafka's topic or broker names as values.

        An unknown name or a value of another kind is refused.
        """
        topic = {name: value for name, value in values.items() if name not in _BROKER_NAMES}
        broker = {_BROKER_NAMES[name]: value for name, value in values.items() if name in _BROKER_NAMES}
        found: dict[str, Any] = {}
        for name, text in {**broker, **topic}.items():
            if name in _IGNORED:
                continue
            if name not in _DEFAULTS:
                raise UsageError(f"unknown setting {name!r}: recovery knows {', '.join(sorted(_DEFAULTS))}")
            kind = type(_DEFAULTS[name])
            value = _read(kind, text)
            if value is None:
                needed = "true or false" if kind is bool else "a number"
                raise UsageError(f"setting {name} needs {needed}, not {text!r}")
            found[name.replace(".", "_")] = value
        return cls(**found)

    def as_names(self) -> dict[str, str]:
        """What `from_names` takes, under the topic's names."""
        return {name: str(getattr(self, name.replace(".", "_"))).lower() for name in _DEFAULTS}


_DEFAULTS: dict[str, int] = {
    name.replace("_", "."): default
    for name, default in zip(LogSettings.__struct_fields__, LogSettings.__struct_defaults__, strict=True)
}
"""Kafka's default of each setting, by the topic's name for it."""
