"""Objects in the lines of several commands."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["PlaceLine", "UnreadableLine"]


class PlaceLine(Struct, frozen=True, kw_only=True):
    """Where a batch is."""

    offset: int
    """its base offset"""
    path: str = field(name="file")
    """the segment"""
    position: int
    """byte in it"""


class UnreadableLine(Struct, frozen=True):
    """A file or directory that could not be read."""

    path: str
    """the file or directory"""
    reason: str
    """why"""
