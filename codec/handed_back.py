"""How compiled code says which batches it leaves to the plain execution; there is no other way of saying it."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["HandedBack"]

HandedBack: TypeAlias = range
"""Batches of a run by their numbers in it: whoever gave the run reads them in this place."""
