"""What consumers put into a group's subscriptions and assignments (`ConsumerProtocolSubscription`, `…Assignment`).

Behind a version that is written first; never flexible.  A later version than 3 is read as 3.  The user data of the
sticky assignors is declared here too (`StickyAssignor`, `CooperativeStickyAssignor`).
"""

from __future__ import annotations

from kafkalog.cluster.layout.message import NEVER, message

__all__ = ["ASSIGNMENT", "COOPERATIVE_STICKY_USER_DATA", "STICKY_USER_DATA", "SUBSCRIPTION"]

SUBSCRIPTION = message("ConsumerProtocolSubscription", """
    topics            []string
    user_data         bytes?
    owned_partitions  []struct  1+
        topic         string
        partitions    []int32
    generation_id     int32     2+  = -1
    rack_id           string?   3+  = None
    """, versions=3, flexible=NEVER)  # fmt: skip

ASSIGNMENT = message("ConsumerProtocolAssignment", """
    assigned_partitions  []struct
        topic            string
        partitions       []int32
    user_data            bytes?
    """, versions=3, flexible=NEVER)  # fmt: skip

STICKY_USER_DATA = message("StickyAssignorUserData", """
    previous_assignment  []struct
        topic            string
        partitions       []int32
    generation           int32     1+
    """, versions=1, flexible=NEVER)  # fmt: skip

COOPERATIVE_STICKY_USER_DATA = message("CooperativeStickyAssignorUserData", """
    generation  int32
    """, flexible=NEVER)  # fmt: skip
