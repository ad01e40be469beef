"""The ways to recover, each with the sentence that says when to use it."""

from __future__ import annotations

import enum

__all__ = ["Mode"]


class Mode(enum.StrEnum):
    """What recovery aims at."""

    SAFE = "safe"
    """when the broker is to start again with every sound batch there is and change nothing more"""
    SALVAGE = "salvage"
    """when there is no other copy and what lies after the damage matters more than a gap"""
    MERGE = "merge"
    """when another copy of a damaged partition is at hand: what both hold together takes its place"""
    REMOTE = "remote"
    """when damaged segments of a tiered log were copied before: they go, and a broker serves the remote copies"""
    STRICT = "strict"
    """when anything worse than a torn or zero tail is for a person to decide"""
    KAFKA = "kafka"
    """when the result must be, byte for byte, what the broker's own recovery would leave"""
    SET_ASIDE = "set-aside"
    """when another broker has all of a partition, and this one is to fetch it again from its beginning"""
