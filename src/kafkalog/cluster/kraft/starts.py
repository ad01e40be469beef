"""Prediction of the leader of a KRaft cluster's partition if all brokers stopped at one moment and start again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.kraft.departures import TopicRules, directory_is_online, election_rules
from kafkalog.cluster.kraft.election import (
    NO_LEADER,
    ElectionRules,
    after_unclean_restart,
    with_live_replica,
    without_replica,
)
from kafkalog.cluster.kraft.metadata_image import MIGRATING, MetadataImage, PartitionImage

__all__ = ["MOST_STATES", "Starts", "possible_leaders"]

MOST_STATES = 200_000
"""Largest number of states that are simulated for one partition; if there are more, nothing is predicted."""
_MOST_RACING = 8
"""Largest number of racing replicas; more would exceed `MOST_STATES`."""
_MOST_REPLICAS = 100
_REGISTRATION_COUNTS_SINCE = 22
"""`metadata.version` of 4.0-IV0: earlier controllers change no ISR when a broker registers"""


class Starts(Struct, frozen=True, kw_only=True):
    """The brokers that are about to start, their order, and what the controllers know; the same for all partitions."""

    image: MetadataImage
    """metadata that the controllers will have"""
    fencing: tuple[frozenset[int], ...]
    """brokers that are fenced when the old sessions end, in this order (`fencing_order`)"""
    running: frozenset[int]
    """brokers that come up"""
    clean: frozenset[int] = frozenset()
    """running brokers whose marker shows a clean shutdown"""
    racing: frozenset[int] | None = None
    """brokers that are up when the old sessions end; None: any of them may be, or may come later"""
    order: tuple[int, ...] = ()
    """the other running brokers in the order of their start, each after the one before it is unfenced"""
    registration_counts: bool = True
    """a registration takes a broker out of ISRs (4.0 and later)"""

    @classmethod
    def counts_registrations(cls, level: int) -> bool:
        """Whether controllers of this `metadata.version` level take a broker out of ISRs when it registers."""
        return level >= _REGISTRATION_COUNTS_SINCE


class _State(Struct, frozen=True, kw_only=True):
    partition: PartitionImage
    sessions: frozenset[int]
    """old ones that have not ended"""
    registered: frozenset[int] = frozenset()
    unfenced: frozenset[int] = frozenset()
    """of the registered"""
    reassigned: frozenset[int] = frozenset()
    """brokers that have assigned their replica, whose directory is lost, to another directory"""

    @property
    def is_decided(self) -> bool:
        """Whether an unfenced broker leads, so that no later event changes the leader."""
        return self.partition.leader in self.unfenced


def possible_leaders(partition: PartitionImage, topic: TopicRules, starts: Starts) -> frozenset[int] | None:
    """Return the ids of all brokers that may lead the partition in the end, with `NO_LEADER` if it may have no leader.
    Return None if there are too many cases to simulate.

    `topic` are the election rules of its topic. `starts` describes the starting brokers. Some of them race: they start
    before the old sessions have ended. All orders in which they register and old sessions are fenced are simulated. The
    other brokers in `starts.order` follow one by one.
    """
    walk = _Walk(partition, topic, starts)
    first = frozenset({_State(partition=_without_epochs(partition), sessions=walk.sessions)})
    racing = starts.running if starts.racing is None else starts.racing
    states = walk.after_the_race(first, racing & walk.involved)
    if states is None:
        return None
    for broker in starts.order:
        if broker in walk.involved and broker not in racing:
            states = frozenset(walk.started(state, broker) for state in states)
    return frozenset(_leader(state) for state in states)


def _leader(state: _State) -> int:
    """Id of the leader; `NO_LEADER` if it has not been unfenced."""
    return state.partition.leader if state.is_decided else NO_LEADER


def _without_epochs(partition: PartitionImage) -> PartitionImage:
    """Return the partition with both epochs 0: they do not affect elections, and without them equal states compare
    equal.
    """
    return replace(partition, leader_epoch=0, partition_epoch=0)


class _Walk:
    """Simulation of all orders of events for one partition while brokers start and old sessions end."""

    def __init__(self, partition: PartitionImage, topic: TopicRules, starts: Starts) -> None:
        named = {*partition.replicas, *partition.isr, *partition.elr, *partition.last_known_elr, partition.leader}
        self.involved = frozenset(named - {NO_LEADER})
        self._rules = topic
        self._starts = starts
        self._fencing = [group & self.involved for group in starts.fencing if group & self.involved]
        self.sessions = frozenset(each for group in self._fencing for each in group)
        self._online = self._with_directory(partition)
        self._displaced = self._without_directory(partition)

    def _without_directory(self, partition: PartitionImage) -> frozenset[int]:
        """Return the ids of the starting replicas whose log directory with the partition is not online. Such a broker,
        if it is back before its old session ends, creates the log in another directory, empty, and assigns the replica
        to that one (`AssignmentsManager`). It registers only after that, and can be elected meanwhile.
        """
        return self.involved & self._starts.running & frozenset(partition.replicas) - self._online

    def _with_directory(self, partition: PartitionImage) -> frozenset[int]:
        """Return the ids of the brokers in `involved` that are registered and have the partition in a log directory
        that is online (`LeaderAcceptor`). A broker that is not a replica counts as if it had.
        """
        place = dict(zip(partition.replicas, partition.directories, strict=False))
        brokers = self._starts.image.brokers
        return frozenset(
            broker
            for broker in self.involved
            if (known := brokers.get(broker)) is not None and directory_is_online(known, place.get(broker, MIGRATING))
        )

    def _election(self, state: _State, without: int | None = None) -> ElectionRules:
        brokers = self._starts.image.brokers
        zombies = {session for session in state.sessions if not brokers[session].in_controlled_shutdown}
        acceptable = (zombies | state.unfenced) & (self._online | state.reassigned) - {without}
        return election_rules(self._starts.image, self._rules, frozenset(acceptable))

    def _fenced(self, state: _State, broker: int) -> _State:
        after = replace(state, sessions=state.sessions - {broker})
        if broker not in state.partition.isr:
            return after
        changed, _ = without_replica(state.partition, broker, self._election(state, broker))
        return replace(after, partition=_without_epochs(changed))

    def _registered(self, state: _State, broker: int) -> _State:
        after = replace(state, sessions=state.sessions - {broker}, registered=state.registered | {broker})
        if not self._starts.registration_counts:
            return after
        rules = self._election(state, broker)
        if rules.elr and broker not in self._starts.clean:
            changed = after_unclean_restart(state.partition, broker, rules)
        elif broker in state.partition.isr:
            changed, _ = without_replica(state.partition, broker, rules)
        else:
            return after
        return replace(after, partition=_without_epochs(changed))

    def _unfenced(self, state: _State, broker: int) -> _State:
        after = replace(state, unfenced=state.unfenced | {broker})
        changed = with_live_replica(state.partition, self._election(after))
        return replace(after, partition=_without_epochs(changed))

    def started(self, state: _State, broker: int) -> _State:
        """Return the state after `broker` is registered and unfenced, with no event in between; unchanged if the leader
        is decided.
        """
        return state if state.is_decided else self._unfenced(self._registered(state, broker), broker)

    def _next(self, state: _State, racing: frozenset[int]) -> Iterator[_State]:
        """Yield the state after each event that can happen next; nothing if no event is possible. In an event, the
        controller fences a broker, or a broker in `racing` assigns its replica to another directory, registers or is
        unfenced. The groups of `Starts.fencing` are fenced one after another. Within a group the order is unknown, so
        each broker may be next.
        """
        for group in self._fencing:
            waiting = group & state.sessions
            if waiting:
                yield from (self._fenced(state, broker) for broker in waiting)
                break
        for broker in racing:
            if broker not in state.registered:
                yield self._registered(state, broker)
                if broker in (state.sessions & self._displaced) - state.reassigned:
                    yield replace(state, reassigned=state.reassigned | {broker})
            elif broker not in state.unfenced:
                yield self._unfenced(state, broker)

    def after_the_race(self, states: Iterable[_State], racing: frozenset[int]) -> frozenset[_State] | None:
        """Return all final states that can be reached from `states`. A state is final if an unfenced broker leads, or
        if all old sessions have ended and all racing brokers are unfenced.

        Return None if there is too much to simulate: too many racing brokers, old sessions that end in an unknown
        order, replicas, or states.
        """
        unordered = max(map(len, self._fencing), default=0)
        if max(len(racing), unordered) > _MOST_RACING or len(self.involved) > _MOST_REPLICAS:
            return None
        seen: set[_State] = set()
        ends: set[_State] = set()
        waiting: list[_State] = list(states)
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            if len(seen) > MOST_STATES:
                return None
            following: Sequence[_State] = () if state.is_decided else tuple(self._next(state, racing))
            if following:
                waiting += following
            else:
                ends.add(state)
        return frozenset(ends)
