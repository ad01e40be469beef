"""One group of the new consumer protocol (KIP-848): the server says who reads what (`ConsumerGroup`).

A group has an epoch, which grows whenever somebody comes, goes or wants something else, and a target assignment for it.
Each member is led there by itself, at its own epoch: first it gives up what it is not to have, then it gets what nobody
else still has (`CurrentAssignmentBuilder`).  Time is passed in, so that nothing here waits.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kafkalog.server.groups.assigning import Place, uniform

__all__ = ["ConsumerGroup", "ConsumerMember", "Wishes"]

EMPTY, STABLE, RECONCILING = "Empty", "Stable", "Reconciling"
_NOTHING: frozenset[Place] = frozenset()


class Wishes(Struct, frozen=True, kw_only=True):
    """What a member wants to read; `topics` are those that are there, by name or because `pattern` matches them."""

    names: frozenset[str] = frozenset()
    pattern: str | None = None
    topics: frozenset[str] = frozenset()
    among: Mapping[str, int] = field(default_factory=dict)
    """the topics that there were"""

    @property
    def size(self) -> int:
        """Characters that are held for it."""
        return sum(map(len, self.names)) + len(self.pattern or "")


class ConsumerMember(Struct, kw_only=True):
    """A consumer, and how far it has come towards its target."""

    id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_s: float
    expires: float
    wishes: Wishes = field(default_factory=Wishes)
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Place] = _NOTHING
    revoking: frozenset[Place] = _NOTHING
    """what it still has and is to give up; until then it gets nothing else"""
    revoked_by: float | None = None
    """when it is dropped if it has not"""
    is_waiting: bool = False
    """whether others still have something that it is to get"""
    is_away: bool = False
    """a static member that has said that it will be back"""

    @property
    def size(self) -> int:
        """Characters that are held for it."""
        texts = (self.id, self.instance_id or "", self.rack_id or "", self.client_id)
        return sum(map(len, texts)) + self.wishes.size

    @property
    def held(self) -> frozenset[Place]:
        """What nobody else may have."""
        return self.assigned | self.revoking


class ConsumerGroup(Struct, kw_only=True):
    """All its members; whoever calls holds the coordinator's lock."""

    id: str
    epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    target: dict[str, frozenset[Place]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    """partitions of the topics that the target is for"""

    @property
    def state(self) -> str:
        """Kafka's name for how far the group has come."""
        if not self.members:
            return EMPTY
        done = all(each.epoch == self.epoch and not each.revoking and not each.is_waiting
                   for each in self.members.values())  # fmt: skip
        return STABLE if done else RECONCILING

    def retarget(self, counts: Mapping[str, int]) -> None:
        """A new epoch, and who is to read what in it."""
        self.epoch += 1
        self.counts = counts
        wanted = {each.id: each.wishes.topics for each in self.members.values()}
        self.target = uniform(wanted, counts, self.target)

    def is_outdated(self, counts: Mapping[str, int]) -> bool:
        """Whether topics that members want have other partitions than when the target was made."""
        if counts is self.counts:
            return False
        wanted = set[str]().union(*(each.wishes.topics for each in self.members.values()))
        if any(self.counts.get(name) != counts.get(name) for name in wanted):
            return True
        self.counts = counts
        return False

    def remove(self, member_id: str) -> None:
        """A member has left: what it had is free at once."""
        del self.members[member_id]
        self.target.pop(member_id, None)

    def reconcile(self, member: ConsumerMember, owned: frozenset[Place] | None, now: float) -> None:
        """Lead a member on; `owned` is what it says that it reads, None where it says nothing new."""
        if member.revoking:
            if owned is None or owned & member.revoking:
                return
            member.revoking, member.revoked_by = _NOTHING, None
        elif member.epoch == self.epoch and not member.is_waiting:
            return
        target = self.target.get(member.id, _NOTHING)
        lost = member.assigned - target
        if lost and (owned is None or owned & lost):
            member.assigned -= lost
            member.revoking, member.revoked_by, member.is_waiting = lost, now + member.rebalance_s, False
            return
        others = _NOTHING.union(*(each.held for each in self.members.values() if each is not member))
        member.assigned = target - others
        member.is_waiting = member.assigned != target
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch

    def expire(self, now: float) -> list[str]:
        """Drop who is silent, or gives nothing up; their ids."""
        gone = [each.id for each in self.members.values()
                if each.expires <= now or (each.revoked_by is not None and each.revoked_by <= now)]  # fmt: skip
        for each in gone:
            self.remove(each)
        return gone
