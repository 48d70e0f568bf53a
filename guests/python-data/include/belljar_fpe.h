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

#include "belljar_kernels.h"

/* Elements that are computed before they are looked at: 16 KiB of doubles. */
#define BELLJAR_FPE_BLOCK 2048

enum { BELLJAR_FINITE = 0, BELLJAR_INFINITE = 1, BELLJAR_NAN = 2 };

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

/* Of a number, or of the worse part of a complex one. Integers are finite; of times, one is not. */
static inline int belljar_class(int type, const char *at) {
    float f[2] = {0, 0};
    double d[2] = {0, 0};
    int64_t time;
    switch (type) {
        case NPY_HALF: return belljar_class_half(at);
        case NPY_FLOAT: memcpy(f, at, sizeof *f); return belljar_class_double(f[0]);
        case NPY_DOUBLE: memcpy(d, at, sizeof *d); return belljar_class_double(d[0]);
        case NPY_LONGDOUBLE: return belljar_class_long(at);
        case NPY_CFLOAT: memcpy(f, at, sizeof f); return belljar_class_double(f[0]) | belljar_class_double(f[1]);
        case NPY_CDOUBLE: memcpy(d, at, sizeof d); return belljar_class_double(d[0]) | belljar_class_double(d[1]);
        case NPY_CLONGDOUBLE: return belljar_class_long(at) | belljar_class_long(at + 16);
        case NPY_DATETIME: case NPY_TIMEDELTA: memcpy(&time, at, sizeof time); return time == NPY_MIN_INT64 ? BELLJAR_NAN : BELLJAR_FINITE;
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
    if (type == NPY_DOUBLE && stride == 8) return !belljar_all_finite_f64((const double *)at, (size_t)n);
    if (type == NPY_FLOAT && stride == 4) return !belljar_all_finite_f32((const float *)at, (size_t)n);
    if (stride == 0 && n > 1) {
        n = 1;
    }
    (void)size;
    for (npy_intp i = 0; i < n; i++)
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

/* What lies on either side of a whole type's range, as doubles: a cast of either is "invalid". */
static void belljar_integer_range(int type, double *below, double *end) {
    switch (type) {
        case NPY_BYTE: *below = -129.0, *end = 128.0; return;
        case NPY_UBYTE: *below = -1.0, *end = 256.0; return;
        case NPY_SHORT: *below = -32769.0, *end = 32768.0; return;
        case NPY_USHORT: *below = -1.0, *end = 65536.0; return;
        case NPY_INT: case NPY_LONG: *below = -2147483649.0, *end = 2147483648.0; return;
        case NPY_UINT: case NPY_ULONG: *below = -1.0, *end = 4294967296.0; return;
        /* The next number below -2**63 that a double can be. */
        case NPY_LONGLONG: *below = -9223372036854777856.0, *end = 9223372036854775808.0; return;
        default: *below = -1.0, *end = 18446744073709551616.0; return;
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
    double below, end;
    int wide = to == NPY_BYTE || to == NPY_UBYTE || to == NPY_SHORT || to == NPY_USHORT ? NPY_INT : to;
    /* Whole numbers without a sign and of 32 bits are reached through 64-bit ones. */
    if (wide == NPY_UINT || wide == NPY_ULONG) wide = NPY_LONGLONG;
    belljar_integer_range(wide, &below, &end);
    int invalid = 0;
    if (from == NPY_DOUBLE && src_stride == sizeof(double)) {
        /* The common case, in vectors: whether all are inside. */
        const double *values = (const double *)src;
        uint64_t inside = 1;
        for (npy_intp i = 0; i < n; i++) inside &= (uint64_t)(values[i] > below) & (uint64_t)(values[i] < end);
        invalid = !inside;
    } else if (from == NPY_DOUBLE || from == NPY_CDOUBLE) {
        for (npy_intp i = 0; i < n; i++) {
            double value;
            memcpy(&value, src + i * src_stride, sizeof value);
            invalid |= !(value > below && value < end);
        }
    } else if (from == NPY_FLOAT || from == NPY_CFLOAT) {
        for (npy_intp i = 0; i < n; i++) {
            float value;
            memcpy(&value, src + i * src_stride, sizeof value);
            invalid |= !(value > below && value < end);
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

#define BELLJAR_FPE_WORTH_WHILE 16

typedef size_t (*belljar_kernel_f64)(const double *, size_t, const double *, size_t, double *, size_t);
typedef size_t (*belljar_kernel_f32)(const float *, size_t, const float *, size_t, float *, size_t);

static int belljar_kernel_of(const char *name) {
    static const char *const names[] = {"add", "subtract", "multiply", "divide"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, names[i])) return i;
    return -1;
}

/* Whether results may be written while this operand is read, in the same order. */
static int belljar_apart(const char *in, npy_intp stride, const char *out, npy_intp bytes) {
    return stride == 0 ? in >= out + bytes || in < out : in == out || in >= out + bytes || in + bytes <= out;
}

/* What a kernel can do of it; the first element that is not finite stops it. */
static npy_intp belljar_run_kernel(int kernel, int type, char *const *data, npy_intp n, const npy_intp *strides) {
    static const belljar_kernel_f64 doubles[] = {belljar_add_f64, belljar_subtract_f64, belljar_multiply_f64, belljar_divide_f64};
    static const belljar_kernel_f32 floats[] = {belljar_add_f32, belljar_subtract_f32, belljar_multiply_f32, belljar_divide_f32};
    size_t a_step = strides[0] != 0, b_step = strides[1] != 0;
    if (type == NPY_DOUBLE) return (npy_intp)doubles[kernel]((double *)data[0], a_step, (double *)data[1], b_step, (double *)data[2], (size_t)n);
    return (npy_intp)floats[kernel]((float *)data[0], a_step, (float *)data[1], b_step, (float *)data[2], (size_t)n);
}

/* The number of a kernel for this loop, or -1. */
static int belljar_choose_kernel(const struct belljar_loop *loop, char *const *data, npy_intp n, const npy_intp *strides) {
    int type = loop->types[2];
    npy_intp size = type == NPY_DOUBLE ? 8 : 4;
    if (n < BELLJAR_FPE_WORTH_WHILE || loop->nin != 2 || loop->nout != 1 || (type != NPY_DOUBLE && type != NPY_FLOAT)) return -1;
    if (loop->types[0] != type || loop->types[1] != type || strides[2] != size || strides[0] + strides[1] == 0) return -1;
    for (int in = 0; in < 2; in++)
        if ((strides[in] != 0 && strides[in] != size) || !belljar_apart(data[in], strides[in], data[2], n * size)) return -1;
    return belljar_kernel_of(loop->name);
}

extern int generic_masked_strided_loop(PyArrayMethod_Context *, char *const *, const npy_intp *, const npy_intp *, NpyAuxData *)
        __attribute__((visibility("hidden")));

/* In the place of a direct call of the loop, everywhere in ufunc_object.c and in the loop with a
 * mask. */
static int belljar_run_loop(PyArrayMethod_StridedLoop *run, PyArrayMethod_Context *context, char *const *data,
                            const npy_intp *count, const npy_intp *strides, NpyAuxData *auxdata) {
    struct belljar_loop loop;
    /* With a mask there is one operand more; that loop calls this for each run of elements. */
    if (run == generic_masked_strided_loop || *count <= 0 || !belljar_describe_loop(context, &loop)) return run(context, data, count, strides, auxdata);
    int operands = loop.nin + loop.nout;
    if (loop.nin == 2 && loop.nout == 1 && strides[2] == 0 && strides[0] == 0 && data[0] == data[2])
        return belljar_run_reduction(&loop, run, context, data, count, strides, auxdata);

    int kernel = belljar_choose_kernel(&loop, data, *count, strides);
    npy_intp first = kernel >= 0 ? belljar_run_kernel(kernel, loop.types[2], data, *count, strides) : 0;
    if (first == *count) return 0;

    char *block[BELLJAR_FPE_MOST_OPERANDS], *seen[BELLJAR_FPE_MOST_OPERANDS], *copies[BELLJAR_FPE_MOST_OPERANDS] = {NULL};
    npy_intp seen_strides[BELLJAR_FPE_MOST_OPERANDS];
    /* Operands that the results overwrite are kept, a block at a time. */
    for (int in = 0; in < loop.nin; in++)
        for (int out = loop.nin; out < operands; out++)
            if (data[in] == data[out] && copies[in] == NULL) copies[in] = (char *)malloc(BELLJAR_FPE_BLOCK * loop.sizes[in]);
    int status = 0;
    for (npy_intp done = first, n; done < *count && status == 0; done += n) {
        n = *count - done < BELLJAR_FPE_BLOCK ? *count - done : BELLJAR_FPE_BLOCK;
        for (int i = 0; i < operands; i++) {
            seen[i] = block[i] = data[i] + done * strides[i];
            seen_strides[i] = strides[i];
            if (copies[i] != NULL) belljar_copy(copies[i], block[i], n, strides[i], loop.sizes[i]);
        }
        status = run(context, block, &n, strides, auxdata);
        for (int i = 0; i < loop.nin; i++)
            if (copies[i] != NULL) seen[i] = copies[i], seen_strides[i] = (npy_intp)loop.sizes[i];
        if (status == 0) belljar_look_at_block(&loop, seen, n, seen_strides);
        if (kernel >= 0 && done + n < *count) {
            for (int i = 0; i < operands; i++) block[i] = data[i] + (done + n) * strides[i];
            n += belljar_run_kernel(kernel, loop.types[2], block, *count - done - n, strides);
        }
    }
    for (int i = 0; i < loop.nin; i++) free(copies[i]);
    return status;
}

#define strided_loop(...) belljar_run_loop(strided_loop, __VA_ARGS__)

#endif /* BELLJAR_FPE_UFUNC */

#endif
