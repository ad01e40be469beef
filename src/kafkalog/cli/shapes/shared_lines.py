"""JSON objects that lines of several commands have in common."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["PlaceLine", "UnreadableLine"]


class PlaceLine(Struct, frozen=True, kw_only=True):
    """Position of a batch in a log."""

    offset: int
    """base offset of the batch"""
    path: str = field(name="file")
    """path of the segment's `.log` file"""
    position: int
    """byte position in the file at which the batch begins"""


class UnreadableLine(Struct, frozen=True):
    """File or directory that could not be read."""

    path: str
    """path of the file or directory"""
    reason: str
    """reason why it could not be read"""
