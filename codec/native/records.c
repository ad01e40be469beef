/* Decoding of the record bytes of v2 batches to Arrow's buffers, in one pass over many batches.
 *
 * It is written for exactly the declared record (see `record_shape`); each wanted field is copied directly to
 * Arrow's buffer. It stops before the first damaged record, for which the readable Python code then reports the
 * fault. */
#include "kafkalog.h"

#define LARGEST_MS (INT64_MAX / MICROSECONDS)
#define AHEAD 32          /* bytes that are there, whatever a record is: several numbers are read without a check, and
                             bytes are copied that are not its own */
#define MOST_DELTA (1 << 28) /* what a number of four bytes holds, at most */
#define NULL_SIZE 1       /* the size of null, as it is stored */
#define VIEW 16           /* bytes of a view, */
#define IN_VIEW 12        /* and those of them that a short field takes */
#define SOME 4            /* records from which on it is worth it to ask whether they are as usual */
#define OTHERS 64         /* records that are taken one by one if the first is not as usual: it is seldom alone */

/* Copy at least `size` bytes, and at most 31 more. */
INLINE void copy_whole(byte *target, const byte *source, int64_t size) {
    if (size <= 16) {
        memcpy(target, source, 16);
        return;
    }
    for (int64_t done = 0; done < size; done += 32)
        memcpy(target + done, source + done, 32);
}

/* Set all fields of `rows` rows, from `row` on, to not null; after that only nulls are written. */
INLINE void all_valid(int64_t row, int64_t rows, const struct arrow_buffers *buffers) {
    byte *const columns[] = {buffers->timestamp_valid, buffers->key_valid, buffers->value_valid};
    for (int each = 0; each < 3; each++)
        if (columns[each] != NULL && rows > 0)
            memset(columns[each] + row, 1, (size_t)rows);
}

/* `increment_sequence` in Java's 32-bit arithmetic. */
INLINE int32_t sequence(int64_t base, int64_t delta) {
    if (base < 0)
        return -1;
    const int32_t first = (int32_t)base, by = (int32_t)delta, largest = (int32_t)MAX_SEQUENCE;
    if (first <= (int32_t)(largest - by))
        return first + by;
    return by - (largest - first) - 1;
}

/* Return the address after `count` headers, or NULL if one is damaged. */
const byte *skip_headers(const byte *cursor, const byte *end, int64_t count) {
    for (int64_t number = 0; number < count; number++) {
        int64_t size;
        if (read_string(&cursor, end, &size) != SOUND)
            return NULL;
        cursor += size;
        if (read_bytes(&cursor, end, &size) != SOUND)
            return NULL;
        cursor += most(size, 0);
    }
    return cursor;
}

/* Append headers to those that are there; return the address after them. NULL if one is damaged; some may have been
 * appended then. */
static const byte *decode_headers(const byte *cursor, const byte *end, int64_t count, const struct arrow_buffers *buffers,
                                  struct filled *filled) {
    for (int64_t number = 0; number < count; number++) {
        int64_t size;
        if (read_string(&cursor, end, &size) != SOUND)
            return NULL;
        copy(buffers->header_key + filled->header_key, cursor, size);
        cursor += size;
        filled->header_key += size;
        if (read_bytes(&cursor, end, &size) != SOUND)
            return NULL;
        buffers->header_value_valid[filled->headers] = size >= 0;
        if (size >= 0) {
            copy(buffers->header_value + filled->header_value, cursor, size);
            cursor += size;
            filled->header_value += size;
        } else {
            filled->header_value_nulls++;
        }
        filled->headers++;
        store32(buffers->header_key_ends + 4 * filled->headers, (uint32_t)filled->header_key);
        store32(buffers->header_value_ends + 4 * filled->headers, (uint32_t)filled->header_value);
    }
    return cursor;
}

/* Drop the headers of rows from `row` on, as if there were none. */
static void forget_headers(int64_t row, const struct arrow_buffers *buffers, struct filled *filled) {
    const int64_t headers = load32(buffers->header_ends + 4 * row);
    for (int64_t header = headers; header < filled->headers; header++)
        filled->header_value_nulls -= buffers->header_value_valid[header] == 0;
    filled->headers = headers;
    filled->header_key = load32(buffers->header_key_ends + 4 * headers);
    filled->header_value = load32(buffers->header_value_ends + 4 * headers);
}

/* --- records as usual: no headers, and no number of more than four bytes ------------------------------------------- */

/* Read a zig-zag integer as it is stored, of at most four bytes; return false if it has more. Four bytes must be
 * readable. */
INLINE bool short_varint(const byte **cursor, int64_t *value) {
    const uint32_t word = load32(*cursor);
    uint32_t found = word & 0x7F;
    int size = 1;
    if (word & 0x80) {
        found |= word >> 1 & 0x3F80, size = 2;
        if (word & 0x8000) {
            found |= word >> 2 & 0x1FC000, size = 3;
            if (word & 0x800000) {
                found |= word >> 3 & 0xFE00000, size = 4;
                if (word & 0x80000000)
                    return false;
            }
        }
    }
    *value = found;
    *cursor += size;
    return true;
}

/* A usual record: its end, its numbers as they are stored, and the places of key and value. */
struct usual {
    const byte *stop, *key, *value;
    int64_t timestamp, offset, key_size, value_size;
};

/* Whether the record at `cursor` is usual. After `limit` there are AHEAD bytes, so that several numbers can be read
 * without comparing each with the end of the record; the end is checked once. */
INLINE bool read_usual(const byte *cursor, const byte *limit, struct usual *record) {
    int64_t length;
    if (!short_varint(&cursor, &length) || (length & 1) != 0 || (length >> 1) > limit - cursor)
        return false;
    const byte *stop = cursor + (length >> 1);
    cursor++; /* attributes */
    if (!short_varint(&cursor, &record->timestamp))
        return false;
    if (!short_varint(&cursor, &record->offset) || (record->offset & 1) != 0)
        return false;
    if (!short_varint(&cursor, &record->key_size))
        return false;
    record->key = cursor;
    cursor += record->key_size >> 1;
    if (cursor >= stop || ((record->key_size & 1) != 0 && record->key_size != NULL_SIZE))
        return false;
    if (!short_varint(&cursor, &record->value_size))
        return false;
    record->value = cursor;
    if (stop[-1] != 0 || cursor + (record->value_size >> 1) + 1 != stop)
        return false;
    record->stop = stop;
    return (record->value_size & 1) == 0 || record->value_size == NULL_SIZE;
}

/* Masks of the bytes that belong to a field of a given size: among its first four bytes, and among the next eight. */
#define BYTES(count) ((count) <= 0 ? 0 : UINT64_MAX >> (8 * (8 - ((count) > 0 && (count) < 8 ? (count) : 8))))
static const uint64_t FIRST_FOUR[IN_VIEW + 1] = {
    BYTES(0), BYTES(1), BYTES(2), BYTES(3), BYTES(4), BYTES(4), BYTES(4),
    BYTES(4), BYTES(4), BYTES(4), BYTES(4), BYTES(4), BYTES(4)};
static const uint64_t OTHER_EIGHT[IN_VIEW + 1] = {0, 0, 0, 0, 0, BYTES(1), BYTES(2), BYTES(3), BYTES(4),
                                                  BYTES(5), BYTES(6), BYTES(7), BYTES(8)};

/* Append a field that is not null as a view; return whether the view points to the field. 12 bytes from `source` on
 * must be readable. */
INLINE bool put_short_view(byte *view, const byte *source, int64_t size, const byte *viewed, int64_t number) {
    if (size > IN_VIEW) {
        store64(view, (uint64_t)size | (uint64_t)load32(source) << 32);
        store64(view + 8, (uint64_t)number | (uint64_t)(source - viewed) << 32);
        return true;
    }
    store64(view, (uint64_t)size | (load32(source) & FIRST_FOUR[size]) << 32);
    store64(view + 8, load64(source + 4) & OTHER_EIGHT[size]);
    return false;
}

/* The buffers of a column of keys or values, and its counters. */
struct field_column {
    byte *ends, *valid, *data, *views;
    const byte *viewed;
    int64_t viewed_number, used, nulls, in_views;
};

/* Append a field of a usual record; its `size` is as stored. */
INLINE void put_usual(struct field_column *column, int64_t row, int64_t size, const byte *source) {
    if (column->data != NULL) {
        copy_whole(column->data + column->used, source, size >> 1);
        column->used += size >> 1;
        store32(column->ends + 4 * row + 4, (uint32_t)column->used);
    } else if (column->views != NULL) {
        column->in_views += put_short_view(column->views + VIEW * row, source, size >> 1, column->viewed, column->viewed_number);
    }
    if (size == NULL_SIZE) {
        column->nulls++;
        if (column->valid != NULL)
            column->valid[row] = 0;
    }
}

/* Append records as `decode_run` does, up to the first one that is not usual, or near `latest`; return their number. */
INLINE int64_t decode_usual(const byte **first, const byte *latest, int64_t most_records, const struct batches *batches,
                            int64_t number, int64_t low, int64_t high, const struct arrow_buffers *buffers,
                            struct filled *filled) {
    const int64_t base_offset = batches->base_offset[number], base_sequence = batches->base_sequence[number];
    const bool appended = (batches->attributes[number] & TIMESTAMP_TYPE_FLAG) != 0;
    const int64_t base_timestamp = appended ? batches->max_timestamp[number] : batches->base_timestamp[number];
    const int64_t mask = appended ? 0 : -1;
    const bool moments_fit = MOST_DELTA - LARGEST_MS < base_timestamp && base_timestamp < LARGEST_MS - MOST_DELTA;
    if (latest - *first < AHEAD || low >= high || !moments_fit)
        return 0;
    const byte *limit = latest - AHEAD;
    byte *const offsets = buffers->offset, *const sequences = buffers->sequence, *const timestamps = buffers->timestamp;
    byte *const header_ends = buffers->header_ends;
    struct field_column keys = {buffers->key_ends, buffers->key_valid, buffers->key, buffers->key_views, buffers->viewed,
                                buffers->viewed_number, filled->key, 0, 0};
    struct field_column values = {buffers->value_ends, buffers->value_valid, buffers->value, buffers->value_views,
                                  buffers->viewed, buffers->viewed_number, filled->value, 0, 0};
    const int64_t headers_filled = filled->headers, lowest = low - base_offset;
    const uint64_t span = (uint64_t)(high - low);
    const byte *behind = *first;
    int64_t row = filled->rows;
    const int64_t last = row + most_records;
    while (row < last) {
        struct usual record;
        if (UNLIKELY(!read_usual(behind, limit, &record)))
            break;
        const int64_t delta = record.offset >> 1;
        if (UNLIKELY((uint64_t)(delta - lowest) >= span))
            break;
        put_usual(&keys, row, record.key_size, record.key);
        put_usual(&values, row, record.value_size, record.value);
        if (header_ends != NULL)
            store32(header_ends + 4 * row + 4, (uint32_t)headers_filled);
        if (offsets != NULL)
            store64(offsets + 8 * row, (uint64_t)(base_offset + delta));
        if (sequences != NULL)
            store32(sequences + 4 * row, (uint32_t)sequence(base_sequence, delta));
        if (timestamps != NULL)
            store64(timestamps + 8 * row,
                    (uint64_t)((base_timestamp + (zigzag((uint64_t)record.timestamp) & mask)) * MICROSECONDS));
        row++;
        behind = record.stop;
    }
    const int64_t done = row - filled->rows;
    filled->rows = row, filled->key = keys.used, filled->value = values.used;
    filled->key_nulls += keys.nulls, filled->value_nulls += values.nulls;
    filled->key_viewed += keys.in_views, filled->value_viewed += values.in_views;
    *first = behind;
    return done;
}

/* --- any records --------------------------------------------------------------------------------------------------- */

/* Append a field (null if its size is negative) to a column of views; return whether the view points to the field. */
INLINE bool put_view(int64_t row, int64_t size, const byte *source, byte *views, byte *valid, const byte *viewed,
                     int64_t number) {
    byte *view = views + VIEW * row;
    valid[row] = size >= 0;
    if (size > IN_VIEW) {
        store32(view, (uint32_t)size);
        memcpy(view + 4, source, 4);
        store32(view + 8, (uint32_t)number);
        store32(view + 12, (uint32_t)(source - viewed));
        return true;
    }
    store64(view, (uint64_t)most(size, 0));
    store64(view + 8, 0);
    copy(view + 4, source, most(size, 0));
    return false;
}

/* Append records of any kind as `decode_run` does; return their number. */
static int64_t decode_any(const byte **first, const byte *end, const byte *latest, int64_t most_records,
                          const struct batches *batches, int64_t number, int64_t low, int64_t high, int64_t largest,
                          const struct arrow_buffers *buffers, struct filled *filled) {
    const int64_t base_offset = batches->base_offset[number], base_timestamp = batches->base_timestamp[number];
    const int64_t append_time = batches->max_timestamp[number], base_sequence = batches->base_sequence[number];
    const bool appended = (batches->attributes[number] & TIMESTAMP_TYPE_FLAG) != 0;
    const byte *behind = *first;
    int64_t row = filled->rows, key_bytes = filled->key, value_bytes = filled->value, done = 0;
    for (; done < most_records; done++) {
        const byte *cursor = behind;
        int64_t length, timestamp_delta, offset_delta, key_size, value_size, count;
        if (read_varint(&cursor, end, &length) != SOUND || length < 1 || length > latest - cursor)
            break;
        const byte *stop = cursor + length; /* at most `latest`: everything below is compared with it */
        cursor++; /* attributes */
        if (read_varlong(&cursor, stop, &timestamp_delta) != SOUND || read_varint(&cursor, stop, &offset_delta) != SOUND)
            break;

        if (read_bytes(&cursor, stop, &key_size) != SOUND)
            break;
        int64_t key_end = key_bytes, value_end = value_bytes;
        bool key_viewed = false, value_viewed = false;
        if (buffers->key != NULL)
            key_end = put_field(row, key_size, cursor, buffers->key_ends, buffers->key_valid, buffers->key, key_bytes);
        else if (buffers->key_views != NULL)
            key_viewed = put_view(row, key_size, cursor, buffers->key_views, buffers->key_valid, buffers->viewed,
                                  buffers->viewed_number);
        cursor += most(key_size, 0);

        if (read_bytes(&cursor, stop, &value_size) != SOUND)
            break;
        if (buffers->value != NULL)
            value_end =
                put_field(row, value_size, cursor, buffers->value_ends, buffers->value_valid, buffers->value, value_bytes);
        else if (buffers->value_views != NULL)
            value_viewed = put_view(row, value_size, cursor, buffers->value_views, buffers->value_valid, buffers->viewed,
                                    buffers->viewed_number);
        cursor += most(value_size, 0);

        if (read_varint(&cursor, stop, &count) != SOUND || count < 0)
            break;
        const int64_t offset = base_offset + offset_delta;
        const bool wanted = low <= offset && offset < high; /* the next record is written over one that is not */
        if (count > 0) {
            if (count > (stop - cursor) / SMALLEST_HEADER || count > largest)
                break;
            if (buffers->header_ends != NULL) {
                cursor = decode_headers(cursor, stop, count, buffers, filled);
                if (cursor != stop || !wanted)
                    forget_headers(row, buffers, filled);
            } else {
                cursor = skip_headers(cursor, stop, count);
            }
        }
        if (cursor != stop)
            break;
        if (wanted) {
            key_bytes = key_end, value_bytes = value_end;
            filled->key_nulls += key_size < 0, filled->value_nulls += value_size < 0;
            filled->key_viewed += key_viewed, filled->value_viewed += value_viewed;
            if (buffers->header_ends != NULL)
                store32(buffers->header_ends + 4 * row + 4, (uint32_t)filled->headers);
            if (buffers->offset != NULL)
                store64(buffers->offset + 8 * row, (uint64_t)offset);
            if (buffers->sequence != NULL)
                store32(buffers->sequence + 4 * row, (uint32_t)sequence(base_sequence, offset_delta));
            if (buffers->timestamp != NULL) {
                const int64_t moment = appended ? append_time : base_timestamp + timestamp_delta;
                const bool absurd = moment > LARGEST_MS || moment < -LARGEST_MS;
                store64(buffers->timestamp + 8 * row, (uint64_t)(moment * MICROSECONDS));
                buffers->timestamp_valid[row] = !absurd;
                filled->timestamp_nulls += absurd;
            }
            row++;
        } else {
            all_valid(row, 1, buffers);
        }
        behind = stop;
    }
    filled->rows = row, filled->key = key_bytes, filled->value = value_bytes;
    *first = behind;
    return done;
}

/* Append at most `most_records` records from `first` on; return their number, and write the address after them to
 * `*behind`.
 *
 * They belong to batch `number`, whose record bytes end at `end`. Only offsets from `low` up to, not including,
 * `high` are appended; the other records are read and left out. A record with more than `largest` headers counts as
 * damage. It stops before a record that ends more than `most_bytes` after `first`, and before a damaged one. The
 * buffers must have room for everything that the bytes can contain. Surplus bytes that are copied are always bytes
 * of the source, of which AHEAD are left. */
int64_t decode_run(const byte *first, const byte *end, int64_t most_records, int64_t most_bytes,
                   const struct batches *batches, int64_t number, int64_t low, int64_t high, int64_t largest,
                   const struct arrow_buffers *buffers, struct filled *filled, const byte **behind) {
    const byte *latest = end - first < most_bytes ? end : first + most_bytes;
    all_valid(filled->rows, least(most_records, (latest - first) / SMALLEST_RECORD + 1), buffers);
    int64_t done = 0;
    while (done < most_records) {
        int64_t usual = 0;
        if (most_records - done >= SOME) {
            usual = decode_usual(&first, latest, most_records - done, batches, number, low, high, buffers, filled);
            done += usual;
        }
        const int64_t others = least(most_records - done, usual == 0 ? OTHERS : 1);
        if (others > 0) {
            const int64_t taken =
                decode_any(&first, end, latest, others, batches, number, low, high, largest, buffers, filled);
            done += taken;
            if (taken < others)
                break;
        }
    }
    *behind = first;
    return done;
}

/* --- what Python calls --------------------------------------------------------------------------------------------- */

/* `decode_run`; the number of bytes that the records took is written to `*behind`. */
EXPORTED int64_t decode_records(const byte *first, int64_t size, int64_t most_records, int64_t most_bytes, int64_t *cells,
                                int64_t stride, int64_t columns, int64_t number, int64_t low, int64_t high, int64_t largest,
                                const struct arrow_buffers *buffers, struct filled *filled, int64_t *behind) {
    const struct batches batches = batches_of(cells, stride, columns);
    const byte *end;
    const int64_t done = decode_run(first, first + size, most_records, most_bytes, &batches, number, low, high, largest,
                                    buffers, filled, &end);
    *behind = end - first;
    return done;
}

/* Write the largest timestamp (ms) of the records of `count` batches, without keeping the records: base timestamp plus
 * delta, also with LogAppendTime. Return the number of batches before the first damaged one. `addresses` and `sizes` are the addresses and sizes of the record bytes.
 * The table has the batches from number `start` on. A record with more than `largest` headers counts as damage. A
 * batch without records gets INT64_MIN. */
EXPORTED int64_t newest_timestamps(const int64_t *addresses, const int64_t *sizes, int64_t count, int64_t *cells,
                                   int64_t stride, int64_t columns, int64_t start, int64_t largest, int64_t *newest) {
    const struct batches batches = batches_of(cells, stride, columns);
    for (int64_t number = 0; number < count; number++) {
        const byte *cursor = (const byte *)(intptr_t)addresses[number], *const end = cursor + sizes[number];
        const int64_t records = batches.records_count[start + number], base = batches.base_timestamp[start + number];
        newest[number] = INT64_MIN;
        for (int64_t record = 0; record < records; record++) {
            int64_t length, timestamp_delta, offset_delta, size, headers;
            if (read_varint(&cursor, end, &length) != SOUND || length < 1 || length > end - cursor)
                return number;
            const byte *const stop = cursor + length;
            cursor++; /* attributes */
            if (read_varlong(&cursor, stop, &timestamp_delta) != SOUND || read_varint(&cursor, stop, &offset_delta) != SOUND)
                return number;
            for (int field = 0; field < 2; field++) { /* key and value */
                if (read_bytes(&cursor, stop, &size) != SOUND)
                    return number;
                cursor += most(size, 0);
            }
            if (read_varint(&cursor, stop, &headers) != SOUND || headers < 0)
                return number;
            if (headers > 0) {
                if (headers > (stop - cursor) / SMALLEST_HEADER || headers > largest)
                    return number;
                cursor = skip_headers(cursor, stop, headers);
            }
            if (cursor != stop)
                return number;
            newest[number] = most(newest[number], base + timestamp_delta);
        }
        if (cursor != end)
            return number;
    }
    return count;
}

/* Append the records of `count` batches; return the number of batches before the first damaged one, of which no record
 * remains.
 *
 * `addresses` and `sizes` are the addresses and sizes of the record bytes; the table has the batches from number
 * `start` on. Only offsets from `lows` (one for each batch) up to, not including, `high` are appended. The number of
 * rows of each batch is written to `rows`. */
EXPORTED int64_t decode_batches(const int64_t *addresses, const int64_t *sizes, int64_t count, int64_t *cells, int64_t stride,
                                int64_t columns, int64_t start, const int64_t *lows, int64_t high, int64_t largest,
                                const struct arrow_buffers *buffers, struct filled *filled, int64_t *rows) {
    const struct batches batches = batches_of(cells, stride, columns);
    for (int64_t number = 0; number < count; number++) {
        const struct filled before = *filled;
        const byte *first = (const byte *)(intptr_t)addresses[number], *behind;
        const int64_t size = sizes[number], records = batches.records_count[start + number];
        const int64_t done = decode_run(first, first + size, records, size, &batches, start + number, lows[number], high,
                                        largest, buffers, filled, &behind);
        if (done < records || behind != first + size) {
            *filled = before;
            return number;
        }
        rows[number] = filled->rows - before.rows;
    }
    return count;
}

/* Whether the buffers have room for a batch whatever its bytes contain. */
INLINE bool fits(int64_t records, int64_t record_bytes, const struct filled *filled, const struct filled *capacity) {
    return filled->rows + records <= capacity->rows &&
           filled->headers + record_bytes / SMALLEST_HEADER <= capacity->headers &&
           filled->key + record_bytes <= capacity->key && filled->value + record_bytes <= capacity->value &&
           filled->header_key + record_bytes <= capacity->header_key &&
           filled->header_value + record_bytes <= capacity->header_value;
}

/* Further results of `decode_window`: bytes of the batches, the offset after them, their record bytes, and the
 * reason for stopping: the record bytes of the next batch if there is no room for it, MEMORY_IS_FULL, or else 0. */
struct window_end {
    int64_t position, low, total, lacking;
};

/* Append the records of the batches in `size` bytes at an address: each batch is checked and decoded while it is in the
 * processor's cache. Return the number of batches.
 *
 * Only batches that are sound and in order are decoded (`largest` and the table as in `scan_batches`, `expected`,
 * `highest`, `end`, `flags` and `epoch` as in `consecutive_batches`); it stops before any other. If there is no room for
 * the next batch, its header is in the column after those of the decoded batches. No batch may have more than
 * `most_records` records, no record more than `most_headers` headers, and all record bytes together no more than
 * `most_bytes`. If `viewed` names memory of `decompressor`, each batch is decompressed after the one before.
 * `capacity` bounds the counters; the number of rows of each batch is written to `rows`. */
EXPORTED int64_t decode_window(const byte *address, int64_t size, int64_t largest, int64_t *cells, int64_t stride,
                               int64_t columns, int64_t expected, int64_t highest, int64_t end, int64_t flags,
                               int64_t epoch, int64_t most_records, int64_t most_headers, int64_t most_bytes,
                               struct decompressor *decompressor, struct viewed *viewed, const struct filled *capacity,
                               struct arrow_buffers *buffers, struct filled *filled, int64_t *rows, struct window_end *to) {
    const struct batches batches = batches_of(cells, stride, columns);
    const bool has_views = viewed->window != NULL;
    int64_t position = 0, count = 0, total = 0, low = expected, lacking = 0;
    while (count < columns) {
        const byte *here = address + position;
        const int64_t whole = batch_size(here, size - position, largest, true);
        if (whole == 0)
            break;
        read_header(here, position, &batches, count);
        int64_t following = -1;
        if (batches.base_offset[count] != low && size - position - whole >= 8)
            following = big64(here + whole);
        if (!is_next(&batches, count, following, low, highest, end, flags, epoch))
            break;
        const byte *first = here + BATCH_SIZE, *behind;
        int64_t record_bytes = whole - BATCH_SIZE;
        const int64_t codec = batches.attributes[count] & CODEC_MASK, records = batches.records_count[count];
        if (codec != CODEC_NONE) {
            if (decompressor->memory == NULL) {
                lacking = MEMORY_IS_FULL;
                break;
            }
            const int64_t room = decompressor->memory_bytes;
            record_bytes = decompress_one(codec, first, record_bytes, decompressor->memory, room, room, decompressor);
            first = decompressor->memory;
            if (record_bytes < 0 && has_views && first != viewed->memory) {
                lacking = MEMORY_IS_FULL;
                break;
            }
        }
        if (record_bytes < 0 || records < 0 || records > most_records || records > record_bytes / SMALLEST_RECORD)
            break;
        if (total + record_bytes > most_bytes || !fits(records, record_bytes, filled, capacity)) {
            lacking = record_bytes;
            break;
        }
        if (has_views) {
            buffers->viewed = codec == CODEC_NONE ? viewed->window : viewed->memory;
            buffers->viewed_number = codec == CODEC_NONE ? viewed->window_number : viewed->memory_number;
        }
        const struct filled before = *filled;
        const int64_t done = decode_run(first, first + record_bytes, records, record_bytes, &batches, count, low, end,
                                        most_headers, buffers, filled, &behind);
        if (done < records || behind != first + record_bytes) {
            *filled = before;
            break;
        }
        if (has_views) {
            if (codec == CODEC_NONE) {
                viewed->of_window++;
            } else {
                viewed->of_memory++;
                decompressor->memory += record_bytes;
                decompressor->memory_bytes -= record_bytes;
            }
        }
        rows[count] = filled->rows - before.rows;
        total += record_bytes;
        low = batches.base_offset[count] + batches.last_offset_delta[count] + 1;
        epoch = batches.partition_leader_epoch[count];
        position += whole;
        count++;
    }
    *to = (struct window_end){position, low, total, lacking};
    return count;
}
