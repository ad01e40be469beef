"""The one place where the interop tests call kafkalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kafkalog

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Parameters of the harness that are not settings of a log.
NOT_SETTINGS = ("now_ms", "force_unclean", "close", "hash", "load_copy", "strays", "broker_epoch")
# What kafkalog may leave of its own in a log directory.
OWN_FILES = (".kafkalog*",)


def config(params: Mapping[str, object]) -> dict[str, str]:
    """The log settings among the parameters of a case, by Kafka's names."""
    return {name: str(value) for name, value in params.items() if name not in NOT_SETTINGS}


def request(params: Mapping[str, object]) -> kafkalog.Recovery:
    """A recovery in mode kafka with the settings and at the time that the parameters of a case name."""
    now_ms = params.get("now_ms")
    return kafkalog.Recovery(mode="kafka", config=config(params), at=None if now_ms is None else int(str(now_ms)))


def recover(directory: Path, params: Mapping[str, object]) -> kafkalog.RecoveryResult:
    """Recover a log directory in place, as the broker would."""
    (result,) = kafkalog.recover(request(params), directory)
    return result


def broker_outcome(directory: Path, params: Mapping[str, object]) -> str:
    """What kafkalog says the broker would do: loaded, start_fails or dir_offline."""
    (plan,) = kafkalog.plan(request(params), directory)
    return str(plan.broker.outcome)
