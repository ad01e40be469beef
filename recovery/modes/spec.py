"""Define a row of the table of modes: the decisions of a mode, and its texts."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from kafkalog.log.storage.tree import Tree

Result = TypeVar("Result", covariant=True)

__all__ = ["Carrier", "ExaminedSegments", "Help", "ModeSpec", "WayFacts", "WaySpec"]


class Carrier(Protocol[Result]):
    """Operations that a mode can carry out on the tree of a log directory. Each returns the result."""

    def safely(self, tree: Tree) -> Result:
        """Keep the sound part, as the rules say."""

    def set_aside(self, tree: Tree) -> Result:
        """Remove whole partitions."""

    def merge(self, tree: Tree) -> Result:
        """Replace damaged partitions by the records that this and other copies hold together."""

    def leave_to_remote(self, tree: Tree) -> Result:
        """Remove damaged segments of which the remote tier has copies."""


class WayFacts(Protocol):
    """Facts about the result of a way, for its description."""

    @property
    def bytes_cut(self) -> int | None:
        """Bytes of logs that are removed; None if unknown."""

    @property
    def may_lose_records(self) -> bool:
        """Whether records are lost, or may be because the counts are unknown or not exact."""

    @property
    def drops_sound(self) -> bool:
        """Whether records that can still be read are lost."""

    @property
    def has_gaps(self) -> bool:
        """Whether offsets between kept ones are lost."""

    @property
    def leaders(self) -> str:
        """Brokers of which one has to lead, as text."""

    @property
    def left_to_remote(self) -> str:
        """Offsets that are no longer local, as text."""

    @property
    def start(self) -> str | None:
        """Why a broker does not start, or takes the directory offline; None if it starts."""


class ExaminedSegments(enum.Enum):
    """Segments that a mode examines."""

    FROM_RECOVERY_POINT = "from the recovery point on"
    AS_ASKED = "from the recovery point on; those below it with the option `full`"
    ALL = "all"


class Help(enum.Enum):
    """Resource outside the log directory that a way needs."""

    COPIES = "copies"
    """directories with other copies"""
    TIER = "tier"
    """segments in the remote tier"""
    LEADER = "leader"
    """another broker that leads while this one starts"""


class WaySpec(Struct, frozen=True, kw_only=True):
    """A way that plans compare."""

    name: str
    keeps: str
    """what the way leaves, for the glossary"""
    consequence: Callable[[WayFacts], str]
    """what happens to the log, as a sentence without its full stop"""
    help: Help | None = None
    is_for_each_partition: bool = False
    """whether a command applies it to one partition at a time; it is never refused as a whole"""
    is_start: bool = False
    """whether it is a broker's own start"""


class ModeSpec(Struct, frozen=True, kw_only=True):
    """A mode of `recover`."""

    name: str
    does: str
    """what it does, as the end of a sentence that begins with its name; a field of `Recovery` in braces means the
    field's option
    """
    when: str
    """when it is used, as the end of a sentence that begins with "when"
    """
    way: WaySpec | None = None
    """the way that it carries out; None: the way of mode safe"""
    carry_out: Callable[[Carrier[Any], Tree], Any] = lambda carrier, tree: carrier.safely(tree)
    """function that returns what the mode leaves of a tree"""
    is_compared: bool = False
    """whether plans carry it out, in memory, for every partition that loses something, and compare it with mode safe"""
    is_safe: bool = False
    """whether it truncates at the first damage; other commands begin from such a plan"""
    examined: ExaminedSegments = ExaminedSegments.AS_ASKED
    """which segments it examines"""
    resumes: bool = False
    """whether logs continue after damage"""
    is_as_broker: bool = False
    """whether it leaves what a broker's start leaves: no consent, no marker, and nothing if a broker does not start"""
    takes_whole_partitions: bool = False
    """whether it removes whole partitions, which therefore must be named and need consent"""
    leaves_worse_to_person: bool = False
    """whether it refuses anything worse than a torn or zero tail"""
