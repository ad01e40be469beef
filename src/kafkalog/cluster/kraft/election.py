"""Change of a partition when a KRaft controller loses one of its in-sync replicas (`PartitionChangeBuilder`).

The leader keeps its role if it may lead. Otherwise the first assigned replica that is live and in sync is elected. If
the ISR is empty and eligible leader replicas (ELR, 4.0 and later) are enabled, the first assigned replica in the ELR is
elected, or else the last known leader. Only after that, if unclean elections are allowed, the first assigned replica
that is live is elected.
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
    """Settings and facts besides the partition's own state that decide an election."""

    acceptable: frozenset[int]
    """brokers that are live and have the replica's directory (`LeaderAcceptor`)"""
    unclean: bool = False
    """`unclean.leader.election.enable`"""
    elr: bool = False
    """`eligible.leader.replicas.version` is 1 or more"""
    min_isr: int = 1
    """`min.insync.replicas`, at most the replication factor"""
    epoch_on_shrink: bool = False
    """a smaller ISR alone increases the leader epoch (before 3.6)"""
    marks_recovery: bool = True
    """an unclean leader is marked as recovering (3.2 and later)"""


def without_replica(partition: PartitionImage, replica: int, rules: ElectionRules) -> tuple[PartitionImage, bool]:
    """Remove `replica` from the partition's ISR, and elect a leader if necessary. Return the changed partition, and
    whether the election was unclean. Returns the same object if nothing changes; the argument is not changed.
    """
    return _Change(partition, tuple(each for each in partition.isr if each != replica), rules).made()


def after_unclean_restart(partition: PartitionImage, replica: int, rules: ElectionRules) -> PartitionImage:
    """Return the partition after `replica` has registered again without proof of a clean shutdown.

    The replica leaves the ISR and the eligible leader replicas (`ReplicationControlManager.handleBrokerShutdown`), and
    a leader is elected if necessary. Returns the same object if it is in neither. It must not be among the `acceptable`
    brokers of `rules`.
    """
    if replica not in partition.isr and replica not in partition.elr:
        return partition
    isr = tuple(each for each in partition.isr if each != replica)
    return _Change(partition, isr, rules, unclean_restart=replica).made()[0]


def with_live_replica(partition: PartitionImage, rules: ElectionRules) -> PartitionImage:
    """Return the partition after one of its replicas became live (`handleBrokerUnfenced`): a leader is elected if there
    is none and one can be. A partition with a leader is returned unchanged. `rules.acceptable` must include the
    replica.
    """
    return partition if partition.leader != NO_LEADER else _Change(partition, partition.isr, rules).made()[0]


class _Change:
    """Computation of one change; the attributes become the partition's future values."""

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
        """the replica may have lost records, so it is not eligible"""
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
            directories=tuple(place.get(replica, MIGRATING) for replica in self.replicas),
            adding_replicas=self.adding,
            removing_replicas=self.removing,
            elr=self.elr,
            last_known_elr=self._last_known(isr),
            leader_recovery_state=self.recovery,
        )
        same = replace(after, partition_epoch=before.partition_epoch) == before
        return (before if same else after), unclean

    def _complete_reassignment(self) -> None:
        """Finish a reassignment if all target replicas are in sync
        (`PartitionReassignmentReplicas.maybeCompleteReassignment`).

        Then the removed replicas leave `self.isr` and `self.replicas`, and `self.adding` and `self.removing` become
        empty. Otherwise nothing changes.
        """
        if not self.removing and not self.adding:
            return
        isr = tuple(each for each in self.isr if each not in self.removing)
        replicas = tuple(replica for replica in self.replicas if replica not in self.removing)
        if not replicas or (self.removing and not isr) or not set(replicas) <= set(isr):
            return
        self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()

    def _fill_elr(self) -> None:
        """Set `self.elr`, the eligible leader replicas: replicas outside the ISR that have all committed records.
        Nothing changes if ELR is disabled. If the ISR has at least the minimum number of members, `self.elr` becomes
        empty.

        Otherwise the previous members of the ISR are added. Replicas that are in the ISR now, or were restarted
        uncleanly, are left out. The order is the order of a Java `HashSet`.
        """
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
        """Elect a leader. Return its id, and whether it may lack committed records; return (-1, False) if nobody can
        lead.

        The present leader is tried first, then the replicas in order: acceptable ones in the ISR, or in the ELR if the
        ISR is empty. If there is none, the last known leader is elected if it is acceptable, ELR is enabled, and ISR
        and ELR are empty. Otherwise the first acceptable replica is elected if unclean elections are allowed. Both may
        lack records.
        """
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
        """Set `self.leader`. If the leader was an eligible leader replica, remove it from `self.elr`, and set
        `self.isr` to the leader alone. Return None after a clean election. After an unclean one set `self.recovery`, if
        the metadata version supports it, and return the new ISR, the leader alone.
        """
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
        """Return the last known leader after the change, as a tuple of at most one broker id. `isr` is the new ISR, or
        None if it does not change.

        If ELR is disabled, the last known leader does not change. If the ISR becomes empty, it is the previous leader.
        It stays while there is no leader, and the tuple is empty once there is one.
        """
        before = self.before
        if not self.rules.elr:
            return before.last_known_elr
        if isr == () and before.last_known_elr != (before.leader,):
            return (before.leader,)
        return before.last_known_elr if self.leader == NO_LEADER else ()
