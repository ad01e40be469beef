"""Judge each possible leader of a partition: the end of every log after following it, the records that are lost, and
the steps that avoid a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
from msgspec import Struct

from kafkalog.cluster.zookeeper.election import NO_LEADER
from kafkalog.copies.common_history import common_past
from kafkalog.jobs.triage.flaws import Flaws
from kafkalog.jobs.triage.logs import ReplicaLog, empty_log
from kafkalog.jobs.triage.memory import KnownReplicas

__all__ = ["FollowerLoss", "PartitionTriage", "StartAdvice", "advised", "judged"]

Leaders = Callable[[tuple[int, ...] | None], frozenset[int] | None]


class FollowerLoss(Struct, frozen=True):
    """Offsets that a broker truncates from its log when it follows the leader."""

    start: int = msgspec.field(name="from")
    """the first"""
    end: int = msgspec.field(name="to")
    """the offset after the last"""
    below_high_watermark: int = 0
    """number of them that lie below a high watermark that either broker wrote down: these were committed"""


class StartAdvice(Struct, frozen=True, kw_only=True):
    """Steps before the first start that make a best copy of the partition lead."""

    what: str = msgspec.field(name="do")
    """`nothing`: a best copy leads; `start_order`: start the brokers in `order`; `hold_back`: start those of `order`,
    and those of `hold_back` only when the partition has a leader; `elect`: start those of `order`, and ask for an
    unclean election; `bring`: bring the missing disks of the brokers in `bring`, or make them start; `merge`: no order
    helps, merge the copies first; `nothing_helps`: there is no other copy"""
    order: tuple[int, ...] = ()
    """brokers, one after the other, after the controllers or ZooKeeper alone"""
    leads: tuple[int, ...] = ()
    """brokers of which one leads then, if `do` is `start_order`"""
    hold_back: tuple[int, ...] = ()
    """brokers that must not start before the partition has a leader"""
    elect: int | None = None
    """broker for which an unclean election is asked when those of `order` are up; null if none is needed"""
    bring: tuple[int, ...] = ()
    """brokers that may lead and do not start with these directories; `order`, `hold_back` and `elect` are the steps if
    they stay down"""

    def sentence(self) -> str:
        """Return the advice as a sentence fragment for people; an empty string if nothing has to be done."""
        order = ", ".join(map(str, self.order))
        held = ", ".join(map(str, self.hold_back))
        match self.what:
            case "nothing":
                return ""
            case "start_order":
                leads = " or ".join(map(str, self.leads))
                return f"start {', then '.join(map(str, self.order))}: {leads} leads"
            case "hold_back" | "elect":
                return _steps(order, held, self.elect)
            case "bring":
                return self._brought() + ("" if self.elect is None else f"; else {_steps(order, held, self.elect)}")
            case "merge":
                return (f"{self._brought()}; else " if self.bring else "") + "merge the copies before the first start"
        return "no start helps: nobody can lead"

    def _brought(self) -> str:
        nodes = ", ".join(map(str, self.bring))
        return f"bring the missing disks of {nodes}, or make {'it' if len(self.bring) == 1 else 'them'} start"


def _steps(order: str, held: str, elect: int | None) -> str:
    hold = f"hold back {held}; " if held else ""
    election = f"; elect {elect} (unclean)" if elect is not None else ""
    return f"{hold}start {order}{election}" + (f"; then {held}" if held else "")


class PartitionTriage(Struct, kw_only=True):
    """One partition: possible leaders, and what each of them loses."""

    topic: str
    partition: int
    known: KnownReplicas
    leaders: tuple[int, ...]
    """every broker that may lead, and `NO_LEADER` if there may be none"""
    is_foreseen: bool
    """False: there are too many cases to try, and `leaders` are all brokers that are up"""
    logs: dict[int, ReplicaLog]
    up: frozenset[int]
    """brokers that are started and have a log of it"""
    begin_empty: frozenset[int] = frozenset()
    """brokers that start without the directory of their copy, and begin the log again, empty, if they lead"""
    best: tuple[int, ...] = ()
    """brokers whose copies reach furthest and, among these, have the fewest flaws"""
    flaws: Mapping[int, int] = {}
    """broker -> number of places in its copy that consumers do not read; only if several copies reach furthest and
    differ
    """
    flaws_in_all: int = 0
    """number of these places that no other copy has sound"""
    outcomes: dict[int, dict[int, int]] = {}
    """leader -> broker -> its log end offset after following"""
    losses: dict[int, dict[int, FollowerLoss]] = {}
    """leader -> broker -> what it loses"""
    advice: StartAdvice = StartAdvice(what="nothing")

    @property
    def may_lose(self) -> bool:
        """Whether records are lost under one of the possible leaders."""
        return any(self.losses.values())

    def lost_under(self, leader: int) -> int:
        """Return the number of offsets that best copies lose if `leader` leads: the largest number of any best copy
        whose broker is up, 0 if none loses any. Also return 0 if `leader` has a best copy, or if it has no log and does
        not begin an empty one.
        """
        log = self.log_under(leader)
        if log is None or leader in self.best:
            return 0
        losses = (_loss(self.logs[node], log) for node in self.up.intersection(self.best))
        return max((loss.end - loss.start for loss in losses if loss is not None), default=0)

    def log_under(self, leader: int) -> ReplicaLog | None:
        """Return the log of `leader`, an empty one if it begins one; None for `NO_LEADER` and if its log is unknown."""
        empty = empty_log(leader) if leader in self.begin_empty else None
        return self.logs.get(leader, empty)

    @property
    def may_have_none(self) -> bool:
        """Whether the partition may have no leader."""
        return NO_LEADER in self.leaders

    @property
    def may_be_led_worse(self) -> bool:
        """Whether a broker may lead whose copy is not one of the best, so that records that only the best copies have
        are lost.
        """
        return any(leader != NO_LEADER and leader not in self.best for leader in self.leaders)

    @property
    def flawed_leaders(self) -> tuple[int, ...]:
        """Possible leaders with damage that another copy does not have, in ascending order. Followers truncate nothing
        under them, but consumers cannot read these places.
        """
        return tuple(leader for leader in self.leaders if self.flaws.get(leader, 0) > self.flaws_in_all)

    @property
    def is_better_merged(self) -> bool:
        """Whether even the best copies have damage at places that are sound in another one."""
        return min((self.flaws.get(node, 0) for node in self.best), default=0) > self.flaws_in_all

    @property
    def ends_below_high_watermark(self) -> bool:
        """Whether all copies end below a high watermark that one of their brokers wrote down, although no start
        truncates a best one: records that were committed are in none of them.
        """
        marks = [log.high_watermark for log in self.logs.values() if log.high_watermark is not None]
        return bool(marks) and max(log.end for log in self.logs.values()) < max(marks) and not self.cut_by_start

    @property
    def cut_by_start(self) -> list[ReplicaLog]:
        """Copies that their own brokers' starts truncate, and of which no other copy is known to have the removed part,
        by ascending broker id. They are best copies, or copies whose brokers wrote down a high watermark beyond the end
        of the best.
        """
        end = max((self.logs[node].end for node in self.best), default=0)
        return [
            log
            for node, log in sorted(self.logs.items())
            if node in self.up and log.cut_bytes and (node in self.best or (log.high_watermark or 0) > end)
        ]

    @property
    def is_gone(self) -> bool:
        """Whether all brokers with replicas are here and none has a directory of the partition: its data is lost."""
        return set(self.known.replicas) <= set(self.logs) and all(log.path is None for log in self.logs.values())

    @property
    def is_clean(self) -> bool:
        """Whether nothing is lost, there is always a leader, and no leader has more flaws than another copy."""
        return not (self.may_lose or self.may_have_none or self.flawed_leaders or self.is_gone)


def judged(
    topic: str,
    partition: int,
    known: KnownReplicas,
    leaders: frozenset[int] | None,
    logs: Mapping[int, ReplicaLog],
    up: frozenset[int],
    begin_empty: frozenset[int] = frozenset(),
    *,
    flaws_of: Callable[[Mapping[int, ReplicaLog]], Flaws] = lambda logs: Flaws(),
) -> PartitionTriage:
    """Judge every possible leader of a partition. Return, for each leader, the end of the log of each broker in `up`
    after following it, and the offsets that are lost. If there is no leader, or its log is unknown, every log keeps
    its end and nothing is lost. `known` are the replicas in the metadata, `logs` the copies by broker id. Brokers in
    `begin_empty` have no copy, and begin an empty log if they lead.

    If `leaders` is None, there were too many cases: every broker in `up` may lead, or none if `up` is empty. If several
    copies reach furthest, `flaws_of` is called with them, and counts their damaged places.
    """
    assumed = leaders if leaders is not None else (up or frozenset({NO_LEADER}))
    furthest = _furthest(logs.values())
    flaws = flaws_of({node: logs[node] for node in furthest}) if len(furthest) > 1 else Flaws()
    least = min(flaws.places.values(), default=0)
    partition_triage = PartitionTriage(
        topic=topic,
        partition=partition,
        known=known,
        leaders=tuple(sorted(assumed)),
        is_foreseen=leaders is not None,
        logs=dict(logs),
        up=up,
        begin_empty=begin_empty,
        best=tuple(node for node in furthest if flaws.places.get(node, 0) == least),
        flaws=flaws.places,
        flaws_in_all=flaws.in_all,
    )
    for leader in partition_triage.leaders:
        log = partition_triage.log_under(leader)
        if log is None:
            partition_triage.outcomes[leader] = {node: logs[node].end for node in up}
            partition_triage.losses[leader] = {}
            continue
        partition_triage.outcomes[leader] = dict.fromkeys(up, log.end)
        losses = {node: _loss(logs[node], log) for node in up if node != leader}
        partition_triage.losses[leader] = {node: loss for node, loss in losses.items() if loss is not None}
    return partition_triage


def _furthest(logs: Iterable[ReplicaLog]) -> tuple[int, ...]:
    ranked = list(logs)
    furthest = max((log.rank for log in ranked), default=None)
    return tuple(sorted(log.node for log in ranked if log.rank == furthest))


def _loss(follower: ReplicaLog, leader: ReplicaLog) -> FollowerLoss | None:
    past = common_past(follower.lineage, leader.lineage)
    cut = min(follower.end, leader.end) if past is None else past.offset
    if past is None and follower.high_watermark is not None:
        cut = min(cut, follower.high_watermark)  # without an epoch it cuts there (`Partition.getOffsetTruncationState`)
    cut = max(min(cut, follower.end), follower.start)
    if cut >= follower.end:
        return None
    committed = max(replica_log.high_watermark or 0 for replica_log in (follower, leader))
    return FollowerLoss(cut, follower.end, max(0, min(committed, follower.end) - cut))


def advised(
    found: PartitionTriage,
    leaders: Leaders,
    order: tuple[int, ...],
    eligible: Collection[int],
    elects_a_controller: Callable[[tuple[int, ...]], bool] = lambda order: True,
) -> StartAdvice:
    """Return the steps that make a best copy lead, or the best that can be done. If merging repairs damage that all
    best copies have, it is advised. Otherwise these are tried in this order: doing nothing, an order of starts, holding
    brokers back, an unclean election (with brokers held back if there are any), and merging.

    From the election on, `bring` has the brokers in `eligible` that are not in `order` or have no copy. If there are
    any, `what` is "bring" instead of "elect" or "hold_back" (both with `elect`), or instead of "nothing_helps"; only
    "merge" stays.

    `leaders` predicts the leaders for an order of starts. `order` is the best order for the whole cluster, with every
    broker that can be started. Brokers in `eligible` may lead without an unclean election if they are up. Neither
    holding back nor an election is advised if `elects_a_controller` is false for the brokers that are not held back.
    The reason is that controllers lead nothing without a majority.
    """
    here = frozenset(found.logs).intersection(order)
    good = here.intersection(found.best)
    if found.is_better_merged:
        return StartAdvice(what="merge")
    if found.is_clean or (found.is_foreseen and frozenset(found.leaders) <= good):
        return StartAdvice(what="nothing")
    for start_order in (order, *(_beginning_with(node, order) for node in sorted(good))):
        under = leaders(start_order)
        if under and under <= good:
            return StartAdvice(what="start_order", order=start_order, leads=tuple(sorted(under)))
    held = tuple(sorted((here | found.begin_empty.intersection(order)) - good))
    rest = tuple(node for node in order if node not in held)
    absent = tuple(sorted(set(eligible) - here))
    under = leaders(rest) if good and elects_a_controller(rest) else None
    if held and under and under <= good:
        return StartAdvice(what="hold_back", order=rest, hold_back=held)
    needs_election = under == frozenset({NO_LEADER})
    if needs_election:
        return StartAdvice(
            what="bring" if absent else "hold_back" if held else "elect",
            order=rest,
            hold_back=held,
            elect=min(good),
            bring=absent,
        )
    if here - good:
        return StartAdvice(what="merge", bring=absent)
    return StartAdvice(what="bring" if absent else "nothing_helps", bring=absent)


def _beginning_with(node: int, order: tuple[int, ...]) -> tuple[int, ...]:
    return (node, *(other for other in order if other != node))
