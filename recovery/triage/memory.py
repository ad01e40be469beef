"""What the cluster will know when its controllers are up, from which leaders are foreseen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from kafkalog.recovery.triage.logs import BrokerDisks

__all__ = ["Key", "Memory", "Replicas"]

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Replicas:
    """What is known of a partition at the moment of the cut."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class Memory(ABC):
    """The cluster's knowledge, from which leaders are foreseen."""

    source: str

    @property
    @abstractmethod
    def brokers(self) -> frozenset[int]:
        """Who is registered."""

    @abstractmethod
    def partitions(self) -> dict[Key, Replicas]:
        """Every partition."""

    @abstractmethod
    def begin(self, disks: Mapping[int, BrokerDisks]) -> None:
        """These brokers are about to be started."""

    @abstractmethod
    def leaders(self, key: Key, order: tuple[int, ...] | None, *, cautious: bool = False) -> frozenset[int] | None:
        """Who may lead when the brokers of `order` were started, or all in any order; None: too many ways.

        `cautious`: nothing is assumed of the build of Kafka, as befits an advice.
        """
