"""Record times that are no milliseconds: which unit they look like."""

from __future__ import annotations

__all__ = ["unit_of"]

_FROM_S, _TO_S = 315_532_800, 4_102_444_800
"""seconds since 1970 of the years 1980 and 2100"""
_PER_SECOND = {"seconds": 1, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


def unit_of(milliseconds: int) -> str | None:
    """The unit in which a time is in the years 1980 to 2100, if in milliseconds it is not; else None.

    As milliseconds, seconds of these years are of the first weeks of 1970, and the others of years beyond 9999.
    """
    if _FROM_S * 1000 <= milliseconds < _TO_S * 1000:
        return None
    return next(
        (unit for unit, factor in _PER_SECOND.items() if _FROM_S * factor <= milliseconds < _TO_S * factor), None
    )
