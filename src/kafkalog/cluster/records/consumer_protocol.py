"""Embedded consumer protocol of classic groups: subscriptions, assignments and the sticky assignors' user data.

Follows `ConsumerProtocol`, `StickyAssignor` and `CooperativeStickyAssignor`. A version above the newest known one is
read like that version, because later versions only append.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import msgspec

from kafkalog.cluster.layout.consumer_protocol import (
    COOPERATIVE_STICKY_USER_DATA,
    STICKY_USER_DATA,
    assignment_layout,
    subscription_layout,
)
from kafkalog.cluster.records.messages import Decoded, decode
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.messages.message import Message

__all__ = [
    "CONSUMER_PROTOCOL",
    "Subscription",
    "TopicPartition",
    "decode_assignment",
    "decode_subscription",
    "read_assignment",
    "read_subscription",
]

CONSUMER_PROTOCOL = "consumer"
"""Protocol type of groups of consumers; others (connect) have their own payloads"""
_VERSION = Struct(">h")

TopicPartition = tuple[str, int]


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that a member subscribed to, and the partitions that it owned."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    """in the order in which the member listed them"""
    generation: int = -1
    """generation of `owned`; -1 if unknown"""
    rack: str | None = None
    user_data: bytes | None = None
    version: int = 3
    """0 for clients up to 2.3, 1 up to 3.3, 3 since"""


def _versioned(layout: Message, data: bytes) -> Decoded:
    if len(data) < _VERSION.size:
        raise FormatError(f"{layout.name} of {len(data)} bytes", code="typed_record_invalid")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise FormatError(f"{layout.name} version {version}", code="record_version_unknown")
    return decode(layout, min(version, layout.versions[-1]), data, position=_VERSION.size)


def decode_subscription(data: bytes) -> Decoded:
    """Decode `ConsumerProtocolSubscription`; raises `FormatError`."""
    return _versioned(subscription_layout(), data)


def decode_assignment(data: bytes) -> Decoded:
    """Decode `ConsumerProtocolAssignment`; raises `FormatError`."""
    return _versioned(assignment_layout(), data)


def _pairs(topics: list[dict[str, Any]]) -> tuple[TopicPartition, ...]:
    return tuple(dict.fromkeys((str(topic["topic"]), number) for topic in topics for number in topic["partitions"]))


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Return the partitions of an encoded assignment; empty if `data` is empty. Raises `FormatError` if it is
    invalid.
    """
    return frozenset(_pairs(decode_assignment(data).fields["assigned_partitions"]) if data else ())


def read_subscription(data: bytes, protocol: str | None) -> Subscription:
    """Decode a member's subscription together with the user data of assignor `protocol`. Raises `FormatError` for an
    invalid subscription.

    The eager sticky assignor stores the previous partitions and their generation in its user data. The cooperative one
    stores only the generation, which is used if the subscription has none. Invalid user data counts as empty.
    `generation` is -1 if unknown.
    """
    decoded = decode_subscription(data)
    fields = decoded.fields
    owned = _pairs(fields.get("owned_partitions", []))
    generation = int(fields.get("generation_id", -1))
    user_data: bytes | None = fields["user_data"]
    if protocol == "sticky":
        owned, generation = _sticky_memory(user_data)
    elif protocol == "cooperative-sticky" and generation < 0 and user_data:
        try:
            generation = decode(COOPERATIVE_STICKY_USER_DATA, 0, user_data).fields["generation"]
        except FormatError:
            generation = -1
    return Subscription(
        topics=tuple(fields["topics"]),
        owned=owned,
        generation=generation,
        rack=fields.get("rack_id"),
        user_data=user_data,
        version=decoded.version,
    )


def _sticky_memory(user_data: bytes | None) -> tuple[tuple[TopicPartition, ...], int]:
    """Decode the user data of the sticky assignor; return the previous partitions and their generation. As in
    `StickyAssignor.memberData`, it is decoded as version 1, and if that fails, as version 0, for which the generation
    is -1. Return ((), -1) if it is empty or invalid.
    """
    if not user_data:
        return (), -1
    for version in (1, 0):
        try:
            fields = decode(STICKY_USER_DATA, version, user_data).fields
        except FormatError:
            continue
        return _pairs(fields["previous_assignment"]), int(fields.get("generation", -1))
    return (), -1
