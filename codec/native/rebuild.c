/* The work of a segment's recovery on each batch: index entries, leader epochs, and the producers of the batches. */
#include "kafkalog.h"

/* Parameters for the index entries of a segment: its base offset, the bytes between entries, and the capacity of
 * each index. */
struct limits {
    int64_t base_offset, interval_bytes, offset_entries, time_entries;
};

/* Process the batches from number `first` on as `LogSegment.recover` does; return the number of the first one that may
 * be invalid and was not processed, or `end`.
 *
 * The index entries are numbered from those with which `state` began. Each new leader epoch, and the offset at which
 * it begins, is written to `epochs` and `epoch_starts`. */
EXPORTED int64_t recover_batches(int64_t *cells, int64_t stride, int64_t columns, int64_t first, int64_t end,
                                 const struct limits *limits, struct recovered *state, int64_t *entry_cells,
                                 int64_t entry_stride, int64_t *epochs, int64_t *epoch_starts) {
    const struct batches batches = batches_of(cells, stride, columns);
    const struct index_entries entries = index_entries_of(entry_cells, entry_stride, end - first);
    const int64_t offsets_before = state->offsets, times_before = state->times;
    for (int64_t number = first; number < end; number++) {
        const int64_t start = batches.base_offset[number], last = start + batches.last_offset_delta[number];
        const int64_t relative = last - limits->base_offset;
        if (relative < 0 || relative > MAX_RELATIVE_OFFSET)
            return number;
        const int64_t epoch = batches.partition_leader_epoch[number];
        const bool is_new_epoch = batches.magic[number] >= BATCH_MAGIC && epoch > state->epoch;
        if (is_new_epoch && start < 0)
            return number;
        int64_t timestamp = state->timestamp, timestamp_offset = state->timestamp_offset;
        if (batches.max_timestamp[number] > timestamp)
            timestamp = batches.max_timestamp[number], timestamp_offset = last;
        if (state->valid_bytes - state->last_indexed > limits->interval_bytes) {
            if (state->offsets >= limits->offset_entries || state->times >= limits->time_entries - 1)
                return number;
            if (state->offsets > 0 && last <= state->last_offset)
                return number;
            const bool is_older = timestamp < state->last_timestamp;
            if (state->times > 0 && (is_older || timestamp_offset < state->last_timestamp_offset))
                return number;
            const int64_t slot = state->offsets++ - offsets_before;
            entries.relative_offset[slot] = relative;
            entries.position[slot] = state->valid_bytes;
            state->last_offset = last;
            if (timestamp > state->last_timestamp) {
                const int64_t time = state->times++ - times_before;
                entries.timestamp[time] = timestamp;
                entries.timestamp_relative_offset[time] = timestamp_offset - limits->base_offset;
                state->last_timestamp = timestamp;
                state->last_timestamp_offset = timestamp_offset;
            }
            state->last_indexed = state->valid_bytes;
        }
        state->timestamp = timestamp;
        state->timestamp_offset = timestamp_offset;
        state->valid_bytes += batches.batch_length[number] + LOG_OVERHEAD_SIZE;
        if (is_new_epoch) {
            epochs[state->epochs] = epoch;
            epoch_starts[state->epochs++] = start;
            state->epoch = epoch;
        }
    }
    return end;
}

/* The slot at which the search for a producer begins; `count` is a power of two. */
INLINE int64_t home(int64_t producer, int64_t count) {
    return (int64_t)((uint64_t)producer * UINT64_C(0x9E3779B97F4A7C1)) >> 20 & (count - 1);
}

/* Group the batches from number `first` up to the next control batch of a producer, or `end`, by producer
 * (`ProducerAppendInfo`), in a table of `appended` in the order of their first batches. Return the number of producers;
 * the number of the control batch, or `end`, is written to `*stopped`.
 *
 * `slots` are all -1, before and after the call. Their number is a power of two, and at least twice the number of
 * batches. */
EXPORTED int64_t batches_by_producer(int64_t *cells, int64_t stride, int64_t columns, int64_t first, int64_t end,
                                     int64_t *slots, int64_t slot_count, int64_t *producer_cells, int64_t producer_stride,
                                     int64_t *stopped) {
    const struct batches batches = batches_of(cells, stride, columns);
    const struct appended producers = appended_of(producer_cells, producer_stride, end - first);
    int64_t count = 0, number = first;
    for (; number < end; number++) {
        const int64_t producer = batches.producer_id[number], attributes = batches.attributes[number];
        if (producer <= NO_PRODUCER_ID)
            continue;
        if ((attributes & CONTROL_FLAG) != 0)
            break;
        int64_t slot = home(producer, slot_count);
        while (slots[slot] >= 0 && producers.producer_id[slots[slot]] != producer)
            slot = (slot + 1) & (slot_count - 1);
        if (slots[slot] < 0) {
            slots[slot] = count;
            producers.producer_id[count] = producer;
            producers.first[count] = number;
            producers.first_transactional[count] = producers.first_plain[count] = -1;
            producers.plain_behind_transactional[count] = -1;
            count++;
        }
        const int64_t here = slots[slot];
        producers.last[here] = number;
        if ((attributes & TRANSACTIONAL_FLAG) != 0) {
            if (producers.first_transactional[here] < 0)
                producers.first_transactional[here] = number;
        } else {
            if (producers.first_plain[here] < 0)
                producers.first_plain[here] = number;
            if (producers.first_transactional[here] >= 0 && producers.plain_behind_transactional[here] < 0)
                producers.plain_behind_transactional[here] = number;
        }
    }
    for (int64_t each = 0; each < count; each++) {
        int64_t slot = home(producers.producer_id[each], slot_count);
        while (slots[slot] >= 0) {
            slots[slot] = -1;
            slot = (slot + 1) & (slot_count - 1);
        }
    }
    *stopped = number;
    return count;
}
