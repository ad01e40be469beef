"""State of share groups: the start offset of delivery on each partition, and the records above it that are acquired,
acknowledged or archived.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.cluster.records.coordinator_records import SHARE_GROUP_STATE_TOPIC
from kafkalog.cluster.records.replay import Entry, Until, partitions_of, replay
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.directories.partition import Partition

__all__ = ["DELIVERY_STATES", "SharePartition", "StateBatch", "combined", "read_share_state"]

DELIVERY_STATES = {0: "available", 1: "acquired", 2: "acknowledged", 3: "archiving", 4: "archived"}
_SETTLED = frozenset({2, 4})
"""states after which nobody gets the records again"""
_SNAPSHOT, _UPDATE = 0, 1
_UNCHANGED = -1
_FEW = 1000
"""state batches that are added before they are combined"""


class StateBatch(Struct, frozen=True, order=True):
    """A range of offsets that have the same delivery state; both bounds are inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    @property
    def state(self) -> str:
        """Name of the delivery state; the number as text if it is unknown."""
        return DELIVERY_STATES.get(self.delivery_state, str(self.delivery_state))

    @property
    def is_settled(self) -> bool:
        """Whether these records are acknowledged or archived, so that they are not delivered again."""
        return self.delivery_state in _SETTLED


class SharePartition(Struct, frozen=True, kw_only=True):
    """The state of one partition in a share group, as of the end of the log."""

    group: str
    topic: str | None
    """None if nothing at hand tells the name of `topic_id`"""
    topic_id: str
    partition: int
    start_offset: int
    """first offset that may still be delivered; -1 before the first delivery"""
    batches: tuple[StateBatch, ...]
    """in order, without overlaps; offsets between them are available"""
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    delivery_complete_count: int
    """settled offsets from `start_offset` on, as a broker of 4.2 or later has counted them; -1 if none did"""
    write_timestamp: int
    """time of the last snapshot, ms since 1970; -1 without one"""
    log_partition: int
    """partition of `__share_group_state` with this state"""
    log_offset: int
    """offset of the last record in that partition"""

    @property
    def settled(self) -> int:
        """Number of offsets from `start_offset` on that are not delivered again."""
        return sum(batch.last_offset - batch.first_offset + 1 for batch in self.batches if batch.is_settled)


def combined(batches: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    """Merge batches into non-overlapping ones in offset order; neighbors with equal state and delivery count become
    one.

    If batches overlap, the larger delivery count wins, then the larger state. Batches whose last offset is below their
    first are omitted. Bounds are inclusive.
    """
    ordered = sorted(each for each in batches if each.first_offset <= each.last_offset)
    edges = sorted({each.first_offset for each in ordered} | {state_batch.last_offset + 1 for state_batch in ordered})
    state_batches: list[StateBatch] = []
    open_batches: list[tuple[int, int, int]] = []
    following = 0
    for begin, end in pairwise(edges):
        while following < len(ordered) and ordered[following].first_offset == begin:
            batch = ordered[following]
            heapq.heappush(open_batches, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            following += 1
        while open_batches and open_batches[0][2] < begin:
            heapq.heappop(open_batches)
        if not open_batches:
            continue
        count, state, _ = open_batches[0]
        last = state_batches[-1] if state_batches else None
        if last is not None and last == StateBatch(last.first_offset, begin - 1, -state, -count):
            state_batches[-1] = replace(last, last_offset=end - 1)
        else:
            state_batches.append(StateBatch(begin, end - 1, -state, -count))
    return tuple(state_batches)


class _Building(Struct, kw_only=True):
    """The records of one share-partition since its last snapshot."""

    fields: dict[str, Any] = field(default_factory=dict)
    added: list[tuple[int, list[StateBatch]]] = field(default_factory=list)
    """start offset from then on, and the batches that came with it"""
    pending: int = 0
    bound: int = _FEW
    log_offset: int = 0

    def add(self, start: int, batches: list[StateBatch]) -> None:
        """Add the state batches of one record, and the start offset after it.

        When the batches exceed a bound, all are combined; the bound grows with the result, so the work stays linear.
        """
        self.added.append((start, batches))
        self.pending += len(batches) + 1
        if self.pending > self.bound:
            self.combine()

    def combine(self) -> tuple[StateBatch, ...]:
        """Merge all batches added so far; return them in offset order without overlaps. Offsets below the largest start
        offset that was added with a batch or later are removed from it. The merged batches replace the added ones in
        this object.
        """
        highest = _UNCHANGED
        kept: list[StateBatch] = []
        for start, batches in reversed(self.added):
            highest = max(highest, start)
            kept += [
                replace(batch, first_offset=max(batch.first_offset, highest))
                for batch in batches
                if batch.last_offset >= highest
            ]
        state_batches = combined(kept)
        self.added = [(_UNCHANGED, list(state_batches))]
        self.pending = len(state_batches)
        self.bound = max(_FEW, 2 * self.pending)
        return state_batches


_Key = tuple[str, str, int]


class _State:
    """States of the share-partitions in one partition of `__share_group_state`; pass its records in offset order."""

    def __init__(self) -> None:
        self.known: dict[_Key, _Building] = {}

    def entry(self, entry: Entry) -> None:
        record = entry.record
        if not record.understood or record.key is None or record.type not in (_SNAPSHOT, _UPDATE):
            return
        names = record.key.fields
        key = names["group_id"], names["topic_id"], names["partition"]
        if record.value is None:
            self.known.pop(key, None)
            return
        value = record.value.fields
        building = self.known.get(key)
        if record.type == _SNAPSHOT or building is None:
            building = self.known[key] = _Building(fields=dict(value))
        else:
            _take(building.fields, value)
        building.log_offset = entry.offset
        building.add(int(building.fields["start_offset"]), _batches(value["state_batches"]))


def _batches(encoded: Iterable[Mapping[str, Any]]) -> list[StateBatch]:
    names = StateBatch.__struct_fields__
    return [StateBatch(*(int(state_batch[name]) for name in names)) for state_batch in encoded]


def _take(fields: dict[str, Any], update: Mapping[str, Any]) -> None:
    """Apply an update to `fields`; -1 leaves a value unchanged."""
    for name in ("start_offset", "leader_epoch", "delivery_complete_count"):
        if update.get(name, _UNCHANGED) != _UNCHANGED:
            fields[name] = update[name]


def _finished(key: _Key, building: _Building, names: Mapping[str, str], log_partition: int) -> SharePartition:
    group, topic_id, number = key
    fields = building.fields
    return SharePartition(
        group=group,
        topic=names.get(topic_id),
        topic_id=topic_id,
        partition=number,
        start_offset=fields["start_offset"],
        batches=building.combine(),
        snapshot_epoch=fields["snapshot_epoch"],
        state_epoch=fields.get("state_epoch", _UNCHANGED),
        leader_epoch=fields["leader_epoch"],
        delivery_complete_count=fields.get("delivery_complete_count", _UNCHANGED),
        write_timestamp=fields.get("write_timestamp", _UNCHANGED),
        log_partition=log_partition,
        log_offset=building.log_offset,
    )


def read_share_state(
    partitions: Sequence[Partition],
    topic_names: Mapping[str, str],
    findings: list[Finding],
    *,
    until: Until | None = None,
    partition_count: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[SharePartition]:
    """Read the share-group states in the given partitions of `__share_group_state`, sorted by group, topic name, topic
    id and partition.

    Partitions of other topics are skipped, and so are deleted states. `topic_names` are names by topic id; states whose
    topic has no name there are first in their group. `partition_count` is the topic's number of partitions; if it is
    None, misplaced states are not reported. Reads up to `until`, None for all. Findings about damage, misplaced states,
    and records that were removed since `until` are appended to `findings`. Raises `StorageError` if files cannot be
    read.
    """
    share_partitions = []
    for partition in partitions_of(partitions, SHARE_GROUP_STATE_TOPIC):
        state, number = _State(), partition.partition or 0
        for each in replay(partition, findings, until=until, limits=limits):
            if isinstance(each, Entry):
                state.entry(each)
        for key, building in state.known.items():
            share_partitions.append(_finished(key, building, topic_names, number))
            if partition_count:
                findings += _misplaced(key, number, partition_count, partition.path)
    return sorted(share_partitions, key=lambda each: (each.group, each.topic or "", each.topic_id, each.partition))


def _misplaced(key: _Key, number: int, count: int, path: str) -> list[Finding]:
    """Return one finding if the state of a share-partition is in another partition than the hash of its key gives;
    otherwise an empty list (`SharePartitionKey.asCoordinatorKey`). `number` is the partition where it is, and `count`
    is the number of partitions of `__share_group_state`.
    """
    expected = coordinator_partition(":".join(map(str, key)), count)
    if expected == number:
        return []
    detail = (
        f"the state of share group {key[0]} for partition {key[2]} of topic {key[1]} is in partition {number}; of "
        f"{count} partitions its place is {expected}"
    )
    return [Finding.of(FindingCode.GROUP_MISPLACED, None, None, detail, path)]
