"""The type of batches that compiled code leaves to plain Python."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["HandedBack"]

HandedBack: TypeAlias = range
"""Numbers of batches in a run, which the caller decodes at this point of the order."""
