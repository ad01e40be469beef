/* Decoding of records of magic 0 and 1 to Arrow's buffers.
 *
 * Only entries that are certainly sound are decoded; `codec.plain.legacy` handles the others. Offsets and timestamps
 * inside a wrapper follow `AbstractLegacyRecordBatch`. */
#include "kafkalog.h"

#define LARGEST_MS (INT64_MAX / MICROSECONDS)

/* Key and value of an entry; a negative size is null. */
struct content {
    const byte *key, *value;
    int64_t key_size, value_size;
};

/* Whether key and value are inside the entry from `here` to `end`. */
INLINE bool read_content(const byte *here, const byte *end, int64_t magic, struct content *content) {
    const byte *key = here + (magic == 0 ? MESSAGE_V0_SIZE : MESSAGE_V1_SIZE) + CONTENT_LENGTH_SIZE;
    if (key > end)
        return false;
    content->key = key;
    content->key_size = big32(key - CONTENT_LENGTH_SIZE);
    if (content->key_size > end - key)
        return false;
    const byte *value = key + most(content->key_size, 0) + CONTENT_LENGTH_SIZE;
    if (value > end)
        return false;
    content->value = value;
    content->value_size = big32(value - CONTENT_LENGTH_SIZE);
    return content->value_size <= end - value;
}

/* Write the positions of the values of entries, relative to `address`, and their sizes: -1 for null, and for an
 * entry that is not sound. */
EXPORTED void locate_values(const byte *address, int64_t *cells, int64_t stride, int64_t columns, int64_t *starts,
                            int64_t *sizes) {
    const struct messages messages = messages_of(cells, stride, columns);
    for (int64_t number = 0; number < columns; number++) {
        const byte *here = address + messages.position[number];
        struct content content = {address, address, -1, -1};
        const bool sound = read_content(here, here + messages.size[number] + LOG_OVERHEAD_SIZE, messages.magic[number], &content);
        starts[number] = sound ? content.value - address : 0;
        sizes[number] = sound ? most(content.value_size, -1) : -1;
    }
}

/* Return the number of messages in the wrapper's set of `size` bytes, and write the offset of the last one to
 * `*last`. -1 if there is anything except plain messages with correct checksums, at most `most_messages`, and at
 * most one truncated message after them. */
static int64_t measure_set(const byte *cursor, int64_t size, int64_t most_messages, int64_t *last) {
    const byte *end = cursor + size;
    int64_t count = 0;
    while (end - cursor >= LOG_OVERHEAD_SIZE) {
        const int64_t message = big32(cursor + MESSAGE_V0_SIZE_AT);
        if (message < SMALLEST_MESSAGE)
            return -1;
        if (LOG_OVERHEAD_SIZE + message > end - cursor)
            break;
        const byte *behind = cursor + LOG_OVERHEAD_SIZE + message, *covered = cursor + MESSAGE_V0_MAGIC_AT;
        const int64_t magic = big8(cursor + MESSAGE_V0_MAGIC_AT);
        if ((magic != 0 && (magic != 1 || behind - cursor < MESSAGE_V1_SIZE)) ||
            (cursor[MESSAGE_V0_ATTRIBUTES_AT] & CODEC_MASK) != 0 || count == most_messages ||
            checksum_ieee(covered, behind - covered) != (uint32_t)big32u(cursor + MESSAGE_V0_CRC_AT))
            return -1;
        count++;
        *last = big64(cursor + MESSAGE_V0_OFFSET_AT);
        cursor = behind;
    }
    return count;
}

/* Write the number of messages of each entry, and the number to add to their offsets, to a table of `message_sets`.
 *
 * `addresses` and `sizes` are the address and size of a wrapper's decompressed set, or of the whole entry if it is
 * not a wrapper. The number is -1 if the size is, or if `measure_set` does not accept the set. */
EXPORTED void measure_sets(const int64_t *addresses, const int64_t *sizes, int64_t *cells, int64_t stride, int64_t columns,
                           int64_t most_messages, int64_t *set_cells, int64_t set_stride) {
    const struct messages messages = messages_of(cells, stride, columns);
    const struct message_sets sets = message_sets_of(set_cells, set_stride, columns);
    for (int64_t number = 0; number < columns; number++) {
        sets.count[number] = sizes[number] >= 0 ? 1 : -1;
        sets.base_offset[number] = 0;
        if (sizes[number] < 0 || (messages.attributes[number] & CODEC_MASK) == 0)
            continue;
        int64_t last = 0, offset = messages.offset[number];
        int64_t count = measure_set((const byte *)(intptr_t)addresses[number], sizes[number], most_messages, &last);
        if (messages.magic[number] == 1 && offset != 0) { /* old clients that meant absolute offsets wrote 0 */
            sets.base_offset[number] = offset - last;
            if (offset < last)
                count = -1;
        }
        sets.count[number] = count != 0 ? count : -1;
    }
}

/* Append the messages of a set for which `measure_sets` returned a number; return false, and append none, if fields
 * of a message reach beyond it. */
INLINE bool decode_set(const byte *cursor, int64_t count, int64_t base, int64_t append_time, bool appended, int64_t low,
                       int64_t high, const struct arrow_buffers *buffers, struct filled *filled) {
    struct filled to = *filled;
    for (int64_t number = 0; number < count; number++) {
        const byte *behind = cursor + LOG_OVERHEAD_SIZE + big32(cursor + MESSAGE_V0_SIZE_AT);
        const int64_t magic = big8(cursor + MESSAGE_V0_MAGIC_AT);
        struct content content;
        if (!read_content(cursor, behind, magic, &content))
            return false;
        const int64_t offset = base + big64(cursor + MESSAGE_V0_OFFSET_AT);
        if (low <= offset && offset < high) {
            if (buffers->key != NULL) {
                to.key = put_field(to.rows, content.key_size, content.key, buffers->key_ends, buffers->key_valid,
                                   buffers->key, to.key);
                to.key_nulls += content.key_size < 0;
            }
            if (buffers->value != NULL) {
                to.value = put_field(to.rows, content.value_size, content.value, buffers->value_ends, buffers->value_valid,
                                     buffers->value, to.value);
                to.value_nulls += content.value_size < 0;
            }
            if (buffers->offset != NULL)
                store64(buffers->offset + 8 * to.rows, (uint64_t)offset);
            if (buffers->timestamp != NULL) {
                const int64_t moment =
                    magic != 1 ? NO_TIMESTAMP : appended ? append_time : big64(cursor + MESSAGE_V1_TIMESTAMP_AT);
                const bool absurd = moment > LARGEST_MS || moment < -LARGEST_MS;
                store64(buffers->timestamp + 8 * to.rows, (uint64_t)(moment * MICROSECONDS));
                buffers->timestamp_valid[to.rows] = !absurd;
                to.timestamp_nulls += absurd;
            }
            to.rows++;
        }
        cursor = behind;
    }
    *filled = to;
    return true;
}

/* Append the messages of entries to the buffers, which have room; return the number of entries before the first damaged
 * one.
 *
 * `addresses` and both tables are the same as in `measure_sets`, and no number of messages may be -1. Only offsets
 * from `lows` (one for each entry) up to, not including, `high` are appended. The number of rows of each entry is
 * written to `rows`. */
EXPORTED int64_t decode_sets(const int64_t *addresses, int64_t *cells, int64_t stride, int64_t columns, int64_t *set_cells,
                             int64_t set_stride, const int64_t *lows, int64_t high, const struct arrow_buffers *buffers,
                             struct filled *filled, int64_t *rows) {
    const struct messages messages = messages_of(cells, stride, columns);
    const struct message_sets sets = message_sets_of(set_cells, set_stride, columns);
    for (int64_t number = 0; number < columns; number++) {
        const int64_t before = filled->rows;
        /* the type of the wrapper counts, and magic 0 has none */
        const bool appended = messages.magic[number] == 1 && (messages.attributes[number] & TIMESTAMP_TYPE_FLAG) != 0;
        if (!decode_set((const byte *)(intptr_t)addresses[number], sets.count[number], sets.base_offset[number],
                        messages.timestamp[number], appended, lows[number], high, buffers, filled))
            return number;
        rows[number] = filled->rows - before;
    }
    return columns;
}
