"""Offsets over time: at every moment what the state of that moment says, which is compared with Kafka's elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalog.cluster.groups.offset_history import OffsetChange, read_offset_history
from kafkalog.cluster.groups.offsets import read_offsets
from kafkalog.cluster.records.replay import Until
from kafkalog.log import open_all
from testkit.recorded.broker_dirs import brokers
from testkit.running.command import kafkalog

CASES = ("4.1.1/groups", "2.8.2/groups", "0.10.2.2/groups", "4.3.0/groups", "4.1.1/txn")


def state_after(changes: list[OffsetChange]) -> dict[object, int]:
    found: dict[object, int] = {}
    for each in changes:
        if each.commit is None:
            found.pop(each.key, None)
        else:
            assert each.previous == found.get(each.key)
            found[each.key] = each.commit.offset
    return found


@pytest.mark.parametrize("case_id", CASES)
def test_the_last_change_of_each_is_what_counts_now(case_id: str, measured: Callable[[str, int], None]) -> None:
    partitions = open_all(*brokers(case_id)).readable("longest")
    history = read_offset_history(partitions)
    now = {each.key: each.offset for each in read_offsets(partitions).committed}
    assert state_after(list(history.changes)) == now
    measured("changes of committed offsets in histories", len(history.changes))


@pytest.mark.parametrize("case_id", ["4.1.1/groups", "4.3.0/groups"])
def test_a_beginning_of_it_is_the_state_of_that_moment(case_id: str) -> None:
    """Plain commits count when they are written; one partition at a time, because offsets are those of its log."""
    tried = 0
    for partition in open_all(*brokers(case_id)).readable("longest"):
        if partition.topic != "__consumer_offsets":
            continue
        changes = sorted(read_offset_history([partition]).changes, key=lambda each: each.log_offset)
        if any(each.commit is not None and each.commit.producer_id >= 0 for each in changes):
            continue
        for place in range(0, len(changes), 1 + len(changes) // 5):
            moment = changes[place].log_offset + 1
            then = read_offsets([partition], until=Until(offset=moment))
            assert state_after(changes[: place + 1]) == {each.key: each.offset for each in then.committed}
            tried += 1
    assert tried > 3


def test_the_command() -> None:
    (directory,) = brokers("4.1.1/groups")
    now = {(each["group"], each["topic"], each["partition"]): each["offset"]
           for each in kafkalog("offsets", "--json", directory).objects}  # fmt: skip
    lines = kafkalog("offsets", "--json", "--history", directory).objects
    last = {(each["group"], each["topic"], each["partition"]): each.get("offset") for each in lines}
    assert {key: offset for key, offset in last.items() if offset is not None} == now
    group = lines[0]["group"]
    table = kafkalog("offsets", "--history", "--group", group, directory)
    assert len(table.lines) == 2 + sum(each["group"] == group for each in lines)
    for options in (["--pending"], ["--as-of", "2026-11-21T00:36:30Z"], ["--format", "reset-csv"]):
        refused = kafkalog("offsets", "--history", *options, directory)
        assert (refused.code, refused.out) == (64, "")
        assert options[0] in refused.err
