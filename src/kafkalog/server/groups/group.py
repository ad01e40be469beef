"""A classic group: its members and state (`ClassicGroup`).

The states are Empty, PreparingRebalance (members join), CompletingRebalance (the leader sends the assignment) and
Stable. The time is a parameter, so nothing here waits.
"""

from __future__ import annotations

import enum

from msgspec import Struct, field

from kafkalog.server.wire import Fields

__all__ = ["Group", "Member", "State"]

_INITIAL_DELAY_S = 0.5
"""Delay after the first member of an empty group, for others to join. A broker waits 3 s."""


class State(enum.Enum):
    """States of a group, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Member(Struct, kw_only=True):
    """A consumer."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_s: float
    rebalance_s: float
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    expires: float
    assignment: bytes = b""
    is_joining: bool = False
    """whether it waits for other members to join"""
    is_syncing: bool = False
    """whether it waits for the leader's assignment"""
    joined: int = -1
    """last generation it has joined"""

    @property
    def size(self) -> int:
        """Approximate number of bytes held for it."""
        texts = len(self.id) + len(self.instance_id or "") + len(self.client_id) + len(self.protocol_type)
        return texts + len(self.assignment) + sum(len(name) + len(data) for name, data in self.protocols)

    def seen(self, now: float) -> None:
        """Restart the session timer."""
        self.expires = now + self.session_s

    def metadata(self, protocol: str) -> bytes:
        """Its metadata for a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")


class Group(Struct, kw_only=True):
    """A group and its members. The caller holds the coordinator's lock."""

    id: str
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    """assigned ids that are not used yet, and when they expire"""
    not_before: float = 0.0
    deadline: float = 0.0
    """until when members may join"""

    @property
    def size(self) -> int:
        """Approximate number of bytes held for its members."""
        return len(self.id) + sum(map(len, self.pending)) + sum(member.size for member in self.members.values())

    def accepts(self, protocol_type: str, protocols: list[tuple[str, bytes]], besides: str) -> bool:
        """Return whether a member with this protocol type and these (protocol name, metadata) pairs can be in the
        group: the type must be that of the group, and all other members must support one of the protocols. If there are
        no other members, any type and protocols will do. An empty type or an empty list is never accepted. The member
        with the id `besides` is not one of the others: it is joining again.
        """
        others = [member for member in self.members.values() if member.id != besides]
        if not protocols or not protocol_type:
            return False
        if not others:
            return True
        common = set.intersection(*({name for name, _ in other.protocols} for other in others))
        return protocol_type == self.protocol_type and any(name in common for name, _ in protocols)

    def prepare(self, now: float) -> None:
        """Start a rebalance at `now` (seconds): all members must join again before `deadline`, which is `now` plus
        their longest rebalance timeout. Requests for assignments stop waiting. A rebalance of an empty group waits at
        least half a second for more members. Does nothing if members are joining already.
        """
        if self.state is State.PREPARING:
            return
        self.not_before = now + _INITIAL_DELAY_S if self.state is State.EMPTY else now
        self.state = State.PREPARING
        self.deadline = now + max((each.rebalance_s for each in self.members.values()), default=0)
        for member in self.members.values():
            member.is_syncing = False

    def tick(self, now: float) -> bool:
        """Remove members and unused member ids that have expired at `now` (seconds); a member that waits for a response
        does not expire. Finish a rebalance at its deadline, without the members that have not joined. Finish it earlier
        if all have joined and no member id is unused, but not before the initial delay of an empty group. Return
        whether members were removed or a rebalance was finished.
        """
        changed = self._expire(now)
        if self.state is State.PREPARING:
            everybody = all(member.is_joining for member in self.members.values()) and not self.pending
            if (everybody and now >= self.not_before) or now >= self.deadline:
                self._complete(now)
                return True
        return changed

    def _expire(self, now: float) -> bool:
        self.pending = {each: until for each, until in self.pending.items() if until > now}
        gone = [each for each in self.members.values()
                if each.expires <= now and not each.is_joining and not each.is_syncing]  # fmt: skip
        for member in gone:
            self.remove(member.id, now)
        return bool(gone)

    def remove(self, member_id: str, now: float) -> None:
        """Remove a member. If it was the last one, the group is empty and in a new generation; otherwise a rebalance is
        started at `now` (seconds), unless one is in progress. Raises `KeyError` if the member is unknown.
        """
        del self.members[member_id]
        if not self.members:
            self.state = State.EMPTY
            self.generation += 1
            self.leader = self.protocol = ""
        elif self.state in (State.STABLE, State.COMPLETING):
            self.prepare(now)

    def _complete(self, now: float) -> None:
        for member in [each for each in self.members.values() if not each.is_joining]:
            del self.members[member.id]
        self.generation += 1
        if not self.members:
            self.state, self.leader, self.protocol = State.EMPTY, "", ""
            return
        self.state = State.COMPLETING
        self.protocol = self._chosen()
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        for member in self.members.values():
            member.is_joining, member.joined, member.assignment = False, self.generation, b""
            member.expires = now + max(member.session_s, member.rebalance_s)

    def _chosen(self) -> str:
        """Return the name of the protocol with the most votes (`selectProtocol`): each member votes for the first of
        its protocols that all members support. With equal votes the first one voted for wins. The group must have
        members.
        """
        common = set.intersection(*({name for name, _ in each.protocols} for each in self.members.values()))
        votes: dict[str, int] = {}
        for member in self.members.values():
            favorite = next((name for name, _ in member.protocols if name in common), "")
            votes[favorite] = votes.get(favorite, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def assign(self, assignments: list[Fields], now: float) -> None:
        """Store the assignments sent by the leader, for members that exist; the group becomes stable, and the session
        timers of all members restart at `now` (seconds).
        """
        for assignment in assignments:
            member = self.members.get(assignment["member_id"])
            if member is not None:
                member.assignment = assignment["assignment"]
        self.state = State.STABLE
        for member in self.members.values():
            member.is_syncing = False
            member.seen(now)
