/* exp and log of two numbers at a time. What is not ordinary (huge, tiny, infinite, not a number)
 * is left to the C library. */
#include <math.h>
#include <wasm_simd128.h>

#include "belljar_kernels.h"

/* The C library's table of 2**(i/128), as it declares it: exp is a table entry and a short
 * polynomial, and as exact as the C library's own. */
enum { EXP_BITS = 7, EXP_SIZE = 1 << EXP_BITS };
extern const struct {
    double inverse_ln2, shift, minus_ln2_high, minus_ln2_low;
    double polynomial[4], shift2, polynomial2[5];
    uint64_t table[2 * EXP_SIZE];
} __exp_data;
typedef double pair __attribute__((ext_vector_type(2), aligned(8)));
typedef uint64_t words __attribute__((ext_vector_type(2), aligned(8)));

/* A constant of a table, as the operand it becomes: read where it is needed, not kept in one of
 * sixteen registers. */
#define C(place) ((pair)wasm_v128_load64_splat(&(place)))

/* a * b + c, with one rounding where the machine can: only where two would do no harm. */
static inline pair madd(pair a, pair b, pair c) { return (pair)wasm_f64x2_relaxed_madd((v128_t)a, (v128_t)b, (v128_t)c); }

static inline int all(v128_t mask) { return wasm_i64x2_all_true(mask); }

static inline pair exp_of(pair x) {
    const double *c = __exp_data.polynomial;
    pair k = madd(x, C(__exp_data.inverse_ln2), C(__exp_data.shift));
    words bits = (words)k;
    k -= C(__exp_data.shift);
    pair r = madd(k, C(__exp_data.minus_ln2_low), madd(k, C(__exp_data.minus_ln2_high), x));
    const uint64_t *first = __exp_data.table + 2 * (bits.x % EXP_SIZE), *second = __exp_data.table + 2 * (bits.y % EXP_SIZE);
    v128_t low = wasm_v128_load(first), high = wasm_v128_load(second);
    pair tail = (pair)wasm_i64x2_shuffle(low, high, 0, 2);
    pair scale = (pair)((words)wasm_i64x2_shuffle(low, high, 1, 3) + (bits << (52 - EXP_BITS)));
    pair square = r * r;
    pair upper = madd(r, C(c[3]), C(c[2])), lower = madd(r, C(c[1]), C(c[0]));
    return madd(scale, madd(square, madd(square, upper, lower), tail + r), scale);
}

void belljar_exp(const double *from, double *to, size_t n) {
    const v128_t limit = wasm_f64x2_splat(700.0);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        pair x = *(const pair *)(from + i), y = *(const pair *)(from + i + 2);
        v128_t usual = wasm_v128_and(wasm_f64x2_lt(wasm_f64x2_abs((v128_t)x), limit), wasm_f64x2_lt(wasm_f64x2_abs((v128_t)y), limit));
        if (all(usual)) {
            *(pair *)(to + i) = exp_of(x);
            *(pair *)(to + i + 2) = exp_of(y);
        } else {
            double copy[4] = {x.x, x.y, y.x, y.y};
            for (int j = 0; j < 4; j++) to[i + j] = exp(copy[j]);
        }
    }
    for (; i < n; i++) to[i] = exp(from[i]);
}

/* x = 2**k * z with z around 1; log z = log((1 + s) / (1 - s)) for s = (z - 1) / (z + 1), whose series
 * has only odd powers. Good to less than one unit in the last place, also close to 1. */
static const double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33;
/* The best polynomial for (log((1 + s) / (1 - s)) - 2 s) / s**3 in s**2, up to s = 3 - sqrt(8). */
static const double SERIES[] = {
    0x1.5555555555558p-1, 0x1.9999999994e76p-2, 0x1.2492492e6dfddp-2, 0x1.c71c6247410e3p-3, 0x1.7462e17b4cdd0p-3, 0x1.39f8963ccbdc2p-3, 0x1.2b9f7fb3de73fp-3,
};

static inline pair log_of(pair x) {
    /* Such that z lies between the roots of 1/2 and 2. */
    const uint64_t root_half = 0x3fe6a09e667f3bcdu, exponent = 0xfffull << 52;
    words bits = (words)x, above = bits - root_half;
    /* k + 1024 as a number, by way of the last bits of 2**52. */
    pair k = (pair)(((above + (1024ull << 52)) >> 52) | 0x4330000000000000u) - (0x1p52 + 1024);
    pair f = (pair)(bits - (above & exponent)) - 1.0;
    pair s = f / (2.0 + f), z = s * s, w = z * z, half_square = 0.5 * f * f;
    pair even = w * madd(w, madd(w, C(SERIES[5]), C(SERIES[3])), C(SERIES[1]));
    pair odd = madd(w, madd(w, madd(w, C(SERIES[6]), C(SERIES[4])), C(SERIES[2])), C(SERIES[0]));
    /* log z = f - f*f/2 + s * (f*f/2 + rest): the large terms are exact. */
    pair rest = madd(s, half_square + madd(z, odd, even), k * C(LN2_LOW));
    return k * C(LN2_HIGH) - ((half_square - rest) - f);
}

void belljar_log(const double *from, double *to, size_t n) {
    const v128_t least = wasm_f64x2_splat(0x1p-1022), most = wasm_f64x2_splat(__builtin_inf());
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        pair x = *(const pair *)(from + i), y = *(const pair *)(from + i + 2);
        v128_t usual = wasm_v128_and(wasm_f64x2_ge((v128_t)x, least), wasm_f64x2_lt((v128_t)x, most));
        usual = wasm_v128_and(usual, wasm_v128_and(wasm_f64x2_ge((v128_t)y, least), wasm_f64x2_lt((v128_t)y, most)));
        if (all(usual)) {
            *(pair *)(to + i) = log_of(x);
            *(pair *)(to + i + 2) = log_of(y);
        } else {
            double copy[4] = {x.x, x.y, y.x, y.y};
            for (int j = 0; j < 4; j++) to[i + j] = log(copy[j]);
        }
    }
    for (; i < n; i++) to[i] = (double)log(from[i]);
}
