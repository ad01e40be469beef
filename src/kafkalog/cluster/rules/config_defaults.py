"""Kafka's default settings, which differ between releases.

`schemas/config_defaults.json` has the values of the classes of recorded releases (`LogConfig`, `AbstractKafkaConfig`).
The release of a broker is known from the highest `metadata.version` that it registered with; for a release between two
recorded ones, only values that both have are used.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Collection
from functools import cache
from typing import Any

__all__ = ["default_settings"]

Value = str | bool | None
"""None: no default; False: the setting does not exist in that release"""


@cache
def _table() -> dict[str, Any]:
    data = pkgutil.get_data(__name__, "schemas/config_defaults.json")
    if data is None:
        raise FileNotFoundError("config_defaults.json")
    table: dict[str, Any] = json.loads(data)
    return table


def default_settings(kind: str, levels: Collection[int]) -> dict[str, str]:
    """Return the default settings, by name, that all brokers with these highest `metadata.version` levels have in
    common. `kind` is `topic` or `broker`. A level between two recorded releases counts as both of them.

    A setting is omitted if its defaults differ or it has none. The result is empty if `levels` is empty, or if one of
    them is older or newer than every recorded release.
    """
    table = _table()
    recorded = {neighbor for level in levels for neighbor in _neighbors(level, table["levels"])}
    if not recorded or None in recorded:
        return {}
    settings = {}
    for name, changes in table[kind].items():
        values = {_at(changes, level) for level in recorded if level is not None}
        value = values.pop() if len(values) == 1 else None
        if isinstance(value, str):
            settings[name] = value
    return settings


def _neighbors(level: int, recorded: list[int]) -> set[int | None]:
    """Return the nearest recorded levels on both sides, or the level itself if it is recorded; None stands for a side
    without one.
    """
    return {max((each for each in recorded if each <= level), default=None),
            min((each for each in recorded if each >= level), default=None)}  # fmt: skip


def _at(changes: list[tuple[int, Value]], level: int) -> Value:
    return next(value for since, value in reversed(changes) if since <= level)
