"""Values of KRaft's control records. Unlike other records they have no version in front: their first field is the
version.
"""

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
"""Name of Kafka's schema for the value, by control record type (`ControlRecordUtils`)."""


_VERSION = derive.fixed(Struct("version" / Int16sb), ("version",))


def control_version(value: bytes) -> int | None:
    """Return the version at the start of a control record's value; None if the value is too short."""
    return None if len(value) < _VERSION.size else _VERSION.reader("version")(value, 0)


def control_layout(kind: ControlType) -> Message:
    """Return the layout of a control record's value. `kind` must be in `CONTROL_SCHEMAS`."""
    return newest(CONTROL_SCHEMAS[kind])
