"""Whether the records in a batch can be read: a checksum that is right does not promise it, and no broker looks.

Such a batch stops every consumer.  Who takes one of several copies, or takes damage out, looks inside; who only walks
over headers vouches for nothing inside, and says so.
"""

from __future__ import annotations

import enum

from kafkalog.codec.findings import Finding, FindingCode
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.records import decode_batch

__all__ = ["Insides", "insides_of", "look_inside"]


class Insides(enum.StrEnum):
    """What is known of the records in a batch, or in many."""

    READABLE = "readable"
    NOT_EXAMINED = "not_examined"
    """nobody looked, or it is larger than `Limits` allow"""
    UNREADABLE = "unreadable"

    @property
    def rank(self) -> int:
        """The lower, the rather is a batch taken where there are several."""
        return _RANKS[self]


_RANKS = {each: number for number, each in enumerate(Insides)}


def insides_of(finding: Finding | None) -> Insides:
    """What a batch is that was decoded, with this finding."""
    if finding is None:
        return Insides.READABLE
    is_limit = finding.code is FindingCode.LIMIT_EXCEEDED
    return Insides.NOT_EXAMINED if is_limit else Insides.UNREADABLE


def look_inside(batch: RecordBatch, limits: Limits = DEFAULT_LIMITS) -> tuple[Insides, Finding | None]:
    """Open a batch; the finding says why not all of its records were read."""
    finding = decode_batch(batch, limits=limits).finding
    return insides_of(finding), finding
