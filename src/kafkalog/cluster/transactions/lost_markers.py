"""Decision about a hanging transaction: whether it was committed or aborted although its end marker is missing.

A coordinator writes its decision and the partitions before it sends the markers (`TransactionStateManager`, states
PrepareCommit and PrepareAbort). If the partition's last marker of the producer is older than the decision, the marker
was lost. If it is newer, the open transaction began after the coordinator's last one, so it hangs (KIP-664).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from msgspec import Struct

from kafkalog.cluster.transactions.producers import LastMarker, PartitionProducer

__all__ = ["Decided", "Decision", "Listed", "decided_by", "decision_of", "markers_of"]

TopicPartition = tuple[str, int]


class Decided(enum.StrEnum):
    """End of a transaction."""

    COMMIT = "commit"
    ABORT = "abort"

    @property
    def word(self) -> str:
        """`committed` or `aborted`."""
        return "committed" if self is Decided.COMMIT else "aborted"


class Listed(Struct, frozen=True):
    """The last record in which a coordinator names a partition as part of a producer's transaction."""

    status: int
    """number of the `TransactionState`"""
    timestamp: int
    """time of the coordinator's clock, ms since 1970"""
    producer_epoch: int


class Decision(Struct, frozen=True):
    """Decision about a transaction that lacks its marker, and the record that shows it."""

    decided: Decided
    source: str


PREPARED = {2: Decided.COMMIT, 3: Decided.ABORT}
"""Numbers of the states in which markers are sent (`TransactionState`)."""
COMPLETE = {4: Decided.COMMIT, 5: Decided.ABORT}


def decided_by(status: int) -> Decided | None:
    """Return the decision that a coordinator's state number stands for; None if the state is not a decision."""
    return PREPARED.get(status) or COMPLETE.get(status)


def decision_of(
    producer: PartitionProducer,
    listed: Listed | None,
    last_state: Listed | None,
    elsewhere: Mapping[TopicPartition, LastMarker],
) -> Decision | None:
    """Determine whether a producer's open transaction was committed or aborted. Return None if no record shows it, or
    if the last record of the coordinator that names the partition decides an earlier transaction. The coordinator's log
    is asked first, and then the markers in other partitions.

    `listed` is the last record of the coordinator's log that names the partition, and `last_state` is its last record
    about the producer; each is None if there is none. `elsewhere` has the producer's last marker in each other
    partition.
    """
    marker = producer.last_marker
    if listed is not None and listed.status in PREPARED:
        if marker is not None and marker.timestamp >= listed.timestamp:
            return None  # that marker is here: what is open began later
        return Decision(PREPARED[listed.status], "the coordinator's log, which lists the partition")
    if last_state is not None and last_state.status in COMPLETE and _is_of(producer, last_state.producer_epoch):
        is_later = marker is None or marker.timestamp < last_state.timestamp
        if is_later and _had_begun(producer, last_state.timestamp):
            return Decision(COMPLETE[last_state.status], "the coordinator's log")
    return _by_markers(producer, elsewhere)


def _by_markers(producer: PartitionProducer, elsewhere: Mapping[TopicPartition, LastMarker]) -> Decision | None:
    """Return the decision that markers of the same transaction in other partitions show; None if there is no such
    marker. If they contradict each other, the commit counts. A marker belongs to the transaction if it is newer than
    the producer's last one here, if its epoch fits, and if it was written after the transaction had begun.
    """
    since = -1 if producer.last_marker is None else producer.last_marker.timestamp
    places: dict[Decided, TopicPartition] = {}
    for place, marker in elsewhere.items():
        is_after = marker.timestamp > since and _had_begun(producer, marker.timestamp)
        if is_after and _is_of(producer, marker.producer_epoch):
            places.setdefault(Decided.COMMIT if marker.is_commit else Decided.ABORT, place)
    for decided in Decided:
        if decided in places:
            topic, partition = places[decided]
            return Decision(decided, f"the marker in {topic}-{partition}")
    return None


def _is_of(producer: PartitionProducer, epoch: int) -> bool:
    """Whether a marker with this epoch can end the producer's transaction; since KIP-890 the marker's epoch is one
    higher.
    """
    return epoch in (producer.producer_epoch, producer.producer_epoch + 1)


def _had_begun(producer: PartitionProducer, timestamp: int) -> bool:
    """Whether the transaction had begun at `timestamp` (ms since 1970); True if its first timestamp is unknown."""
    begun = producer.transaction_started_at
    return begun is None or begun <= timestamp


def markers_of(
    producer_id: int, places: Iterable[tuple[TopicPartition, Iterable[PartitionProducer]]]
) -> dict[TopicPartition, LastMarker]:
    """Return partition -> last transaction marker of the producer `producer_id`. Partitions without one are omitted.
    `places` are pairs of a partition and its producers. If a partition occurs several times, the marker of the last
    occurrence that has one is returned.
    """
    return {
        place: producer.last_marker
        for place, producers in places
        for producer in producers
        if producer.producer_id == producer_id and producer.last_marker is not None
    }
