"""`kafkalog metadata --effective`: which settings count, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkalog.cli.lines import print_lines
from kafkalog.cli.shapes.metadata_lines import SettingLine
from kafkalog.cli.tables import Column, print_table
from kafkalog.cluster.rules.config_defaults import default_settings
from kafkalog.cluster.rules.configuration import Setting, effective_of_broker, effective_of_topic
from kafkalog.cluster.rules.secrets import HIDDEN, is_secret_config
from kafkalog.codec.unknown import unknown_number
from kafkalog.log.directories.selection import ALL, Selection

__all__ = ["Configured", "print_effective"]


_NO_PARTITION = -1
"""Settings are a topic's: a partition of it is not among what can be chosen or left out."""


class Configured(NamedTuple):
    """What a cluster has, and what was set for it."""

    resources: Mapping[str, Mapping[str, str]]
    topics: tuple[str, ...]
    brokers: tuple[int, ...]
    others: frozenset[int] = frozenset()
    """nodes that are not registered and yet known: controllers, and replicas of brokers that are away"""
    levels: Mapping[int, int] = {}
    """registered broker -> the highest metadata.version that it supports, which tells its release"""

    def defaults(self, kind: str, broker: int | None) -> dict[str, str]:
        """Kafka's own for `topic` or `broker`: of the release of one broker, else what all have alike."""
        levels = self.levels.values() if broker is None else [self.levels[broker]] if broker in self.levels else []
        return default_settings(kind, levels)


def _found(
    configured: Configured, static: Mapping[str, str], chosen: Selection, broker: int | None, *, defaults: bool
) -> Iterator[tuple[str, Setting]]:
    chosen.check((name, _NO_PARTITION) for name in configured.topics)
    topics = [name for name in configured.topics if chosen.takes_topic(name)]
    if broker is not None and broker not in {*configured.brokers, *configured.others}:
        raise unknown_number("broker", broker, {*configured.brokers, *configured.others})
    of_topics = configured.defaults("topic", broker) if defaults else None
    for name in topics if chosen != ALL or broker is None else ():
        for setting in effective_of_topic(
            configured.resources, name, broker=broker, static=static, defaults=of_topics
        ).values():
            yield f"topic:{name}", setting
    if chosen != ALL:
        return
    for number in configured.brokers if broker is None else [broker]:
        own = configured.defaults("broker", number) if defaults else None
        for setting in effective_of_broker(configured.resources, number, static, own).values():
            yield f"broker:{number}", setting


def print_effective(
    configured: Configured,
    static: Mapping[str, str],
    *,
    chosen: Selection,
    broker: int | None,
    as_json: bool,
    show_secrets: bool,
    defaults: bool,
) -> None:
    """Every setting that counts: of a topic, of a broker, of a topic as it counts at a broker, or of all."""

    def shown(setting: Setting) -> str:
        hidden = not show_secrets and setting.value and is_secret_config(setting.given_as)
        return HIDDEN if hidden else setting.value

    found = _found(configured, static, chosen, broker, defaults=defaults)
    if as_json:
        print_lines(
            SettingLine(
                resource=resource, name=setting.name, value=shown(setting), source=setting.source,
                given_as=setting.given_as,
            )
            for resource, setting in found
        )  # fmt: skip
        return
    print_table(
        "settings that count",
        ["resource", "name", Column("value", wraps=True), Column("source", drop=2), Column("given as", drop=1)],
        [
            [resource, setting.name, shown(setting), setting.source.value, setting.given_as]
            for resource, setting in found
        ],
    )
