"""Define the metadata that the controllers will have when they are up, from which leaders are predicted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kafkalog.jobs.triage.logs import BrokerDisks

__all__ = ["ELECTION_COMMAND", "Key", "KnownReplicas", "Memory"]

Key = tuple[str, int]
ELECTION_COMMAND = (
    "`kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type unclean --topic TOPIC --partition NUMBER` "
    "once the broker that is to lead is up"
)


class KnownReplicas(Struct, frozen=True, kw_only=True):
    """Replicas of a partition when the cluster stopped."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    topic_id: str | None = None
    """id without which a directory is not this partition's; None if logs go by their names alone"""


class Memory(ABC):
    """Metadata of a cluster, from which leaders are predicted."""

    source: str
    elected: str = ""
    """which controllers can be elected, as a sentence, if the metadata of another voter ends before theirs; else
    empty
    """
    first_step: str
    """what to do before the first broker is started in a given order"""
    unclean_election: str
    """how to ask for an unclean election"""
    page: str
    """page of the runbook about metadata that is older than the logs"""
    held: Sequence[tuple[int | None, str]] = ()
    """node id and log directory of each copy of the metadata that has records, the furthest first; empty with ZooKeeper
    """
    static_voters: frozenset[int] = frozenset()
    """ids of the controllers that vote, if the voter set is static; else empty"""

    def ids_registered_by(self, node: int) -> frozenset[str]:
        """Ids of the directories in a broker's last registration; empty for an unknown broker."""
        return self.directories_of(node) if node in self.brokers else frozenset()

    @property
    @abstractmethod
    def next_producer_id(self) -> int | None:
        """First producer id that the controllers allocate next; the lowest if several metadata may win, None if unknown
        and -1 if they have allocated none.
        """

    @property
    @abstractmethod
    def brokers(self) -> frozenset[int]:
        """Ids of the cluster's brokers."""

    @abstractmethod
    def partitions(self) -> dict[Key, KnownReplicas]:
        """Replicas, ISR and leader of every partition, by (topic, partition number)."""

    @abstractmethod
    def eligible(self, key: Key) -> frozenset[int]:
        """Ids of brokers that may lead without an unclean election, once they are up."""

    def directories_of(self, node: int) -> frozenset[str]:
        """Ids of the directories in a broker's last registration; empty if unknown."""
        return frozenset()

    @abstractmethod
    def unknown(self, topic: str, partition: int, topic_id: str | None) -> str | None:
        """Reason why the metadata does not have such a partition; None if it has it, or shows that its topic was
        deleted. Without a topic id the name alone decides.
        """

    def known_elsewhere(self, topic: str, partition: int, topic_id: str | None) -> str | None:
        """Path of a copy of the metadata log that has the partition; None if there is none."""
        return None

    def min_isr(self, key: Key) -> int:
        """`min.insync.replicas` of a known partition, at most its replication factor; 1 if unknown."""
        return 1

    @abstractmethod
    def begin(self, disks: Mapping[int, BrokerDisks]) -> None:
        """Set the brokers that are about to be started, with their directories. Called before `leaders`."""

    def elects_a_controller(self, order: tuple[int, ...]) -> bool:
        """Whether a controller can be elected while only the brokers of `order` are up."""
        return True

    @abstractmethod
    def leaders(self, key: Key, order: tuple[int, ...] | None, *, cautious: bool = False) -> frozenset[int] | None:
        """Ids of the brokers that may lead after the brokers of `order` were started one after another (None: all that
        can be started, in any order). `NO_LEADER` is among them if there may be none. None if there are too many cases.
        With `cautious`, nothing is assumed about the build of Kafka, so that advice can rely on the result.
        """
