"""What a mode of recovery is: a row of the table, with what it decides and what it says."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from kafkalog.log.storage.tree import Tree

Result = TypeVar("Result", covariant=True)

__all__ = ["Carrier", "Help", "ModeSpec", "WayFacts", "WaySpec"]


class Carrier(Protocol[Result]):
    """What can be done to the tree of a log directory; each call returns what it leaves."""

    def safely(self, tree: Tree) -> Result:
        """Keep what is sound, as the rules say."""

    def set_aside(self, tree: Tree) -> Result:
        """Take the partitions out."""

    def merge(self, tree: Tree) -> Result:
        """Put what this and other copies hold together in place of damaged partitions."""

    def leave_to_remote(self, tree: Tree) -> Result:
        """Take out damaged segments of which the remote tier has copies."""


class WayFacts(Protocol):
    """What is known of the result of a way, for its words."""

    @property
    def bytes_cut(self) -> int | None:
        """Bytes of logs that go; None if unknown."""

    @property
    def drops_sound(self) -> bool:
        """Whether records go that could still be read."""

    @property
    def has_gaps(self) -> bool:
        """Whether offsets between those that are kept are lost."""

    @property
    def leaders(self) -> str:
        """The brokers of which one has to lead, as words."""

    @property
    def left_to_remote(self) -> str:
        """The offsets that are no longer local, as words."""

    @property
    def start(self) -> str | None:
        """Why a broker does not start, or takes the directory offline; None if it starts."""


class Help(enum.Enum):
    """What a way needs that is not in the log directory."""

    COPIES = "copies"
    """directories with other copies"""
    TIER = "tier"
    """segments in the remote tier"""
    LEADER = "leader"
    """another broker that leads while this one starts"""


class WaySpec(Struct, frozen=True, kw_only=True):
    """A way of a plan."""

    name: str
    keeps: str
    """what it leaves, for the glossary"""
    consequence: Callable[[WayFacts], str]
    """what becomes of the log, in a sentence without its end"""
    help: Help | None = None
    is_for_each_partition: bool = False
    """a command takes it for one partition at a time; it is never refused as a whole"""
    is_start: bool = False
    """a broker's own start"""


class ModeSpec(Struct, frozen=True, kw_only=True):
    """A mode of `recover`."""

    name: str
    when: str
    """when it is used, after the word "when" """
    way: WaySpec | None = None
    """the way that it takes; None: that of mode safe"""
    carry_out: Callable[[Carrier[Any], Tree], Any] = lambda carrier, tree: carrier.safely(tree)
    """what it leaves of a tree"""
    is_compared: bool = False
    """a plan carries it out, in memory, for every partition that loses something, to compare it with mode safe"""
    is_safe: bool = False
    """it cuts at the first damage; so its plan is the one that other commands begin from"""
    resumes: bool = False
    """logs go on after damage, so that no segment is believed because it lies below the recovery point"""
    is_as_broker: bool = False
    """it leaves what a broker's start leaves: no consent, no marker, and nothing where a broker does not start"""
    takes_whole_partitions: bool = False
    """whole partitions go, so that they have to be named, and each needs consent"""
    leaves_worse_to_person: bool = False
    """it refuses whatever is worse than a torn or zero tail"""
