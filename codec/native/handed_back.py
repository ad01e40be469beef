"""Batches that compiled code leaves to plain Python: there is only this type for them."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["HandedBack"]

HandedBack: TypeAlias = range
"""Numbers of batches in a run, which the caller decodes in their place."""
