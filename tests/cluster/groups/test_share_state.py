"""The state of share groups, from the records of `__share_group_state`.

What state batches add up to is taken from the cases of Kafka's own `PersisterStateBatchCombinerTest` and
`ShareCoordinatorShardTest`, and from a second statement of the rule, offset by offset.
"""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kafkalog import Log, NewRecord
from kafkalog.cluster.groups.groups import read_groups
from kafkalog.cluster.groups.share_state import StateBatch, combined
from kafkalog.cluster.records.coordinator_records import SHARE_GROUP_STATE_TOPIC, TOPICS
from kafkalog.cluster.records.messages import encode
from kafkalog.log import open_all
from testkit.running.command import kafkalog

TOPIC_ID = "3nJ1s8hOQ0uV2m5cYw7bAw"
SNAPSHOT, UPDATE = 0, 1
Batch = tuple[int, int, int, int]


def record(kind: int, fields: dict[str, Any] | None, group: str = "g", partition: int = 0) -> NewRecord:
    _, key, values = TOPICS[SHARE_GROUP_STATE_TOPIC][kind]
    names = {"group_id": group, "topic_id": TOPIC_ID, "partition": partition}
    encoded = struct.pack(">h", kind) + encode(key, 0, names)
    return NewRecord(None if fields is None else struct.pack(">h", 0) + encode(values[0], 0, fields), key=encoded)


def of(start: int, batches: list[Batch], **more: Any) -> dict[str, Any]:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    return {
        "snapshot_epoch": 0, "state_epoch": 3, "leader_epoch": 5, "start_offset": start, "delivery_complete_count": -1,
        "create_timestamp": 1_700_000_000_000, "write_timestamp": 1_700_000_000_000,
        "state_batches": [dict(zip(names, each, strict=True)) for each in batches], **more,
    }  # fmt: skip


def update(start: int, batches: list[Batch], **more: Any) -> dict[str, Any]:
    names = ("snapshot_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches")
    return {name: value for name, value in of(start, batches, **more).items() if name in names}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    with Log.open(root / "orders-0") as log:
        log.append([NewRecord(b"%d" % number) for number in range(40)])
    (root / "orders-0/partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    return root


def write(data: Path, *records: NewRecord) -> None:
    with Log.open(data / f"{SHARE_GROUP_STATE_TOPIC}-7") as log:
        for each in records:
            log.append([each])


def share(data: Path) -> list[Any]:
    groups = read_groups(open_all(data).readable()).groups
    return [state for each in groups for state in each.share]


# Kafka's own cases (`PersisterStateBatchCombinerTest`): start offset, old batches, new batches, result
KAFKAS = {
    "same state, same offsets": ([(100, 110, 0, 1)], [(100, 110, 0, 1)], [(100, 110, 0, 1)]),
    "contiguous and same state": ([(100, 110, 0, 1)], [(111, 119, 0, 1)], [(100, 119, 0, 1)]),
    "contiguous and other state": ([(100, 110, 0, 1)], [(111, 119, 2, 2)], [(100, 110, 0, 1), (111, 119, 2, 2)]),
    "the newer count wins inside": (
        [(100, 110, 0, 1)], [(103, 107, 0, 2)], [(100, 102, 0, 1), (103, 107, 0, 2), (108, 110, 0, 1)],
    ),
    "the lower count loses inside": ([(100, 110, 0, 3)], [(103, 107, 0, 1)], [(100, 110, 0, 3)]),
    "of equal counts the higher state wins": (
        [(100, 110, 0, 1)], [(95, 104, 2, 1)], [(95, 104, 2, 1), (105, 110, 0, 1)],
    ),
    "swallowed": ([(100, 110, 0, 1)], [(100, 115, 2, 2)], [(100, 115, 2, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", KAFKAS)
def test_state_batches_add_up_as_in_kafka(name: str) -> None:
    old, new, wanted = KAFKAS[name]
    for batches in ([*old, *new], [*new, *old]):
        assert combined(StateBatch(*each) for each in batches) == tuple(StateBatch(*each) for each in wanted)


def by_offset(batches: list[Batch]) -> dict[int, tuple[int, int]]:
    """(delivery count, delivery state) of each offset."""
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(first, last + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (count, state))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_batches_and_start_offsets_offset_by_offset(seed: int, data: Path) -> None:
    rng = random.Random(seed)
    standing: dict[int, tuple[int, int]] = {}
    start, records = 0, []
    for number in range(rng.randrange(1, 12)):
        batches = []
        for _ in range(rng.randrange(4)):
            first = rng.randrange(60)
            batches.append((first, first + rng.randrange(-1, 12), rng.choice((0, 2, 4)), rng.randrange(1, 4)))
        said = rng.choice((-1, rng.randrange(40)))
        is_snapshot = number == 0 or rng.random() < 0.15
        if is_snapshot:
            standing, start = {}, max(said, 0)
            said = start
        elif said != -1:
            start = said
        for offset, (count, state) in by_offset(batches).items():
            standing[offset] = max(standing.get(offset, (-1, -1)), (count, state))
        standing = {offset: each for offset, each in standing.items() if offset >= start}
        records.append(record(SNAPSHOT, of(said, batches)) if is_snapshot else record(UPDATE, update(said, batches)))
    write(data, *records)
    (found,) = share(data)
    assert found.start_offset == start
    shown = [(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in found.batches]
    assert by_offset(shown) == standing
    assert shown == sorted(shown)
    for one, other in pairwise(shown):
        assert one[1] < other[0]
        assert one[1] + 1 < other[0] or one[2:] != other[2:]


def test_a_snapshot_replaces_an_update_adds_and_a_tombstone_removes(data: Path) -> None:
    write(data,
          record(SNAPSHOT, of(0, [(0, 9, 2, 1)])),
          record(SNAPSHOT, of(10, [(12, 14, 0, 1)], snapshot_epoch=1)),
          record(UPDATE, update(-1, [(15, 16, 4, 5)], snapshot_epoch=1, leader_epoch=-1)),
          record(SNAPSHOT, of(3, []), partition=1),
          record(SNAPSHOT, None, partition=1))  # fmt: skip
    (found,) = share(data)
    assert (found.group, found.topic, found.partition, found.log_partition) == ("g", "orders", 0, 7)
    assert (found.start_offset, found.state_epoch, found.leader_epoch, found.snapshot_epoch) == (10, 3, 5, 1)
    assert found.batches == (StateBatch(12, 14, 0, 1), StateBatch(15, 16, 4, 5))
    assert found.settled == 2


def test_groups_and_offsets_show_the_state_and_what_is_left_to_deliver(data: Path) -> None:
    write(data, record(SNAPSHOT, of(10, [(12, 14, 0, 2), (20, 21, 2, 1)])), record(SNAPSHOT, of(-1, []), "later"))
    first, later = kafkalog("offsets", "--json", data).objects
    assert (first["group"], first["topic"], first["startOffset"], first["source"]) == ("g", "orders", 10, "share")
    assert first["batches"] == [
        {"firstOffset": 12, "lastOffset": 14, "deliveryState": "available", "deliveryCount": 2},
        {"firstOffset": 20, "lastOffset": 21, "deliveryState": "acknowledged", "deliveryCount": 1},
    ]
    assert (first["logEndOffset"], first["lag"]) == (40, 28)  # 40 - 10, and two are settled
    assert (later["startOffset"], later["lag"]) == (None, None)
    text = kafkalog("offsets", data).out
    assert "12-14 available x2, 20-21 acknowledged x1" in " ".join(text.split())
    group, _ = kafkalog("groups", "--json", data).objects
    assert (group["group"], group["type"], group["state"], group["logPartition"]) == ("g", "Share", "Unknown", None)
    assert group["shareState"][0]["startOffset"] == 10
    assert "share groups" in kafkalog("groups", data).out
    chosen = kafkalog("offsets", "--json", "--group", "later", data).objects
    assert [each["group"] for each in chosen] == ["later"]
    assert kafkalog("offsets", "--json", "--topic", "orders", "--partition", 3, data).objects == []


def test_hostile_state_takes_time_in_proportion(data: Path) -> None:
    """40,000 updates whose batches never merge, and a start offset that goes forth and back."""
    from kafkalog.cluster.groups.share_state import _Building

    building = _Building()
    for number in range(40_000):
        building.add(number % 2, [StateBatch(3 * number + 2, 3 * number + 2, number % 3, 1)])
    assert len(building.combine()) == 40_000
    assert combined([StateBatch(5, 1, 0, 1), StateBatch(0, 2**63 - 1, 0, 1)]) == (StateBatch(0, 2**63 - 1, 0, 1),)
