"""Kafka's own defaults, which differ between releases: what counts where nobody has set anything.

`schemas/config_defaults.json` is what the classes of recorded releases say (`LogConfig`, `AbstractKafkaConfig`).  Which
release a broker runs is told by the highest `metadata.version` that it registered with; for a release between two
recorded ones, what both agree on counts.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Collection
from functools import cache
from typing import Any

__all__ = ["default_settings"]

Value = str | bool | None
"""None: no value; False: there is no such setting in that release"""


@cache
def _table() -> dict[str, Any]:
    data = pkgutil.get_data(__name__, "schemas/config_defaults.json")
    if data is None:
        raise FileNotFoundError("config_defaults.json")
    found: dict[str, Any] = json.loads(data)
    return found


def default_settings(kind: str, levels: Collection[int]) -> dict[str, str]:
    """Name -> value for `topic` or `broker`; what brokers with these highest `metadata.version` have alike.

    Empty where there is none, or one is older or newer than every recorded release.
    """
    table = _table()
    recorded = {each for level in levels for each in _neighbors(level, table["levels"])}
    if not recorded or None in recorded:
        return {}
    found = {}
    for name, changes in table[kind].items():
        values = {_at(changes, level) for level in recorded if level is not None}
        value = values.pop() if len(values) == 1 else None
        if isinstance(value, str):
            found[name] = value
    return found


def _neighbors(level: int, recorded: list[int]) -> set[int | None]:
    """The nearest recorded levels on both sides, or the level itself; None on a side where there is none."""
    return {max((each for each in recorded if each <= level), default=None),
            min((each for each in recorded if each >= level), default=None)}  # fmt: skip


def _at(changes: list[tuple[int, Value]], level: int) -> Value:
    return next(value for since, value in reversed(changes) if since <= level)
