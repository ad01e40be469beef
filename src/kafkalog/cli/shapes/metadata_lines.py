"""Types of the lines of `kafkalog metadata --json`; `PartitionLine` is also a line of `kafkalog elections`."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_json import ImageLine, KraftStateJson
from kafkalog.cluster.rules.configuration import ConfigSource

__all__ = ["Line", "PartitionLine", "SettingLine"]


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """One change of a partition in a KRaft cluster."""

    offset: int
    """offset of the record that made the change, in the metadata log"""
    timestamp: int
    """timestamp of the record that made the change, in ms since 1970"""
    topic: str
    """topic"""
    topic_id: str
    """topic id"""
    partition: int
    """partition number"""
    cause: str
    """cause of the change, derived from the states before and after it"""
    before: KraftStateJson | None
    """state of the partition before the change; null if the change created it"""
    after: KraftStateJson | None
    """state of the partition after the change; null if the change deleted it"""


class SettingLine(Struct, frozen=True, kw_only=True):
    """With `--effective`: one setting that is in effect for a topic or broker."""

    resource: str
    """topic or broker for which the setting is in effect: `topic:NAME` or `broker:ID`"""
    name: str
    """name of the setting"""
    value: str
    """value in effect; `[hidden]` for a secret, unless `--show-secrets` is given"""
    source: ConfigSource
    """source of the value, as Kafka's `ConfigSource`"""
    given_as: str
    """name under which the source has the setting: a topic setting has another name at a broker"""


Line = ImageLine | PartitionLine | SettingLine
"""One line with the whole metadata image; with `--history` one for each change of a partition; with `--effective` one
for each setting.
"""
