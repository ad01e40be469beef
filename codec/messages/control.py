"""The values of KRaft's control records: they have no version in front, their first field is their version."""

from __future__ import annotations

from construct import Int16sb, Struct

from kafkalog.codec import derive
from kafkalog.codec.messages.message import Message
from kafkalog.codec.messages.published import newest
from kafkalog.codec.model import ControlType

__all__ = ["CONTROL_SCHEMAS", "control_layout", "control_version"]

CONTROL_SCHEMAS = {
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}
"""Control record type -> Kafka's schema of its value (`ControlRecordUtils`)."""


_VERSION = derive.fixed(Struct("version" / Int16sb), ("version",))


def control_version(value: bytes) -> int | None:
    """The version at the beginning of a control record's value; None if the value is shorter than that."""
    return None if len(value) < _VERSION.size else _VERSION.reader("version")(value, 0)


def control_layout(kind: ControlType) -> Message:
    """The layout of a control record's value; `kind` is one of `CONTROL_SCHEMAS`."""
    return newest(CONTROL_SCHEMAS[kind])
