/* CRC-32C and CRC-32, computed by instructions if the processor has them, otherwise by tables.
 *
 * x86-64: the instruction for CRC-32C processes eight bytes and needs three cycles, so three streams are
 * interleaved; meanwhile carry-less multiplication folds a fourth stream (Gopal et al., "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ Instruction", 2009). CRC-32 is folded alone. aarch64 has instructions for
 * both. */
#include "kafkalog.h"
#include "crc_tables.h"

enum { BY_TABLES, BY_INSTRUCTIONS };

/* Return what eight bytes, the first one lowest, add to a checksum if `behind` bytes follow them in the same step. */
INLINE uint32_t eight(const uint32_t tables[][256], uint64_t value, int behind) {
    return tables[behind + 7][value & 0xFF] ^ tables[behind + 6][value >> 8 & 0xFF] ^
           tables[behind + 5][value >> 16 & 0xFF] ^ tables[behind + 4][value >> 24 & 0xFF] ^
           tables[behind + 3][value >> 32 & 0xFF] ^ tables[behind + 2][value >> 40 & 0xFF] ^
           tables[behind + 1][value >> 48 & 0xFF] ^ tables[behind][value >> 56];
}

/* Return the checksum after `size` further bytes. */
INLINE uint32_t bytewise(const uint32_t tables[][256], uint32_t crc, const byte *at, int64_t size) {
    for (; size >= 8; at += 8, size -= 8)
        crc = eight(tables, load64(at) ^ crc, 0);
    for (; size > 0; at++, size--)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xFF];
    return crc;
}

static uint32_t crc32c_by_tables(const byte *at, int64_t size) { return ~bytewise(CRC32C_TABLES, ~0u, at, size); }

/* Return the CRC-32 after fewer than 16 further bytes. */
INLINE uint32_t ieee_rest(uint32_t crc, const byte *at, int64_t size) {
    if (size >= 8) {
        crc = eight(CRC32_TABLES, load64(at) ^ crc, 0);
        at += 8, size -= 8;
    }
    if (size >= 4) {
        const uint32_t value = load32(at) ^ crc;
        crc = CRC32_TABLES[3][value & 0xFF] ^ CRC32_TABLES[2][value >> 8 & 0xFF] ^ CRC32_TABLES[1][value >> 16 & 0xFF] ^
              CRC32_TABLES[0][value >> 24];
        at += 4, size -= 4;
    }
    return bytewise(CRC32_TABLES, crc, at, size);
}

static uint32_t ieee_by_tables(const byte *at, int64_t size) {
    uint32_t crc = ~0u;
    for (; size >= 16; at += 16, size -= 16)
        crc = eight(CRC32_TABLES, load64(at) ^ crc, 8) ^ eight(CRC32_TABLES, load64(at + 8), 0);
    return ~ieee_rest(crc, at, size);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define INSTRUCTIONS __attribute__((target("sse4.2,crc32,pclmul")))
#define FOLDED 16 /* bytes of a register, which are folded onto those behind them */
#define LANES 3   /* of the folded stream, a round takes as many registers */
#define STEP 32   /* and of each of the other three streams so many bytes */
#define ROUND (LANES * FOLDED + 3 * STEP)
#define LINE 64 /* bytes of a line of the cache */

static int way(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return BY_TABLES;
    return (c & bit_SSE4_2) && (c & bit_PCLMUL) ? BY_INSTRUCTIONS : BY_TABLES;
}

INSTRUCTIONS INLINE __m128i load128(const byte *at) { return _mm_loadu_si128((const __m128i *)(const void *)at); }

/* Move a register past as many registers as the keys are for, and add `onto`. */
INSTRUCTIONS INLINE __m128i fold(__m128i value, __m128i keys, __m128i onto) {
    const __m128i lower = _mm_clmulepi64_si128(value, keys, 0x00), upper = _mm_clmulepi64_si128(value, keys, 0x11);
    return _mm_xor_si128(_mm_xor_si128(lower, upper), onto);
}

/* Return the lower half of the carry-less product. */
INSTRUCTIONS INLINE uint64_t times(uint64_t first, uint64_t second) {
    const __m128i a = _mm_cvtsi64_si128((int64_t)first), b = _mm_cvtsi64_si128((int64_t)second);
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(a, b, 0x00));
}

/* Return the checksum after as many blocks of `rounds` rounds as fit below `end`; `*at` is moved past them. `keys`
 * move a checksum past one, two and three streams. */
INSTRUCTIONS INLINE uint64_t blocks(uint64_t crc, const byte **at, const byte *end, int64_t rounds, const uint64_t keys[3]) {
    const __m128i many = _mm_set_epi64x((int64_t)CRC32C_FOLD_3[1], (int64_t)CRC32C_FOLD_3[0]);
    const __m128i one = _mm_set_epi64x((int64_t)CRC32C_FOLD_1[1], (int64_t)CRC32C_FOLD_1[0]);
    while (end - *at >= rounds * ROUND) {
        const byte *start = *at, *next = start + rounds * ROUND;
        const byte *first = start + rounds * LANES * FOLDED, *second = first + rounds * STEP, *third = second + rounds * STEP;
        __m128i a = _mm_xor_si128(load128(start), _mm_cvtsi64_si128((int64_t)crc));
        __m128i b = load128(start + FOLDED), c = load128(start + 2 * FOLDED);
        uint64_t x = 0, y = 0, z = 0;
        for (int64_t round = 0; round < rounds; round++) {
            if (round + 1 < rounds) {
                for (int line = 0; line < ROUND; line += LINE) /* it may lie outside: fetching ahead never fails */
                    __builtin_prefetch((const void *)((uintptr_t)next + (uintptr_t)((round + 1) * ROUND + line)));
                const byte *here = start + (round + 1) * LANES * FOLDED;
                a = fold(a, many, load128(here));
                b = fold(b, many, load128(here + FOLDED));
                c = fold(c, many, load128(here + 2 * FOLDED));
            }
            for (int each = 0; each < STEP; each += 8) {
                x = _mm_crc32_u64(x, load64(first + STEP * round + each));
                y = _mm_crc32_u64(y, load64(second + STEP * round + each));
                z = _mm_crc32_u64(z, load64(third + STEP * round + each));
            }
        }
        a = fold(fold(a, one, b), one, c);
        const uint64_t folded =
            _mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(a)), (uint64_t)_mm_extract_epi64(a, 1));
        crc = _mm_crc32_u64(0, times(folded, keys[2]) ^ times(x, keys[1]) ^ times(y, keys[0])) ^ z;
        *at = next;
    }
    return crc;
}

INSTRUCTIONS static uint32_t crc32c_by_instructions(const byte *at, int64_t size) {
    const byte *end = at + size;
    uint64_t crc = 0xFFFFFFFF;
    crc = blocks(crc, &at, end, 32, CRC32C_MOVE_32);
    crc = blocks(crc, &at, end, 8, CRC32C_MOVE_8);
    crc = blocks(crc, &at, end, 2, CRC32C_MOVE_2);
    for (; end - at >= 8; at += 8)
        crc = _mm_crc32_u64(crc, load64(at));
    for (; at < end; at++)
        crc = _mm_crc32_u8((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

INSTRUCTIONS static uint32_t ieee_by_instructions(const byte *at, int64_t size) {
    const int64_t whole = size - size % FOLDED;
    const byte *end = at + size, *folded_end = at + whole;
    uint32_t crc = ~0u;
    if (whole > 0) {
        const __m128i many = _mm_set_epi64x((int64_t)CRC32_FOLD_4[1], (int64_t)CRC32_FOLD_4[0]);
        const __m128i one = _mm_set_epi64x((int64_t)CRC32_FOLD_1[1], (int64_t)CRC32_FOLD_1[0]);
        __m128i a = _mm_xor_si128(load128(at), _mm_cvtsi64_si128((int64_t)(uint64_t)crc));
        if (whole >= 8 * FOLDED) {
            __m128i b = load128(at + FOLDED), c = load128(at + 2 * FOLDED), d = load128(at + 3 * FOLDED);
            for (at += 4 * FOLDED; folded_end - at >= 4 * FOLDED; at += 4 * FOLDED) {
                a = fold(a, many, load128(at));
                b = fold(b, many, load128(at + FOLDED));
                c = fold(c, many, load128(at + 2 * FOLDED));
                d = fold(d, many, load128(at + 3 * FOLDED));
            }
            a = fold(fold(fold(a, one, b), one, c), one, d);
        } else {
            at += FOLDED;
        }
        for (; at < folded_end; at += FOLDED)
            a = fold(a, one, load128(at));
        crc = eight(CRC32_TABLES, (uint64_t)_mm_cvtsi128_si64(a), 8) ^ eight(CRC32_TABLES, (uint64_t)_mm_extract_epi64(a, 1), 0);
    }
    return ~ieee_rest(crc, at, end - at);
}

#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>

#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#define INSTRUCTIONS __attribute__((target("+crc")))

static int way(void) { return getauxval(AT_HWCAP) & HWCAP_CRC32 ? BY_INSTRUCTIONS : BY_TABLES; }

INSTRUCTIONS static uint32_t crc32c_by_instructions(const byte *at, int64_t size) {
    uint32_t crc = ~0u;
    for (; size >= 8; at += 8, size -= 8)
        crc = __crc32cd(crc, load64(at));
    for (; size > 0; at++, size--)
        crc = __crc32cb(crc, *at);
    return ~crc;
}

INSTRUCTIONS static uint32_t ieee_by_instructions(const byte *at, int64_t size) {
    uint32_t crc = ~0u;
    for (; size >= 8; at += 8, size -= 8)
        crc = __crc32d(crc, load64(at));
    for (; size > 0; at++, size--)
        crc = __crc32b(crc, *at);
    return ~crc;
}

#else
static int way(void) { return BY_TABLES; }
static uint32_t crc32c_by_instructions(const byte *at, int64_t size) { return crc32c_by_tables(at, size); }
static uint32_t ieee_by_instructions(const byte *at, int64_t size) { return ieee_by_tables(at, size); }
#endif

/* Determined once, when the library is loaded, and constant from then on: a query of the processor takes longer than
 * the checksum of a batch. */
static int chosen_way;
__attribute__((constructor)) static void choose_way(void) { chosen_way = way(); }

uint32_t checksum(const byte *at, int64_t size) {
    return LIKELY(chosen_way == BY_INSTRUCTIONS) ? crc32c_by_instructions(at, size) : crc32c_by_tables(at, size);
}

uint32_t checksum_ieee(const byte *at, int64_t size) {
    return LIKELY(chosen_way == BY_INSTRUCTIONS) ? ieee_by_instructions(at, size) : ieee_by_tables(at, size);
}

/* Whether checksums are computed by instructions. */
EXPORTED int64_t has_instructions(void) { return chosen_way == BY_INSTRUCTIONS; }

/* Return the CRC-32C (`is_ieee` 0) or CRC-32 of `size` bytes; with `by_tables` no instructions are used. */
EXPORTED int64_t crc_of(const byte *at, int64_t size, int64_t is_ieee, int64_t by_tables) {
    if (by_tables)
        return is_ieee ? ieee_by_tables(at, size) : crc32c_by_tables(at, size);
    return is_ieee ? checksum_ieee(at, size) : checksum(at, size);
}
