/* Sorting by digits. Numbers become keys that order as unsigned words. Three passes over digits
 * of eleven bits, the upper ones of those in which the keys differ, bring nearly everything into
 * place; runs of keys that are equal so far are finished one by one. */
#include <stdlib.h>
#include <string.h>

#include "belljar_kernels.h"

enum { DIGIT = 11, FIRST_BITS = 3 * DIGIT };
/* Fewer are sorted by comparing, and fewer than this need no table of the largest size. */
enum { FEW = 24, SMALL_TABLE = 4096, SMALL_DIGIT = 8 };

typedef uint64_t u64;
typedef uint32_t u32;

static int bits_of(u64 word) { return word ? 64 - __builtin_clzll(word) : 0; }

/* One stable pass by the `width` bits from `low` on. */
#define PASS(suffix, word)                                                                           \
    static void pass_##suffix(const word *from, word *to, size_t n, int low, u32 *count, u32 mask) { \
        u32 sum = 0;                                                                                 \
        for (u32 digit = 0; digit <= mask; digit++) {                                                \
            u32 here = count[digit];                                                                 \
            count[digit] = sum;                                                                      \
            sum += here;                                                                             \
        }                                                                                            \
        size_t i = 0;                                                                                \
        for (; i + 4 <= n; i += 4) {                                                                 \
            word a = from[i], b = from[i + 1], c = from[i + 2], d = from[i + 3];                     \
            to[count[(a >> low) & mask]++] = a;                                                      \
            to[count[(b >> low) & mask]++] = b;                                                      \
            to[count[(c >> low) & mask]++] = c;                                                      \
            to[count[(d >> low) & mask]++] = d;                                                      \
        }                                                                                            \
        for (; i < n; i++) to[count[(from[i] >> low) & mask]++] = from[i];                           \
    }                                                                                                \
                                                                                                     \
    /* Sorts by the bits from low to high. All counting is done in one walk. */                      \
    static void digits_##suffix(word *items, word *spare, size_t n, int low, int high) {             \
        static u32 counts[3][1 << DIGIT];                                                            \
        int passes = (high - low + (n < SMALL_TABLE ? SMALL_DIGIT : DIGIT) - 1) / (n < SMALL_TABLE ? SMALL_DIGIT : DIGIT); \
        word *from = items, *to = spare;                                                             \
        while (passes > 0) {                                                                         \
            int together = passes < 3 ? passes : 3, width = (high - low + passes - 1) / passes;      \
            u32 mask = (1u << width) - 1;                                                            \
            for (int p = 0; p < together; p++) memset(counts[p], 0, sizeof(u32) << width);           \
            int second = low + width, third = second + width;                                        \
            if (third > (int)sizeof(word) * 8 - 1) third = (int)sizeof(word) * 8 - 1;                \
            if (second > (int)sizeof(word) * 8 - 1) second = (int)sizeof(word) * 8 - 1;              \
            for (size_t i = 0; i < n; i++) {                                                         \
                word x = from[i];                                                                    \
                counts[0][(x >> low) & mask]++;                                                      \
                counts[1][(x >> second) & mask]++;                                                   \
                counts[2][(x >> third) & mask]++;                                                    \
            }                                                                                        \
            for (int p = 0; p < together; p++, low += width) {                                       \
                if (counts[p][(from[0] >> low) & mask] == n) continue;                               \
                pass_##suffix(from, to, n, low, counts[p], mask);                                    \
                word *other = from;                                                                  \
                from = to;                                                                           \
                to = other;                                                                          \
            }                                                                                        \
            passes -= together;                                                                      \
        }                                                                                            \
        if (from != items) memcpy(items, from, n * sizeof(word));                                    \
    }
PASS(32, u32)
PASS(64, u64)

/* Sorts words whose bits from `high` on are the same. */
static void sort_words(u64 *items, u64 *spare, size_t n, int high) {
    if (n <= FEW) {
        for (size_t i = 1; i < n; i++) {
            u64 x = items[i];
            size_t j = i;
            for (; j > 0 && items[j - 1] > x; j--) items[j] = items[j - 1];
            items[j] = x;
        }
        return;
    }
    int low = high > FIRST_BITS ? high - FIRST_BITS : 0;
    digits_64(items, spare, n, low, high);
    if (low == 0) return;
    for (size_t begin = 0; begin + 1 < n;) {
        u64 same = items[begin] >> low, different = 0;
        size_t end = begin + 1;
        for (; end < n && items[end] >> low == same; end++) different |= items[end] ^ items[begin];
        if (different) sort_words(items + begin, spare, end - begin, bits_of(different));
        begin = end;
    }
}

/* Keys and back. */
#define SIGN32 0x80000000u
#define SIGN64 0x8000000000000000u
static u32 key_i32(u32 x) { return x ^ SIGN32; }
static u32 key_u32(u32 x) { return x; }
static u32 key_f32(u32 x) { return x ^ ((u32)((int32_t)x >> 31) | SIGN32); }
static u32 back_f32(u32 x) { return x ^ (((x >> 31) - 1) | SIGN32); }
static u64 key_i64(u64 x) { return x ^ SIGN64; }
static u64 key_u64(u64 x) { return x; }
static u64 key_f64(u64 x) { return x ^ ((u64)((int64_t)x >> 63) | SIGN64); }
static u64 back_f64(u64 x) { return x ^ (((x >> 63) - 1) | SIGN64); }
#define back_i32 key_i32
#define back_u32 key_u32
#define back_i64 key_i64
#define back_u64 key_u64

/* NaN goes to the end; how many numbers are left. */
#define KEEP_ALL(name, type)                                                                         \
    static size_t without_nan_##name(type *numbers, size_t n) { return (void)numbers, n; }
#define MOVE_NAN(name, type)                                                                         \
    static size_t without_nan_##name(type *numbers, size_t n) {                                      \
        for (size_t i = 0; i < n;) {                                                                 \
            type x = numbers[i];                                                                     \
            if (x == x) {                                                                            \
                i++;                                                                                 \
            } else {                                                                                 \
                n--;                                                                                 \
                numbers[i] = numbers[n];                                                             \
                numbers[n] = x;                                                                      \
            }                                                                                        \
        }                                                                                            \
        return n;                                                                                    \
    }
KEEP_ALL(i32, int32_t)
KEEP_ALL(u32, uint32_t)
KEEP_ALL(i64, int64_t)
KEEP_ALL(u64, uint64_t)
MOVE_NAN(f32, float)
MOVE_NAN(f64, double)

static void finish_32(u32 *keys, u32 *spare, size_t n, u32 different) { digits_32(keys, spare, n, 0, bits_of(different)); }
static void finish_64(u64 *keys, u64 *spare, size_t n, u64 different) { sort_words(keys, spare, n, bits_of(different)); }

#define SORT(name, type, bits)                                                                       \
    int belljar_sort_##name(type *numbers, size_t n) {                                               \
        u##bits *spare = malloc(n * sizeof(type));                                                   \
        if (spare == NULL) return 0;                                                                 \
        n = without_nan_##name(numbers, n);                                                          \
        u##bits *keys = (u##bits *)numbers, different = 0, last = 0;                                 \
        int sorted = 1;                                                                              \
        for (size_t i = 0; i < n; i++) {                                                             \
            u##bits x = key_##name(keys[i]);                                                         \
            sorted &= last <= x;                                                                     \
            last = keys[i] = x;                                                                      \
            different |= x ^ keys[0];                                                                \
        }                                                                                            \
        if (!sorted) finish_##bits(keys, spare, n, different);                                       \
        for (size_t i = 0; i < n; i++) keys[i] = back_##name(keys[i]);                               \
        free(spare);                                                                                 \
        return 1;                                                                                    \
    }
SORT(i32, int32_t, 32)
SORT(u32, uint32_t, 32)
SORT(f32, float, 32)
SORT(i64, int64_t, 64)
SORT(u64, uint64_t, 64)
SORT(f64, double, 64)

/* The key of a place. Zeros are equal and so is every NaN, since equal ones keep their order. */
#define PLACE(name, type, bits)                                                                      \
    static inline u##bits place_##name(const type *from, u32 at) {                                   \
        type x = from[at];                                                                           \
        u##bits word;                                                                                \
        if (x == 0) x = 0;                                                                           \
        if (x != x) return (u##bits)-1;                                                              \
        memcpy(&word, &x, sizeof word);                                                              \
        return key_##name(word);                                                                     \
    }

/* Items of an argsort: the upper 32 bits are those of the key from `shift` on, the lower ones the
 * place. Sorts what is equal above `high`. */
#define ARGSORT_RUNS(name, type)                                                                     \
    static void sort_places_##name(const type *from, u64 *items, u64 *spare, size_t n, int high) {   \
        if (n <= FEW) {                                                                              \
            for (size_t i = 1; i < n; i++) {                                                         \
                u64 item = items[i], key = place_##name(from, (u32)item);                            \
                size_t j = i;                                                                        \
                for (; j > 0 && place_##name(from, (u32)items[j - 1]) > key; j--) items[j] = items[j - 1]; \
                items[j] = item;                                                                     \
            }                                                                                        \
            return;                                                                                  \
        }                                                                                            \
        int shift = high > 32 ? high - 32 : 0;                                                       \
        for (size_t i = 0; i < n; i++) items[i] = (u32)items[i] | (u64)place_##name(from, (u32)items[i]) >> shift << 32; \
        digits_64(items, spare, n, 32, 32 + high - shift);                                           \
        if (shift == 0) return;                                                                      \
        for (size_t begin = 0; begin + 1 < n;) {                                                     \
            u64 same = items[begin] >> 32, different = 0, first = place_##name(from, (u32)items[begin]); \
            size_t end = begin + 1;                                                                  \
            for (; end < n && items[end] >> 32 == same; end++) different |= place_##name(from, (u32)items[end]) ^ first; \
            if (different) sort_places_##name(from, items + begin, spare, end - begin, bits_of(different)); \
            begin = end;                                                                             \
        }                                                                                            \
    }

#define ARGSORT(name, type, bits)                                                                    \
    PLACE(name, type, bits)                                                                          \
    ARGSORT_RUNS(name, type)                                                                         \
    int belljar_argsort_##name(const type *from, u32 *order, size_t n) {                             \
        if (n < 2) return 1;                                                                         \
        u64 different = 0, last = 0, first = place_##name(from, order[0]);                           \
        int sorted = 1;                                                                              \
        for (size_t i = 0; i < n; i++) {                                                             \
            u64 key = place_##name(from, order[i]);                                                  \
            sorted &= last <= key;                                                                   \
            last = key;                                                                              \
            different |= key ^ first;                                                                \
        }                                                                                            \
        if (sorted) return 1;                                                                        \
        if (n > SIZE_MAX / 16) return 0;                                                             \
        u64 *items = malloc(n * 16);                                                                 \
        if (items == NULL) return 0;                                                                 \
        for (size_t i = 0; i < n; i++) items[i] = order[i];                                          \
        sort_places_##name(from, items, items + n, n, bits_of(different));                           \
        for (size_t i = 0; i < n; i++) order[i] = (u32)items[i];                                     \
        free(items);                                                                                 \
        return 1;                                                                                    \
    }
ARGSORT(i32, int32_t, 32)
ARGSORT(u32, uint32_t, 32)
ARGSORT(f32, float, 32)
ARGSORT(i64, int64_t, 64)
ARGSORT(u64, uint64_t, 64)
ARGSORT(f64, double, 64)
