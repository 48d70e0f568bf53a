/* Sums, differences, products and quotients that look at their results on the way: see
 * include/belljar_fpe.h. */
#include <wasm_simd128.h>

#include "belljar_kernels.h"

/* Vectors that are computed before they are stored. */
enum { TURN = 4 };

/* x * 0 is 0 for all numbers but infinities and NaN, for which it is NaN. */
#define KERNEL(name, suffix, type, lanes, operator, shape)                                           \
    size_t belljar_##name##_##suffix(const type *a, size_t a_step, const type *b, size_t b_step, type *to, size_t n) { \
        typedef type vector __attribute__((ext_vector_type(lanes), aligned(sizeof(type))));          \
        const vector zero = 0;                                                                       \
        size_t i = 0;                                                                                \
        vector x0 = *a, y0 = *b;                                                                     \
        if (a_step && b_step) {                                                                      \
            LOOP(vector, lanes, shape, *(const vector *)(a + i + v * lanes) operator *(const vector *)(b + i + v * lanes)) \
        } else if (a_step) {                                                                         \
            LOOP(vector, lanes, shape, *(const vector *)(a + i + v * lanes) operator y0)             \
        } else {                                                                                     \
            LOOP(vector, lanes, shape, x0 operator *(const vector *)(b + i + v * lanes))             \
        }                                                                                            \
        return i;                                                                                    \
    }
#define LOOP(vector, lanes, shape, expression)                                                       \
    for (; i + TURN * lanes <= n; i += TURN * lanes) {                                               \
        vector result[TURN], seen = 0;                                                               \
        _Pragma("clang loop unroll(full)") for (int v = 0; v < TURN; v++) {                          \
            result[v] = expression;                                                                  \
            seen = (vector)wasm_##shape##_relaxed_madd((v128_t)result[v], (v128_t)zero, (v128_t)seen); \
        }                                                                                            \
        if (wasm_v128_any_true(wasm_##shape##_ne((v128_t)seen, (v128_t)seen))) return i;             \
        _Pragma("clang loop unroll(full)") for (int v = 0; v < TURN; v++) *(vector *)(to + i + v * lanes) = result[v]; \
    }

#define KERNELS(suffix, type, lanes, shape)                                                          \
    KERNEL(add, suffix, type, lanes, +, shape)                                                       \
    KERNEL(subtract, suffix, type, lanes, -, shape)                                                  \
    KERNEL(multiply, suffix, type, lanes, *, shape)                                                  \
    KERNEL(divide, suffix, type, lanes, /, shape)
KERNELS(f64, double, 2, f64x2)
KERNELS(f32, float, 4, f32x4)

#define FINITE(suffix, type, lanes, shape)                                                           \
    int belljar_all_finite_##suffix(const type *from, size_t n) {                                    \
        typedef type vector __attribute__((ext_vector_type(lanes), aligned(sizeof(type))));          \
        const vector zero = 0;                                                                       \
        vector seen[4] = {0, 0, 0, 0};                                                               \
        type rest = 0;                                                                               \
        size_t i = 0;                                                                                \
        for (; i + 4 * lanes <= n; i += 4 * lanes)                                                   \
            _Pragma("clang loop unroll(full)") for (int v = 0; v < 4; v++)                           \
                seen[v] = (vector)wasm_##shape##_relaxed_madd(wasm_v128_load(from + i + v * lanes), (v128_t)zero, (v128_t)seen[v]); \
        for (; i < n; i++) rest += from[i] * 0;                                                      \
        vector all = (seen[0] + seen[1]) + (seen[2] + seen[3]);                                      \
        for (int lane = 0; lane < lanes; lane++) rest += all[lane];                                  \
        return rest == 0;                                                                            \
    }
FINITE(f64, double, 2, f64x2)
FINITE(f32, float, 4, f32x4)
