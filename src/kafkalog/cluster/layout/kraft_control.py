"""Values of KRaft's control records, under the names that Kafka's dump tool uses for them."""

from __future__ import annotations

from msgspec.structs import replace

from kafkalog.cluster.layout.record_types import RecordTypes
from kafkalog.codec.messages.control import control_layout
from kafkalog.codec.messages.message import Message
from kafkalog.codec.model import ControlType

__all__ = ["VALUES"]

_WORDS = {
    "LeaderChange": ControlType.LEADER_CHANGE,
    "SnapshotHeader": ControlType.SNAPSHOT_HEADER,
    "SnapshotFooter": ControlType.SNAPSHOT_FOOTER,
    "KRaftVersion": ControlType.KRAFT_VERSION,
    "KRaftVoters": ControlType.KRAFT_VOTERS,
}


def _layout(word: str) -> Message:
    return replace(control_layout(_WORDS[word]), name=word)


VALUES = RecordTypes(lambda: {kind: word for word, kind in _WORDS.items()}, _layout)
"""Control record type -> layout."""
