/* The work of compaction on every record: the latest offset of each key, the choice of records to keep, and their
 * bytes.
 *
 * The map of keys is the memory of `log.storage.cleaning.offset_map`: slots of an MD5 digest and an offset. Batches
 * are processed from the first one on. Processing stops before a damaged batch, and before one that cannot be
 * rewritten. */
#include "kafkalog.h"

#define SLOT 24      /* bytes of a slot of the map, */
#define OFFSET_AT 16 /* and where the offset is in it */

/* --- MD5 (RFC 1321) ------------------------------------------------------------------------------------------------ */

#define BLOCK 64
#define SIZE_AT 56 /* where the last block has the size of all */

/* abs(sin(step + 1)) * 2**32 */
static const uint32_t SINES[BLOCK] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

struct md5 {
    uint32_t a, b, c, d;
};

INLINE uint32_t md5_step(uint32_t mixed, uint32_t a, uint32_t b, const byte *word, int number, int bits) {
    const uint32_t total = a + mixed + load32(word) + SINES[number];
    return b + (total << bits | total >> (32 - bits));
}

static struct md5 md5_block(struct md5 before, const byte *block) {
    uint32_t a = before.a, b = before.b, c = before.c, d = before.d;
    for (int i = 0; i < 16; i += 4) {
        a = md5_step((b & c) | (~b & d), a, b, block + 4 * i, i, 7);
        d = md5_step((a & b) | (~a & c), d, a, block + 4 * i + 4, i + 1, 12);
        c = md5_step((d & a) | (~d & b), c, d, block + 4 * i + 8, i + 2, 17);
        b = md5_step((c & d) | (~c & a), b, c, block + 4 * i + 12, i + 3, 22);
    }
    for (int i = 16; i < 32; i += 4) {
        a = md5_step((d & b) | (~d & c), a, b, block + 4 * ((5 * i + 1) & 15), i, 5);
        d = md5_step((c & a) | (~c & b), d, a, block + 4 * ((5 * i + 6) & 15), i + 1, 9);
        c = md5_step((b & d) | (~b & a), c, d, block + 4 * ((5 * i + 11) & 15), i + 2, 14);
        b = md5_step((a & c) | (~a & d), b, c, block + 4 * ((5 * i + 16) & 15), i + 3, 20);
    }
    for (int i = 32; i < 48; i += 4) {
        a = md5_step(b ^ c ^ d, a, b, block + 4 * ((3 * i + 5) & 15), i, 4);
        d = md5_step(a ^ b ^ c, d, a, block + 4 * ((3 * i + 8) & 15), i + 1, 11);
        c = md5_step(d ^ a ^ b, c, d, block + 4 * ((3 * i + 11) & 15), i + 2, 16);
        b = md5_step(c ^ d ^ a, b, c, block + 4 * ((3 * i + 14) & 15), i + 3, 23);
    }
    for (int i = 48; i < 64; i += 4) {
        a = md5_step(c ^ (b | ~d), a, b, block + 4 * ((7 * i) & 15), i, 6);
        d = md5_step(b ^ (a | ~c), d, a, block + 4 * ((7 * i + 7) & 15), i + 1, 10);
        c = md5_step(a ^ (d | ~b), c, d, block + 4 * ((7 * i + 14) & 15), i + 2, 15);
        b = md5_step(d ^ (c | ~a), b, c, block + 4 * ((7 * i + 21) & 15), i + 3, 21);
    }
    return (struct md5){before.a + a, before.b + b, before.c + c, before.d + d};
}

/* A digest as two words, whose bytes in memory are those of the digest. */
struct digest {
    uint64_t first, second;
};

static struct digest digest_of(const byte *key, int64_t size) {
    struct md5 state = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476};
    int64_t done = 0;
    for (; size - done >= BLOCK; done += BLOCK)
        state = md5_block(state, key + done);
    const int64_t left = size - done, last = left < SIZE_AT ? 0 : BLOCK;
    byte padded[2 * BLOCK] = {0};
    copy(padded, key + done, left);
    padded[left] = 0x80;
    store64(padded + last + SIZE_AT, 8 * (uint64_t)size);
    for (int64_t block = 0; block <= last; block += BLOCK)
        state = md5_block(state, padded + block);
    return (struct digest){state.a | (uint64_t)state.b << 32, state.c | (uint64_t)state.d << 32};
}

/* --- the map ------------------------------------------------------------------------------------------------------- */

struct map {
    byte *slots;
    int64_t count;
};

INLINE bool is_empty(const byte *slot) { return (load64(slot) | load64(slot + 8) | load64(slot + OFFSET_AT)) == 0; }

/* The slot at which the search for a digest begins. */
INLINE byte *home(struct map map, uint64_t first) { return map.slots + SLOT * (int64_t)(first % (uint64_t)map.count); }

/* Return the slot of a digest, searched for from `slot` on, or the free slot for it; NULL if it is not in the map
 * and all slots are used. */
static byte *find(struct map map, uint64_t first, uint64_t second, byte *slot) {
    const byte *end = map.slots + SLOT * map.count;
    for (int64_t tried = 0; tried < map.count; tried++) {
        if ((load64(slot) == first && load64(slot + 8) == second) || is_empty(slot))
            return slot;
        slot += SLOT;
        if (slot == end)
            slot = map.slots;
    }
    return NULL;
}

/* Copy the entries of a map of `count` slots into an empty map with more slots. */
EXPORTED void move_keys(const byte *source, int64_t count, byte *table, int64_t slots) {
    const struct map map = {table, slots};
    for (const byte *old = source; old < source + SLOT * count; old += SLOT)
        if (!is_empty(old))
            copy(find(map, load64(old), load64(old + 8), home(map, load64(old))), old, SLOT);
}

/* --- records ------------------------------------------------------------------------------------------------------- */

struct record {
    const byte *key, *value, *headers;
    int64_t timestamp_delta, offset_delta, key_size, value_size, header_count;
};

/* Return the address after the record at `cursor`; NULL if it is damaged or has more than `largest` headers. */
INLINE const byte *read_record(const byte *cursor, const byte *end, int64_t largest, struct record *record) {
    int64_t length;
    if (read_varint(&cursor, end, &length) != SOUND || length < 1 || length > end - cursor)
        return NULL;
    const byte *stop = cursor + length;
    cursor++; /* attributes */
    if (read_varlong(&cursor, stop, &record->timestamp_delta) != SOUND)
        return NULL;
    if (read_varint(&cursor, stop, &record->offset_delta) != SOUND)
        return NULL;
    if (read_bytes(&cursor, stop, &record->key_size) != SOUND)
        return NULL;
    record->key = cursor;
    cursor += most(record->key_size, 0);
    if (read_bytes(&cursor, stop, &record->value_size) != SOUND)
        return NULL;
    record->value = cursor;
    cursor += most(record->value_size, 0);
    if (read_varint(&cursor, stop, &record->header_count) != SOUND || record->header_count < 0)
        return NULL;
    record->headers = cursor;
    if (record->header_count > 0) {
        if (record->header_count > (stop - cursor) / SMALLEST_HEADER || record->header_count > largest)
            return NULL;
        cursor = skip_headers(cursor, stop, record->header_count);
    }
    return cursor == stop ? stop : NULL;
}

/* What is noted about a record before the map is searched for its key. */
struct row {
    struct digest digest;
    int64_t offset;
    byte *slot; /* where its digest is looked for first; NULL: no key */
    int64_t is_delete;
};
_Static_assert(sizeof(struct row) == ROW_BYTES, "as `tables` says");

/* Note the records of batch `number`; return their number, or -1 if the batch is damaged, or has a record with an offset
 * outside of the batch.
 *
 * Its purpose is to prefetch the slots early: in a large map most are far from the processor. */
static int64_t note_rows(const byte *cursor, const byte *end, const struct batches *batches, int64_t number, int64_t largest,
                         struct map map, struct row *rows) {
    const int64_t count = batches->records_count[number];
    for (int64_t each = 0; each < count; each++) {
        struct record record;
        cursor = read_record(cursor, end, largest, &record);
        if (cursor == NULL || record.offset_delta < 0 || record.offset_delta > batches->last_offset_delta[number])
            return -1;
        struct row *row = rows + each;
        row->offset = batches->base_offset[number] + record.offset_delta;
        row->is_delete = record.value_size < 0;
        row->slot = NULL;
        if (record.key_size >= 0) {
            row->digest = digest_of(record.key, record.key_size);
            row->slot = home(map, row->digest.first);
            __builtin_prefetch(row->slot);
        }
    }
    return cursor == end ? count : -1;
}

/* Put the keys of batches into the map with their offsets, if these are at least `low`; return the number of batches
 * processed.
 *
 * `addresses` and `sizes` are the addresses and sizes of the record bytes; the table has the batches from number
 * `start` on. A record with more than `largest` headers counts as damage. `rows` has room for each record of the
 * largest batch. Processing also stops when the map is full, which is noted in `state`. */
EXPORTED int64_t put_keys(const int64_t *addresses, const int64_t *sizes, int64_t count, int64_t *cells, int64_t stride,
                          int64_t columns, int64_t start, int64_t low, int64_t largest, byte *table, int64_t slots,
                          struct row *rows, struct key_map *state) {
    const struct batches batches = batches_of(cells, stride, columns);
    const struct map map = {table, slots};
    state->last_put = -1;
    state->is_full = 0;
    for (int64_t number = 0; number < count; number++) {
        const byte *first = (const byte *)(intptr_t)addresses[number];
        const int64_t records = note_rows(first, first + sizes[number], &batches, start + number, largest, map, rows);
        if (records < 0)
            return number;
        int64_t last_put = -1;
        for (const struct row *row = rows; row < rows + records; row++) {
            if (row->slot == NULL || row->offset < low)
                continue;
            byte *slot = find(map, row->digest.first, row->digest.second, row->slot);
            if (slot == NULL || state->used >= state->limit) {
                state->last_put = last_put;
                state->is_full = 1;
                return number;
            }
            state->used += is_empty(slot);
            store64(slot, row->digest.first);
            store64(slot + 8, row->digest.second);
            store64(slot + OFFSET_AT, (uint64_t)row->offset);
            last_put = row->offset;
        }
    }
    return count;
}

/* Choose the records of batches to keep (`Cleaner.shouldRetainRecord`), and write a flag of one byte for each; return
 * the number of batches processed.
 *
 * Records above the offset `latest` are kept. `keeps_deletes` tells for each batch whether its tombstones are too
 * young to be removed; the table of `retained` has a column for each batch. The other arguments are the same as in
 * `put_keys`. */
EXPORTED int64_t choose_records(const int64_t *addresses, const int64_t *sizes, int64_t count, int64_t *cells, int64_t stride,
                                int64_t columns, int64_t start, int64_t latest, int64_t largest, byte *table, int64_t slots,
                                struct row *rows, const int64_t *keeps_deletes, byte *flags, int64_t *chosen_cells,
                                int64_t chosen_stride) {
    const struct batches batches = batches_of(cells, stride, columns);
    const struct retained chosen = retained_of(chosen_cells, chosen_stride, count);
    const struct map map = {table, slots};
    byte *flag = flags;
    for (int64_t number = 0; number < count; number++) {
        const byte *first = (const byte *)(intptr_t)addresses[number];
        const int64_t records = note_rows(first, first + sizes[number], &batches, start + number, largest, map, rows);
        if (records < 0)
            return number;
        int64_t kept = 0, deletes = 0, without_key = 0;
        chosen.first_flag[number] = (int64_t)(intptr_t)flag;
        for (const struct row *row = rows; row < rows + records; row++) {
            bool stays = true;
            if (row->offset <= latest && row->slot == NULL) {
                without_key++;
                stays = false;
            } else if (row->offset <= latest) {
                const byte *slot = find(map, row->digest.first, row->digest.second, row->slot);
                const bool is_old =
                    slot != NULL && !is_empty(slot) && row->offset < (int64_t)load64(slot + OFFSET_AT);
                stays = !is_old && !(row->is_delete && keeps_deletes[number] == 0);
            }
            *flag++ = stays;
            kept += stays;
            deletes += stays && row->is_delete;
        }
        chosen.kept[number] = kept;
        chosen.deletes[number] = deletes;
        chosen.without_key[number] = without_key;
    }
    return count;
}

INLINE int64_t field_size(int64_t size) { return varint_size(most(size, -1)) + most(size, 0); }

INLINE byte *put_sized(byte *at, const byte *source, int64_t size) {
    at = put_varint(at, most(size, -1));
    copy(at, source, most(size, 0));
    return at + most(size, 0);
}

/* Return the number of bytes that headers take when they are written; they must be sound. */
static int64_t headers_size(const byte *cursor, const byte *end, int64_t count) {
    int64_t total = 0, size = 0;
    for (int64_t number = 0; number < count; number++) {
        read_string(&cursor, end, &size);
        total += field_size(size);
        cursor += size;
        read_bytes(&cursor, end, &size);
        total += field_size(size);
        cursor += most(size, 0);
    }
    return total;
}

static byte *put_headers(byte *at, const byte *cursor, const byte *end, int64_t count) {
    int64_t size = 0;
    for (int64_t number = 0; number < count; number++) {
        read_string(&cursor, end, &size);
        at = put_sized(at, cursor, size);
        cursor += size;
        read_bytes(&cursor, end, &size);
        at = put_sized(at, cursor, size);
        cursor += most(size, 0);
    }
    return at;
}

/* Write the records to keep of some batches, at least one of each; return the number of batches processed.
 *
 * At `target` there is space for a header, then the records of the first batch, and so on. `numbers` are the numbers
 * of the batches among `addresses`. `horizons` are their delete horizons (negative for none), which replace the base
 * timestamp. Every number is written in as few bytes as possible. The target needs room for headers and records, and
 * for the bytes that another base timestamp adds to each record. */
EXPORTED int64_t kept_records(const int64_t *addresses, const int64_t *sizes, int64_t *cells, int64_t stride, int64_t columns,
                              int64_t start, const int64_t *numbers, const int64_t *horizons, int64_t count,
                              int64_t *chosen_cells, int64_t chosen_stride, byte *target, int64_t *written_cells,
                              int64_t written_stride) {
    const struct batches batches = batches_of(cells, stride, columns);
    const struct retained chosen = retained_of(chosen_cells, chosen_stride, columns);
    const struct kept written = kept_of(written_cells, written_stride, count);
    byte *at = target;
    for (int64_t which = 0; which < count; which++) {
        const int64_t number = numbers[which], column = start + number;
        const byte *cursor = (const byte *)(intptr_t)addresses[number], *end = cursor + sizes[number];
        const byte *flag = (const byte *)(intptr_t)chosen.first_flag[number];
        const bool appended = (batches.attributes[column] & TIMESTAMP_TYPE_FLAG) != 0;
        int64_t base = horizons[which], largest = NO_TIMESTAMP, before = -1;
        bool is_first = true;
        at += BATCH_SIZE;
        const byte *begin = at;
        for (int64_t each = 0; each < batches.records_count[column]; each++) {
            struct record record;
            const byte *behind = read_record(cursor, end, INT32_MAX, &record);
            if (behind == NULL)
                return which;
            cursor = behind;
            if (*flag++ == 0)
                continue;
            const int64_t timestamp =
                appended ? batches.max_timestamp[column] : batches.base_timestamp[column] + record.timestamp_delta;
            if (record.offset_delta <= before || timestamp < NO_TIMESTAMP)
                return which;
            before = record.offset_delta;
            if (is_first && base < 0)
                base = timestamp;
            largest = is_first ? timestamp : most(largest, timestamp);
            is_first = false;
            int64_t body = 1 + varint_size(timestamp - base) + varint_size(record.offset_delta);
            body += field_size(record.key_size) + field_size(record.value_size) + varint_size(record.header_count);
            body += headers_size(record.headers, behind, record.header_count);
            at = put_varint(at, body);
            *at++ = 0; /* attributes */
            at = put_varint(at, timestamp - base);
            at = put_varint(at, record.offset_delta);
            at = put_sized(at, record.key, record.key_size);
            at = put_sized(at, record.value, record.value_size);
            at = put_varint(at, record.header_count);
            at = put_headers(at, record.headers, behind, record.header_count);
        }
        written.start[which] = (int64_t)(intptr_t)begin;
        written.size[which] = at - begin;
        written.base_timestamp[which] = base;
        written.max_timestamp[which] = largest;
    }
    return count;
}

/* Copy pieces of memory to an address, one after another. */
EXPORTED void gather(const int64_t *addresses, const int64_t *sizes, int64_t count, byte *target) {
    for (int64_t number = 0; number < count; number++) {
        copy(target, (const byte *)(intptr_t)addresses[number], sizes[number]);
        target += sizes[number];
    }
}
