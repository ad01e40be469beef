"""What a KRaft controller makes of a partition when one of its in-sync replicas is lost (`PartitionChangeBuilder`).

The leader stays while it may lead.  Else the first assigned replica that is live and in sync follows it; with eligible
leader replicas (ELR, 4.0 and later), once nobody is in sync, the first assigned one of those, then the last leader that
was known; and only then, where unclean elections are allowed, the first assigned one that is live.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.kraft.metadata_image import MIGRATING, PartitionImage
from kafkalog.cluster.rules.java import hash_order

__all__ = ["NO_LEADER", "ElectionRules", "after_unclean_restart", "with_live_replica", "without_replica"]

NO_LEADER = -1
_RECOVERING = 1


class ElectionRules(Struct, frozen=True, kw_only=True):
    """What decides besides the partition's own state."""

    acceptable: frozenset[int]
    """the brokers that are live and have their replica's directory (`LeaderAcceptor`)"""
    unclean: bool = False
    """`unclean.leader.election.enable`"""
    elr: bool = False
    """`eligible.leader.replicas.version` is 1 or more"""
    min_isr: int = 1
    """`min.insync.replicas`, at most the replication factor"""
    epoch_on_shrink: bool = False
    """a smaller ISR alone gives a new leader epoch (before 3.6)"""
    marks_recovery: bool = True
    """an unclean leader is marked as recovering (3.2 and later)"""


def without_replica(partition: PartitionImage, replica: int, rules: ElectionRules) -> tuple[PartitionImage, bool]:
    """The partition after `replica` was taken out of its ISR, and whether a leader was elected uncleanly for that.

    The same object where nothing changes.
    """
    return _Change(partition, tuple(each for each in partition.isr if each != replica), rules).made()


def after_unclean_restart(partition: PartitionImage, replica: int, rules: ElectionRules) -> PartitionImage:
    """The partition once `replica` registers again and cannot show that it was stopped in an orderly way.

    It leaves the ISR and the eligible leader replicas (`ReplicationControlManager.handleBrokerShutdown`); with eligible
    leader replicas only: without, a registration is like the end of a session.  It is not one of the `acceptable`.
    """
    if replica not in partition.isr and replica not in partition.elr:
        return partition
    isr = tuple(each for each in partition.isr if each != replica)
    return _Change(partition, isr, rules, unclean_restart=replica).made()[0]


def with_live_replica(partition: PartitionImage, rules: ElectionRules) -> PartitionImage:
    """The partition once one more replica, which is `acceptable` then, is live (`handleBrokerUnfenced`).

    Nothing changes where there is a leader.
    """
    return partition if partition.leader != NO_LEADER else _Change(partition, partition.isr, rules).made()[0]


class _Change:
    """One change in the making; the attributes are what the partition is to become."""

    def __init__(
        self,
        partition: PartitionImage,
        isr: tuple[int, ...],
        rules: ElectionRules,
        *,
        unclean_restart: int | None = None,
    ) -> None:
        self.before = partition
        self.rules = rules
        self.unclean_restart = unclean_restart
        """may have lost anything, and is not eligible"""
        self.isr = isr
        self.replicas = partition.replicas
        self.adding = partition.adding_replicas
        self.removing = partition.removing_replicas
        self.elr = partition.elr
        self.leader = partition.leader
        self.recovery = partition.leader_recovery_state

    def made(self) -> tuple[PartitionImage, bool]:
        before, rules = self.before, self.rules
        self._complete_reassignment()
        self._fill_elr()
        leader, unclean = self._elected()
        new_epoch = leader != before.leader
        forced = self._lead(leader, unclean=unclean) if new_epoch else None
        unclean = unclean and new_epoch
        new_epoch = new_epoch or not set(before.replicas) <= set(self.replicas)
        if forced is not None or not rules.elr:
            self.elr = ()
        isr = forced
        if isr is None and (self.isr or rules.elr) and self.isr != before.isr:
            isr = self.isr
        if isr is not None and rules.epoch_on_shrink and not set(before.isr) <= set(isr):
            new_epoch = True
        place = dict(zip(before.replicas, before.directories, strict=False))
        after = PartitionImage(
            replicas=self.replicas,
            isr=before.isr if isr is None else isr,
            leader=self.leader,
            leader_epoch=before.leader_epoch + new_epoch,
            partition_epoch=before.partition_epoch + 1,
            directories=tuple(place.get(each, MIGRATING) for each in self.replicas),
            adding_replicas=self.adding,
            removing_replicas=self.removing,
            elr=self.elr,
            last_known_elr=self._last_known(isr),
            leader_recovery_state=self.recovery,
        )
        same = replace(after, partition_epoch=before.partition_epoch) == before
        return (before if same else after), unclean

    def _complete_reassignment(self) -> None:
        """`PartitionReassignmentReplicas.maybeCompleteReassignment`: everybody who shall stay is in sync."""
        if not self.removing and not self.adding:
            return
        isr = tuple(each for each in self.isr if each not in self.removing)
        replicas = tuple(each for each in self.replicas if each not in self.removing)
        if not replicas or (self.removing and not isr) or not set(replicas) <= set(isr):
            return
        self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()

    def _fill_elr(self) -> None:
        """Below the minimum, who leaves the ISR stays eligible: it has all that was ever committed."""
        if not self.rules.elr:
            return
        if len(self.isr) >= self.rules.min_isr:
            self.elr = ()
            return
        candidates = list(dict.fromkeys(self.elr + self.before.isr))
        capacity = max(len(self.elr) * 4 // 3 + 1, 16)
        left_out = {*self.isr, self.unclean_restart}
        self.elr = tuple(each for each in hash_order(candidates, int, capacity) if each not in left_out)

    def _may_lead(self, replica: int) -> bool:
        eligible = replica in self.isr or (not self.isr and replica in self.elr)
        return eligible and replica in self.rules.acceptable

    def _elected(self) -> tuple[int, bool]:
        """Who leads, and whether it may lack committed records."""
        for each in (self.before.leader, *self.replicas):
            if self._may_lead(each):
                return each, False
        last = self.before.last_known_elr
        if self.rules.elr and not self.elr and not self.isr and len(last) == 1 and last[0] in self.rules.acceptable:
            return last[0], True
        if self.rules.unclean:
            for each in self.replicas:
                if each in self.rules.acceptable:
                    return each, True
        return NO_LEADER, False

    def _lead(self, leader: int, *, unclean: bool) -> tuple[int, ...] | None:
        """Take over; the ISR that an unclean election forces, else None."""
        self.leader = leader
        if leader in self.elr:
            self.isr = (leader,)
            self.elr = tuple(each for each in self.elr if each != leader)
        if not unclean:
            return None
        if self.rules.marks_recovery:
            self.recovery = _RECOVERING
        return (leader,)

    def _last_known(self, isr: tuple[int, ...] | None) -> tuple[int, ...]:
        """The last leader is kept from when nobody is in sync until somebody leads again."""
        before = self.before
        if not self.rules.elr:
            return before.last_known_elr
        if isr == () and before.last_known_elr != (before.leader,):
            return (before.leader,)
        return before.last_known_elr if self.leader == NO_LEADER else ()
