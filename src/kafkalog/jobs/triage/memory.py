"""What the cluster will know when its controllers are up, from which leaders are foreseen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from msgspec import Struct

from kafkalog.jobs.triage.logs import BrokerDisks

__all__ = ["ELECTION_COMMAND", "Key", "KnownReplicas", "Memory"]

Key = tuple[str, int]
ELECTION_COMMAND = (
    "`kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type unclean --topic TOPIC --partition NUMBER` "
    "once the broker that is to lead is up"
)


class KnownReplicas(Struct, frozen=True):
    """What is known of a partition at the moment of the cut."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class Memory(ABC):
    """The cluster's knowledge, from which leaders are foreseen."""

    source: str
    first_step: str
    """what comes before the first broker, in a given order of starts"""
    unclean_election: str
    """how one is asked for"""

    @property
    @abstractmethod
    def brokers(self) -> frozenset[int]:
        """Who is registered."""

    @abstractmethod
    def partitions(self) -> dict[Key, KnownReplicas]:
        """Every partition."""

    @abstractmethod
    def eligible(self, key: Key) -> frozenset[int]:
        """Who may lead once its broker is there, without an unclean election."""

    def directories_of(self, node: int) -> frozenset[str]:
        """Ids of the directories with which a broker registered last; empty if they are not known."""
        return frozenset()

    @abstractmethod
    def unknown(self, topic: str, partition: int, topic_id: str | None) -> str | None:
        """Why the metadata has no such partition; None if it has one, or shows that its topic was deleted.

        Without a topic id the name alone decides.
        """

    def known_elsewhere(self, topic: str, partition: int, topic_id: str | None) -> str | None:
        """Path of a copy of the metadata log that has the partition; None without one."""
        return None

    @abstractmethod
    def begin(self, disks: Mapping[int, BrokerDisks]) -> None:
        """Note that these brokers are about to be started."""

    @abstractmethod
    def leaders(self, key: Key, order: tuple[int, ...] | None, *, cautious: bool = False) -> frozenset[int] | None:
        """Who may lead when the brokers of `order` were started, or all in any order; None: too many ways.

        `cautious`: nothing is assumed of the build of Kafka, as befits an advice.
        """
