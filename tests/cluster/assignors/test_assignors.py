"""Assignments re-derived: every one that a real group was ever given, and the vectors that Kafka's own classes gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkalog.cluster.assignors.assignors import GroupMember, assign, violations
from kafkalog.cluster.groups.groups import read_groups
from kafkalog.cluster.groups.rederive import partition_counts, verdict
from kafkalog.cluster.records.replay import Until
from kafkalog.log import open_all
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.command import kafkalog

Note = Callable[[str, int], None]
WITH_GROUPS = [case for case in broker_cases() if case.has("dump_consumer_offsets.txt")]


def names(assignment: Any) -> dict[str, str]:
    return {member: " ".join(f"{t}-{p}" for t, p in sorted(found)) for member, found in assignment.items()}


COUNTS = {"t0": 3, "t1": 3, "t2": 5}
ALL = ("t0", "t1", "t2")


def members(**topics: tuple[str, ...]) -> list[GroupMember]:
    return [GroupMember(member_id=name, topics=found) for name, found in topics.items()]


def test_range_as_kafkas_class_gives_it() -> None:
    three = members(mA=ALL, mB=ALL, mC=ALL)
    assert names(assign("range", COUNTS, three)) == {
        "mA": "t0-0 t1-0 t2-0 t2-1", "mB": "t0-1 t1-1 t2-2 t2-3", "mC": "t0-2 t1-2 t2-4"}  # fmt: skip
    static = [*three[:2], GroupMember(member_id="mC", topics=ALL, instance_id="static")]
    assert names(assign("range", COUNTS, static))["mC"] == "t0-0 t1-0 t2-0 t2-1"


def test_round_robin_as_kafkas_class_gives_it() -> None:
    assert names(assign("roundrobin", COUNTS, members(mA=ALL, mB=ALL, mC=ALL))) == {
        "mA": "t0-0 t1-0 t2-0 t2-3", "mB": "t0-1 t1-1 t2-1 t2-4", "mC": "t0-2 t1-2 t2-2"}  # fmt: skip
    assert names(assign("roundrobin", COUNTS, members(mA=ALL, mB=ALL, mC=("t0",)))) == {
        "mA": "t0-0 t1-0 t1-2 t2-1 t2-3", "mB": "t0-1 t1-1 t2-0 t2-2 t2-4", "mC": "t0-2"}  # fmt: skip


def test_cooperative_sticky_leaves_out_what_moves() -> None:
    topics = ("t0", "t1")
    before = {"m1": tuple(("t0", n) for n in range(3)), "m2": tuple(("t1", n) for n in range(3)), "m3": ()}
    given = [GroupMember(member_id=name, topics=topics, owned=owned, generation=1) for name, owned in before.items()]
    counts = {"t0": 3, "t1": 3}
    assert names(assign("cooperative-sticky", counts, given)) == {"m1": "t0-0 t0-1", "m2": "t1-0 t1-1", "m3": ""}
    assert names(assign("sticky", counts, given)) == {"m1": "t0-0 t0-1", "m2": "t1-0 t1-1", "m3": "t0-2 t1-2"}


def test_what_is_not_derivable() -> None:
    assert assign("sticky", COUNTS, members(a=("t0",), b=("t1",)), early=True) is None
    assert assign("custom", COUNTS, members(a=ALL)) is None
    assert assign("range", COUNTS, []) is None


def test_a_group_that_is_too_large_is_given_up() -> None:
    topics = [f"t{number}" for number in range(40)]
    everything = tuple(("t0", number) for number in range(900))
    many = [
        GroupMember(
            member_id=f"m{at:04d}", topics=tuple(topics[: 1 + at % 40]), owned=() if at else everything, generation=3
        )
        for at in range(200)
    ]
    assert assign("sticky", dict.fromkeys(topics, 900), many) is None


def test_what_no_assignor_does() -> None:
    two = members(a=("t0",), b=("t0",))
    twice = frozenset({("t0", 0)})
    assert violations({"a": twice, "b": twice}, two) == ["t0-0 is assigned to a and to b"]
    assert violations({"a": frozenset({("t1", 0)})}, two) == [
        "t1-0 is assigned to a, which does not subscribe to its topic"
    ]
    assert violations({"c": frozenset({("t1", 0)})}, two) == [], "its subscription could not be read"


@pytest.mark.parametrize("case", WITH_GROUPS, ids=lambda case: case.id)
def test_every_recorded_assignment_is_what_its_assignor_gives(case: BrokerCase, compared: Note) -> None:
    """After every record of `__consumer_offsets`, not only as of its end."""
    for broker in brokers(case.id):
        partitions = open_all(broker).readable()
        counts = partition_counts(partitions)
        places = [each for each in partitions if each.topic == "__consumer_offsets"]
        end = max([each.log_end_offset() for each in places], default=0)
        seen = set()
        for until in range(1, end + 1):
            for group in read_groups(partitions, until=Until(offset=until)).groups if end < 150 else ():
                key = (group.group_id, group.generation, group.state_timestamp, len(group.members))
                if key in seen or not group.members:
                    continue
                seen.add(key)
                if group.type != "Classic":
                    continue
                found = verdict(group, counts)
                assert found.problems == ()
                if case.version < "2" and group.assignor == "sticky" and found.same is None:
                    continue  # the general case only, before 2.4
                assert found.same, (group, found.derived)
                compared(f"recorded assignments by {group.assignor}", 1)


def test_the_command_says_whether_it_is_what_the_assignor_gives() -> None:
    (broker,) = brokers("4.1.1/groups")
    lines = {line["group"]: line for line in kafkalog("groups", "--json", broker).objects}
    assert lines["alive-68"]["assignmentAsDerived"] is True
    assert lines["rr-0"]["assignmentAsDerived"] is None
    first, second = lines["alive-68"]["members"]
    finished = kafkalog("groups", "--json", "--group", "alive-68", "--without", first["memberId"], broker)
    (line,) = finished.objects
    assert line["assignmentWithout"] == {second["memberId"]: sorted([*first["assignment"], *second["assignment"]])}
    finished = kafkalog("groups", "--json", "--group", "alive-68", "--with", "zz", broker)
    given = finished.objects[0]["assignmentWith"]
    assert given == {  # two topics of three and two partitions by range, the new member last
        first["memberId"]: ["clicks-21-0", "visits-0-0"], second["memberId"]: ["clicks-21-1", "visits-0-1"],
        "zz": ["visits-0-2"]}  # fmt: skip
    assert "with zz" in kafkalog("groups", "--with", "zz", broker).out
    assert f"without {first['memberId']}" in kafkalog("groups", "--without", first["memberId"], broker).out
