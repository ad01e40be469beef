"""A group of the new consumer protocol (KIP-848), where the server decides the assignment (`ConsumerGroup`).

A group has an epoch, which grows whenever a member joins, leaves or changes its subscription, and a target assignment
for it. Each member moves to the target at its own epoch: first it revokes partitions, then it gets those that no other
member holds (`CurrentAssignmentBuilder`). The time is a parameter, so nothing here waits.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kafkalog.server.groups.assigning import Place, uniform

__all__ = ["ConsumerGroup", "ConsumerMember", "Wishes"]

EMPTY, STABLE, RECONCILING = "Empty", "Stable", "Reconciling"
_NOTHING: frozenset[Place] = frozenset()


class Wishes(Struct, frozen=True, kw_only=True):
    """The subscription of a member. `topics` are existing topics, by name or matched by `pattern`."""

    names: frozenset[str] = frozenset()
    pattern: str | None = None
    topics: frozenset[str] = frozenset()
    among: Mapping[str, int] = field(default_factory=dict)
    """the topics that existed when it was computed"""

    @property
    def size(self) -> int:
        """Number of characters held for it."""
        return sum(map(len, self.names)) + len(self.pattern or "")


class ConsumerMember(Struct, kw_only=True):
    """A consumer and its progress towards the target."""

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
    """partitions it still holds and must revoke; until then it gets no new ones"""
    revoked_by: float | None = None
    """time when it is removed unless it has revoked them"""
    is_waiting: bool = False
    """whether other members still hold partitions meant for it"""
    is_away: bool = False
    """whether it is a static member that has left temporarily"""

    @property
    def size(self) -> int:
        """Number of characters held for it."""
        texts = (self.id, self.instance_id or "", self.rack_id or "", self.client_id)
        return sum(map(len, texts)) + self.wishes.size

    @property
    def held(self) -> frozenset[Place]:
        """Partitions no other member may get."""
        return self.assigned | self.revoking


class ConsumerGroup(Struct, kw_only=True):
    """A group and its members. The caller holds the coordinator's lock."""

    id: str
    epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    target: dict[str, frozenset[Place]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    """partition counts of the topics the target was made for"""

    @property
    def state(self) -> str:
        """State of the group with Kafka's names: `Empty` without members, `Stable` if all members have reached the
        target assignment, else `Reconciling`.
        """
        if not self.members:
            return EMPTY
        done = all(member.epoch == self.epoch and not member.revoking and not member.is_waiting
                   for member in self.members.values())  # fmt: skip
        return STABLE if done else RECONCILING

    def retarget(self, counts: Mapping[str, int]) -> None:
        """Start a new group epoch with a new target assignment for all members. `counts` has the number of partitions
        by topic.
        """
        self.epoch += 1
        self.counts = counts
        wanted = {member.id: member.wishes.topics for member in self.members.values()}
        self.target = uniform(wanted, counts, self.target)

    def is_outdated(self, counts: Mapping[str, int]) -> bool:
        """Return whether the number of partitions of a subscribed topic differs from `self.counts`, the numbers for
        which the target was made. `counts` are the current numbers by topic. If none differs, they replace
        `self.counts`, so that passing the same mapping again is quick.
        """
        if counts is self.counts:
            return False
        wanted = set[str]().union(*(member.wishes.topics for member in self.members.values()))
        if any(self.counts.get(name) != counts.get(name) for name in wanted):
            return True
        self.counts = counts
        return False

    def remove(self, member_id: str) -> None:
        """Remove a member. Its partitions are free at once."""
        del self.members[member_id]
        self.target.pop(member_id, None)

    def reconcile(self, member: ConsumerMember, owned: frozenset[Place] | None, now: float) -> None:
        """Move a member one step towards its target assignment (`CurrentAssignmentBuilder`). Changes the fields of
        `member`; does nothing if it has reached the target already. `owned` are the partitions that the member reports
        in this heartbeat, None if it reports none. `now` is in seconds.

        First, assigned partitions that are not in the target are revoked. The member gets nothing new until it reports
        in `owned` that it has given them up; it must do so before `revoked_by`. Then it gets the epoch of the group and
        the partitions of its target that no other member holds. If other members still hold some of the target,
        `is_waiting` is set.
        """
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
        """Remove members whose session, or whose time to revoke partitions, has ended at `now` (seconds); return their
        ids, empty if none. Their partitions are free at once. Neither the group epoch nor the target assignment of the
        others changes.
        """
        gone = [member.id for member in self.members.values()
                if member.expires <= now or (member.revoked_by is not None and member.revoked_by <= now)]  # fmt: skip
        for each in gone:
            self.remove(each)
        return gone
