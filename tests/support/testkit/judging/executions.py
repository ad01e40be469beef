"""Choose between compiled code and plain Python, for tests that compare them."""

from __future__ import annotations

import pytest

from kafkalog.codec.native import library, thresholds

__all__ = ["choose_execution"]


def choose_execution(patch: pytest.MonkeyPatch, enough_bytes: int) -> None:
    """Let compiled code do everything that it can if `enough_bytes` is 0, and else nothing; records are decoded into
    columns from `enough_bytes` bytes on.
    """
    patch.setattr(thresholds, "ENOUGH_BYTES", enough_bytes)
    if enough_bytes:
        patch.setattr(library, "PATH", "none")
