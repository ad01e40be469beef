"""A remote segment according to the events in `__remote_log_metadata` (`RemoteLogSegmentMetadata`)."""

from __future__ import annotations

import enum

from msgspec import Struct

from kafkalog.codec.files.text import LeaderEpoch

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
    """Return whether a broker accepts an event (`RemoteLogSegmentState.isValidTransition`). A repeated one is
    accepted.
    """
    return following == state or following in _FOLLOWS[state]


class RemoteSegmentEvent(Struct, frozen=True, kw_only=True):
    """A record of `__remote_log_metadata` about a segment."""

    state: RemoteSegmentState
    timestamp: int
    """when the broker created it, in ms"""
    broker_id: int
    metadata_partition: int
    offset: int
    """offset in that partition"""


class RemoteSegment(Struct, frozen=True, kw_only=True):
    """A segment copied to the remote tier, or about to be."""

    topic: str
    topic_id: str
    partition: int
    id: str
    start_offset: int
    end_offset: int
    """last offset in the segment"""
    max_timestamp: int
    size: int
    """size of the log in bytes"""
    leader_epochs: tuple[LeaderEpoch, ...]
    has_transaction_index: bool
    """whether there may be an index of aborted transactions"""
    custom_metadata: bytes | None
    events: tuple[RemoteSegmentEvent, ...]
    """in order, without those that a broker would ignore"""

    @property
    def state(self) -> RemoteSegmentState:
        """State after the last event."""
        return self.events[-1].state

    @property
    def is_readable(self) -> bool:
        """Whether a broker serves its records (`COPY_SEGMENT_FINISHED`)."""
        return self.state is RemoteSegmentState.COPY_SEGMENT_FINISHED

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition
