/* Facts about a run of headers as a whole, and its comparison with index entries and snapshots. */
#include "kafkalog.h"

#define UNKNOWN INT64_MIN /* in place of an offset that is not known */

/* Return the number of batches from the first one on that have no finding by `codec.rules.batches`, and advance
 * `continuity` past them. With `gaps`, missing offsets before a batch are accepted, because their finding is only
 * information, if there is a next batch, which begins above this batch's last offset. */
EXPORTED int64_t sound_prefix(int64_t *cells, int64_t stride, int64_t columns, struct continuity *continuity, int64_t gaps) {
    const struct batches batches = batches_of(cells, stride, columns);
    const int64_t base = continuity->base_offset, next_segment = continuity->next_segment;
    if (columns == 0)
        return 0;
    int64_t expected = continuity->expected == UNKNOWN ? batches.base_offset[0] : continuity->expected;
    if (!gaps && continuity->last_offset != UNKNOWN && continuity->last_offset != expected - 1)
        return 0; /* behind a repeat: what comes is another one, or leaves a gap */
    const bool begins = continuity->last_offset == UNKNOWN;
    int64_t epoch = continuity->leader_epoch, last_taken = UNKNOWN, number = 0;
    for (; number < columns; number++) {
        const int64_t first = batches.base_offset[number], last = first + batches.last_offset_delta[number];
        if (batches.magic[number] != BATCH_MAGIC || !is_header_sound(&batches, number) || first < 0 || last < first)
            break;
        if (base != UNKNOWN && (first < base || last - base > MAX_RELATIVE_OFFSET))
            break;
        if (next_segment != UNKNOWN && last >= next_segment)
            break;
        if (first != expected) {
            if (first < expected || (!gaps && !(number == 0 && begins)))
                break;
            /* behind a gap the next batch tells whether an offset was raised, which the last one of a run does not have */
            if (number + 1 == columns || batches.base_offset[number + 1] <= last)
                break;
        }
        if (batches.partition_leader_epoch[number] < epoch)
            break;
        epoch = batches.partition_leader_epoch[number];
        last_taken = last;
        if (last == INT64_MAX) { /* nothing can come next, and there is no number for the offset after it */
            number++;
            break;
        }
        expected = last + 1;
    }
    if (number > 0) {
        continuity->last_offset = last_taken;
        continuity->leader_epoch = epoch;
    }
    return number;
}

/* Write the numbers of the batches that do not begin where the batch before them ends, without the first; return how
 * many. */
EXPORTED int64_t gaps_of_run(int64_t *cells, int64_t stride, int64_t columns, int64_t *numbers) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t count = 0;
    for (int64_t number = 1; number < columns; number++)
        if (batches.base_offset[number] != batches.base_offset[number - 1] + batches.last_offset_delta[number - 1] + 1)
            numbers[count++] = number;
    return count;
}

/* Count the batches of each codec in `codecs`, and write the smallest first and the largest timestamp of the batches
 * that have one, as defined by `BatchHeader.first_timestamp`; return the number of these batches. */
EXPORTED int64_t summarize_run(int64_t *cells, int64_t stride, int64_t columns, int64_t codecs[CODEC_MASK + 1],
                               int64_t times[2]) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t known = 0, smallest = INT64_MAX, largest = INT64_MIN;
    for (int64_t number = 0; number < columns; number++) {
        const int64_t attributes = batches.attributes[number], newest = batches.max_timestamp[number];
        codecs[attributes & CODEC_MASK]++;
        if (newest < 0)
            continue;
        known++;
        /* the first record of a batch may have no time where others have one */
        const bool is_told = (attributes & (TIMESTAMP_TYPE_FLAG | DELETE_HORIZON_FLAG)) == 0;
        const int64_t oldest = is_told && batches.base_timestamp[number] >= 0 ? batches.base_timestamp[number] : newest;
        smallest = least(smallest, oldest);
        largest = most(largest, newest);
    }
    times[0] = smallest;
    times[1] = largest;
    return known;
}

/* Count and compare the batches of a run, at least one, in one pass: see `RunFacts` in tables.py. */
EXPORTED int64_t facts_of_run(int64_t *cells, int64_t stride, int64_t columns, struct run_facts *facts) {
    const struct batches batches = batches_of(cells, stride, columns);
    struct run_facts found = {
        .least_last_offset = INT64_MAX, .largest_last_offset = INT64_MIN,
        .largest_epoch = INT64_MIN, .least_timestamp = INT64_MAX, .largest_timestamp = INT64_MIN,
        .last_cleaned = -1, .last_v2 = -1,
    };
    int64_t last_before = 0, epoch_before = INT64_MIN;
    for (int64_t number = 0; number < columns; number++) {
        const int64_t first = batches.base_offset[number], delta = batches.last_offset_delta[number], last = first + delta;
        const int64_t records = batches.records_count[number], attributes = batches.attributes[number];
        const int64_t epoch = batches.partition_leader_epoch[number], newest = batches.max_timestamp[number];
        const bool is_control = (attributes & CONTROL_FLAG) != 0;
        found.least_last_offset = least(found.least_last_offset, last);
        found.largest_last_offset = most(found.largest_last_offset, last);
        found.least_timestamp = least(found.least_timestamp, newest);
        found.largest_timestamp = most(found.largest_timestamp, newest);
        found.largest_epoch = most(found.largest_epoch, epoch);
        found.epoch_falls += epoch < epoch_before;
        epoch_before = epoch;
        if (!is_control)
            found.data_records += most(records, 0);
        if (batches.producer_id[number] > NO_PRODUCER_ID) {
            found.of_producers++;
            found.markers += is_control;
        }
        if (number > 0) {
            if (first != last_before + 1) {
                found.gaps++;
                found.last_gap = number;
            }
            found.not_above += first <= last_before;
        }
        last_before = last;
        found.turned += last < first;
        if (batches.magic[number] == BATCH_MAGIC)
            found.last_v2 = number;
        else
            found.older++;
        found.unknown_codecs += !is_known_codec(attributes & CODEC_MASK);
        if (records >= 0 && records <= delta)
            found.last_cleaned = number;
    }
    *facts = found;
    return columns;
}

/* Write the numbers of the batches from `first` on that may change the state of a transaction, ascending; return how
 * many. They are all control batches, and transactional data batches; of consecutive transactional data batches of
 * one producer only the first. */
EXPORTED int64_t transaction_numbers(int64_t *cells, int64_t stride, int64_t columns, int64_t first, int64_t *numbers) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t count = 0, producer_before = 0;
    bool data_before = false;
    for (int64_t number = first; number < columns; number++) {
        const int64_t attributes = batches.attributes[number], producer = batches.producer_id[number];
        const bool is_control = (attributes & CONTROL_FLAG) != 0;
        if (!is_control && (attributes & TRANSACTIONAL_FLAG) == 0)
            continue;
        if (is_control || !data_before || producer != producer_before)
            numbers[count++] = number;
        data_before = !is_control;
        producer_before = producer;
    }
    return count;
}

/* Return the number of batches from the first one on whose offsets are possible in a segment with this base offset,
 * by the rule of `out_of_place` in `codec.rules.batches`; `limit` is its NO_OFFSET_LIMIT. */
EXPORTED int64_t in_place(int64_t *cells, int64_t stride, int64_t columns, int64_t base_offset, int64_t limit) {
    const struct batches batches = batches_of(cells, stride, columns);
    for (int64_t number = 0; number < columns; number++) {
        const int64_t first = batches.base_offset[number], last = first + batches.last_offset_delta[number];
        if (first < 0 || last < first || last < base_offset || last >= limit)
            return number;
    }
    return columns;
}

/* Compare the offsets of a run with `highest`, the highest offset before it: see `OrderOfRun` in tables.py. */
EXPORTED int64_t order_of_run(int64_t *cells, int64_t stride, int64_t columns, int64_t highest,
                              struct order_of_run *order) {
    const struct batches batches = batches_of(cells, stride, columns);
    struct order_of_run found = {.before_rest = highest, .first_repeat = -1, .last_repeat = -1};
    int64_t before = highest, first_seen = -1, before_first_seen = 0, last_seen = -1, before_last_seen = 0;
    for (int64_t number = 0; number < columns; number++) {
        const int64_t first = batches.base_offset[number], last = first + batches.last_offset_delta[number];
        if (first <= before) {
            if (first_seen < 0)
                first_seen = number, before_first_seen = before;
            last_seen = number, before_last_seen = before;
        }
        const bool is_front = last >= before;
        before = most(before, last);
        if (is_front) {
            found.rest = number + 1, found.before_rest = before;
            found.first_repeat = first_seen, found.before_first = before_first_seen;
            found.last_repeat = last_seen, found.before_last = before_last_seen;
        }
    }
    *order = found;
    return columns;
}

/* Write the numbers of the batches whose leader epoch is neither `epoch` nor -1, ascending; return how many. */
EXPORTED int64_t other_epochs(int64_t *cells, int64_t stride, int64_t columns, int64_t epoch, int64_t *numbers) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t count = 0;
    for (int64_t number = 0; number < columns; number++)
        if (batches.partition_leader_epoch[number] != epoch && batches.partition_leader_epoch[number] != -1)
            numbers[count++] = number;
    return count;
}

/* Write the numbers of the batches whose leader epoch differs from the batch before them, ascending; return how
 * many. */
EXPORTED int64_t new_epochs(int64_t *cells, int64_t stride, int64_t columns, int64_t *numbers) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t count = 0;
    for (int64_t number = 1; number < columns; number++)
        if (batches.partition_leader_epoch[number] != batches.partition_leader_epoch[number - 1])
            numbers[count++] = number;
    return count;
}

/* Return how many numbers of `count` ascending ones are below `value`; with `or_equal`, also those equal to it. */
INLINE int64_t count_below(const int64_t *ascending, int64_t count, int64_t value, bool or_equal) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (ascending[middle] < value || (or_equal && ascending[middle] == value))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Write the numbers of the batches that can contradict the entries of a producer snapshot, ascending; return how many.
 * They are: batches that hold the last offset of an entry; data batches after the last offset of their producer's entry,
 * with its epoch or a later one; and control batches after the start of their producer's open transaction.  The table
 * `listed_producers` has at least one entry, by ascending producer ids; `last_offsets` are their last offsets, ascending. */
EXPORTED int64_t doubtful_batches(int64_t *cells, int64_t stride, int64_t columns, int64_t *listed_cells,
                                  int64_t listed_stride, int64_t listed_columns, const int64_t *last_offsets,
                                  int64_t *numbers) {
    const struct batches batches = batches_of(cells, stride, columns);
    const struct listed_producers listed = listed_producers_of(listed_cells, listed_stride, listed_columns);
    int64_t count = 0;
    for (int64_t number = 0; number < columns; number++) {
        const int64_t first = batches.base_offset[number], last = first + batches.last_offset_delta[number];
        const int64_t producer = batches.producer_id[number];
        const int64_t entry = least(count_below(listed.producer_id, listed_columns, producer, false), listed_columns - 1);
        bool is_doubtful = false;
        if (listed.producer_id[entry] == producer) {
            if ((batches.attributes[number] & CONTROL_FLAG) != 0)
                is_doubtful = listed.transaction_start[entry] >= 0 && first > listed.transaction_start[entry];
            else
                is_doubtful =
                    first > listed.last_offset[entry] && batches.producer_epoch[number] >= listed.producer_epoch[entry];
        }
        if (!is_doubtful)
            is_doubtful = count_below(last_offsets, listed_columns, first, false) !=
                          count_below(last_offsets, listed_columns, last, true);
        if (is_doubtful)
            numbers[count++] = number;
    }
    return count;
}

/* Return how many batches from `start` in one run and `other_start` in another are equal in offsets, size, checksum,
 * leader epoch and magic, of `count` that both have. */
EXPORTED int64_t equal_batches(int64_t *cells, int64_t stride, int64_t columns, int64_t start, int64_t *other_cells,
                               int64_t other_stride, int64_t other_columns, int64_t other_start, int64_t count) {
    const struct batches ours = batches_of(cells, stride, columns);
    const struct batches theirs = batches_of(other_cells, other_stride, other_columns);
    for (int64_t done = 0; done < count; done++) {
        const int64_t here = start + done, there = other_start + done;
        if (ours.base_offset[here] != theirs.base_offset[there] ||
            ours.last_offset_delta[here] != theirs.last_offset_delta[there] ||
            ours.batch_length[here] != theirs.batch_length[there] || ours.crc[here] != theirs.crc[there] ||
            ours.partition_leader_epoch[here] != theirs.partition_leader_epoch[there] ||
            ours.magic[here] != theirs.magic[there])
            return done;
    }
    return count;
}

/* Write the numbers of the batches whose checksum is one of `wanted_count` ascending ones, ascending; return how many. */
EXPORTED int64_t with_checksums(int64_t *cells, int64_t stride, int64_t columns, const int64_t *wanted,
                                int64_t wanted_count, int64_t *numbers) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t count = 0;
    for (int64_t number = 0; number < columns; number++) {
        const int64_t place = count_below(wanted, wanted_count, batches.crc[number], false);
        if (place < wanted_count && wanted[place] == batches.crc[number])
            numbers[count++] = number;
    }
    return count;
}

/* Write the numbers of the batches that fulfill all conditions, ascending; return how many.  The compression must be in
 * the bits of `codecs`; of the attribute bits `flags` exactly `values` must be set; the producer id must be one of
 * `id_count` ascending ones, unless that is negative. */
EXPORTED int64_t select_batches(const int64_t *attributes, const int64_t *producers, int64_t batches, int64_t codecs,
                                int64_t flags, int64_t values, const int64_t *ids, int64_t id_count, int64_t *numbers) {
    int64_t count = 0;
    for (int64_t number = 0; number < batches; number++) {
        if ((codecs >> (attributes[number] & CODEC_MASK) & 1) == 0 || (attributes[number] & flags) != values)
            continue;
        if (id_count >= 0) {
            const int64_t place = count_below(ids, id_count, producers[number], false);
            if (place == id_count || ids[place] != producers[number])
                continue;
        }
        numbers[count++] = number;
    }
    return count;
}

/* Copy the columns with these numbers of a table of `rows` rows into another one; return how many, -1 if there is no such
 * column. */
EXPORTED int64_t take_columns(const int64_t *cells, int64_t stride, int64_t columns, int64_t rows, const int64_t *numbers,
                              int64_t count, int64_t *target, int64_t target_stride) {
    for (int64_t done = 0; done < count; done++)
        if (numbers[done] < 0 || numbers[done] >= columns)
            return -1;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t done = 0; done < count; done++)
            target[row * target_stride + done] = cells[row * stride + numbers[done]];
    return count;
}

/* Add `by` bytes to the position of each batch. */
EXPORTED int64_t move_positions(int64_t *cells, int64_t stride, int64_t columns, int64_t by) {
    const struct batches batches = batches_of(cells, stride, columns);
    for (int64_t number = 0; number < columns; number++)
        batches.position[number] += by;
    return columns;
}

/* --- index entries beside a run ------------------------------------------------------------------------------------- */

/* Find the first index entry whose position is not the start of a batch, or whose key is not above all offsets before
 * that batch; return its number, -1 if there is none.  `shift` is added to the positions of batches, `base` to keys;
 * `before` is the highest offset before the run.  No position may be above that of the last batch.  Writes the highest
 * offset before the batch, and whether one begins there. */
EXPORTED int64_t wrong_position(int64_t *cells, int64_t stride, int64_t columns, int64_t shift, int64_t before,
                                int64_t base, const int64_t *keys, const int64_t *positions, int64_t count,
                                int64_t to[2]) {
    const struct batches batches = batches_of(cells, stride, columns);
    for (int64_t entry = 0; entry < count; entry++) {
        const int64_t number = count_below(batches.position, columns, positions[entry] - shift, false);
        int64_t offset = before;
        if (number > 0)
            offset = most(before, batches.base_offset[number - 1] + batches.last_offset_delta[number - 1]);
        const bool begins = number < columns && batches.position[number] + shift == positions[entry];
        if (!begins || keys[entry] + base <= offset) {
            to[0] = offset, to[1] = begins;
            return entry;
        }
    }
    return -1;
}

/* Find the first batch whose largest timestamp is above that of the time index entry that covers it; return its number,
 * -1 if there is none.  `before` is the highest offset before the run.  The entries' offsets are relative to `base` and
 * must increase after the first.  Writes the entry's number. */
EXPORTED int64_t later_batch(int64_t *cells, int64_t stride, int64_t columns, int64_t before, int64_t base,
                             const int64_t *timestamps, const int64_t *offsets, int64_t count, int64_t *to) {
    const struct batches batches = batches_of(cells, stride, columns);
    for (int64_t number = 0; number < columns; number++) {
        int64_t reached = before;
        if (number > 0)
            reached = most(before, batches.base_offset[number - 1] + batches.last_offset_delta[number - 1]);
        const int64_t entry = count_below(offsets, count, reached - base, true);
        if (entry == count)
            continue;
        const int64_t last = batches.base_offset[number] + batches.last_offset_delta[number];
        if (last <= offsets[entry] + base && batches.max_timestamp[number] > timestamps[entry]) {
            *to = entry;
            return number;
        }
    }
    return -1;
}

/* Read `count` index entries of two big-endian fields of `first_size` and `second_size` bytes (4 or 8). */
EXPORTED int64_t read_entries(const byte *address, int64_t count, int64_t first_size, int64_t second_size, int64_t *firsts,
                              int64_t *seconds) {
    for (int64_t number = 0; number < count; number++) {
        firsts[number] = first_size == 8 ? big64(address) : big32(address);
        address += first_size;
        seconds[number] = second_size == 8 ? big64(address) : big32(address);
        address += second_size;
    }
    return count;
}

/* Return how many of `count` index entries increase without interruption.  `first_before` and `second_before` are the
 * fields of the entry before them.  The first field must increase; the second too, or not decrease if `may_repeat`.  With
 * `has_never`, the entry (`never_first`, `never_second`) does not count as increasing. */
EXPORTED int64_t increasing_entries(const int64_t *firsts, const int64_t *seconds, int64_t count, int64_t first_before,
                                    int64_t second_before, int64_t may_repeat, int64_t has_never, int64_t never_first,
                                    int64_t never_second) {
    for (int64_t number = 0; number < count; number++) {
        const int64_t first = firsts[number], second = seconds[number];
        if (first <= first_before || second < second_before || (!may_repeat && second == second_before))
            return number;
        if (has_never && first == never_first && second == never_second)
            return number;
        first_before = first, second_before = second;
    }
    return count;
}

/* Write `count` index entries with the fields and sizes of `read_entries` to an address. */
EXPORTED int64_t write_entries(const int64_t *firsts, const int64_t *seconds, int64_t count, int64_t first_size,
                               int64_t second_size, byte *target) {
    for (int64_t number = 0; number < count; number++) {
        for (int field = 0; field < 2; field++) {
            const int64_t value = field == 0 ? firsts[number] : seconds[number];
            const int64_t size = field == 0 ? first_size : second_size;
            if (size == 8)
                store64(target, __builtin_bswap64((uint64_t)value));
            else
                store32(target, __builtin_bswap32((uint32_t)value));
            target += size;
        }
    }
    return count;
}
