"""Find out whether the records in a batch can be decoded. A valid checksum does not guarantee it, and brokers do not
check it. A batch whose records cannot be decoded stops every consumer. Commands that choose between copies, or remove
damage, decode the records; commands that read only headers report the records as not examined.
"""

from __future__ import annotations

import enum

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.plain.records import decode_batch

__all__ = ["Insides", "insides_of", "look_inside"]


class Insides(enum.StrEnum):
    """Result of decoding the records of one batch, or of many."""

    READABLE = "readable"
    NOT_EXAMINED = "not_examined"
    """nobody decoded them, or they exceed `Limits`"""
    UNREADABLE = "unreadable"

    @property
    def rank(self) -> int:
        """Preference among copies of a batch: the lowest is chosen."""
        return _RANKS[self]


_RANKS = {insides: number for number, insides in enumerate(Insides)}


def insides_of(finding: Finding | None) -> Insides:
    """Return the result for a decoded batch whose finding is `finding`: READABLE for None, NOT_EXAMINED if a limit was
    exceeded, UNREADABLE for any other finding.
    """
    if finding is None:
        return Insides.READABLE
    is_limit = finding.code is FindingCode.LIMIT_EXCEEDED
    return Insides.NOT_EXAMINED if is_limit else Insides.UNREADABLE


def look_inside(batch: RecordBatch, limits: Limits = DEFAULT_LIMITS) -> tuple[Insides, Finding | None]:
    """Decode a batch; return the result, and the finding that explains why not all records were read (None if all
    were).
    """
    finding = decode_batch(batch, limits=limits).finding
    return insides_of(finding), finding
