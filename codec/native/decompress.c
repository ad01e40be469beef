/* Decompression of the record bytes of many batches in one call. LZ4, zstd and gzip use the C functions in the wheels,
 * which `compression.native` finds; Snappy is implemented here, because no wheel exports its C library.
 *
 * Only the plain form that producers write is decompressed: one frame or stream with no bytes before, after or in
 * between. For any other form, and if a library reports an error, the result is -1, and `codec.compression` decides. */
#include "kafkalog.h"

/* --- LZ4 ----------------------------------------------------------------------------------------------------------- */

typedef int lz4_function(const byte *source, byte *target, int size, int room);

static int64_t decompress_lz4(lz4_function *function, const byte *source, int64_t size, byte *target, int64_t room) {
    if (size < LZ4_HEADER_SIZE || load32(source) != LZ4_FIRST_WORD || load32(source + LZ4_HEADER_SIZE - 4) != LZ4_SECOND_WORD)
        return -1;
    int64_t at = LZ4_HEADER_SIZE, done = 0;
    for (;;) {
        if (size - at < 4)
            return -1;
        const int64_t word = load32(source + at), block = word & ~LZ4_STORED;
        at += 4;
        if (block == 0)
            return done;
        if (block > LZ4_BLOCK_SIZE || block > size - at)
            return -1;
        int64_t made = block;
        if ((word & LZ4_STORED) != 0) {
            if (block > room - done)
                return -1;
            copy(target + done, source + at, block);
        } else {
            made = function(source + at, target + done, (int)block, (int)least(LZ4_BLOCK_SIZE, room - done));
            if (made < 0)
                return -1;
        }
        at += block;
        done += made;
    }
}

/* --- zstd ---------------------------------------------------------------------------------------------------------- */

typedef size_t zstd_begin(void *context);
typedef size_t zstd_next_size(void *context);
typedef size_t zstd_continue(void *context, byte *target, size_t room, const byte *source, size_t size);

/* Return whether a frame begins here that has no content size and no dictionary, and a window of at most
 * `window_limit` bytes. */
INLINE bool is_streamed_frame(const byte *source, int64_t size, int64_t window_limit) {
    if (size < ZSTD_HEADER_SIZE || load32(source) != ZSTD_MAGIC)
        return false;
    const int64_t descriptor = source[ZSTD_DESCRIPTOR_AT], window = source[ZSTD_WINDOW_AT];
    if ((descriptor & ~ZSTD_HAS_CHECKSUM) != 0)
        return false;
    const int64_t base = ZSTD_SMALLEST_WINDOW << BITS_OF(window, ZSTD_WINDOW_EXPONENT);
    return base + (base >> 3) * BITS_OF(window, ZSTD_WINDOW_MANTISSA) <= window_limit;
}

/* Decompress the bytes if they are exactly one such frame. Its blocks are given to zstd one by one: only so are blocks
 * refused that are larger than the window, as a stream refuses them. */
static int64_t decompress_zstd(const struct decompressor *with, const byte *source, int64_t size, byte *target,
                               int64_t room) {
    void *context = (void *)(intptr_t)with->zstd_context;
    zstd_next_size *next_size = (zstd_next_size *)(intptr_t)with->zstd_next_size;
    zstd_continue *decompress = (zstd_continue *)(intptr_t)with->zstd_continue;
    if (!is_streamed_frame(source, size, with->zstd_window_bytes))
        return -1;
    if (((zstd_begin *)(intptr_t)with->zstd_begin)(context) != 0)
        return -1;
    int64_t at = 0, done = 0, next;
    while ((next = (int64_t)next_size(context)) != 0) {
        if (next > size - at)
            return -1;
        const size_t made = decompress(context, target + done, (size_t)(room - done), source + at, (size_t)next);
        if (made > (size_t)(room - done)) /* errors are the largest numbers there are */
            return -1;
        at += next;
        done += (int64_t)made;
    }
    return at == size ? done : -1;
}

/* --- gzip ---------------------------------------------------------------------------------------------------------- */

/* The first fields of ISA-L's `struct inflate_state` (`igzip_lib.h`), as in `compression.native.InflateState`. */
struct inflate_state {
    byte *next_out;
    uint32_t avail_out, total_out;
    const byte *next_in;
    uint64_t read_in;
    uint32_t avail_in;
};
typedef int inflate_function(struct inflate_state *state);

enum { STORED, FIXED, DYNAMIC };
#define LENGTH_BITS 7 /* bits at most of a code for lengths, */
#define LONGEST 15    /* and of one for symbols or distances (RFC 1951, 3.2.7) */
#define LENGTH_CODES 19
static const byte ORDER[LENGTH_CODES] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

/* Meaning of each pattern of seven bits: a symbol, and the number of bits of its code. */
struct length_code {
    byte symbol, bits;
};

/* Return at least 57 bits from bit `at` on; eight bytes are read. */
INLINE uint64_t bits_at(const byte *stream, int64_t at) { return load64(stream + (at >> 3)) >> (at & 7); }

/* Fill in the code from `count` lengths of three bits; return whether it is complete. */
static bool read_length_code(uint64_t bits, int64_t count, struct length_code table[1 << LENGTH_BITS]) {
    byte lengths[LENGTH_CODES];
    for (int number = 0; number < LENGTH_CODES; number++)
        lengths[ORDER[number]] = number < count ? bits >> (3 * number) & 7 : 0;
    unsigned code = 0;
    for (unsigned length = 1; length <= LENGTH_BITS; length++) {
        code <<= 1;
        for (int symbol = 0; symbol < LENGTH_CODES; symbol++) {
            if (lengths[symbol] != length)
                continue;
            if (code >> length != 0)
                return false;
            unsigned reverse = 0;
            for (unsigned place = 0; place < length; place++)
                reverse |= (code >> place & 1) << (length - 1 - place);
            for (unsigned pattern = reverse; pattern < 1 << LENGTH_BITS; pattern += 1 << length)
                table[pattern] = (struct length_code){(byte)symbol, (byte)length};
            code++;
        }
    }
    return code == 1 << LENGTH_BITS;
}

/* Whether zlib accepts the codes that a block declares from bit `at` on. `end` is the size of the stream; eight
 * bytes after it can be read. */
static bool is_complete(const byte *stream, int64_t at, int64_t end) {
    static const byte REPEAT_BITS[] = {2, 3, 7}, REPEAT_LEAST[] = {3, 3, 11};
    if (at >> 3 > end - 2)
        return false;
    uint64_t word = bits_at(stream, at);
    const int64_t literals = (int64_t)(word & 31) + 257, total = literals + (int64_t)(word >> 5 & 31) + 1;
    const int64_t count = (int64_t)(word >> 10 & 15) + 4;
    struct length_code table[1 << LENGTH_BITS];
    at += 14;
    if (at >> 3 > end || !read_length_code(bits_at(stream, at), count, table))
        return false;
    at += 3 * count;
    int64_t index = 0, before = 0, of_literals = 0, of_distances = 0, distances = 0;
    while (index < total) {
        if (at >> 3 > end)
            return false;
        word = bits_at(stream, at);
        const struct length_code entry = table[word & ((1 << LENGTH_BITS) - 1)];
        int64_t symbol = entry.symbol, repeat = 1;
        at += entry.bits;
        if (symbol > LONGEST) {
            const int64_t kind = symbol - LONGEST - 1;
            if (kind == 0 && index == 0)
                return false;
            repeat = REPEAT_LEAST[kind] + (int64_t)(word >> entry.bits & ((1u << REPEAT_BITS[kind]) - 1));
            at += REPEAT_BITS[kind];
            symbol = kind == 0 ? before : 0;
        }
        if (index + repeat > total)
            return false;
        if (symbol > 0) {
            const int64_t more = most(least(literals - index, repeat), 0);
            of_literals += more << (LONGEST - symbol);
            of_distances += (repeat - more) << (LONGEST - symbol);
            distances += repeat - more;
        }
        index += repeat;
        before = symbol;
    }
    const int64_t whole = 1 << LONGEST;
    /* no distance at all, or one of a single bit, is what zlib takes besides */
    return of_literals == whole &&
           (of_distances == whole || distances == 0 || (distances == 1 && of_distances == whole >> 1));
}

/* Whether there are stored blocks and then a last block with a code that zlib accepts.
 *
 * ISA-L accepts Huffman codes that zlib, and with it Kafka, rejects: codes with bit patterns that have no meaning.
 * So it is only called for streams whose codes are known to be complete, as zlib writes them for up to 16 Ki
 * literals and matches. */
static bool has_complete_codes(const byte *stream, int64_t end) {
    int64_t at = 0;
    while (at >> 3 <= end) {
        const int64_t word = (int64_t)(bits_at(stream, at) & 7), kind = word >> 1;
        const bool is_last = (word & 1) != 0;
        at += 3;
        if (kind != STORED)
            return is_last && (kind == DYNAMIC ? is_complete(stream, at, end) : kind == FIXED);
        const int64_t here = (at + 7) >> 3;
        if (here > end)
            return false;
        if (is_last)
            return true; /* the decoder compares both sizes of a stored block */
        at = (here + 4 + load16(stream + here)) << 3;
    }
    return false;
}

static int64_t decompress_gzip(const struct decompressor *with, const byte *source, int64_t size, byte *target, int64_t room) {
    if (size < GZIP_HEADER_SIZE + GZIP_TRAILER_SIZE || load32(source) != GZIP_PLAIN_START || size > INT32_MAX)
        return -1;
    const byte *stream = source + GZIP_HEADER_SIZE, *trailer = source + size - GZIP_TRAILER_SIZE;
    const int64_t content = load32(trailer + GZIP_CONTENT_SIZE_AT);
    if (content > room || !has_complete_codes(stream, trailer - stream))
        return -1;
    struct inflate_state *state = (struct inflate_state *)(intptr_t)with->gzip_state;
    state->next_out = target;
    state->avail_out = (uint32_t)least(room, INT32_MAX);
    state->next_in = stream;
    state->avail_in = (uint32_t)(size - GZIP_HEADER_SIZE);
    if (((inflate_function *)(intptr_t)with->gzip_function)(state) != 0)
        return -1;
    if (state->next_in != trailer || state->total_out != content)
        return -1;
    return checksum_ieee(target, content) == load32(trailer + GZIP_CHECKSUM_AT) ? content : -1;
}

/* --- Snappy -------------------------------------------------------------------------------------------------------- */

enum { LITERAL, NEAR, FAR };
#define LONG_LITERAL 60
#define NEAR_SIZE 7       /* of the tag of a copy with one more byte, the bits of its size */
#define NEAR_DISTANCE 0xE0 /* and the highest ones of its distance */
#define MOVE 32
#define WIDE 64 /* bytes that an element of the plain kinds has at most, but for literals of 61 to 64 */

/* Copy `size` bytes from `distance` before the target; they may overlap with the bytes that this writes. */
INLINE void repeat(byte *target, int64_t distance, int64_t size) {
    const byte *source = target - distance;
    if (distance >= least(size, MOVE)) {
        copy(target, source, size);
        return;
    }
    for (int64_t done = 0, known = distance; done < size;) {
        const int64_t part = least(known, size - done);
        copy(target + done, source, part);
        done += part;
        known += part;
    }
}

/* The decoded meaning of a tag, so that it need not be computed for each element. */
struct element {
    byte size;             /* bytes that it writes */
    byte bytes;            /* bytes that it has, the tag among them */
    uint16_t distance_mask; /* of the two bytes behind the tag, those of the distance of a copy, */
    uint16_t distance_high; /* and its bits that are in the tag */
    int8_t is_literal;     /* -1 or 0 */
    int8_t odd;            /* -1: a literal of more than 60 bytes, or a copy with four more bytes */
};
#define SIZE_OF(tag) (((tag) & 3) == NEAR ? ((tag) >> 2 & NEAR_SIZE) + 4 : ((tag) >> 2) + 1)
#define ELEMENT(tag)                                                                                                       \
    {                                                                                                                      \
        SIZE_OF(tag), ((tag) & 3) + 1 + (((tag) & 3) == LITERAL ? SIZE_OF(tag) : 0), ((tag) & 3) == NEAR ? 0xFF : 0xFFFF,  \
            ((tag) & 3) == NEAR ? ((tag) & NEAR_DISTANCE) << 3 : 0, ((tag) & 3) == LITERAL ? -1 : 0,                       \
            ((tag) & 3) > FAR || (((tag) & 3) == LITERAL && SIZE_OF(tag) > LONG_LITERAL) ? -1 : 0                          \
    }
#define FOUR(tag) ELEMENT(tag), ELEMENT((tag) + 1), ELEMENT((tag) + 2), ELEMENT((tag) + 3)
#define SIXTEEN(tag) FOUR(tag), FOUR((tag) + 4), FOUR((tag) + 8), FOUR((tag) + 12)
#define SIXTY_FOUR(tag) SIXTEEN(tag), SIXTEEN((tag) + 16), SIXTEEN((tag) + 32), SIXTEEN((tag) + 48)
static const struct element ELEMENTS[256] = {SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128), SIXTY_FOUR(192)};

/* Process elements far from both ends, up to the first odd one; both positions are moved past them.
 *
 * Plain elements are literals of at most 60 bytes, and copies with one or two more bytes that do not read bytes they
 * write themselves. In text it is unpredictable which of them is next, so everything is computed with masks instead
 * of branches: a mispredicted branch would take longer than the element. Up to WIDE bytes are moved if both ends are
 * farther away. */
INLINE void plain_elements(const byte **from, const byte *end, byte **to, const byte *begin, const byte *last) {
    int64_t source = (int64_t)*from, target = (int64_t)*to;
    const int64_t latest_source = (int64_t)end - WIDE - 1, latest_target = (int64_t)last - WIDE;
    while (source <= latest_source && target <= latest_target) {
        const struct element *element = &ELEMENTS[*(const byte *)source];
        const int64_t size = element->size, is_literal = element->is_literal;
        const int64_t distance = (load16((const byte *)source + 1) & element->distance_mask) | element->distance_high;
        const int64_t origin = ((source + 1) & is_literal) | ((target - distance) & ~is_literal);
        /* below 0 if one of these is: what the tag says, bytes not there yet or before the first */
        const int64_t odd = element->odd | (~is_literal & ((distance - size) | (target - (int64_t)begin - distance)));
        if (odd < 0)
            break;
        move32((byte *)target, (const byte *)origin); /* what it moves too much, the next overwrites */
        if (size > MOVE)
            move32((byte *)target + MOVE, (const byte *)origin + MOVE);
        source += element->bytes;
        target += size;
    }
    *from = (const byte *)source;
    *to = (byte *)target;
}

/* Return the size that a block declares, -1 if it does not; `*source` is moved past it. */
INLINE int64_t declared_size(const byte **source, const byte *end) {
    int64_t declared = 0;
    for (int shift = 0; *source < end && shift <= 28; shift += 7) {
        const int64_t here = *(*source)++;
        declared |= (here & 0x7F) << shift;
        if (here < 0x80)
            return declared;
    }
    return -1;
}

/* Decompress a raw block; return the number of bytes, or -1. */
static int64_t snappy_block(const byte *source, const byte *end, byte *target, int64_t room) {
    const int64_t declared = declared_size(&source, end);
    if (declared < 0 || declared > room)
        return -1;
    const byte *begin = target, *last = target + declared;
    for (;;) {
        plain_elements(&source, end, &target, begin, last);
        if (source == end)
            return target == last ? declared : -1;
        const int64_t tag = *source++, kind = tag & 3;
        int64_t size = (tag >> 2) + 1;
        if (kind == LITERAL) {
            if (size > LONG_LITERAL) {
                const int64_t width = size - LONG_LITERAL;
                if (width > end - source)
                    return -1;
                size = 1;
                for (int64_t place = 0; place < width; place++)
                    size += (int64_t)source[place] << (8 * place);
                source += width;
            }
            if (size > end - source || size > last - target)
                return -1;
            copy(target, source, size);
            source += size;
        } else {
            const int64_t width = kind == NEAR ? 1 : kind == FAR ? 2 : 4;
            if (width > end - source)
                return -1;
            int64_t distance;
            if (kind == NEAR) {
                size = (tag >> 2 & NEAR_SIZE) + 4;
                distance = (tag & NEAR_DISTANCE) << 3 | *source;
            } else {
                distance = kind == FAR ? load16(source) : load32(source);
            }
            source += width;
            if (distance == 0 || distance > target - begin || size > last - target)
                return -1;
            repeat(target, distance, size);
        }
        target += size;
    }
}

static int64_t decompress_snappy(const byte *source, int64_t size, byte *target, int64_t room) {
    if (size < SNAPPY_HEADER_SIZE || big64(source) != SNAPPY_MAGIC)
        return -1;
    int64_t at = SNAPPY_HEADER_SIZE, done = 0;
    while (size - at >= SNAPPY_LENGTH_SIZE) {
        const int64_t length = big32(source + at);
        at += SNAPPY_LENGTH_SIZE;
        if (length == SNAPPY_NEXT_HEADER || length < 0 || length > size - at)
            return -1;
        const int64_t made = snappy_block(source + at, source + at + length, target + done, room - done);
        if (made < 0)
            return -1;
        at += length;
        done += made;
    }
    return done;
}

/* --- any of them --------------------------------------------------------------------------------------------------- */

/* Decompress one batch; return the number of bytes, or -1, also if they could be more than `largest` or than the
 * room at `target`. */
int64_t decompress_one(int64_t codec, const byte *source, int64_t size, byte *target, int64_t room, int64_t largest,
                       const struct decompressor *with) {
    const int64_t fitting = least(room, largest);
    switch (codec) {
    case CODEC_LZ4:
        if (with->lz4_function == 0)
            return -1;
        return decompress_lz4((lz4_function *)(intptr_t)with->lz4_function, source, size, target, fitting);
    case CODEC_ZSTD:
        return with->zstd_continue == 0 ? -1 : decompress_zstd(with, source, size, target, fitting);
    case CODEC_GZIP:
        return with->gzip_function == 0 ? -1 : decompress_gzip(with, source, size, target, fitting);
    case CODEC_SNAPPY:
        return decompress_snappy(source, size, target, fitting);
    default:
        return -1;
    }
}

/* Decompress batches one after another into the memory of `with`, until they have `budget` bytes; return the number
 * of batches. No batch has more than `largest` bytes. The addresses and sizes of their contents are written to
 * `addresses` and `sizes`. */
EXPORTED int64_t decompress_batches(int64_t codec, const struct decompressor *with, const int64_t *sources,
                                    const int64_t *compressed, int64_t count, int64_t largest, int64_t budget,
                                    int64_t *addresses, int64_t *sizes) {
    int64_t done = 0, number = 0;
    for (; number < count && done < budget; number++) {
        const byte *source = (const byte *)(intptr_t)sources[number];
        byte *target = with->memory + done;
        const int64_t made =
            decompress_one(codec, source, compressed[number], target, with->memory_bytes - done, largest, with);
        if (made < 0)
            break;
        addresses[number] = (int64_t)(intptr_t)target;
        sizes[number] = made;
        done += made;
    }
    return number;
}
