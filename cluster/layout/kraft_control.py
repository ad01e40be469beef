"""Values of KRaft's control records (`LeaderChangeMessage`, `SnapshotHeaderRecord`, …): flexible, no version in front.

Their first field is their version; all known writers use 0.
"""

from __future__ import annotations

from kafkalog.cluster.layout.message import Message, message
from kafkalog.codec.model import ControlType

__all__ = ["VALUES"]

_VOTERS = """
    {name}                  []struct
        voter_id            int32
        voter_directory_id  uuid  1+
"""

VALUES: dict[int, Message] = {
    ControlType.LEADER_CHANGE: message(
        "LeaderChange",
        "    version  int16\n    leader_id  int32"
        + _VOTERS.format(name="voters")
        + _VOTERS.format(name="granting_voters"),
        versions=1,
    ),
    ControlType.SNAPSHOT_HEADER: message(
        "SnapshotHeader", "    version  int16\n    last_contained_log_timestamp  int64"
    ),
    ControlType.SNAPSHOT_FOOTER: message("SnapshotFooter", "    version  int16"),
    ControlType.KRAFT_VERSION: message("KRaftVersion", "    version  int16\n    k_raft_version  int16"),
    ControlType.KRAFT_VOTERS: message("KRaftVoters", """
    version                        int16
    voters                         []struct
        voter_id                   int32
        voter_directory_id         uuid
        endpoints                  []struct
            name                   string
            host                   string
            port                   uint16
        k_raft_version_feature     struct
            min_supported_version  int16
            max_supported_version  int16
    """),
}  # fmt: skip
"""Control record type -> layout."""
