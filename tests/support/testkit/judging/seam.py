"""The one place where the interop tests call kafkalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kafkalog

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Typed loosely: what these calls promise is what the tests are about.
_API: Any = kafkalog
# Parameters of the harness that are not settings of a log.
NOT_SETTINGS = ("now_ms", "force_unclean", "close", "hash", "load_copy", "strays", "broker_epoch")
# What kafkalog may leave of its own in a log directory.
OWN_FILES = (".kafkalog*",)


def config(params: Mapping[str, object]) -> dict[str, str]:
    """The log settings among the parameters of a case, by Kafka's names."""
    return {name: str(value) for name, value in params.items() if name not in NOT_SETTINGS}


def recover(directory: Path, params: Mapping[str, object]) -> Any:
    """Recover a log directory in place, as the broker would, at the time the parameters name."""
    return _API.recover(directory, mode="kafka", config=config(params), at=params.get("now_ms"))


def broker_outcome(directory: Path, params: Mapping[str, object]) -> str:
    """What kafkalog says the broker would do: loaded, start_fails or dir_offline."""
    plan = _API.plan(directory, mode="kafka", config=config(params), at=params.get("now_ms"))
    return str(plan.broker.outcome)
