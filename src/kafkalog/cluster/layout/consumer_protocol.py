"""Layouts of consumers' subscriptions and assignments in classic groups.

They begin with a version and are never flexible. A version above the newest known one is read like that version. The
user data of `StickyAssignor` and `CooperativeStickyAssignor` has no published schema, because they define it in code;
it is declared here in the notation of the other schemas.
"""

from __future__ import annotations

from kafkalog.codec.messages.message import Message
from kafkalog.codec.messages.published import newest
from kafkalog.codec.messages.schema import message_of

__all__ = ["COOPERATIVE_STICKY_USER_DATA", "STICKY_USER_DATA", "assignment_layout", "subscription_layout"]


def subscription_layout() -> Message:
    """Kafka's schema `ConsumerProtocolSubscription`."""
    return newest("ConsumerProtocolSubscription")


def assignment_layout() -> Message:
    """Kafka's schema `ConsumerProtocolAssignment`."""
    return newest("ConsumerProtocolAssignment")


STICKY_USER_DATA = message_of({
    "name": "StickyAssignorUserData", "validVersions": "0-1", "flexibleVersions": "none", "fields": [
        {"name": "PreviousAssignment", "type": "[]TopicAssignment", "versions": "0+", "fields": [
            {"name": "Topic", "type": "string", "versions": "0+"},
            {"name": "Partitions", "type": "[]int32", "versions": "0+"},
        ]},
        {"name": "Generation", "type": "int32", "versions": "1+"},
    ],
})  # fmt: skip

COOPERATIVE_STICKY_USER_DATA = message_of({
    "name": "CooperativeStickyAssignorUserData", "validVersions": "0", "flexibleVersions": "none", "fields": [
        {"name": "Generation", "type": "int32", "versions": "0+"},
    ],
})  # fmt: skip
