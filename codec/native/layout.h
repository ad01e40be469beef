/* Written by `python -m kafkalog.codec.native.layout` from the declarations; do not edit. */
#ifndef KAFKALOG_LAYOUT_H
#define KAFKALOG_LAYOUT_H
#include <stdint.h>

#define BATCH_SIZE INT64_C(61)
#define BATCH_BASE_OFFSET_AT INT64_C(0)
#define BATCH_BATCH_LENGTH_AT INT64_C(8)
#define BATCH_PARTITION_LEADER_EPOCH_AT INT64_C(12)
#define BATCH_MAGIC_AT INT64_C(16)
#define BATCH_CRC_AT INT64_C(17)
#define BATCH_ATTRIBUTES_AT INT64_C(21)
#define BATCH_LAST_OFFSET_DELTA_AT INT64_C(23)
#define BATCH_BASE_TIMESTAMP_AT INT64_C(27)
#define BATCH_MAX_TIMESTAMP_AT INT64_C(35)
#define BATCH_PRODUCER_ID_AT INT64_C(43)
#define BATCH_PRODUCER_EPOCH_AT INT64_C(51)
#define BATCH_BASE_SEQUENCE_AT INT64_C(53)
#define BATCH_RECORDS_COUNT_AT INT64_C(57)
#define MESSAGE_V0_SIZE INT64_C(18)
#define MESSAGE_V0_OFFSET_AT INT64_C(0)
#define MESSAGE_V0_SIZE_AT INT64_C(8)
#define MESSAGE_V0_CRC_AT INT64_C(12)
#define MESSAGE_V0_MAGIC_AT INT64_C(16)
#define MESSAGE_V0_ATTRIBUTES_AT INT64_C(17)
#define MESSAGE_V1_SIZE INT64_C(26)
#define MESSAGE_V1_OFFSET_AT INT64_C(0)
#define MESSAGE_V1_SIZE_AT INT64_C(8)
#define MESSAGE_V1_CRC_AT INT64_C(12)
#define MESSAGE_V1_MAGIC_AT INT64_C(16)
#define MESSAGE_V1_ATTRIBUTES_AT INT64_C(17)
#define MESSAGE_V1_TIMESTAMP_AT INT64_C(18)
#define LOG_OVERHEAD_SIZE INT64_C(12)
#define LOG_OVERHEAD_OFFSET_AT INT64_C(0)
#define LOG_OVERHEAD_SIZE_AT INT64_C(8)
#define CODEC_NONE INT64_C(0)
#define CODEC_GZIP INT64_C(1)
#define CODEC_SNAPPY INT64_C(2)
#define CODEC_LZ4 INT64_C(3)
#define CODEC_ZSTD INT64_C(4)
#define CODEC_MASK INT64_C(7)
#define KNOWN_CODECS INT64_C(31)
#define TIMESTAMP_TYPE_FLAG INT64_C(8)
#define CONTROL_FLAG INT64_C(32)
#define DELETE_HORIZON_FLAG INT64_C(64)
#define TRANSACTIONAL_FLAG INT64_C(16)
#define BATCH_MAGIC INT64_C(2)
#define MAGIC_AT INT64_C(16)
#define SMALLEST_MESSAGE INT64_C(14)
#define SMALLEST_RECORD INT64_C(7)
#define SMALLEST_HEADER INT64_C(2)
#define CONTENT_LENGTH_SIZE INT64_C(4)
#define MAX_RELATIVE_OFFSET INT64_C(2147483647)
#define MAX_SEQUENCE INT64_C(2147483647)
#define MICROSECONDS INT64_C(1000)
#define NO_END INT64_C(9223372036854775807)
#define NO_TIMESTAMP INT64_C(-1)
#define NO_PRODUCER_ID INT64_C(-1)
#define EMPTY INT64_C(-2)
#define UNDECODED INT64_C(-1)
#define MEMORY_IS_FULL INT64_C(-1)
#define ROW_BYTES INT64_C(40)
#define NAMES_OF_ARROW_BUFFERS INT64_C(1158196076)
#define NAMES_OF_FILLED INT64_C(175850439)
#define NAMES_OF_DECOMPRESSOR INT64_C(1055824358)
#define NAMES_OF_VIEWED INT64_C(4189517794)
#define NAMES_OF_WALK INT64_C(11677620)
#define NAMES_OF_KEY_MAP INT64_C(1960162146)
#define NAMES_OF_RECOVERED INT64_C(3455432465)
#define NAMES_OF_CONTINUITY INT64_C(903405923)
#define NAMES_OF_RUN_FACTS INT64_C(796235637)
#define NAMES_OF_ORDER_OF_RUN INT64_C(3076883464)
#define NAMES_OF_BATCHES INT64_C(1273336926)
#define NAMES_OF_MESSAGES INT64_C(3706893931)
#define NAMES_OF_MESSAGE_SETS INT64_C(339183547)
#define NAMES_OF_ENCODED INT64_C(2327529673)
#define NAMES_OF_INDEX_ENTRIES INT64_C(578647237)
#define NAMES_OF_APPENDED INT64_C(1858723861)
#define NAMES_OF_RETAINED INT64_C(115373560)
#define NAMES_OF_KEPT INT64_C(2893795010)
#define NAMES_OF_LISTED_PRODUCERS INT64_C(2337898053)
#define LZ4_FIRST_WORD INT64_C(407708164)
#define LZ4_SECOND_WORD INT64_C(2185256984)
#define LZ4_HEADER_SIZE INT64_C(7)
#define LZ4_BLOCK_SIZE INT64_C(65536)
#define LZ4_STORED INT64_C(2147483648)
#define ZSTD_MAGIC INT64_C(4247762216)
#define ZSTD_DESCRIPTOR_AT INT64_C(4)
#define ZSTD_WINDOW_AT INT64_C(5)
#define ZSTD_HEADER_SIZE INT64_C(6)
#define ZSTD_SMALLEST_WINDOW INT64_C(1024)
#define SNAPPY_MAGIC INT64_C(-9055808383284651776)
#define SNAPPY_HEADER_SIZE INT64_C(16)
#define SNAPPY_NEXT_HEADER INT64_C(-2108469695)
#define SNAPPY_LENGTH_SIZE INT64_C(4)
#define GZIP_HEADER_SIZE INT64_C(10)
#define GZIP_TRAILER_SIZE INT64_C(8)
#define GZIP_CHECKSUM_AT INT64_C(0)
#define GZIP_CONTENT_SIZE_AT INT64_C(4)
#define GZIP_PLAIN_START INT64_C(559903)
#define ZSTD_HAS_CHECKSUM INT64_C(4)
#define ZSTD_HAS_CHECKSUM_SHIFT INT64_C(2)
#define ZSTD_WINDOW_MANTISSA INT64_C(7)
#define ZSTD_WINDOW_MANTISSA_SHIFT INT64_C(0)
#define ZSTD_WINDOW_EXPONENT INT64_C(248)
#define ZSTD_WINDOW_EXPONENT_SHIFT INT64_C(3)

#define CONSTANTS(each) \
    each(BATCH_SIZE) \
    each(BATCH_BASE_OFFSET_AT) \
    each(BATCH_BATCH_LENGTH_AT) \
    each(BATCH_PARTITION_LEADER_EPOCH_AT) \
    each(BATCH_MAGIC_AT) \
    each(BATCH_CRC_AT) \
    each(BATCH_ATTRIBUTES_AT) \
    each(BATCH_LAST_OFFSET_DELTA_AT) \
    each(BATCH_BASE_TIMESTAMP_AT) \
    each(BATCH_MAX_TIMESTAMP_AT) \
    each(BATCH_PRODUCER_ID_AT) \
    each(BATCH_PRODUCER_EPOCH_AT) \
    each(BATCH_BASE_SEQUENCE_AT) \
    each(BATCH_RECORDS_COUNT_AT) \
    each(MESSAGE_V0_SIZE) \
    each(MESSAGE_V0_OFFSET_AT) \
    each(MESSAGE_V0_SIZE_AT) \
    each(MESSAGE_V0_CRC_AT) \
    each(MESSAGE_V0_MAGIC_AT) \
    each(MESSAGE_V0_ATTRIBUTES_AT) \
    each(MESSAGE_V1_SIZE) \
    each(MESSAGE_V1_OFFSET_AT) \
    each(MESSAGE_V1_SIZE_AT) \
    each(MESSAGE_V1_CRC_AT) \
    each(MESSAGE_V1_MAGIC_AT) \
    each(MESSAGE_V1_ATTRIBUTES_AT) \
    each(MESSAGE_V1_TIMESTAMP_AT) \
    each(LOG_OVERHEAD_SIZE) \
    each(LOG_OVERHEAD_OFFSET_AT) \
    each(LOG_OVERHEAD_SIZE_AT) \
    each(CODEC_NONE) \
    each(CODEC_GZIP) \
    each(CODEC_SNAPPY) \
    each(CODEC_LZ4) \
    each(CODEC_ZSTD) \
    each(CODEC_MASK) \
    each(KNOWN_CODECS) \
    each(TIMESTAMP_TYPE_FLAG) \
    each(CONTROL_FLAG) \
    each(DELETE_HORIZON_FLAG) \
    each(TRANSACTIONAL_FLAG) \
    each(BATCH_MAGIC) \
    each(MAGIC_AT) \
    each(SMALLEST_MESSAGE) \
    each(SMALLEST_RECORD) \
    each(SMALLEST_HEADER) \
    each(CONTENT_LENGTH_SIZE) \
    each(MAX_RELATIVE_OFFSET) \
    each(MAX_SEQUENCE) \
    each(MICROSECONDS) \
    each(NO_END) \
    each(NO_TIMESTAMP) \
    each(NO_PRODUCER_ID) \
    each(EMPTY) \
    each(UNDECODED) \
    each(MEMORY_IS_FULL) \
    each(ROW_BYTES) \
    each(NAMES_OF_ARROW_BUFFERS) \
    each(NAMES_OF_FILLED) \
    each(NAMES_OF_DECOMPRESSOR) \
    each(NAMES_OF_VIEWED) \
    each(NAMES_OF_WALK) \
    each(NAMES_OF_KEY_MAP) \
    each(NAMES_OF_RECOVERED) \
    each(NAMES_OF_CONTINUITY) \
    each(NAMES_OF_RUN_FACTS) \
    each(NAMES_OF_ORDER_OF_RUN) \
    each(NAMES_OF_BATCHES) \
    each(NAMES_OF_MESSAGES) \
    each(NAMES_OF_MESSAGE_SETS) \
    each(NAMES_OF_ENCODED) \
    each(NAMES_OF_INDEX_ENTRIES) \
    each(NAMES_OF_APPENDED) \
    each(NAMES_OF_RETAINED) \
    each(NAMES_OF_KEPT) \
    each(NAMES_OF_LISTED_PRODUCERS) \
    each(LZ4_FIRST_WORD) \
    each(LZ4_SECOND_WORD) \
    each(LZ4_HEADER_SIZE) \
    each(LZ4_BLOCK_SIZE) \
    each(LZ4_STORED) \
    each(ZSTD_MAGIC) \
    each(ZSTD_DESCRIPTOR_AT) \
    each(ZSTD_WINDOW_AT) \
    each(ZSTD_HEADER_SIZE) \
    each(ZSTD_SMALLEST_WINDOW) \
    each(SNAPPY_MAGIC) \
    each(SNAPPY_HEADER_SIZE) \
    each(SNAPPY_NEXT_HEADER) \
    each(SNAPPY_LENGTH_SIZE) \
    each(GZIP_HEADER_SIZE) \
    each(GZIP_TRAILER_SIZE) \
    each(GZIP_CHECKSUM_AT) \
    each(GZIP_CONTENT_SIZE_AT) \
    each(GZIP_PLAIN_START) \
    each(ZSTD_HAS_CHECKSUM) \
    each(ZSTD_HAS_CHECKSUM_SHIFT) \
    each(ZSTD_WINDOW_MANTISSA) \
    each(ZSTD_WINDOW_MANTISSA_SHIFT) \
    each(ZSTD_WINDOW_EXPONENT) \
    each(ZSTD_WINDOW_EXPONENT_SHIFT)

/* name, position, how it is read */
#define BATCH_FIELDS(field) \
    field(base_offset, 0, big64) \
    field(batch_length, 8, big32) \
    field(partition_leader_epoch, 12, big32) \
    field(magic, 16, big8) \
    field(crc, 17, big32u) \
    field(attributes, 21, big16) \
    field(last_offset_delta, 23, big32) \
    field(base_timestamp, 27, big64) \
    field(max_timestamp, 35, big64) \
    field(producer_id, 43, big64) \
    field(producer_epoch, 51, big16) \
    field(base_sequence, 53, big32) \
    field(records_count, 57, big32)

/* name, position, how it is read */
#define MESSAGE_V0_FIELDS(field) \
    field(offset, 0, big64) \
    field(size, 8, big32) \
    field(crc, 12, big32u) \
    field(magic, 16, big8) \
    field(attributes, 17, big8)

/* Structs: an array of int64 in Python, with an element for each member. */

struct arrow_buffers {
    uint8_t *offset;
    uint8_t *timestamp;
    uint8_t *timestamp_valid;
    uint8_t *sequence;
    uint8_t *key_ends;
    uint8_t *key_valid;
    uint8_t *key;
    uint8_t *value_ends;
    uint8_t *value_valid;
    uint8_t *value;
    uint8_t *header_ends;
    uint8_t *header_key_ends;
    uint8_t *header_key;
    uint8_t *header_value_ends;
    uint8_t *header_value_valid;
    uint8_t *header_value;
    uint8_t *key_views;
    uint8_t *value_views;
    uint8_t *viewed;
    int64_t viewed_number;
};

struct filled {
    int64_t rows;
    int64_t key;
    int64_t value;
    int64_t headers;
    int64_t header_key;
    int64_t header_value;
    int64_t key_nulls;
    int64_t value_nulls;
    int64_t header_value_nulls;
    int64_t timestamp_nulls;
    int64_t key_viewed;
    int64_t value_viewed;
};

struct decompressor {
    int64_t lz4_function;
    int64_t zstd_begin;
    int64_t zstd_next_size;
    int64_t zstd_continue;
    int64_t zstd_context;
    int64_t gzip_function;
    int64_t gzip_state;
    int64_t zstd_window_bytes;
    uint8_t *memory;
    int64_t memory_bytes;
};

struct viewed {
    uint8_t *window;
    int64_t window_number;
    int64_t of_window;
    uint8_t *memory;
    int64_t memory_number;
    int64_t of_memory;
};

struct walk {
    int64_t position;
    int64_t end;
    int64_t file_end;
    int64_t step;
    int64_t expected;
    int64_t first_offset;
    int64_t next_offset;
    int64_t held;
    int64_t held_end;
    int64_t is_dense;
    int64_t base;
    int64_t next_base;
    int64_t is_followed;
};

struct key_map {
    int64_t used;
    int64_t limit;
    int64_t is_full;
    int64_t last_put;
};

struct recovered {
    int64_t valid_bytes;
    int64_t last_indexed;
    int64_t timestamp;
    int64_t timestamp_offset;
    int64_t offsets;
    int64_t last_offset;
    int64_t times;
    int64_t last_timestamp;
    int64_t last_timestamp_offset;
    int64_t epoch;
    int64_t epochs;
};

struct continuity {
    int64_t base_offset;
    int64_t next_segment;
    int64_t expected;
    int64_t last_offset;
    int64_t leader_epoch;
};

struct run_facts {
    int64_t least_last_offset;
    int64_t largest_last_offset;
    int64_t largest_epoch;
    int64_t epoch_falls;
    int64_t least_timestamp;
    int64_t largest_timestamp;
    int64_t data_records;
    int64_t markers;
    int64_t of_producers;
    int64_t gaps;
    int64_t last_gap;
    int64_t not_above;
    int64_t turned;
    int64_t older;
    int64_t unknown_codecs;
    int64_t last_cleaned;
    int64_t last_v2;
};

struct order_of_run {
    int64_t rest;
    int64_t before_rest;
    int64_t first_repeat;
    int64_t before_first;
    int64_t last_repeat;
    int64_t before_last;
};

/* Tables: a pointer to each row, and the number of columns. */

struct batches {
    int64_t *base_offset;
    int64_t *batch_length;
    int64_t *partition_leader_epoch;
    int64_t *magic;
    int64_t *crc;
    int64_t *attributes;
    int64_t *last_offset_delta;
    int64_t *base_timestamp;
    int64_t *max_timestamp;
    int64_t *producer_id;
    int64_t *producer_epoch;
    int64_t *base_sequence;
    int64_t *records_count;
    int64_t *position;
    int64_t columns;
};
static inline struct batches batches_of(int64_t *cells, int64_t stride, int64_t columns) {
    return (struct batches){
        cells + 0 * stride,
        cells + 1 * stride,
        cells + 2 * stride,
        cells + 3 * stride,
        cells + 4 * stride,
        cells + 5 * stride,
        cells + 6 * stride,
        cells + 7 * stride,
        cells + 8 * stride,
        cells + 9 * stride,
        cells + 10 * stride,
        cells + 11 * stride,
        cells + 12 * stride,
        cells + 13 * stride,
        columns,
    };
}

struct messages {
    int64_t *offset;
    int64_t *size;
    int64_t *crc;
    int64_t *magic;
    int64_t *attributes;
    int64_t *timestamp;
    int64_t *position;
    int64_t columns;
};
static inline struct messages messages_of(int64_t *cells, int64_t stride, int64_t columns) {
    return (struct messages){
        cells + 0 * stride,
        cells + 1 * stride,
        cells + 2 * stride,
        cells + 3 * stride,
        cells + 4 * stride,
        cells + 5 * stride,
        cells + 6 * stride,
        columns,
    };
}

struct message_sets {
    int64_t *count;
    int64_t *base_offset;
    int64_t columns;
};
static inline struct message_sets message_sets_of(int64_t *cells, int64_t stride, int64_t columns) {
    return (struct message_sets){
        cells + 0 * stride,
        cells + 1 * stride,
        columns,
    };
}

struct encoded {
    int64_t *first_row;
    int64_t *rows;
    int64_t *start;
    int64_t *size;
    int64_t *max_timestamp;
    int64_t columns;
};
static inline struct encoded encoded_of(int64_t *cells, int64_t stride, int64_t columns) {
    return (struct encoded){
        cells + 0 * stride,
        cells + 1 * stride,
        cells + 2 * stride,
        cells + 3 * stride,
        cells + 4 * stride,
        columns,
    };
}

struct index_entries {
    int64_t *relative_offset;
    int64_t *position;
    int64_t *timestamp;
    int64_t *timestamp_relative_offset;
    int64_t columns;
};
static inline struct index_entries index_entries_of(int64_t *cells, int64_t stride, int64_t columns) {
    return (struct index_entries){
        cells + 0 * stride,
        cells + 1 * stride,
        cells + 2 * stride,
        cells + 3 * stride,
        columns,
    };
}

struct appended {
    int64_t *producer_id;
    int64_t *first;
    int64_t *last;
    int64_t *first_transactional;
    int64_t *first_plain;
    int64_t *plain_behind_transactional;
    int64_t columns;
};
static inline struct appended appended_of(int64_t *cells, int64_t stride, int64_t columns) {
    return (struct appended){
        cells + 0 * stride,
        cells + 1 * stride,
        cells + 2 * stride,
        cells + 3 * stride,
        cells + 4 * stride,
        cells + 5 * stride,
        columns,
    };
}

struct retained {
    int64_t *first_flag;
    int64_t *kept;
    int64_t *deletes;
    int64_t *without_key;
    int64_t columns;
};
static inline struct retained retained_of(int64_t *cells, int64_t stride, int64_t columns) {
    return (struct retained){
        cells + 0 * stride,
        cells + 1 * stride,
        cells + 2 * stride,
        cells + 3 * stride,
        columns,
    };
}

struct kept {
    int64_t *start;
    int64_t *size;
    int64_t *base_timestamp;
    int64_t *max_timestamp;
    int64_t columns;
};
static inline struct kept kept_of(int64_t *cells, int64_t stride, int64_t columns) {
    return (struct kept){
        cells + 0 * stride,
        cells + 1 * stride,
        cells + 2 * stride,
        cells + 3 * stride,
        columns,
    };
}

struct listed_producers {
    int64_t *producer_id;
    int64_t *last_offset;
    int64_t *transaction_start;
    int64_t *producer_epoch;
    int64_t columns;
};
static inline struct listed_producers listed_producers_of(int64_t *cells, int64_t stride, int64_t columns) {
    return (struct listed_producers){
        cells + 0 * stride,
        cells + 1 * stride,
        cells + 2 * stride,
        cells + 3 * stride,
        columns,
    };
}

#endif
