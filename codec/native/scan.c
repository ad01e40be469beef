/* Scans over whole batches and entries: sizes and checksums, and every declared header field as a column. */
#include "kafkalog.h"

#include <unistd.h>

/* Write the headers of the batches in `size` bytes at `address`, a column each; return their number. It stops before
 * anything that is not a sound v2 batch of at most `largest` bytes. Positions are relative to the address. With
 * `check`, checksums are compared. */
EXPORTED int64_t scan_batches(const byte *address, int64_t size, int64_t largest, int64_t check, int64_t *cells,
                              int64_t stride, int64_t columns) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t position = 0, count = 0;
    while (count < columns) {
        const int64_t whole = batch_size(address + position, size - position, largest, check);
        if (whole == 0)
            break;
        read_header(address + position, position, &batches, count++);
        position += whole;
    }
    return count;
}

/* Scan for entries of magic 0 and 1 as `scan_batches` does; those of magic 0 get the timestamp -1. */
EXPORTED int64_t scan_messages(const byte *address, int64_t size, int64_t largest, int64_t check, int64_t *cells,
                               int64_t stride, int64_t columns) {
    const struct messages messages = messages_of(cells, stride, columns);
    const int64_t smallest = LOG_OVERHEAD_SIZE + SMALLEST_MESSAGE;
    int64_t position = 0, count = 0;
    while (count < columns && size - position >= smallest) {
        const byte *here = address + position, *covered = here + MESSAGE_V0_MAGIC_AT;
        const int64_t whole = big32(here + MESSAGE_V0_SIZE_AT) + LOG_OVERHEAD_SIZE;
        if (whole < smallest || whole > size - position || whole > largest)
            break;
        const int64_t magic = big8(here + MESSAGE_V0_MAGIC_AT);
        if (magic != 0 && (magic != 1 || whole < MESSAGE_V1_SIZE))
            break;
        if (check && checksum_ieee(covered, whole - MESSAGE_V0_MAGIC_AT) != (uint32_t)big32u(here + MESSAGE_V0_CRC_AT))
            break;
#define READ(name, at, read) messages.name[count] = read(here + (at));
        MESSAGE_V0_FIELDS(READ)
#undef READ
        messages.timestamp[count] = magic == 1 ? big64(here + MESSAGE_V1_TIMESTAMP_AT) : NO_TIMESTAMP;
        messages.position[count++] = position;
        position += whole;
    }
    return count;
}

/* Whether a batch is certainly at its place: it has none of `flags`, begins below `end`, ends at or below `highest`, and
 * has no leader epoch below `epoch`, that of the batch before. `low` is the offset that should come next. If a batch
 * begins with another offset, the next batch must begin after it, with the offset `following`; `codec.rules.batches`
 * decides the other cases. */
bool is_next(const struct batches *batches, int64_t number, int64_t following, int64_t low, int64_t highest, int64_t end,
             int64_t flags, int64_t epoch) {
    const int64_t first = batches->base_offset[number], last = first + batches->last_offset_delta[number];
    if (!is_header_sound(batches, number) || first < 0 || first > last || last > highest)
        return false;
    if ((batches->attributes[number] & flags) != 0 || batches->partition_leader_epoch[number] < epoch)
        return false;
    if (first != low && (first < low || following <= last))
        return false;
    return last >= low && first < end && (number == 0 || low < end);
}

/* Return the number of batches from the first one on that are in order, have none of `flags`, and begin below `end`.
 * `expected` is the offset that should come first, `highest` the last one that the segment may have, `epoch` the leader
 * epoch before them. The first wanted offset of each batch is written to `lows`. */
EXPORTED int64_t consecutive_batches(int64_t *cells, int64_t stride, int64_t columns, int64_t expected, int64_t highest,
                                     int64_t end, int64_t flags, int64_t epoch, int64_t *lows) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t low = expected;
    for (int64_t number = 0; number < columns; number++) {
        const int64_t following = number + 1 < columns ? batches.base_offset[number + 1] : -1;
        if (!is_next(&batches, number, following, low, highest, end, flags, epoch))
            return number;
        lows[number] = low;
        epoch = batches.partition_leader_epoch[number];
        low = batches.base_offset[number] + batches.last_offset_delta[number] + 1;
    }
    return columns;
}

/* The same as `consecutive_batches`, for entries of magic 0 and 1. */
EXPORTED int64_t consecutive_messages(int64_t *cells, int64_t stride, int64_t columns, int64_t expected, int64_t highest,
                                      int64_t end, int64_t *lows) {
    const struct messages messages = messages_of(cells, stride, columns);
    int64_t low = expected;
    for (int64_t number = 0; number < columns; number++) {
        const int64_t offset = messages.offset[number];
        if (offset < 0 || offset > highest || offset < low || offset >= end)
            return number;
        if (offset != low) {
            if (number + 1 < columns && messages.offset[number + 1] <= offset)
                return number;
            /* a wrapper has the offset of its last message, so that only the offset of a bare one tells of a gap */
            if (number + 1 == columns && (messages.attributes[number] & CODEC_MASK) == 0)
                return number;
        }
        lows[number] = low;
        low = offset + 1;
    }
    return columns;
}

/* Return the codec of batch `start`, EMPTY or UNDECODED, and write the number after the last consecutive batch with
 * the same one to `*behind`. */
EXPORTED int64_t same_codec(int64_t *cells, int64_t stride, int64_t columns, int64_t start, int64_t most_records,
                            int64_t most_bytes, int64_t *behind) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t kind = 0, number = start;
    for (; number < columns; number++) {
        const int64_t count = batches.records_count[number], size = batches.batch_length[number] + LOG_OVERHEAD_SIZE;
        int64_t here = batches.attributes[number] & CODEC_MASK;
        if (count < 0 || count > most_records || !is_known_codec(here) || size > most_bytes)
            here = UNDECODED;
        else if (count == 0)
            here = EMPTY;
        if (number == start)
            kind = here;
        else if (here != kind)
            break;
    }
    *behind = most(number, start);
    return kind;
}

/* Return how many batches from `start` on have together at most `most_rows` records and, by `sizes`, `most_bytes`
 * bytes; the first `at_least` always count. The number of rows to make room for, at most as many as the bytes can
 * contain, and the number of bytes are written to `room`. */
EXPORTED int64_t fitting_batches(int64_t *cells, int64_t stride, int64_t columns, int64_t start, const int64_t *sizes,
                                 int64_t count, int64_t at_least, int64_t most_rows, int64_t most_bytes, int64_t room[2]) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t rows = 0, number = 0;
    room[0] = room[1] = 0;
    for (; number < count; number++) {
        const int64_t records = batches.records_count[start + number];
        if (number >= at_least && (rows + records > most_rows || room[1] + sizes[number] > most_bytes))
            break;
        rows += records;
        room[0] += least(records, sizes[number] / SMALLEST_RECORD + 1);
        room[1] += sizes[number];
    }
    return number;
}

/* Write the addresses and sizes of the record bytes of the first batches: of at least one, and of more while they
 * have at most `budget` bytes. No batch has more than `largest` bytes; `window` is the address to which positions
 * are relative. Return the number of batches. */
EXPORTED int64_t locate_records(int64_t *cells, int64_t stride, int64_t columns, int64_t window, int64_t largest,
                                int64_t budget, int64_t *addresses, int64_t *sizes) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t total = 0;
    for (int64_t number = 0; number < columns; number++) {
        const int64_t size = batches.batch_length[number] + LOG_OVERHEAD_SIZE - BATCH_SIZE;
        total += size;
        if (size > largest || (number > 0 && total > budget))
            return number;
        addresses[number] = window + batches.position[number] + BATCH_SIZE;
        sizes[number] = size;
    }
    return columns;
}

/* --- from header to header through a file ------------------------------------------------------------------------- */

#define DENSE 4096 /* batches below this size are read together with those behind them */
#define LARGEST_OFFSET (INT64_C(1) << 62)

/* Return the number of offsets of the batch at `here`; 0 if its header does not tell, as for a wrapper. */
INLINE int64_t offsets_taken(const byte *here, int64_t magic) {
    if (magic > 1)
        return big32(here + BATCH_LAST_OFFSET_DELTA_AT) + 1;
    return (here[MESSAGE_V0_ATTRIBUTES_AT] & CODEC_MASK) == 0;
}

/* Scan the headers of an open file until `step` bytes of batches, or all, are passed; return 1 if this was possible.
 * `memory` has `room` bytes. 0 if reading fails, a magic is unknown, or offsets are too large or decrease: the state
 * is then unchanged, except that no range is in memory. */
EXPORTED int64_t walk_headers(int64_t descriptor, byte *memory, int64_t room, struct walk *walk) {
    const int64_t end = walk->end, file_end = walk->file_end, start = walk->position;
    int64_t position = start, expected = walk->expected, first_offset = expected, next_offset = expected, followed = 1;
    int64_t held = walk->held, held_end = walk->held_end, dense = walk->is_dense;
    while (position < end) {
        const int64_t wanted = least(BATCH_SIZE, file_end - position);
        if (position < held || position + wanted > held_end) {
            const int64_t ahead = least(dense ? room : BATCH_SIZE, file_end - position);
            const int64_t done = pread((int)descriptor, memory, (size_t)ahead, position);
            if (done < wanted)
                goto left;
            held = position, held_end = position + done;
        }
        const byte *here = memory + (position - held); /* `wanted` bytes are there */
        int64_t length = -1, magic = 0;
        if (wanted > MAGIC_AT) {
            length = big32(here + LOG_OVERHEAD_SIZE_AT);
            magic = here[MAGIC_AT];
        }
        if (magic > BATCH_MAGIC) /* which takes other rules */
            goto left;
        const int64_t behind = position + LOG_OVERHEAD_SIZE + length;
        if (length < SMALLEST_MESSAGE || behind > end || (magic > 1 && wanted < BATCH_SIZE)) {
            next_offset = most(next_offset, expected);
            position = end, followed = 0; /* in one with the batch before it, whose size may be wrong */
            break;
        }
        if (position > start && position - start >= walk->step)
            break;
        const int64_t offset = big64(here);
        if (offset > LARGEST_OFFSET || offset < -LARGEST_OFFSET)
            goto left;
        const int64_t taken = offsets_taken(here, magic);
        int64_t first = magic > 1 ? offset : expected, after = magic > 1 ? offset + taken : offset + 1;
        if (after - 1 - walk->base > MAX_RELATIVE_OFFSET) /* no consumer reads past it */
            goto left;
        dense = behind - position < DENSE;
        int64_t following = walk->next_base;
        bool is_known = following != NO_END;
        if (behind < file_end) {
            if (behind + least(BATCH_SIZE, file_end - behind) > held_end) { /* read the header that comes next */
                const int64_t ahead = least(dense ? room : BATCH_SIZE, file_end - behind);
                held = behind, held_end = behind + pread((int)descriptor, memory, (size_t)ahead, behind);
            }
            is_known = held_end > behind + MAGIC_AT;
            following = is_known ? big64(memory + (behind - held)) : 0;
        }
        const bool continues = is_known && following == expected + taken;
        const bool reaches_over = offset > expected && after > walk->next_base;
        if (offset != expected && taken > 0 && (continues || reaches_over)) /* what `codec.rules.batches` calls displaced */
            first = expected, after = expected + taken;
        else if (after <= expected || (is_known && following < after)) /* which takes more than a header to judge */
            goto left;
        if (position == start)
            first_offset = first, next_offset = after;
        next_offset = most(next_offset, after);
        expected = most(expected, after);
        position = behind;
    }
    walk->position = position, walk->expected = expected;
    walk->first_offset = first_offset, walk->next_offset = next_offset;
    walk->held = held, walk->held_end = held_end, walk->is_dense = dense, walk->is_followed = followed;
    return 1;
left:
    walk->held = walk->held_end = 0;
    return 0;
}
