"""Effective value of a setting and its source, by the precedence of Kafka's configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from kafkalog.codec.compression.specs import LEVEL_SETTINGS
from kafkalog.codec.names import parse_java_long

__all__ = [
    "TOPIC_SYNONYMS",
    "ConfigSource",
    "Setting",
    "dynamic_of_broker",
    "effective_of_broker",
    "effective_of_topic",
]

Resources = Mapping[str, Mapping[str, str]]


class ConfigSource(StrEnum):
    """`ConfigEntry.ConfigSource`, most specific first."""

    TOPIC = "DYNAMIC_TOPIC_CONFIG"
    BROKER = "DYNAMIC_BROKER_CONFIG"
    CLUSTER = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    STATIC = "STATIC_BROKER_CONFIG"
    DEFAULT = "DEFAULT_CONFIG"


class Setting(Struct, frozen=True, kw_only=True):
    """The effective value of a setting, with its source."""

    name: str
    value: str
    source: ConfigSource
    given_as: str
    """name under which it was set; a topic's setting has other names at a broker"""


_MINUTE_MS = 60 * 1000
_HOUR_MS = 60 * _MINUTE_MS
_TRIMMED = "".join(map(chr, range(33)))
"""characters that Java's `String.trim` removes"""

Synonyms = tuple[tuple[str, int], ...]
"""(name at a broker, number of the topic's units in one of its units), in order of precedence"""


def _log(*names: str) -> dict[str, Synonyms]:
    return {name: ((f"log.{name}", 1),) for name in names}


def _cleaner(*names: str) -> dict[str, Synonyms]:
    return {name: ((f"log.cleaner.{name}", 1),) for name in names}


def _same(*names: str) -> dict[str, Synonyms]:
    return {name: ((name, 1),) for name in names}


TOPIC_SYNONYMS: Mapping[str, Synonyms] = {
    **_log(
        "segment.bytes",
        "retention.bytes",
        "index.interval.bytes",
        "cleanup.policy",
        "preallocate",
        "message.format.version",
        "message.timestamp.type",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "message.downconversion.enable",
        "local.retention.ms",
        "local.retention.bytes",
    ),
    **_cleaner("delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms"),
    **_same(
        "unclean.leader.election.enable",
        "min.insync.replicas",
        "compression.type",
        *LEVEL_SETTINGS,
    ),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "max.message.bytes": (("message.max.bytes", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
}
"""Setting of a topic -> its names at a broker (`ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS`)."""


def _layers(
    resources: Resources, broker: int | None, static: Mapping[str, str]
) -> Iterator[tuple[ConfigSource, Mapping[str, str]]]:
    if broker is not None:
        yield ConfigSource.BROKER, resources.get(f"broker:{broker}", {})
    yield ConfigSource.CLUSTER, resources.get("broker:", {})
    yield ConfigSource.STATIC, static


def dynamic_of_broker(resources: Resources, broker: int | None) -> dict[str, str]:
    """Dynamic settings that apply to a broker: its own, otherwise the cluster's default."""
    return {**resources.get("broker:", {}), **resources.get(f"broker:{broker}", {})}


def effective_of_broker(
    resources: Resources,
    broker: int,
    static: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> dict[str, Setting]:
    """Return the effective settings of a broker, sorted by name: for each setting the value with the highest
    precedence.

    The order of precedence is: dynamic settings of the broker, dynamic settings of all brokers, `static`, `defaults`.
    `resources` has the dynamic settings by resource (`broker:1`; `broker:` for all). `static` are the settings in the
    broker's properties file, `defaults` Kafka's defaults; None counts as empty. Settings without any value are omitted.
    """
    settings: dict[str, Setting] = {}
    for source, values in (*_layers(resources, broker, static or {}), (ConfigSource.DEFAULT, defaults or {})):
        for name, value in values.items():
            settings.setdefault(name, Setting(name=name, value=value, source=source, given_as=name))
    return dict(sorted(settings.items()))


def _converted(value: str, factor: int) -> str:
    """Convert a broker's value to the topic setting's unit by multiplying it with `factor`. Text that is not an int
    counts as 0, as in `ConfigSynonym`; with factor 1 it is returned unchanged.
    """
    if factor == 1:
        return value
    number = parse_java_long(value.strip(_TRIMMED), 32)
    return "0" if number is None else str(number * factor)


def effective_of_topic(
    resources: Resources,
    topic: str,
    *,
    broker: int | None = None,
    static: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> dict[str, Setting]:
    """Return the effective settings of a topic, sorted by name. A setting comes from the topic, else from the broker,
    else from all brokers (`broker:`), else from `static`, else from `defaults`. Settings without any value are omitted.

    `resources` has the dynamic settings by resource (`topic:T`, `broker:1`). `broker` is the id of the broker; if it is
    None, no broker's own settings count. `static` are the settings in that broker's properties file. Settings of
    brokers may have other names, synonyms of the topic's setting (`log.retention.hours` for `retention.ms`); their
    values are converted to the topic setting's unit.
    """
    own = resources.get(f"topic:{topic}", {})
    settings = {
        name: Setting(name=name, value=value, source=ConfigSource.TOPIC, given_as=name) for name, value in own.items()
    }
    for source, values in _layers(resources, broker, static or {}):
        for name, synonyms in TOPIC_SYNONYMS.items():
            chosen = next((synonym for synonym in synonyms if synonym[0] in values), None)
            if chosen is not None and name not in settings:
                settings[name] = Setting(
                    name=name,
                    value=_converted(values[chosen[0]], chosen[1]),
                    source=source,
                    given_as=chosen[0],
                )
    for name, value in (defaults or {}).items():
        settings.setdefault(name, Setting(name=name, value=value, source=ConfigSource.DEFAULT, given_as=name))
    return dict(sorted(settings.items()))
