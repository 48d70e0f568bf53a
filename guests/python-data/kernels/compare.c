/* Comparisons of numbers that lie one after the other, or of such with a single number. */
#include "belljar_kernels.h"

/* Results are bytes, so this many fill a vector. */
enum { LANES = 16 };

#define LANES_OF(type) __attribute__((ext_vector_type(16), aligned(sizeof(type)))) type
typedef LANES_OF(int8_t) bytes;

#define COMPARE(kind, operator, name, type)                                                          \
    typedef LANES_OF(type) kind##_##name##_vector;                                                   \
    void belljar_##kind##_##name(const type *a, size_t a_step, const type *b, size_t b_step, uint8_t *to, size_t n) { \
        size_t i = 0;                                                                                \
        kind##_##name##_vector x = *a, y = *b;                                                       \
        for (; i + LANES <= n; i += LANES) {                                                         \
            if (a_step) x = *(const kind##_##name##_vector *)(a + i);                                \
            if (b_step) y = *(const kind##_##name##_vector *)(b + i);                                \
            *(bytes *)(to + i) = __builtin_convertvector(x operator y, bytes) & 1;                   \
        }                                                                                            \
        for (; i < n; i++) to[i] = a[i * a_step] operator b[i * b_step];                             \
    }

#define EQUALITY(name, type) COMPARE(equal, ==, name, type) COMPARE(not_equal, !=, name, type)
#define ORDER(name, type) COMPARE(less, <, name, type) COMPARE(less_equal, <=, name, type)
BELLJAR_EACH_EQUALITY(EQUALITY)
BELLJAR_EACH_ORDER(ORDER)
