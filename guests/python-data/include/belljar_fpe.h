/* Floating-point warnings without floating-point flags.
 *
 * WebAssembly has no status register: a division by zero leaves no trace but its result. numpy
 * asks for the flags after each loop, so this looks at what a loop has written. A block whose
 * results are all finite (nearly every block) costs one vectorised pass over data that is still
 * in the cache. Otherwise the operands tell what happened: NaN from operands without NaN is
 * "invalid"; infinity from finite operands is a division by zero or an overflow.
 * Underflow is never reported; numpy ignores it unless asked. */
#ifndef BELLJAR_FPE_H
#define BELLJAR_FPE_H

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "numpy/ndarraytypes.h"

/* Elements that are computed before they are looked at: 16 KiB of doubles. */
#define BELLJAR_FPE_BLOCK 2048

enum { BELLJAR_FINITE = 0, BELLJAR_INFINITE = 1, BELLJAR_NAN = 2 };

typedef uint64_t belljar_u64x2 __attribute__((vector_size(16), aligned(8)));
typedef uint32_t belljar_u32x4 __attribute__((vector_size(16), aligned(4)));

static inline int belljar_is_inexact(int type) {
    return type == NPY_HALF || (type >= NPY_FLOAT && type <= NPY_CLONGDOUBLE);
}

static inline int belljar_class_half(const char *at) {
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    if ((bits & 0x7c00u) != 0x7c00u) return BELLJAR_FINITE;
    return bits & 0x3ffu ? BELLJAR_NAN : BELLJAR_INFINITE;
}

static inline int belljar_class_double(double value) {
    return isfinite(value) ? BELLJAR_FINITE : isnan(value) ? BELLJAR_NAN : BELLJAR_INFINITE;
}

static inline int belljar_class_long(const char *at) {
    uint64_t words[2];
    memcpy(words, at, sizeof words);
    if ((words[1] & 0x7fff000000000000u) != 0x7fff000000000000u) return BELLJAR_FINITE;
    return (words[1] & 0xffffffffffffu) | words[0] ? BELLJAR_NAN : BELLJAR_INFINITE;
}

/* Of a number, or of the worse part of a complex one. Integers are finite. */
static inline int belljar_class(int type, const char *at) {
    float f[2] = {0, 0};
    double d[2] = {0, 0};
    switch (type) {
        case NPY_HALF: return belljar_class_half(at);
        case NPY_FLOAT: memcpy(f, at, sizeof *f); return belljar_class_double(f[0]);
        case NPY_DOUBLE: memcpy(d, at, sizeof *d); return belljar_class_double(d[0]);
        case NPY_LONGDOUBLE: return belljar_class_long(at);
        case NPY_CFLOAT: memcpy(f, at, sizeof f); return belljar_class_double(f[0]) | belljar_class_double(f[1]);
        case NPY_CDOUBLE: memcpy(d, at, sizeof d); return belljar_class_double(d[0]) | belljar_class_double(d[1]);
        case NPY_CLONGDOUBLE: return belljar_class_long(at) | belljar_class_long(at + 16);
        default: return BELLJAR_FINITE;
    }
}

static inline int belljar_is_zero(int type, const char *at, size_t size) {
    /* The sign does not matter, nor does the part of a number that is zero anyway. */
    if (!belljar_is_inexact(type)) return 0;
    size_t part = type >= NPY_CFLOAT ? size / 2 : size;
    for (size_t begin = 0; begin < size; begin += part)
        for (size_t i = 0; i < part; i++) {
            unsigned char byte = (unsigned char)at[begin + i];
            if (i == part - 1) byte &= 0x7f;
            if (byte) return 0;
        }
    return 1;
}

/* Whether any of n numbers is not finite. */
static inline int belljar_any_special(int type, const char *at, npy_intp n, npy_intp stride, size_t size) {
    if (type == NPY_CDOUBLE && stride == 16) type = NPY_DOUBLE, n *= 2, stride = 8;
    if (type == NPY_CFLOAT && stride == 8) type = NPY_FLOAT, n *= 2, stride = 4;
    npy_intp i = 0;
    if (type == NPY_DOUBLE && stride == 8) {
        const uint64_t exponent = 0x7ff0000000000000u;
        belljar_u64x2 found = {0, 0}, mask = {exponent, exponent};
        for (; i + 4 <= n; i += 4) {
            belljar_u64x2 a, b;
            memcpy(&a, at + i * 8, 16);
            memcpy(&b, at + i * 8 + 16, 16);
            found |= (belljar_u64x2)((a & mask) == mask) | (belljar_u64x2)((b & mask) == mask);
        }
        if (found[0] | found[1]) return 1;
    } else if (type == NPY_FLOAT && stride == 4) {
        const uint32_t exponent = 0x7f800000u;
        belljar_u32x4 found = {0, 0, 0, 0}, mask = {exponent, exponent, exponent, exponent};
        for (; i + 4 <= n; i += 4) {
            belljar_u32x4 a;
            memcpy(&a, at + i * 4, 16);
            found |= (belljar_u32x4)((a & mask) == mask);
        }
        if (found[0] | found[1] | found[2] | found[3]) return 1;
    } else if (stride == 0 && n > 1) {
        n = 1;
    }
    (void)size;
    for (; i < n; i++)
        if (belljar_class(type, at + i * stride) != BELLJAR_FINITE) return 1;
    return 0;
}

/* Whether an infinite result of this function comes from a pole, not from a large number. */
static inline int belljar_is_pole(const char *name, int nin, const int *types, const size_t *sizes, char *const *at) {
    if (nin == 2 && (strstr(name, "divide") || !strcmp(name, "divmod"))) return belljar_is_zero(types[1], at[1], sizes[1]);
    if (nin == 2 && strstr(name, "power")) return belljar_is_zero(types[0], at[0], sizes[0]);
    if (nin == 1 && (!strcmp(name, "log") || !strcmp(name, "log2") || !strcmp(name, "log10") || !strcmp(name, "reciprocal")))
        return belljar_is_zero(types[0], at[0], sizes[0]);
    return !strcmp(name, "log1p") || !strcmp(name, "arctanh");
}

static inline void belljar_flag(int result, int operands, int pole) {
    if (result & BELLJAR_NAN) {
        if (!(operands & BELLJAR_NAN)) feraiseexcept(FE_INVALID);
    } else if (result & BELLJAR_INFINITE && operands == BELLJAR_FINITE) {
        feraiseexcept(pole ? FE_DIVBYZERO : FE_OVERFLOW);
    }
}

#ifdef BELLJAR_FPE_SCALAR

static void belljar_look_at_scalar(int type, const char *name, size_t size, char *first, char *second, char *out) {
    if (!belljar_is_inexact(type)) return;
    int result = belljar_class(type, out), types[2] = {type, type};
    size_t sizes[2] = {size, size};
    char *at[2] = {first, second};
    if (result != BELLJAR_FINITE)
        belljar_flag(result, belljar_class(type, first) | belljar_class(type, second), belljar_is_pole(name, 2, types, sizes, at));
}

#endif /* BELLJAR_FPE_SCALAR */

#ifdef BELLJAR_FPE_CAST

/* The range of a whole type as doubles: beyond it a cast is "invalid". */
static void belljar_integer_range(int type, double *low, double *end) {
    switch (type) {
        case NPY_BYTE: *low = -128.0, *end = 128.0; return;
        case NPY_UBYTE: *low = 0.0, *end = 256.0; return;
        case NPY_SHORT: *low = -32768.0, *end = 32768.0; return;
        case NPY_USHORT: *low = 0.0, *end = 65536.0; return;
        case NPY_INT: case NPY_LONG: *low = -2147483648.0, *end = 2147483648.0; return;
        case NPY_UINT: case NPY_ULONG: *low = 0.0, *end = 4294967296.0; return;
        case NPY_LONGLONG: *low = -9223372036854775808.0, *end = 9223372036854775808.0; return;
        default: *low = 0.0, *end = 18446744073709551616.0; return;
    }
}

/* After a cast of n numbers: to a whole type, or to a smaller one. Small whole types are
 * reached through a 32-bit one on other machines, which then sees nothing wrong. */
static void belljar_look_at_cast(int from, int to, const char *src, npy_intp src_stride, size_t src_size,
                                 const char *dst, npy_intp dst_stride, size_t dst_size, npy_intp n) {
    if (belljar_is_inexact(to)) {
        if (!belljar_any_special(to, dst, n, dst_stride, dst_size)) return;
        for (npy_intp i = 0; i < n; i++)
            if (belljar_class(to, dst + i * dst_stride) == BELLJAR_INFINITE && belljar_class(from, src + i * src_stride) == BELLJAR_FINITE)
                feraiseexcept(FE_OVERFLOW);
        return;
    }
    double low, end;
    int wide = to == NPY_BYTE || to == NPY_UBYTE || to == NPY_SHORT || to == NPY_USHORT ? NPY_INT : to;
    belljar_integer_range(wide, &low, &end);
    if (wide == NPY_UINT || wide == NPY_ULONG) low = -9223372036854775808.0, end = 9223372036854775808.0;
    int invalid = 0;
    if (from == NPY_DOUBLE || from == NPY_CDOUBLE) {
        for (npy_intp i = 0; i < n; i++) {
            double value;
            memcpy(&value, src + i * src_stride, sizeof value);
            invalid |= !(value > low - 1.0 && value < end);
        }
    } else if (from == NPY_FLOAT || from == NPY_CFLOAT) {
        for (npy_intp i = 0; i < n; i++) {
            float value;
            memcpy(&value, src + i * src_stride, sizeof value);
            invalid |= !(value > low - 1.0 && value < end);
        }
    } else {
        (void)src_size;
        for (npy_intp i = 0; i < n; i++) invalid |= belljar_class(from, src + i * src_stride) != BELLJAR_FINITE;
    }
    if (invalid) feraiseexcept(FE_INVALID);
}

#endif /* BELLJAR_FPE_CAST */

#ifdef BELLJAR_FPE_UFUNC

#define BELLJAR_FPE_MOST_OPERANDS 8

struct belljar_loop {
    const char *name;
    int nin, nout;
    int types[BELLJAR_FPE_MOST_OPERANDS];
    size_t sizes[BELLJAR_FPE_MOST_OPERANDS];
};

/* Fills in the description; false if this loop needs no look. */
static int belljar_describe_loop(PyArrayMethod_Context *context, struct belljar_loop *loop) {
    PyUFuncObject *ufunc = (PyUFuncObject *)context->caller;
    if (ufunc == NULL || context->method->flags & NPY_METH_NO_FLOATINGPOINT_ERRORS) return 0;
    loop->nin = context->method->nin;
    loop->nout = context->method->nout;
    if (loop->nin + loop->nout > BELLJAR_FPE_MOST_OPERANDS) return 0;
    if (!PyObject_TypeCheck((PyObject *)ufunc, &PyUFunc_Type) || ufunc->core_enabled || ufunc->name == NULL) return 0;
    int inexact = 0;
    for (int i = 0; i < loop->nin + loop->nout; i++) {
        loop->types[i] = context->descriptors[i]->type_num;
        loop->sizes[i] = (size_t)context->descriptors[i]->elsize;
        inexact |= i >= loop->nin && belljar_is_inexact(loop->types[i]);
    }
    loop->name = ufunc->name;
    return inexact;
}

static void belljar_look_at_block(const struct belljar_loop *loop, char *const *data, npy_intp n, const npy_intp *strides) {
    char *at[BELLJAR_FPE_MOST_OPERANDS];
    for (int out = loop->nin; out < loop->nin + loop->nout; out++) {
        int type = loop->types[out];
        if (!belljar_is_inexact(type) || !belljar_any_special(type, data[out], n, strides[out], loop->sizes[out])) continue;
        for (npy_intp i = 0; i < n; i++) {
            int result = belljar_class(type, data[out] + i * strides[out]), operands = BELLJAR_FINITE;
            if (result == BELLJAR_FINITE) continue;
            for (int in = 0; in < loop->nin; in++) {
                at[in] = data[in] + i * strides[in];
                operands |= belljar_class(loop->types[in], at[in]);
            }
            int pole = result & BELLJAR_INFINITE && operands == BELLJAR_FINITE && belljar_is_pole(loop->name, loop->nin, loop->types, loop->sizes, at);
            belljar_flag(result, operands, pole);
        }
    }
}

/* A sum or a product: one accumulator, many operands. Never split, since numpy adds pairwise. */
static int belljar_run_reduction(const struct belljar_loop *loop, PyArrayMethod_StridedLoop *run, PyArrayMethod_Context *context,
                                 char *const *data, const npy_intp *count, const npy_intp *strides, NpyAuxData *auxdata) {
    int before = belljar_class(loop->types[0], data[0]);
    int status = run(context, data, count, strides, auxdata);
    int after = belljar_class(loop->types[2], data[2]), operands = before;
    if (after != BELLJAR_FINITE && after != before) {
        for (npy_intp i = 0; i < *count; i++) operands |= belljar_class(loop->types[1], data[1] + i * strides[1]);
        belljar_flag(after, operands, 0);
    }
    return status;
}

static void belljar_copy(char *to, const char *from, npy_intp n, npy_intp stride, size_t size) {
    if (stride == (npy_intp)size) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    for (npy_intp i = 0; i < n; i++) memcpy(to + (size_t)i * size, from + i * stride, size);
}

/* In the place of a direct call of the loop, everywhere in ufunc_object.c. */
static int belljar_run_loop(PyArrayMethod_StridedLoop *run, PyArrayMethod_Context *context, char *const *data,
                            const npy_intp *count, const npy_intp *strides, NpyAuxData *auxdata) {
    struct belljar_loop loop;
    if (*count <= 0 || !belljar_describe_loop(context, &loop)) return run(context, data, count, strides, auxdata);
    int operands = loop.nin + loop.nout;
    if (loop.nin == 2 && loop.nout == 1 && strides[2] == 0 && strides[0] == 0 && data[0] == data[2])
        return belljar_run_reduction(&loop, run, context, data, count, strides, auxdata);

    char *block[BELLJAR_FPE_MOST_OPERANDS], *seen[BELLJAR_FPE_MOST_OPERANDS], *copies[BELLJAR_FPE_MOST_OPERANDS] = {NULL};
    npy_intp seen_strides[BELLJAR_FPE_MOST_OPERANDS];
    /* Operands that the results overwrite are kept, a block at a time. */
    for (int in = 0; in < loop.nin; in++)
        for (int out = loop.nin; out < operands; out++)
            if (data[in] == data[out] && copies[in] == NULL) copies[in] = (char *)malloc(BELLJAR_FPE_BLOCK * loop.sizes[in]);
    int status = 0;
    for (npy_intp done = 0; done < *count && status == 0; done += BELLJAR_FPE_BLOCK) {
        npy_intp n = *count - done < BELLJAR_FPE_BLOCK ? *count - done : BELLJAR_FPE_BLOCK;
        for (int i = 0; i < operands; i++) {
            seen[i] = block[i] = data[i] + done * strides[i];
            seen_strides[i] = strides[i];
            if (copies[i] != NULL) belljar_copy(copies[i], block[i], n, strides[i], loop.sizes[i]);
        }
        status = run(context, block, &n, strides, auxdata);
        for (int i = 0; i < loop.nin; i++)
            if (copies[i] != NULL) seen[i] = copies[i], seen_strides[i] = (npy_intp)loop.sizes[i];
        if (status == 0) belljar_look_at_block(&loop, seen, n, seen_strides);
    }
    for (int i = 0; i < loop.nin; i++) free(copies[i]);
    return status;
}

#define strided_loop(...) belljar_run_loop(strided_loop, __VA_ARGS__)

#endif /* BELLJAR_FPE_UFUNC */

#endif
