"""What recovery of a segment does with each batch, compiled: index entries, leader epochs, and whose batches they are.

`recover_batches` is the body of Kafka's `LogSegment.recover` for batches with which nothing can go wrong; it stops
before the first one with which something might, without a judgement.  `batches_by_producer` tells of batches between
two control batches what each producer is left with (`ProducerAppendInfo`).
"""

from __future__ import annotations

from typing import Any

from kafkalog.codec.framing import BATCH_MAGIC
from kafkalog.codec.kernels.jit import compiled
from kafkalog.codec.kernels.tables import Appended, HeaderColumn, IndexEntry, Recovered
from kafkalog.codec.model import BATCH, CONTROL_FLAG, LOG_OVERHEAD, NO_PRODUCER_ID, TRANSACTIONAL_FLAG
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET

__all__ = ["batches_by_producer", "recover_batches"]

_OVERHEAD, _MAX_RELATIVE, _NO_PRODUCER = LOG_OVERHEAD.size, MAX_RELATIVE_OFFSET, NO_PRODUCER_ID
_CONTROL, _TRANSACTIONAL = CONTROL_FLAG, TRANSACTIONAL_FLAG
_FROZEN = (BATCH.fields, _OVERHEAD, _MAX_RELATIVE, _CONTROL, _TRANSACTIONAL)


@compiled("int64(int64[:,:], int64, int64, int64[::1], int64[::1], int64[:,::1], int64[:,::1])", declared=_FROZEN)
def recover_batches(headers: Any, first: int, end: int, limits: Any, state: Any, entries: Any, epochs: Any) -> int:
    """Take in the batches from number `first` on; the number of the first that is left, or `end`.

    `limits` are the segment's base offset, the bytes between entries, and how many entries each index can hold; `state`
    is `Recovered`.  `entries` is a table of `IndexEntry`, numbered from the entries that `state` began with; `epochs`
    gets each new leader epoch and the offset where it begins.
    """
    base, interval, offset_room, time_room = limits[0], limits[1], limits[2], limits[3]
    offsets_before, times_before = state[Recovered.OFFSETS], state[Recovered.TIMES]
    for number in range(first, end):
        start = headers[HeaderColumn.BASE_OFFSET, number]
        last = start + headers[HeaderColumn.LAST_OFFSET_DELTA, number]
        relative = last - base
        if relative < 0 or relative > _MAX_RELATIVE:
            return number
        epoch = headers[HeaderColumn.PARTITION_LEADER_EPOCH, number]
        is_new_epoch = headers[HeaderColumn.MAGIC, number] >= BATCH_MAGIC and epoch > state[Recovered.EPOCH]
        if is_new_epoch and start < 0:
            return number
        timestamp, timestamp_offset = state[Recovered.TIMESTAMP], state[Recovered.TIMESTAMP_OFFSET]
        if headers[HeaderColumn.MAX_TIMESTAMP, number] > timestamp:
            timestamp, timestamp_offset = headers[HeaderColumn.MAX_TIMESTAMP, number], last
        if state[Recovered.VALID_BYTES] - state[Recovered.LAST_INDEXED] > interval:
            if state[Recovered.OFFSETS] >= offset_room or state[Recovered.TIMES] >= time_room - 1:
                return number
            if state[Recovered.OFFSETS] > 0 and last <= state[Recovered.LAST_OFFSET]:
                return number
            is_older = timestamp < state[Recovered.LAST_TIMESTAMP]
            if state[Recovered.TIMES] > 0 and (is_older or timestamp_offset < state[Recovered.LAST_TIMESTAMP_OFFSET]):
                return number
            slot = state[Recovered.OFFSETS] - offsets_before
            entries[IndexEntry.RELATIVE_OFFSET, slot] = relative
            entries[IndexEntry.POSITION, slot] = state[Recovered.VALID_BYTES]
            state[Recovered.OFFSETS] += 1
            state[Recovered.LAST_OFFSET] = last
            if timestamp > state[Recovered.LAST_TIMESTAMP]:
                slot = state[Recovered.TIMES] - times_before
                entries[IndexEntry.TIMESTAMP, slot] = timestamp
                entries[IndexEntry.TIMESTAMP_RELATIVE_OFFSET, slot] = timestamp_offset - base
                state[Recovered.TIMES] += 1
                state[Recovered.LAST_TIMESTAMP] = timestamp
                state[Recovered.LAST_TIMESTAMP_OFFSET] = timestamp_offset
            state[Recovered.LAST_INDEXED] = state[Recovered.VALID_BYTES]
        state[Recovered.TIMESTAMP], state[Recovered.TIMESTAMP_OFFSET] = timestamp, timestamp_offset
        state[Recovered.VALID_BYTES] += headers[HeaderColumn.BATCH_LENGTH, number] + _OVERHEAD
        if is_new_epoch:
            epochs[0, state[Recovered.EPOCHS]] = epoch
            epochs[1, state[Recovered.EPOCHS]] = start
            state[Recovered.EPOCHS] += 1
            state[Recovered.EPOCH] = epoch
    return end


@compiled("UniTuple(int64, 2)(int64[:,:], int64, int64, int64[::1], int64[:,::1])", declared=_FROZEN)
def batches_by_producer(headers: Any, first: int, end: int, slots: Any, found: Any) -> tuple[int, int]:
    """The producers of the batches from number `first` up to the next control batch of one, or `end`.

    Gives that batch's number and how many producers there are; `found` is a table of `Appended`, in the order of their
    first batches.  `slots` is all -1, before and after, and twice as long as there are batches or longer, its length a
    power of two.
    """
    count = 0
    mask = len(slots) - 1
    number = first
    while number < end:
        producer = headers[HeaderColumn.PRODUCER_ID, number]
        attributes = headers[HeaderColumn.ATTRIBUTES, number]
        if producer > _NO_PRODUCER:
            if attributes & _CONTROL:
                break
            slot = (producer * 0x9E3779B97F4A7C1 >> 20) & mask
            while slots[slot] >= 0 and found[Appended.PRODUCER_ID, slots[slot]] != producer:
                slot = (slot + 1) & mask
            at = slots[slot]
            if at < 0:
                at = slots[slot] = count
                count += 1
                found[Appended.PRODUCER_ID, at], found[Appended.FIRST, at] = producer, number
                found[Appended.FIRST_TRANSACTIONAL, at] = found[Appended.FIRST_PLAIN, at] = -1
                found[Appended.PLAIN_BEHIND_TRANSACTIONAL, at] = -1
            found[Appended.LAST, at] = number
            if attributes & _TRANSACTIONAL:
                if found[Appended.FIRST_TRANSACTIONAL, at] < 0:
                    found[Appended.FIRST_TRANSACTIONAL, at] = number
            else:
                if found[Appended.FIRST_PLAIN, at] < 0:
                    found[Appended.FIRST_PLAIN, at] = number
                is_behind = found[Appended.FIRST_TRANSACTIONAL, at] >= 0
                if is_behind and found[Appended.PLAIN_BEHIND_TRANSACTIONAL, at] < 0:
                    found[Appended.PLAIN_BEHIND_TRANSACTIONAL, at] = number
        number += 1
    for at in range(count):
        producer = found[Appended.PRODUCER_ID, at]
        slot = (producer * 0x9E3779B97F4A7C1 >> 20) & mask
        while slots[slot] >= 0:
            slots[slot] = -1
            slot = (slot + 1) & mask
    return number, count
