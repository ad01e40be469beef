"""What a recovery case was recovered with, as the library takes it."""

from __future__ import annotations

from typing import Any

from testkit.recorded.fixture_data import RecoveryCase

__all__ = ["given"]


def given(case: RecoveryCase) -> dict[str, Any]:
    """Settings under Kafka's names, and the time that counted as now."""
    params = case.case["params"]
    return {
        "config": {name: str(value) for name, value in params.items() if "." in name},
        "at": int(params["now_ms"]),
    }
