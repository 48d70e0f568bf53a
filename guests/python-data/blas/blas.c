/* The part of BLAS and LAPACK that decides how fast numpy's linear algebra is, for 128-bit SIMD.
 * numpy calls the CBLAS names; its bundled LAPACK, a translation of the reference code, calls the
 * Fortran ones.
 *
 * Matrices are described by a pointer and two strides (rows, columns), so that transposed and
 * column-major ones need no code of their own. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <wasm_simd128.h>

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102 };
enum { AS_IS = 111, TRANSPOSED = 112, CONJUGATED = 113 };

/* How much of the operands is copied together at once: fits the first- and second-level caches. */
enum { BLOCK_ROWS = 72, BLOCK_DEPTH = 256, BLOCK_COLUMNS = 512 };
/* Fewer multiplications than this are done without copying. */
enum { SMALL = 2000 };
/* A tile of results that stays in registers: rows, and vectors in each. */
enum { TILE_ROWS = 3, TILE_VECTORS = 4 };
/* Triangles and panels of at most this many columns are done one by one. */
enum { BASE = 8 };

typedef double double_vector __attribute__((vector_size(16), aligned(8)));
typedef float float_vector __attribute__((vector_size(16), aligned(4)));

static int is_letter(const char *argument, char letter) { return (*argument | 32) == letter; }

#define NAME(name) d##name
#define CNAME(name) z##name
#define CBLAS(name) cblas_d##name
#define CCBLAS(name) cblas_z##name
#define REAL double
#define VECTOR double_vector
#define LANES 2
#define SPLAT(at) ((double_vector)wasm_v128_load64_splat(at))
/* One rounding where the machine can, two where it cannot: as every BLAS does. */
#define FMA(a, b, c) ((double_vector)wasm_f64x2_relaxed_madd((v128_t)(a), (v128_t)(b), (v128_t)(c)))
#include "gemm.inc"
#include "vectors.inc"
#include "solve.inc"
#include "complex.inc"
#include "undefine.inc"

#define NAME(name) s##name
#define CNAME(name) c##name
#define CBLAS(name) cblas_s##name
#define CCBLAS(name) cblas_c##name
#define REAL float
#define VECTOR float_vector
#define LANES 4
#define SPLAT(at) ((float_vector)wasm_v128_load32_splat(at))
#define FMA(a, b, c) ((float_vector)wasm_f32x4_relaxed_madd((v128_t)(a), (v128_t)(b), (v128_t)(c)))
#include "gemm.inc"
#include "vectors.inc"
#include "solve.inc"
#include "complex.inc"
#include "undefine.inc"
