/* Largest and smallest numbers, and where they stand. */
#include "belljar_kernels.h"

/* Vectors that are looked at in one turn. */
enum { TURN = 8 };

#define VECTOR(type) __attribute__((ext_vector_type(16 / sizeof(type)), aligned(sizeof(type)))) type

/* What differs between whole numbers and floating-point ones: NaN. */
#define NO_NAN(x) 0
#define IS_NAN(x) ((x) != (x))
#define WHOLE(x, seen) (void)(seen)
#define FLOATING(x, seen) ((seen) |= ((x) != (x)))

/* `better` is > or <. On x86-64 and ARM both forms of the choice are a single instruction for
 * floating-point vectors. */
#define EXTREME(NAME, type, kind, better, note_nan, is_nan, mask)                                    \
    typedef VECTOR(type) kind##_##NAME##_vector;                                                     \
    typedef VECTOR(mask) kind##_##NAME##_mask;                                                       \
    void belljar_##kind##_of_##NAME(const type *from, size_t n, type *into) {                        \
        enum { LANES = 16 / sizeof(type) };                                                          \
        type best = *into;                                                                           \
        size_t i = 0;                                                                                \
        if (n >= TURN * LANES) {                                                                     \
            kind##_##NAME##_vector acc[TURN];                                                        \
            kind##_##NAME##_mask nan = 0;                                                            \
            _Pragma("clang loop unroll(full)") for (int v = 0; v < TURN; v++) acc[v] = best;         \
            for (; i + TURN * LANES <= n; i += TURN * LANES) {                                       \
                _Pragma("clang loop unroll(full)") for (int v = 0; v < TURN; v++) {                  \
                    kind##_##NAME##_vector x = *(const kind##_##NAME##_vector *)(from + i + v * LANES); \
                    acc[v] = x better acc[v] ? x : acc[v];                                           \
                    note_nan(x, nan);                                                                \
                }                                                                                    \
            }                                                                                        \
            type lanes[TURN * LANES];                                                                \
            __builtin_memcpy(lanes, acc, sizeof lanes);                                              \
            for (int lane = 0; lane < TURN * LANES; lane++) best = lanes[lane] better best ? lanes[lane] : best; \
            int any = 0;                                                                             \
            for (int lane = 0; lane < LANES; lane++) any |= nan[lane] != 0;                          \
            if (any) i = 0; /* the plain loop below finds which */                                   \
        }                                                                                            \
        for (; i < n && !is_nan(best); i++)                                                          \
            if (from[i] better best || is_nan(from[i])) best = from[i];                              \
        *into = best;                                                                                \
    }                                                                                                \
    void belljar_##kind##_##NAME(const type *a, const type *b, type *to, size_t n) {                 \
        enum { LANES = 16 / sizeof(type) };                                                          \
        size_t i = 0;                                                                                \
        _Pragma("clang loop unroll_count(4)") for (; i + LANES <= n; i += LANES) {                   \
            kind##_##NAME##_vector x = *(const kind##_##NAME##_vector *)(a + i);                     \
            kind##_##NAME##_vector y = *(const kind##_##NAME##_vector *)(b + i);                     \
            kind##_##NAME##_vector r = y better x ? y : x;                                           \
            if (is_nan(0.0 / 0.0)) r = y != y ? (x != x ? x : y) : r;                                \
            *(kind##_##NAME##_vector *)(to + i) = r;                                                 \
        }                                                                                            \
        for (; i < n; i++) to[i] = is_nan(a[i]) || !(b[i] better a[i] || is_nan(b[i])) ? a[i] : b[i]; \
    }

#define ARGUMENT(NAME, type, name, kind, is_nan)                                                     \
    size_t belljar_##name##_##NAME(const type *from, size_t n) {                                     \
        /* Block by block: only one that holds something better is searched. */                      \
        enum { BLOCK = 1024 };                                                                       \
        type best = from[0];                                                                         \
        size_t at = 0;                                                                               \
        for (size_t begin = 0; begin < n && !is_nan(best); begin += BLOCK) {                         \
            size_t count = n - begin < BLOCK ? n - begin : BLOCK;                                    \
            type found = best;                                                                       \
            belljar_##kind##_of_##NAME(from + begin, count, &found);                                 \
            if (found == best) continue;                                                             \
            best = found;                                                                            \
            at = begin;                                                                              \
            while (is_nan(best) ? !is_nan(from[at]) : from[at] != best) at++;                        \
        }                                                                                            \
        return at;                                                                                   \
    }

#define KERNELS(NAME, type, note_nan, is_nan, mask)                                                  \
    EXTREME(NAME, type, maximum, >, note_nan, is_nan, mask)                                          \
    EXTREME(NAME, type, minimum, <, note_nan, is_nan, mask)                                          \
    ARGUMENT(NAME, type, argmax, maximum, is_nan)                                                    \
    ARGUMENT(NAME, type, argmin, minimum, is_nan)

KERNELS(BYTE, int8_t, WHOLE, NO_NAN, int8_t)
KERNELS(UBYTE, uint8_t, WHOLE, NO_NAN, int8_t)
KERNELS(SHORT, int16_t, WHOLE, NO_NAN, int16_t)
KERNELS(USHORT, uint16_t, WHOLE, NO_NAN, int16_t)
KERNELS(INT, int32_t, WHOLE, NO_NAN, int32_t)
KERNELS(UINT, uint32_t, WHOLE, NO_NAN, int32_t)
KERNELS(LONGLONG, int64_t, WHOLE, NO_NAN, int64_t)
KERNELS(ULONGLONG, uint64_t, WHOLE, NO_NAN, int64_t)
KERNELS(FLOAT, float, FLOATING, IS_NAN, int32_t)
KERNELS(DOUBLE, double, FLOATING, IS_NAN, int64_t)
