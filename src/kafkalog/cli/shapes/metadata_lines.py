"""Lines of `kafkalog metadata`; those of changes are lines of `kafkalog elections` too."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_json import ImageLine, PartitionStateJson
from kafkalog.cluster.rules.configuration import ConfigSource

__all__ = ["Line", "PartitionLine", "SettingLine"]


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """A change of a partition in a KRaft cluster."""

    offset: int
    """of the record"""
    timestamp: int
    """in ms since 1970"""
    topic: str
    """its name"""
    topic_id: str
    """its id"""
    partition: int
    """its number"""
    cause: str
    """what happened"""
    before: PartitionStateJson | None
    """null for a partition that is new"""
    after: PartitionStateJson | None
    """null for a partition that is gone"""


class SettingLine(Struct, frozen=True, kw_only=True):
    """With --effective: the setting in effect."""

    resource: str
    """`topic:NAME` or `broker:ID`"""
    name: str
    """of the setting"""
    value: str
    """[hidden] for a secret, without --show-secrets"""
    source: ConfigSource
    """where it is set"""
    given_as: str
    """the name that it is set under there"""


Line = ImageLine | PartitionLine | SettingLine
"""One line with the whole image; with --history one for each change of a partition; with --effective one for each
setting."""
