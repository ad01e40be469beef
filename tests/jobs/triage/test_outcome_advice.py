"""What is advised for one partition, whoever may lead under an order of starts."""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.copies.common_history import Lineage
from kafkalog.jobs.triage.logs import ReplicaLog
from kafkalog.jobs.triage.memory import KnownReplicas
from kafkalog.jobs.triage.outcome import StartAdvice, advised, judged

Order = tuple[int, ...] | None


def advice(
    ends: dict[int, int], leaders: Callable[[Order], set[int]], *, up: tuple[int, ...], eligible: tuple[int, ...]
) -> StartAdvice:
    """Of a partition with these log ends, whose brokers `up` come up."""
    logs = {
        node: ReplicaLog(node=node, path="p", start=0, end=end, lineage=Lineage.of([LeaderEpoch(0, 0)], end))
        for node, end in ends.items()
    }
    known = KnownReplicas(replicas=(1, 2, 3), isr=eligible, leader=-1, leader_epoch=0)
    found = judged("t", 0, known, frozenset(leaders(None)), logs, frozenset(up) & logs.keys())
    return advised(found, lambda order: frozenset(leaders(order)), up, eligible)


def first(order: Order) -> set[int]:
    """Unclean elections are allowed."""
    return {1, 2, 3} if order is None else {order[0]}


def nobody(order: Order) -> set[int]:
    """Who may lead is not there."""
    return {-1}


def test_where_all_leads_well_there_is_none() -> None:
    assert advice({1: 9, 2: 9, 3: 9}, first, up=(1, 2, 3), eligible=(1,)).what == "nothing"


def test_the_best_copy_starts_first() -> None:
    told = advice({1: 5, 2: 9, 3: 7}, first, up=(1, 2, 3), eligible=(1, 2, 3))
    assert told.sentence() == "start 2, then 1, then 3: 2 leads"


def test_equal_copies_of_brokers_that_may_not_lead_are_not_merged() -> None:
    told = advice({1: 9, 2: 9}, nobody, up=(1, 2), eligible=(3,))
    assert told.sentence() == "bring the missing disks of 3, or make it start; else start 1, 2; elect 1 (unclean)"
    assert advice({1: 9, 2: 9}, nobody, up=(1, 2), eligible=()).sentence() == "start 1, 2; elect 1 (unclean)"


def test_an_election_is_held_without_those_who_have_less() -> None:
    told = advice({1: 4, 2: 9}, nobody, up=(1, 2), eligible=(3, 4))
    assert told.sentence() == (
        "bring the missing disks of 3, 4, or make them start; else hold back 1; start 2; elect 2 (unclean); then 1"
    )
    assert advice({1: 4, 2: 9}, nobody, up=(1, 2), eligible=()).what == "hold_back"


def test_where_a_worse_copy_always_leads_the_copies_are_merged() -> None:
    told = advice({1: 4, 2: 9}, lambda _: {1}, up=(1, 2), eligible=(1,))
    assert told.sentence() == "merge the copies before the first start"
    told = advice({1: 4, 2: 9}, lambda _: {1}, up=(1, 2), eligible=(1, 3))
    merged = "merge the copies before the first start"
    assert told.sentence() == f"bring the missing disks of 3, or make it start; else {merged}"


def test_the_best_copy_of_a_broker_that_does_not_start_is_merged_or_brought() -> None:
    told = advice({1: 4, 2: 9}, nobody, up=(1,), eligible=(2,))
    assert (told.what, told.bring) == ("merge", (2,))


def test_without_a_copy_only_its_disk_helps() -> None:
    assert advice({}, nobody, up=(1,), eligible=(3,)).sentence() == "bring the missing disks of 3, or make it start"
    assert advice({}, nobody, up=(1,), eligible=()).sentence() == "no start helps: nobody can lead"


def test_what_a_start_cuts_off_the_only_copy_that_went_further_is_told() -> None:
    """A damaged first batch: Kafka 4.1.0 would empty the log of broker 1, which alone has what follows offset 5."""
    lineage = Lineage.of([LeaderEpoch(0, 0)], 5)
    logs = {
        1: ReplicaLog(node=1, path="p", start=0, end=0, lineage=Lineage((), 0), high_watermark=9, cut_bytes=100),
        2: ReplicaLog(node=2, path="p", start=0, end=5, lineage=lineage, high_watermark=5),
        3: ReplicaLog(node=3, path="p", start=0, end=0, lineage=Lineage((), 0), high_watermark=5, cut_bytes=100),
    }
    known = KnownReplicas(replicas=(1, 2, 3), isr=(1, 2, 3), leader=-1, leader_epoch=0)
    told = judged("t", 0, known, frozenset({2}), logs, frozenset(logs)).cut_by_start
    assert [log.node for log in told] == [1]


def test_a_leader_with_an_empty_log_makes_the_others_lose_everything() -> None:
    lineage = Lineage.of([LeaderEpoch(0, 0)], 5)
    logs = {node: ReplicaLog(node=node, path="p", start=0, end=5, lineage=lineage) for node in (1, 2)}
    known = KnownReplicas(replicas=(1, 2, 3), isr=(1, 2, 3), leader=3, leader_epoch=0)
    leaders = frozenset({1, 3})
    found = judged("t", 0, known, leaders, logs, frozenset(logs), frozenset({3}))
    assert (found.lost_under(1), found.lost_under(3), found.outcomes[3]) == (0, 5, {1: 0, 2: 0})
    assert not judged("t", 0, known, leaders, logs, frozenset(logs)).may_lose


def test_a_broker_that_would_lead_with_an_empty_log_is_held_back_until_an_election() -> None:
    """Seen on 4.1.1: with broker 1 up, an unclean election made it the leader, and the others lost everything."""
    lineage = Lineage.of([LeaderEpoch(0, 0)], 5)
    logs = {node: ReplicaLog(node=node, path="p", start=0, end=5, lineage=lineage) for node in (2, 3)}
    known = KnownReplicas(replicas=(2, 3, 1), isr=(2, 3, 1), leader=2, leader_epoch=0)

    def leaders(order: tuple[int, ...] | None) -> frozenset[int]:
        return frozenset({1, -1}) if order is None or 1 in order else frozenset({-1})

    found = judged("t", 0, known, leaders(None), logs, frozenset(logs), frozenset({1}))
    told = advised(found, leaders, (2, 3, 1), (1, 2, 3))
    assert (told.order, told.hold_back, told.elect) == ((2, 3), (1,), 2)
    assert told.sentence().endswith("else hold back 1; start 2, 3; elect 2 (unclean); then 1")
