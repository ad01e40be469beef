"""Numbers in sentences."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, noun: str) -> str:
    """`1 record`, `2 records`, `0 sound batches`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"
