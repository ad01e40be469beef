"""Sort names in the order in which people count."""

from __future__ import annotations

import re

__all__ = ["natural_order"]


def natural_order(text: str) -> list[tuple[int, int, str]]:
    """Sort key that puts orders-9 before orders-10."""
    parts = re.split("([0-9]+)", text)
    return [(0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts if part]
