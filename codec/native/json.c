/* JSON lines from Arrow's buffers, as `dump --json` prints them.
 *
 * They are equal to the lines that Python's `json` writes for the same record with ASCII output and without blanks.
 * Keys and values are text if they are UTF-8, otherwise null with an additional base64 field, or always base64. */
#include "kafkalog.h"

#define IN_EACH_BYTE(value) ((value) * UINT64_C(0x0101010101010101))
#define HIGH_BITS IN_EACH_BYTE(0x80)

static const char HEX[] = "0123456789abcdef";
static const char BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Write a constant text; return the address after it. */
#define PUT(out, text) ((byte *)memcpy((out), (text), sizeof(text) - 1) + sizeof(text) - 1)

/* Return the high bit of each byte that is zero, and possibly of some bytes above the lowest of them. */
INLINE uint64_t zero_bytes(uint64_t word) { return (word - IN_EACH_BYTE(1)) & ~word & HIGH_BITS; }

/* Return how many of eight bytes, from the first one on, need no escape in a JSON string. */
INLINE int64_t plain_bytes(uint64_t word) {
    uint64_t odd = (word | ((word - IN_EACH_BYTE(0x20)) & ~word)) & HIGH_BITS;
    odd |= zero_bytes(word ^ IN_EACH_BYTE('"')) | zero_bytes(word ^ IN_EACH_BYTE('\\')) |
           zero_bytes(word ^ IN_EACH_BYTE(0x7F));
    return odd == 0 ? 8 : __builtin_ctzll(odd) >> 3;
}

/* A decimal number. */
INLINE byte *put_number(byte *out, int64_t value) {
    uint64_t left = (uint64_t)value;
    if (value < 0) {
        *out++ = '-';
        left = 0 - left;
    }
    char digits[20];
    int place = 20;
    while (left >= 100) {
        const uint64_t rest = left / 100, pair = left - rest * 100;
        digits[--place] = (char)('0' + pair % 10);
        digits[--place] = (char)('0' + pair / 10);
        left = rest;
    }
    digits[--place] = (char)('0' + left % 10);
    if (left >= 10)
        digits[--place] = (char)('0' + left / 10);
    memcpy(out, digits + place, (size_t)(20 - place));
    return out + (20 - place);
}

INLINE byte *put_unicode_escape(byte *out, uint32_t unit) {
    *out++ = '\\';
    *out++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *out++ = (byte)HEX[unit >> shift & 15];
    return out;
}

/* Return the size of the UTF-8 sequence at `at`, as strictly as Python, and write its code point; 0 if there is no
 * valid one. */
static int utf8(const byte *at, const byte *end, uint32_t *point) {
    const byte first = *at;
    const int size = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (size == 0 || size > end - at)
        return 0;
    uint32_t found = first & (0x7Fu >> size);
    for (int place = 1; place < size; place++) {
        if ((at[place] & 0xC0) != 0x80)
            return 0;
        found = found << 6 | (at[place] & 0x3F);
    }
    if ((size == 3 && (found < 0x800 || (found >= 0xD800 && found < 0xE000))) ||
        (size == 4 && (found < 0x10000 || found >= 0x110000)))
        return 0;
    *point = found;
    return size;
}

/* Return the letter after the backslash if a byte has a short escape, else 0. */
INLINE byte short_escape(byte value) {
    switch (value) {
    case '"': case '\\': return value;
    case '\b': return 'b';
    case '\t': return 't';
    case '\n': return 'n';
    case '\f': return 'f';
    case '\r': return 'r';
    default: return 0;
    }
}

/* Write a quoted string; return the address after it, NULL if the bytes are not UTF-8. `out` must have room for six
 * times the bytes, and eight more. */
static byte *put_text(byte *out, const byte *at, int64_t size) {
    const byte *end = at + size;
    *out++ = '"';
    while (at < end) {
        if (end - at >= 8) { /* eight bytes are written, however many of them count */
            const uint64_t word = load64(at);
            const int64_t plain = plain_bytes(word);
            store64(out, word);
            out += plain;
            at += plain;
            if (plain == 8)
                continue;
        }
        const byte here = *at;
        if (here >= 0x80) {
            uint32_t point;
            const int width = utf8(at, end, &point);
            if (width == 0)
                return NULL;
            if (point >= 0x10000) {
                out = put_unicode_escape(out, 0xD800 + ((point - 0x10000) >> 10));
                point = 0xDC00 + (point & 0x3FF);
            }
            out = put_unicode_escape(out, point);
            at += width;
            continue;
        }
        const byte letter = short_escape(here);
        if (letter != 0) {
            *out++ = '\\';
            *out++ = letter;
        } else if (here >= 0x20 && here < 0x7F) {
            *out++ = here;
        } else {
            out = put_unicode_escape(out, here);
        }
        at++;
    }
    *out = '"';
    return out + 1;
}

/* Base64 in quotes. */
static byte *put_base64(byte *out, const byte *at, int64_t size) {
    *out++ = '"';
    for (; size > 0; at += 3, size -= 3) {
        const uint32_t word =
            (uint32_t)at[0] << 16 | (size > 1 ? (uint32_t)at[1] << 8 : 0) | (size > 2 ? (uint32_t)at[2] : 0);
        *out++ = (byte)BASE64[word >> 18];
        *out++ = (byte)BASE64[word >> 12 & 63];
        *out++ = size > 1 ? (byte)BASE64[word >> 6 & 63] : '=';
        *out++ = size > 2 ? (byte)BASE64[word & 63] : '=';
    }
    *out = '"';
    return out + 1;
}

/* Return the address of field number `row` of an Arrow column. */
INLINE const byte *field_at(const byte *ends, const byte *data, int64_t row, int64_t *size) {
    const uint32_t begin = load32(ends + 4 * row);
    *size = (int64_t)load32(ends + 4 * row + 4) - begin;
    return data + begin;
}

/* Write the pairs of names and values from number `first` up to `last`; return the address after them. NULL if a
 * name is not UTF-8, or if a value is not and `encoded` is false; `*is_value` tells which. */
static byte *put_pairs(byte *out, int64_t first, int64_t last, const struct arrow_buffers *from, bool encoded, bool *is_value) {
    *out++ = '[';
    for (int64_t each = first; each < last; each++) {
        int64_t size;
        const byte *name = field_at(from->header_key_ends, from->header_key, each, &size);
        if (each > first)
            *out++ = ',';
        *out++ = '[';
        *is_value = false;
        out = put_text(out, name, size);
        if (out == NULL)
            return NULL;
        *out++ = ',';
        if (from->header_value_valid[each] == 0) {
            out = PUT(out, "null");
        } else {
            const byte *value = field_at(from->header_value_ends, from->header_value, each, &size);
            *is_value = true;
            out = encoded ? put_base64(out, value, size) : put_text(out, value, size);
            if (out == NULL)
                return NULL;
        }
        *out++ = ']';
    }
    *out = ']';
    return out + 1;
}

/* Write a key or value of a row and, if it is not text, `"NAME_b64":` with its base64 form. */
#define PUT_FIELD(out, name, ends, valid, data)                                                                              \
    do {                                                                                                                     \
        if ((valid)[row] == 0) {                                                                                             \
            (out) = PUT(out, "null");                                                                                        \
        } else {                                                                                                             \
            int64_t size;                                                                                                    \
            const byte *field = field_at(ends, data, row, &size);                                                            \
            byte *behind = encoded ? put_base64(out, field, size) : put_text(out, field, size);                              \
            (out) = behind != NULL ? behind : put_base64(PUT(out, "null,\"" name "_b64\":"), field, size);                   \
        }                                                                                                                    \
    } while (0)

/* Write a line for each row to `target`, which must have room for six times the data; return the number of bytes
 * written, or -1 if the name of a header is not UTF-8.
 *
 * `appended` (LogAppendTime) and `epochs` have an element for each row; `prefix` is the text before the offset. */
EXPORTED int64_t write_lines(int64_t rows, const struct arrow_buffers *from, const byte *appended, const int64_t *epochs,
                             const byte *prefix, int64_t prefix_size, int64_t encoded, byte *target) {
    byte *out = target;
    for (int64_t row = 0; row < rows; row++) {
        copy(out, prefix, prefix_size);
        out = put_number(out + prefix_size, (int64_t)load64(from->offset + 8 * row));
        out = PUT(out, ",\"timestamp\":");
        const int64_t timestamp = (int64_t)load64(from->timestamp + 8 * row);
        out = put_number(out, timestamp / MICROSECONDS - (timestamp % MICROSECONDS < 0));
        out = appended[row] ? PUT(out, ",\"timestampType\":\"LogAppendTime\",\"key\":")
                            : PUT(out, ",\"timestampType\":\"CreateTime\",\"key\":");
        PUT_FIELD(out, "key", from->key_ends, from->key_valid, from->key);
        out = PUT(out, ",\"value\":");
        PUT_FIELD(out, "value", from->value_ends, from->value_valid, from->value);
        const int64_t first = load32(from->header_ends + 4 * row), last = load32(from->header_ends + 4 * row + 4);
        if (first == last) {
            out = PUT(out, ",\"headers\":[]");
        } else {
            bool is_value;
            out = PUT(out, ",\"headers\":");
            byte *behind = put_pairs(out, first, last, from, encoded, &is_value);
            if (behind == NULL && is_value)
                behind = put_pairs(PUT(out, "null,\"headers_b64\":"), first, last, from, true, &is_value);
            if (behind == NULL)
                return -1;
            out = behind;
        }
        out = PUT(out, ",\"leaderEpoch\":");
        out = epochs[row] < 0 ? PUT(out, "null") : put_number(out, epochs[row]);
        out = PUT(out, "}\n");
    }
    return out - target;
}
