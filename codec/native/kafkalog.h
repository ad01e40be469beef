/* Declarations for all files here: loads and stores, the leaves of a layout, and the functions that Python calls.
 *
 * The code allocates no memory, keeps no state and accesses no byte outside its arguments. A function stops before
 * anything that it is not written for, without a judgment: the readable Python code decides what it is. Numbers wrap
 * as in Java (-fwrapv). Addresses are passed as 64-bit numbers, and tables as the address of the first cell, the
 * number of cells from row to row, and the number of columns (see layout.h). */
#ifndef KAFKALOG_H
#define KAFKALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "layout.h"

_Static_assert(sizeof(void *) == 8, "written for 64 bits");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "written for little-endian machines");

#define EXPORTED __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

typedef uint8_t byte;

INLINE int64_t least(int64_t first, int64_t second) { return first < second ? first : second; }
INLINE int64_t most(int64_t first, int64_t second) { return first > second ? first : second; }

/* Value of the bits that layout.h names. */
#define BITS_OF(number, name) (((number) & name) >> name##_SHIFT)

/* Whether batches of magic 2 may have this compression; `codec` is below 8. */
INLINE bool is_known_codec(int64_t codec) { return KNOWN_CODECS >> codec & 1; }

/* --- loads and stores at any address ---------------------------------------------------------------------------- */

INLINE uint16_t load16(const byte *at) { uint16_t value; memcpy(&value, at, 2); return value; }
INLINE uint32_t load32(const byte *at) { uint32_t value; memcpy(&value, at, 4); return value; }
INLINE uint64_t load64(const byte *at) { uint64_t value; memcpy(&value, at, 8); return value; }
INLINE int64_t big8(const byte *at) { return (int8_t)*at; }
INLINE int64_t big16(const byte *at) { return (int16_t)__builtin_bswap16(load16(at)); }
INLINE int64_t big32(const byte *at) { return (int32_t)__builtin_bswap32(load32(at)); }
INLINE int64_t big32u(const byte *at) { return __builtin_bswap32(load32(at)); }
INLINE int64_t big64(const byte *at) { return (int64_t)__builtin_bswap64(load64(at)); }
INLINE void store32(byte *at, uint32_t value) { memcpy(at, &value, 4); }
INLINE void store64(byte *at, uint64_t value) { memcpy(at, &value, 8); }

/* Move 32 bytes, which may overlap with their target: all are read before any is written. */
INLINE void move32(byte *target, const byte *source) {
    byte block[32];
    memcpy(block, source, 32);
    memcpy(target, block, 32);
}

/* Copy exactly `size` bytes, in the largest moves that fit; the last move may overlap the one before. */
INLINE void copy(byte *target, const byte *source, int64_t size) {
    if (size >= 32) {
        const int64_t last = size - 32;
        for (int64_t done = 0; done < last; done += 32)
            memcpy(target + done, source + done, 32);
        memcpy(target + last, source + last, 32);
    } else if (size >= 16) {
        memcpy(target, source, 16);
        memcpy(target + size - 16, source + size - 16, 16);
    } else if (size >= 8) {
        memcpy(target, source, 8);
        memcpy(target + size - 8, source + size - 8, 8);
    } else if (size >= 4) {
        memcpy(target, source, 4);
        memcpy(target + size - 4, source + size - 4, 4);
    } else {
        for (int64_t done = 0; done < size; done++)
            target[done] = source[done];
    }
}

/* --- leaves of a layout ----------------------------------------------------------------------------------------- */

/* The fault of a leaf; 0 if there is none. */
enum fault { SOUND, TRUNCATED, TOO_LONG, KEY_INVALID };

INLINE int64_t zigzag(uint64_t value) { return (int64_t)(value >> 1) ^ -(int64_t)(value & 1); }

/* Read an integer of 7 bits per byte, at most `largest` bytes below `end`; `*cursor` is moved past it. */
INLINE enum fault read_unsigned(const byte **cursor, const byte *end, int largest, uint64_t *value) {
    uint64_t found = 0;
    const byte *at = *cursor;
    for (int number = 0; at < end; number++) {
        const uint64_t here = *at++;
        found |= (here & 0x7F) << (7 * number);
        if (here < 0x80) {
            *cursor = at, *value = found;
            return SOUND;
        }
        if (number + 1 == largest)
            return TOO_LONG;
    }
    return TRUNCATED;
}

/* Read a VARINT, zig-zag of 32 bits, which mostly has one or two bytes. */
INLINE enum fault read_varint(const byte **cursor, const byte *end, int64_t *value) {
    const byte *at = *cursor;
    if (LIKELY(at < end)) {
        const uint64_t first = at[0];
        if (first < 0x80) {
            *cursor = at + 1, *value = zigzag(first);
            return SOUND;
        }
        if (at + 1 < end && at[1] < 0x80) {
            *cursor = at + 2, *value = zigzag((first & 0x7F) | (uint64_t)at[1] << 7);
            return SOUND;
        }
    }
    uint64_t found = 0;
    const enum fault fault = read_unsigned(cursor, end, 5, &found);
    *value = zigzag(found & 0xFFFFFFFF);
    return fault;
}

/* Read a VARLONG, zig-zag of 64 bits. */
INLINE enum fault read_varlong(const byte **cursor, const byte *end, int64_t *value) {
    uint64_t found = 0;
    const enum fault fault = read_unsigned(cursor, end, 10, &found);
    *value = zigzag(found);
    return fault;
}

/* Read the length of BYTES, -1 for null; `*cursor` is then at their first byte, and all of them are below `end`. */
INLINE enum fault read_bytes(const byte **cursor, const byte *end, int64_t *size) {
    const enum fault fault = read_varint(cursor, end, size);
    if (fault != SOUND)
        return fault;
    if (*size < 0)
        *size = -1;
    return *size > end - *cursor ? TRUNCATED : SOUND;
}

/* Read the length of a STRING, which is never null; otherwise as `read_bytes`. */
INLINE enum fault read_string(const byte **cursor, const byte *end, int64_t *size) {
    const enum fault fault = read_bytes(cursor, end, size);
    return fault == SOUND && *size < 0 ? KEY_INVALID : fault;
}

INLINE uint64_t zigzagged(int64_t value) { return (uint64_t)value << 1 ^ (uint64_t)(value >> 63); }

/* Return the number of bytes of a number as a zig-zag integer. */
INLINE int64_t varint_size(int64_t value) {
    int64_t size = 1;
    for (uint64_t left = zigzagged(value); left >= 0x80; left >>= 7)
        size++;
    return size;
}

/* Write a number as a zig-zag integer, at most 10 bytes; return the address after it. */
INLINE byte *put_varint(byte *at, int64_t value) {
    uint64_t left = zigzagged(value);
    for (; left >= 0x80; left >>= 7)
        *at++ = (byte)((left & 0x7F) | 0x80);
    *at = (byte)left;
    return at + 1;
}

/* Append a field (null if its size is negative) to an Arrow column; return the end of its data then. `ends` begins
 * with the end of the row before, so the end of a row is one element further. */
INLINE int64_t put_field(int64_t row, int64_t size, const byte *source, byte *ends, byte *valid, byte *data, int64_t filled) {
    valid[row] = size >= 0;
    if (size >= 0) {
        copy(data + filled, source, size);
        filled += size;
    }
    store32(ends + 4 * row + 4, (uint32_t)filled);
    return filled;
}

/* --- between the files ------------------------------------------------------------------------------------------ */

uint32_t checksum(const byte *at, int64_t size);      /* CRC-32C, of v2 batches */
uint32_t checksum_ieee(const byte *at, int64_t size); /* CRC-32, of messages of magic 0 and 1, and of gzip */

/* Return the size of the sound v2 batch at `here`; 0 if the `left` bytes begin with anything else. */
INLINE int64_t batch_size(const byte *here, int64_t left, int64_t largest, bool check) {
    if (left < BATCH_SIZE)
        return 0;
    const int64_t whole = big32(here + BATCH_BATCH_LENGTH_AT) + LOG_OVERHEAD_SIZE;
    if (whole < BATCH_SIZE || whole > left || whole > largest || big8(here + BATCH_MAGIC_AT) != BATCH_MAGIC)
        return 0;
    const byte *covered = here + BATCH_ATTRIBUTES_AT;
    if (check && checksum(covered, whole - BATCH_ATTRIBUTES_AT) != (uint32_t)big32u(here + BATCH_CRC_AT))
        return 0;
    return whole;
}

/* Write the fields of the batch at `here`, and its position, to column `number`. */
INLINE void read_header(const byte *here, int64_t position, const struct batches *to, int64_t number) {
#define READ(name, at, read) to->name[number] = read(here + (at));
    BATCH_FIELDS(READ)
#undef READ
    to->position[number] = position;
}

/* Whether a batch of magic 2 has no finding about its header alone, by `header_findings` in `codec.rules.batches`. */
INLINE bool is_header_sound(const struct batches *batches, int64_t number) {
    const int64_t delta = batches->last_offset_delta[number], records = batches->records_count[number];
    return is_known_codec(batches->attributes[number] & CODEC_MASK) && delta >= 0 && records >= 0 && records <= delta + 1;
}

bool is_next(const struct batches *batches, int64_t number, int64_t following, int64_t low, int64_t highest, int64_t end,
             int64_t flags, int64_t epoch);
const byte *skip_headers(const byte *cursor, const byte *end, int64_t count);
int64_t decode_run(const byte *first, const byte *end, int64_t most_records, int64_t most_bytes,
                   const struct batches *batches, int64_t number, int64_t low, int64_t high, int64_t largest,
                   const struct arrow_buffers *buffers, struct filled *filled, const byte **behind);
int64_t decompress_one(int64_t codec, const byte *source, int64_t size, byte *target, int64_t room, int64_t largest,
                       const struct decompressor *with);

#endif
