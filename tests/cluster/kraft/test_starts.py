"""Who leads after everything was stopped at once: rules of Kafka's classes, one test each."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from kafkalog.cluster.kraft import starts as kraft_starts
from kafkalog.cluster.kraft.departures import TopicRules
from kafkalog.cluster.kraft.election import NO_LEADER
from kafkalog.cluster.kraft.metadata_image import MIGRATING, BrokerImage, MetadataImage, PartitionImage
from kafkalog.cluster.kraft.starts import Starts, possible_leaders
from kafkalog.cluster.zookeeper.starts import leaders_in_any_order, leaders_in_order

SAFE = TopicRules(unclean=False, min_isr=1)
SAFE_TWO = TopicRules(unclean=False, min_isr=2)
UNCLEAN = TopicRules(unclean=True, min_isr=1)
NONE = frozenset({NO_LEADER})


def only(*nodes: int) -> frozenset[int]:
    return frozenset(nodes)


def image(*, elr: bool, fenced: bool = False) -> MetadataImage:
    made = MetadataImage()
    made.features = {"metadata.version": 30, "eligible.leader.replicas.version": int(elr)}
    made.brokers = {
        each: BrokerImage(
            id=each,
            epoch=100 + each,
            incarnation_id=MIGRATING,
            listeners=(),
            rack=None,
            fenced=fenced,
            in_controlled_shutdown=False,
            directories=(),
        )
        for each in (1, 2, 3)
    }
    return made


def partition(
    isr: tuple[int, ...], leader: int, *, elr: tuple[int, ...] = (), last: tuple[int, ...] = ()
) -> PartitionImage:
    return PartitionImage((1, 2, 3), isr, leader, 4, 7, (MIGRATING,) * 3, (), (), elr, last)


def in_order(
    given: PartitionImage, rules: TopicRules, order: tuple[int, ...], fencing: tuple[int, ...] = (), *, elr: bool = True
) -> frozenset[int] | None:
    groups = tuple(frozenset({each}) for each in fencing)
    starts = Starts(
        image=image(elr=elr, fenced=not fencing),
        fencing=groups,
        running=frozenset(order),
        racing=frozenset(),
        order=order,
    )
    return possible_leaders(given, rules, starts)


def in_any_order(
    given: PartitionImage, rules: TopicRules, fencing: tuple[int, ...] = (), *, elr: bool = True
) -> frozenset[int] | None:
    groups = tuple(frozenset({each}) for each in fencing)
    starts = Starts(image=image(elr=elr, fenced=not fencing), fencing=groups, running=frozenset({1, 2, 3}))
    return possible_leaders(given, rules, starts)


@pytest.mark.parametrize("fencing", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
def test_the_last_to_be_fenced_leads_whatever_the_order(fencing: tuple[int, ...], order: tuple[int, ...]) -> None:
    """`PartitionChangeBuilder.maybeUpdateLastKnownLeader`, `canElectLastKnownLeader`."""
    assert in_order(partition((1, 2, 3), 1), SAFE, order, fencing) == only(fencing[-1])


def test_a_last_known_leader_that_stays_away_keeps_everybody_waiting() -> None:
    """`PartitionChangeBuilder.canElectLastKnownLeader`."""
    given = partition((), -1, last=(3,))
    assert in_order(given, SAFE, (1, 2)) == NONE
    assert in_order(given, SAFE, (1, 2, 3)) == only(3)
    assert in_any_order(given, SAFE) == only(3)


def test_one_eligible_replica_that_stays_away_keeps_everybody_waiting() -> None:
    """The last known leader counts once no eligible replica is left (`PartitionChangeBuilder`)."""
    given = partition((), -1, elr=(1, 2), last=(1,))
    assert in_order(given, SAFE_TWO, (1,)) == NONE
    assert in_order(given, SAFE_TWO, (1, 2)) == only(1)
    assert in_order(given, SAFE_TWO, (2, 1)) == only(1)


def test_an_eligible_replica_that_was_stopped_in_an_orderly_way_leads() -> None:
    """`ReplicationControlManager.handleBrokerShutdown` with a clean shutdown leaves it eligible."""
    given = partition((), -1, elr=(1, 2), last=(1,))
    starts = Starts(
        image=image(elr=True, fenced=True),
        fencing=(),
        running=frozenset({2}),
        clean=frozenset({2}),
        racing=frozenset(),
        order=(2,),
    )
    assert possible_leaders(given, SAFE_TWO, starts) == only(2)
    assert possible_leaders(given, SAFE_TWO, replace(starts, clean=frozenset())) == NONE


def test_in_a_race_any_replica_that_may_be_last_leads() -> None:
    """A registration takes a broker out of the ISR as the end of its session does (`ClusterControlManager`)."""
    assert in_any_order(partition((1, 2, 3), 1), SAFE, (1, 2, 3)) == only(1, 2, 3)
    assert in_any_order(partition((1, 2), 1), SAFE, (1, 2, 3)) == only(1, 2)
    assert in_any_order(partition((3,), 3), SAFE, (1, 2, 3)) == only(3)


def test_where_unclean_elections_are_allowed_the_first_to_come_leads() -> None:
    """`PartitionChangeBuilder.electUncleanLeader` at the first `handleBrokerUnfenced`."""
    given = partition((3,), 3)
    assert in_order(given, UNCLEAN, (2, 1, 3), (1, 2, 3)) == only(2)
    assert in_order(given, UNCLEAN, (2, 1, 3), (1, 2, 3), elr=False) == only(2)
    assert in_any_order(given, UNCLEAN, (1, 2, 3)) == only(1, 2, 3)


def test_without_eligible_replicas_the_last_of_the_isr_stays_and_leads() -> None:
    """`PartitionChangeBuilder`: an ISR is never emptied."""
    given = partition((1, 2, 3), 1)
    assert in_order(given, SAFE, (1, 2, 3), (2, 3, 1), elr=False) == only(1)
    assert in_order(given, SAFE, (2, 3), (2, 3, 1), elr=False) == NONE
    assert in_order(partition((2,), -1), SAFE, (1, 3, 2), elr=False) == only(2)


def test_before_kafka_4_a_leader_that_registers_in_time_stays() -> None:
    """Earlier `ClusterControlManager.registerBroker` changes no partition, and ends the old session."""
    starts = Starts(
        image=image(elr=False), fencing=(frozenset({1, 2, 3}),), running=frozenset({1}), registration_counts=False
    )
    assert possible_leaders(partition((1, 2, 3), 1), SAFE, starts) == only(1, NO_LEADER)
    assert possible_leaders(partition((1,), 1), SAFE, starts) == only(1)


def test_a_replica_whose_directory_is_lost_does_not_lead() -> None:
    """`LeaderAcceptor`."""
    given = replace(partition((), -1, last=(3,)), directories=(MIGRATING, MIGRATING, "AAAAAAAAAAAAAAAAAAAAmw"))
    made = image(elr=True, fenced=True)
    made.brokers[3] = replace(made.brokers[3], directories=("BBBBBBBBBBBBBBBBBBBBmw",))
    starts = Starts(image=made, fencing=(), running=frozenset({1, 2, 3}))
    assert possible_leaders(given, SAFE, starts) == NONE
    made.brokers[3] = replace(made.brokers[3], directories=("AAAAAAAAAAAAAAAAAAAAmw",))
    assert possible_leaders(given, SAFE, starts) == only(3)


def test_too_many_ways_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraft_starts, "MOST_STATES", 10)
    assert in_any_order(partition((1, 2, 3), 1), SAFE, (1, 2, 3)) is None


def test_a_partition_with_absurdly_many_replicas_takes_no_time() -> None:
    ids = tuple(range(1, 20_001))
    made = image(elr=True)
    made.brokers = {each: replace(made.brokers[1], id=each) for each in ids}
    given = PartitionImage(ids, ids, 1, 4, 7, (MIGRATING,) * len(ids))
    for starts in (
        Starts(image=made, fencing=(frozenset(ids),), running=frozenset(ids)),
        Starts(image=made, fencing=(frozenset(ids),), running=frozenset(ids), racing=frozenset(), order=ids),
        Starts(
            image=made,
            fencing=tuple(frozenset({each}) for each in ids),
            running=frozenset(ids),
            racing=frozenset(),
            order=ids,
        ),
    ):
        assert possible_leaders(given, SAFE, starts) is None


def test_with_zookeeper_the_first_of_the_isr_to_come_leads() -> None:
    """`PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection`."""
    assert leaders_in_order((1, 2, 3), (2, 3), (2, 1, 3), unclean=False) == only(2)
    assert leaders_in_order((1, 2, 3), (2,), (1, 2, 3), unclean=False) == only(2)
    assert leaders_in_order((1, 2, 3), (2,), (1, 3), unclean=False) == NONE
    assert leaders_in_order((1, 2, 3), (2,), (3, 1, 2), unclean=True) == only(3)
    assert leaders_in_order((1, 2, 3), (2,), (4, 1, 2), unclean=True) == only(1)
    assert leaders_in_order((1, 2, 3), (2,), (), unclean=True) == NONE


def test_with_zookeeper_a_controller_out_of_the_isr_empties_it_but_for_one() -> None:
    """`ZkReplicaStateMachine.removeReplicasFromIsr`."""
    assert leaders_in_order((1, 2, 3), (2, 3), (1, 2, 3), unclean=False) == only(2, 3)
    assert leaders_in_order((1, 2, 3), (2, 3), (1, 2, 3), unclean=False, removed=(2, 3)) == only(3)
    assert leaders_in_order((3, 2, 1), (2, 1), (3, 1), unclean=False, removed=(1, 2)) == NONE
    assert leaders_in_any_order((1, 2, 3), (2, 3), (1, 2, 3), unclean=False) == only(2, 3)
    assert leaders_in_any_order((1, 2, 3), (2, 3), (1, 2), unclean=False) == only(2, NO_LEADER)
    assert leaders_in_any_order((1, 2, 3), (2,), (1, 2, 3), unclean=True) == only(1, 2, 3)


def test_with_zookeeper_any_order_is_every_order() -> None:
    """All orders of all brokers that run, of clusters of four, whoever is in the ISR."""
    replicas = (1, 2, 3)
    sets = [each for size in range(4) for each in itertools.combinations(replicas, size)]
    runs = [each for size in range(5) for each in itertools.combinations((1, 2, 3, 4), size)]
    for isr, running, unclean in itertools.product(sets, runs, (False, True)):
        orders = list(itertools.permutations(running))
        every = frozenset[int]().union(*(leaders_in_order(replicas, isr, order, unclean=unclean) for order in orders))
        assert leaders_in_any_order(replicas, isr, running, unclean=unclean) == every, (isr, running, unclean)


def test_a_broker_that_is_back_before_its_session_ends_may_lead_without_its_directory() -> None:
    """Seen on 4.1.1: broker 3 was killed and came back without the directory of the partition. It assigned its replica
    to its other directory, led with an empty log, and the others truncated theirs to nothing. With the order 2, 3, 1
    and a pause before 1, broker 1 led.
    """
    brokers = image(elr=True)
    online = "A" * 22
    brokers.brokers[3] = replace(brokers.brokers[3], directories=(online,))
    placed = replace(partition((2, 3, 1), 2), directories=(MIGRATING, MIGRATING, "B" * 22))
    groups = tuple(map(only, (2, 3, 1)))
    starts = Starts(image=brokers, fencing=groups, running=frozenset({1, 2, 3}))
    anyone = possible_leaders(placed, SAFE, starts)
    assert anyone is not None
    assert 3 in anyone
    assert possible_leaders(placed, SAFE, replace(starts, racing=only(2, 3), order=(1,))) == only(1)
    late = possible_leaders(placed, SAFE, replace(starts, racing=only(1, 2), order=(3,)))
    assert late is not None
    assert 3 not in late
