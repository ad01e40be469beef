"""Define the parts of an explained file, in the order of the file, each with the spans of its fields."""

from __future__ import annotations

import enum

from msgspec import Struct

from kafkalog.codec.parsing.trace import FieldSpan
from kafkalog.recovery.explain.before_damage import RecordsBeforeDamage

__all__ = ["ExplainedPart", "Explanation", "PartRole"]


class PartRole(enum.StrEnum):
    """Why a part is shown."""

    ASKED = "asked"
    """it is at the requested place, or at the start of the file"""
    BEFORE = "before"
    """the last sound entry before the damage"""
    DAMAGED = "damaged"
    """it cannot be parsed from here on"""
    AFTER = "after"
    """the first entry after the damage that is proven to belong to the log"""


class ExplainedPart(Struct, frozen=True, kw_only=True):
    """One structure of the file."""

    role: PartRole
    what: str
    """kind of structure: a batch, a message, the entries of an index"""
    span: FieldSpan
    remarks: tuple[str, ...] = ()
    """sentences about the whole part"""
    breaks: tuple[str, ...] = ()
    """paths of wrong fields, the likeliest first; empty if unknown"""
    records: RecordsBeforeDamage | None = None
    """records that can be decoded, up to damage; None if not requested, or if this part is a neighbor"""

    @property
    def magic(self) -> int | None:
        """Magic of the batch or message; None if the part is neither, or too short to have it."""
        return next((child.value for child in self.span.children if child.name == "magic"), None)


class Explanation(Struct, frozen=True, kw_only=True):
    """A file, or the requested part of it; `page` is the page of docs/format with its fields."""

    path: str
    page: str
    size: int
    parts: tuple[ExplainedPart, ...]

    @property
    def is_sound(self) -> bool:
        """Whether no shown part is damaged."""
        return not any(part.role is PartRole.DAMAGED for part in self.parts)
