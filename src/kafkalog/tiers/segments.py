"""One remote segment, as the events of `__remote_log_metadata` describe it (`RemoteLogSegmentMetadata`)."""

from __future__ import annotations

import enum

from msgspec import Struct

from kafkalog.codec.text import LeaderEpoch

__all__ = ["RemoteSegment", "RemoteSegmentEvent", "RemoteSegmentState"]


class RemoteSegmentState(enum.IntEnum):
    """`RemoteLogSegmentState`, with its numbers."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


_FOLLOWS = {
    None: frozenset({RemoteSegmentState.COPY_SEGMENT_STARTED}),
    RemoteSegmentState.COPY_SEGMENT_STARTED: frozenset(
        {RemoteSegmentState.COPY_SEGMENT_FINISHED, RemoteSegmentState.DELETE_SEGMENT_STARTED}
    ),
    RemoteSegmentState.COPY_SEGMENT_FINISHED: frozenset({RemoteSegmentState.DELETE_SEGMENT_STARTED}),
    RemoteSegmentState.DELETE_SEGMENT_STARTED: frozenset({RemoteSegmentState.DELETE_SEGMENT_FINISHED}),
    RemoteSegmentState.DELETE_SEGMENT_FINISHED: frozenset[RemoteSegmentState](),
}


def may_follow(state: RemoteSegmentState | None, following: RemoteSegmentState) -> bool:
    """Whether a broker takes an event (`RemoteLogSegmentState.isValidTransition`); one that is repeated it does."""
    return following == state or following in _FOLLOWS[state]


class RemoteSegmentEvent(Struct, frozen=True):
    """One record of `__remote_log_metadata` about a segment."""

    state: RemoteSegmentState
    timestamp: int
    """when the broker made it, ms"""
    broker_id: int
    metadata_partition: int
    offset: int
    """in that partition"""


class RemoteSegment(Struct, frozen=True, kw_only=True):
    """A segment that was copied to the remote tier, or was to be."""

    topic: str
    topic_id: str
    partition: int
    id: str
    start_offset: int
    end_offset: int
    """its last offset"""
    max_timestamp: int
    size: int
    """of the log, bytes"""
    leader_epochs: tuple[LeaderEpoch, ...]
    has_transaction_index: bool
    """whether aborted transactions may be listed beside it"""
    custom_metadata: bytes | None
    events: tuple[RemoteSegmentEvent, ...]
    """in their order; those that a broker would not take are not among them"""

    @property
    def state(self) -> RemoteSegmentState:
        """After the last event."""
        return self.events[-1].state

    @property
    def is_readable(self) -> bool:
        """A broker serves its records (`COPY_SEGMENT_FINISHED`)."""
        return self.state is RemoteSegmentState.COPY_SEGMENT_FINISHED

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition
