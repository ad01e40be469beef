"""Detect record timestamps that are not milliseconds, and their unit."""

from __future__ import annotations

__all__ = ["unit_of"]

_FROM_S, _TO_S = 315_532_800, 4_102_444_800
"""Seconds from 1970 to the years 1980 and 2100."""
_PER_SECOND = {"seconds": 1, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


def unit_of(milliseconds: int) -> str | None:
    """Return the unit ("seconds", "microseconds" or "nanoseconds") in which a timestamp is a date from 1980 to 2099
    (inclusive). Return None if it is such a date in milliseconds, as it should be, or in none of these units.
    """
    if _FROM_S * 1000 <= milliseconds < _TO_S * 1000:
        return None
    return next(
        (unit for unit, factor in _PER_SECOND.items() if _FROM_S * factor <= milliseconds < _TO_S * factor), None
    )
