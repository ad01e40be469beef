/* Encoding of columns to the record bytes of many batches, split by size as by a producer.
 *
 * Records are written as declared (see `record_shape`); `encode.records` is the readable implementation. */
#include "kafkalog.h"

/* Return the size of a field of a row, -1 for null. `valid` is NULL if no field is null, `ends` if there is no such
 * column. */
INLINE int64_t field_size(const byte *ends, const byte *valid, int64_t row) {
    if (ends == NULL || (valid != NULL && valid[row] == 0))
        return -1;
    return (int64_t)load32(ends + 4 * row + 4) - (int64_t)load32(ends + 4 * row);
}

INLINE byte *put_sized(byte *at, int64_t size, const byte *data, const byte *ends, int64_t row) {
    at = put_varint(at, size);
    if (size > 0) {
        copy(at, data + load32(ends + 4 * row), size);
        at += size;
    }
    return at;
}

/* Return the number of bytes of a field with its length. */
INLINE int64_t sized(int64_t size) { return varint_size(size) + most(size, 0); }

/* Write the records of `rows` rows to `target`, each batch after space for its header; return the number of batches.
 *
 * A batch has at most `batch_bytes` bytes with its header, unless a single record is larger. The table of `encoded`
 * has room for every possible batch, and `target` for all of them. */
EXPORTED int64_t encode(int64_t rows, const int64_t *offsets, const int64_t *timestamps, const struct arrow_buffers *from,
                        byte *target, int64_t batch_bytes, int64_t *cells, int64_t stride, int64_t columns) {
    const struct encoded batches = encoded_of(cells, stride, columns);
    int64_t batch = -1, first = 0;
    byte *at = target;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t key = field_size(from->key_ends, from->key_valid, row);
        const int64_t value = field_size(from->value_ends, from->value_valid, row);
        int64_t header = 0, header_end = 0;
        if (from->header_ends != NULL) {
            header = load32(from->header_ends + 4 * row);
            header_end = load32(from->header_ends + 4 * row + 4);
        }
        int64_t fixed = 1 + sized(key) + sized(value) + varint_size(header_end - header);
        for (int64_t each = header; each < header_end; each++) {
            fixed += sized(field_size(from->header_key_ends, NULL, each));
            fixed += sized(field_size(from->header_value_ends, from->header_value_valid, each));
        }
        bool is_new = batch < 0;
        int64_t body = 0;
        if (!is_new) {
            const int64_t offset_delta = offsets[row] - offsets[first];
            body = fixed + varint_size(timestamps[row] - timestamps[first]) + varint_size(offset_delta);
            const int64_t size = (int64_t)(intptr_t)at - batches.start[batch] + body + varint_size(body);
            is_new = BATCH_SIZE + size > batch_bytes || offset_delta > INT32_MAX;
        }
        if (is_new) {
            if (batch >= 0) {
                batches.rows[batch] = row - first;
                batches.size[batch] = (int64_t)(intptr_t)at - batches.start[batch];
            }
            batch++;
            first = row;
            at += BATCH_SIZE;
            batches.first_row[batch] = row;
            batches.start[batch] = (int64_t)(intptr_t)at;
            batches.max_timestamp[batch] = timestamps[row];
            body = fixed + 2; /* both deltas are 0 */
        }
        batches.max_timestamp[batch] = most(batches.max_timestamp[batch], timestamps[row]);
        at = put_varint(at, body);
        *at++ = 0; /* attributes */
        at = put_varint(at, timestamps[row] - timestamps[first]);
        at = put_varint(at, offsets[row] - offsets[first]);
        at = put_sized(at, key, from->key, from->key_ends, row);
        at = put_sized(at, value, from->value, from->value_ends, row);
        at = put_varint(at, header_end - header);
        for (int64_t each = header; each < header_end; each++) {
            const int64_t size = field_size(from->header_value_ends, from->header_value_valid, each);
            at = put_sized(at, field_size(from->header_key_ends, NULL, each), from->header_key, from->header_key_ends, each);
            at = put_sized(at, size, from->header_value, from->header_value_ends, each);
        }
    }
    if (batch >= 0) {
        batches.rows[batch] = rows - first;
        batches.size[batch] = (int64_t)(intptr_t)at - batches.start[batch];
    }
    return batch + 1;
}

/* Compute the checksums of whole batches at addresses, and write them to their headers. */
EXPORTED void put_checksums(const int64_t *starts, const int64_t *sizes, int64_t count) {
    for (int64_t number = 0; number < count; number++) {
        byte *batch = (byte *)(intptr_t)starts[number];
        const uint32_t crc = checksum(batch + BATCH_ATTRIBUTES_AT, sizes[number] - BATCH_ATTRIBUTES_AT);
        store32(batch + BATCH_CRC_AT, __builtin_bswap32(crc));
    }
}
