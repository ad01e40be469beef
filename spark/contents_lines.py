"""Declare the columns that rows of `contents` have in addition to the fields of the commands' lines."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["UNREAD_NAMES", "FileLine", "MetadataLine", "PlaceLine", "StateLine"]

UNREAD_NAMES = {"Unread.first_offset": "firstUnread", "Unread.last_offset": "lastUnread"}
"""Names of the columns of a finding's unread offsets, which are not a column of their own."""


class FileLine(Struct, frozen=True, kw_only=True):
    """A file."""

    file: str
    """path of the file"""


class PlaceLine(Struct, frozen=True, kw_only=True):
    """A file of a partition."""

    topic: str | None
    """topic, from the name of the partition directory; null if the name does not contain it"""
    partition: int | None
    """partition number, from the name of the partition directory; null if the name does not contain it"""
    file: str
    """path of the file; of a finding the file or directory that it is about"""


class StateLine(Struct, frozen=True, kw_only=True):
    """Columns that the row of a segment has in addition to the segment's own fields."""

    state: str
    """`live`, `delete`, `future` or `stray`, from the suffix of the directory's name"""
    findings: list[str]
    """codes of the segment's findings with the severity warning or error"""


class MetadataLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """A record of a KRaft cluster's metadata log or snapshot."""

    file: str
    """path of the snapshot, or of the partition directory for a record of the log"""
    offset: int
    """offset of the record"""
    epoch: int
    """leader epoch of the record's batch"""
    timestamp: int
    """timestamp of the record, in ms since 1970"""
    is_control: bool
    """whether the record is one of the KRaft protocol"""
    type: str
    """type of the record, as Kafka names it"""
    version: int | None
    """version of the type; null if it cannot be read"""
    data: str
    """body of the record, as JSON; credentials are `[hidden]`"""
