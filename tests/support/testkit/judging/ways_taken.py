"""A way of a plan as the arguments of `recover` that take it."""

from __future__ import annotations

from typing import Any

from kafkalog.recovery.decide.ways import RecoveryWay

__all__ = ["options_of"]


def options_of(way: RecoveryWay) -> dict[str, Any]:
    """What `recover` is called with to take this way."""
    if way.how is None:
        return {"mode": "kafka"}
    how = way.how
    return {"mode": how.mode, "repair_bits": how.proof, "full": how.full, "copies": how.copies,
            "accept_loss": way.needs_consent}  # fmt: skip
