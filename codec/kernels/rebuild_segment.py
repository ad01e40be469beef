"""What recovery of a segment does with each batch, compiled: index entries, leader epochs, and whose batches they are.

`take` is the body of Kafka's `LogSegment.recover` for batches with which nothing can go wrong; it stops before the
first one with which something might, without a judgement.  `stretch` tells of batches between two control batches what
each producer is left with (`ProducerAppendInfo`).
"""

from __future__ import annotations

from typing import Any

from kafkalog.codec.kernels.jit import compiled
from kafkalog.codec.kernels.scan_batches import FIELDS
from kafkalog.codec.model import BATCH, CONTROL_FLAG, LOG_OVERHEAD, NO_PRODUCER_ID, TRANSACTIONAL_FLAG
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET

__all__ = ["OF_A_PRODUCER", "STATE", "stretch", "take"]

STATE = (
    "valid_bytes", "last_indexed", "timestamp", "timestamp_offset", "offsets", "last_offset", "times", "last_timestamp",
    "last_timestamp_offset", "epoch", "epochs",
)  # fmt: skip
"""What `take` carries from batch to batch: bytes taken, position of the last entry, the largest timestamp and its
offset; of both indexes the number of entries and the last one; the highest leader epoch, and changes of it noted."""
_VALID, _INDEXED, _TIME, _TIME_OFFSET = range(4)
_OFFSETS, _LAST_OFFSET, _TIMES, _LAST_TIME, _LAST_TIME_OFFSET, _EPOCH, _EPOCHS = range(4, len(STATE))
OF_A_PRODUCER = ("producer_id", "first", "last", "first_transactional", "first_plain", "plain_behind_transactional")
"""Rows of what `stretch` gives; but for the id they are numbers of batches, -1 for none."""

_BASE, _LENGTH, _LEADER_EPOCH = (FIELDS.index(n) for n in ("base_offset", "batch_length", "partition_leader_epoch"))
_MAGIC, _ATTRIBUTES, _DELTA = (FIELDS.index(name) for name in ("magic", "attributes", "last_offset_delta"))
_MAX_TIMESTAMP, _PRODUCER = FIELDS.index("max_timestamp"), FIELDS.index("producer_id")
_OVERHEAD, _MAX_RELATIVE, _NO_PRODUCER = LOG_OVERHEAD.size, MAX_RELATIVE_OFFSET, NO_PRODUCER_ID
_CONTROL, _TRANSACTIONAL, _V2 = CONTROL_FLAG, TRANSACTIONAL_FLAG, 2
_FROZEN = (BATCH.fields, STATE, _OVERHEAD, _MAX_RELATIVE, _CONTROL, _TRANSACTIONAL)


@compiled("int64(int64[:,:], int64, int64, int64[::1], int64[::1], int64[:,::1], int64[:,::1])", declared=_FROZEN)
def take(table: Any, first: int, end: int, limits: Any, state: Any, entries: Any, epochs: Any) -> int:
    """Take in the batches from number `first` on; the number of the first that is left, or `end`.

    `limits` are the segment's base offset, the bytes between entries, and how many entries each index can hold.
    `entries` gets a column for each offset entry (relative offset, position) and one for each time entry (timestamp,
    relative offset), numbered from the entries that `state` began with; `epochs` the batches that begin an epoch.
    """
    base, interval, offset_room, time_room = limits[0], limits[1], limits[2], limits[3]
    offsets_before, times_before = state[_OFFSETS], state[_TIMES]
    for number in range(first, end):
        start = table[_BASE, number]
        last = start + table[_DELTA, number]
        relative = last - base
        if relative < 0 or relative > _MAX_RELATIVE:
            return number
        is_new_epoch = table[_MAGIC, number] >= _V2 and table[_LEADER_EPOCH, number] > state[_EPOCH]
        if is_new_epoch and start < 0:
            return number
        timestamp, timestamp_offset = state[_TIME], state[_TIME_OFFSET]
        if table[_MAX_TIMESTAMP, number] > timestamp:
            timestamp, timestamp_offset = table[_MAX_TIMESTAMP, number], last
        if state[_VALID] - state[_INDEXED] > interval:
            if state[_OFFSETS] >= offset_room or state[_TIMES] >= time_room - 1:
                return number
            if state[_OFFSETS] > 0 and last <= state[_LAST_OFFSET]:
                return number
            if state[_TIMES] > 0 and (timestamp_offset < state[_LAST_TIME_OFFSET] or timestamp < state[_LAST_TIME]):
                return number
            slot = state[_OFFSETS] - offsets_before
            entries[0, slot] = relative
            entries[1, slot] = state[_VALID]
            state[_OFFSETS] += 1
            state[_LAST_OFFSET] = last
            if timestamp > state[_LAST_TIME]:
                slot = state[_TIMES] - times_before
                entries[2, slot] = timestamp
                entries[3, slot] = timestamp_offset - base
                state[_TIMES] += 1
                state[_LAST_TIME], state[_LAST_TIME_OFFSET] = timestamp, timestamp_offset
            state[_INDEXED] = state[_VALID]
        state[_TIME], state[_TIME_OFFSET] = timestamp, timestamp_offset
        state[_VALID] += table[_LENGTH, number] + _OVERHEAD
        if is_new_epoch:
            epochs[0, state[_EPOCHS]] = table[_LEADER_EPOCH, number]
            epochs[1, state[_EPOCHS]] = start
            state[_EPOCHS] += 1
            state[_EPOCH] = table[_LEADER_EPOCH, number]
    return end


@compiled("UniTuple(int64, 2)(int64[:,:], int64, int64, int64[::1], int64[:,::1])", declared=(_FROZEN, OF_A_PRODUCER))
def stretch(table: Any, first: int, end: int, slots: Any, found: Any) -> tuple[int, int]:
    """The producers of the batches from number `first` up to the next control batch of one, or `end`.

    Gives that batch's number and how many producers there are; `found` gets a column for each, in the order of their
    first batches.  `slots` is all -1, before and after, and twice as long as there are batches or longer, its length a
    power of two.
    """
    count = 0
    mask = len(slots) - 1
    number = first
    while number < end:
        producer = table[_PRODUCER, number]
        attributes = table[_ATTRIBUTES, number]
        if producer > _NO_PRODUCER:
            if attributes & _CONTROL:
                break
            slot = (producer * 0x9E3779B97F4A7C1 >> 20) & mask
            while slots[slot] >= 0 and found[0, slots[slot]] != producer:
                slot = (slot + 1) & mask
            at = slots[slot]
            if at < 0:
                at = slots[slot] = count
                count += 1
                found[0, at], found[1, at] = producer, number
                found[3, at] = found[4, at] = found[5, at] = -1
            found[2, at] = number
            if attributes & _TRANSACTIONAL:
                if found[3, at] < 0:
                    found[3, at] = number
            else:
                if found[4, at] < 0:
                    found[4, at] = number
                if found[3, at] >= 0 and found[5, at] < 0:
                    found[5, at] = number
        number += 1
    for at in range(count):
        producer = found[0, at]
        slot = (producer * 0x9E3779B97F4A7C1 >> 20) & mask
        while slots[slot] >= 0:
            slots[slot] = -1
            slot = (slot + 1) & mask
    return number, count
