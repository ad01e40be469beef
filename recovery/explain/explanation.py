"""What an explanation of a file is made of: parts in the order of the file, each with the spans of its fields."""

from __future__ import annotations

import enum

from msgspec import Struct

from kafkalog.codec.parsing.trace import FieldSpan
from kafkalog.recovery.explain.before_damage import RecordsBeforeDamage

__all__ = ["ExplainedPart", "Explanation", "PartRole"]


class PartRole(enum.StrEnum):
    """Why a part is shown."""

    ASKED = "asked"
    """it is at the place that was asked for, or at the start of the file"""
    BEFORE = "before"
    """the last sound entry before the damage"""
    DAMAGED = "damaged"
    """bytes stop making sense here"""
    AFTER = "after"
    """the first entry after the damage that is proven to belong to the log"""


class ExplainedPart(Struct, frozen=True):
    """One structure of the file."""

    role: PartRole
    what: str
    """what it is: a batch, a message, the entries of an index"""
    span: FieldSpan
    remarks: tuple[str, ...] = ()
    """sentences about the whole of it"""
    breaks: tuple[str, ...] = ()
    """paths of the fields that are wrong, the likeliest first; empty where that cannot be known"""
    records: RecordsBeforeDamage | None = None
    """if they were asked for, and this is not a neighbor: those that decode, up to damage"""


class Explanation(Struct, frozen=True):
    """A file, or the part of it that was asked for; `page` is the page of docs/format that has its fields."""

    path: str
    page: str
    size: int
    parts: tuple[ExplainedPart, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with what is shown."""
        return not any(part.role is PartRole.DAMAGED for part in self.parts)
