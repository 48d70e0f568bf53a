/* Loops that decide how fast numpy feels, written for 128-bit SIMD in ../kernels. numpy has its
 * own for other machines, in terms of vectors that WebAssembly is not among. A patch calls these
 * where data lie one after the other; everything else stays numpy's. */
#ifndef BELLJAR_KERNELS_H
#define BELLJAR_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* By numpy's names: of those that stand for the same type, only one has kernels. */
#define BELLJAR_EACH_TYPE(X)                                                                         \
    X(BYTE, int8_t) X(UBYTE, uint8_t) X(SHORT, int16_t) X(USHORT, uint16_t) X(INT, int32_t)          \
    X(UINT, uint32_t) X(LONGLONG, int64_t) X(ULONGLONG, uint64_t) X(FLOAT, float) X(DOUBLE, double)

#define BELLJAR_DECLARE(NAME, type)                                                                  \
    /* The largest or smallest of *into and n numbers; NaN wins. */                                  \
    void belljar_maximum_of_##NAME(const type *from, size_t n, type *into);                          \
    void belljar_minimum_of_##NAME(const type *from, size_t n, type *into);                          \
    /* The same, of two numbers each. */                                                             \
    void belljar_maximum_##NAME(const type *a, const type *b, type *to, size_t n);                   \
    void belljar_minimum_##NAME(const type *a, const type *b, type *to, size_t n);                   \
    /* Where the first of them stands; n > 0. */                                                     \
    size_t belljar_argmax_##NAME(const type *from, size_t n);                                        \
    size_t belljar_argmin_##NAME(const type *from, size_t n);
BELLJAR_EACH_TYPE(BELLJAR_DECLARE)
#undef BELLJAR_DECLARE

/* Element by element, until one is not finite: how many results are stored. A step is 1 or 0, not
 * both 0; the results may take the place of an operand. */
#define BELLJAR_DECLARE(name)                                                                        \
    size_t belljar_##name##_f64(const double *a, size_t a_step, const double *b, size_t b_step, double *to, size_t n); \
    size_t belljar_##name##_f32(const float *a, size_t a_step, const float *b, size_t b_step, float *to, size_t n);
BELLJAR_DECLARE(add)
BELLJAR_DECLARE(subtract)
BELLJAR_DECLARE(multiply)
BELLJAR_DECLARE(divide)
#undef BELLJAR_DECLARE

/* By the names of numpy's own loops: signs do not matter to equality. A step is 1 or 0, n > 0, and
 * the results lie apart from the operands. */
#define BELLJAR_EACH_EQUALITY(X)                                                                     \
    X(u8, uint8_t) X(u16, uint16_t) X(u32, uint32_t) X(u64, uint64_t) X(f32, float) X(f64, double)
#define BELLJAR_EACH_ORDER(X)                                                                        \
    BELLJAR_EACH_EQUALITY(X) X(s8, int8_t) X(s16, int16_t) X(s32, int32_t) X(s64, int64_t)
#define BELLJAR_DECLARE(kind, name, type)                                                            \
    void belljar_##kind##_##name(const type *a, size_t a_step, const type *b, size_t b_step, uint8_t *to, size_t n);
#define BELLJAR_DECLARE_EQUALITY(name, type) BELLJAR_DECLARE(equal, name, type) BELLJAR_DECLARE(not_equal, name, type)
#define BELLJAR_DECLARE_ORDER(name, type) BELLJAR_DECLARE(less, name, type) BELLJAR_DECLARE(less_equal, name, type)
BELLJAR_EACH_EQUALITY(BELLJAR_DECLARE_EQUALITY)
BELLJAR_EACH_ORDER(BELLJAR_DECLARE_ORDER)
#undef BELLJAR_DECLARE

int belljar_all_finite_f64(const double *from, size_t n);
int belljar_all_finite_f32(const float *from, size_t n);

void belljar_exp(const double *from, double *to, size_t n);
void belljar_log(const double *from, double *to, size_t n);

/* Ascending, NaN last. False when there is no memory: then nothing was changed. `order` holds
 * places in `from`, each once; equal ones keep their order. */
#define BELLJAR_EACH_SORTED(X) X(i32, int32_t) X(u32, uint32_t) X(f32, float) X(i64, int64_t) X(u64, uint64_t) X(f64, double)
#define BELLJAR_DECLARE(NAME, type)                                                                  \
    int belljar_sort_##NAME(type *numbers, size_t n);                                                \
    int belljar_argsort_##NAME(const type *from, uint32_t *order, size_t n);
BELLJAR_EACH_SORTED(BELLJAR_DECLARE)
#undef BELLJAR_DECLARE

#ifdef __cplusplus
}
#endif
#endif
