"""Choices for a reader at damage: raise, skip or stop."""

from __future__ import annotations

import warnings

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.findings import Finding

__all__ = ["ON_DAMAGE", "RAISE", "SKIP", "STOP", "check_on_damage", "raised", "warn_of_loss"]

RAISE, SKIP, STOP = "raise", "skip", "stop"
ON_DAMAGE = (RAISE, SKIP, STOP)
"""Raise `FormatError` with the finding; continue with the next sound batch; end there, as a consumer does."""


def check_on_damage(choice: str) -> str:
    """Return the choice. Raises `UsageError` unless it is in `ON_DAMAGE`."""
    if choice not in ON_DAMAGE:
        raise UsageError(f"on_damage {choice!r} is not one of {', '.join(ON_DAMAGE)}")
    return choice


def raised(finding: Finding) -> FormatError:
    """Return the `FormatError` for damage that ends a reading, with its finding."""
    return FormatError(
        finding.detail, position=finding.position, source=finding.file, code=finding.code, finding=finding
    )


def warn_of_loss(finding: Finding, choice: str) -> None:
    """Warn about damage that the caller chose to skip or to stop at, if it does not receive findings."""
    left = "the records there are left out" if choice == SKIP else "the records from there on are left out"
    warnings.warn(f"{finding}; {left}", RuntimeWarning, stacklevel=2)
