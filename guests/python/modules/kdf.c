/* _belljar_kdf: hashlib's pbkdf2_hmac and scrypt for a CPython without OpenSSL.
 *
 * The signatures, checks and messages are those of Modules/_hashopenssl.c; the
 * compression functions are the HACL* ones that CPython carries. An HMAC key is
 * absorbed once into two mid-states, so that one iteration of PBKDF2 costs two
 * compressions and nothing else. */
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1 /* the argument parser that Argument Clinic uses */
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "pycore_modsupport.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "internal/Hacl_Hash_MD5.h"
#include "internal/Hacl_Hash_SHA1.h"
#include "internal/Hacl_Hash_SHA2.h"

#define MAX_BLOCK 128
#define MAX_DIGEST 64

/* How much work may pass between two looks at pending signals: about a
 * millisecond of PBKDF2 iterations or of scrypt block mixes. */
#define ITERATIONS_PER_CHECK 2048
#define SCRYPT_BYTES_PER_CHECK (1 << 20)

/* OpenSSL's default and limits for scrypt; the first is what maxmem=0 means. */
#define SCRYPT_DEFAULT_MAXMEM (32ull * 1024 * 1024)
#define SCRYPT_PR_MAX ((1ull << 30) - 1)

/* ---- hash functions ---- */

typedef union {
    uint32_t w32[8];
    uint64_t w64[8];
} hash_state;

typedef struct {
    const char *names[3]; /* compared without regard to case, as OpenSSL does */
    unsigned digest_size;
    unsigned block_size;
    void (*init)(hash_state *state);
    void (*compress)(hash_state *state, uint8_t *blocks, uint32_t count);
    void (*output)(const hash_state *state, uint8_t *digest);
    int big_endian_length;
} hash_kind;

static void store_be32(const hash_state *state, uint8_t *digest, unsigned words) {
    for (unsigned i = 0; i < words; i++) {
        uint32_t word = __builtin_bswap32(state->w32[i]);
        memcpy(digest + 4 * i, &word, 4);
    }
}

static void store_be64(const hash_state *state, uint8_t *digest, unsigned words) {
    for (unsigned i = 0; i < words; i++) {
        uint64_t word = __builtin_bswap64(state->w64[i]);
        memcpy(digest + 8 * i, &word, 8);
    }
}

static void md5_init(hash_state *s) { Hacl_Hash_MD5_init(s->w32); }
static void md5_compress(hash_state *s, uint8_t *b, uint32_t n) { Hacl_Hash_MD5_update_multi(s->w32, b, n); }
static void md5_output(const hash_state *s, uint8_t *d) { memcpy(d, s->w32, 16); }

static void sha1_init(hash_state *s) { Hacl_Hash_SHA1_init(s->w32); }
static void sha1_compress(hash_state *s, uint8_t *b, uint32_t n) { Hacl_Hash_SHA1_update_multi(s->w32, b, n); }
static void sha1_output(const hash_state *s, uint8_t *d) { store_be32(s, d, 5); }

static void sha224_init(hash_state *s) { Hacl_Hash_SHA2_sha224_init(s->w32); }
static void sha256_init(hash_state *s) { Hacl_Hash_SHA2_sha256_init(s->w32); }
static void sha256_compress(hash_state *s, uint8_t *b, uint32_t n) { Hacl_Hash_SHA2_sha256_update_nblocks(n * 64, b, s->w32); }
static void sha224_output(const hash_state *s, uint8_t *d) { store_be32(s, d, 7); }
static void sha256_output(const hash_state *s, uint8_t *d) { store_be32(s, d, 8); }

static void sha384_init(hash_state *s) { Hacl_Hash_SHA2_sha384_init(s->w64); }
static void sha512_init(hash_state *s) { Hacl_Hash_SHA2_sha512_init(s->w64); }
static void sha512_compress(hash_state *s, uint8_t *b, uint32_t n) { Hacl_Hash_SHA2_sha512_update_nblocks(n * 128, b, s->w64); }
static void sha384_output(const hash_state *s, uint8_t *d) { store_be64(s, d, 6); }
static void sha512_output(const hash_state *s, uint8_t *d) { store_be64(s, d, 8); }

static const hash_kind HASHES[] = {
    {{"md5", "md5", "md5"}, 16, 64, md5_init, md5_compress, md5_output, 0},
    {{"sha1", "sha-1", "sha1"}, 20, 64, sha1_init, sha1_compress, sha1_output, 1},
    {{"sha224", "sha-224", "sha2-224"}, 28, 64, sha224_init, sha256_compress, sha224_output, 1},
    {{"sha256", "sha-256", "sha2-256"}, 32, 64, sha256_init, sha256_compress, sha256_output, 1},
    {{"sha384", "sha-384", "sha2-384"}, 48, 128, sha384_init, sha512_compress, sha384_output, 1},
    {{"sha512", "sha-512", "sha2-512"}, 64, 128, sha512_init, sha512_compress, sha512_output, 1},
};
static const hash_kind *const SHA256 = &HASHES[3];

static const hash_kind *find_hash(const char *name) {
    for (size_t i = 0; i < Py_ARRAY_LENGTH(HASHES); i++) {
        for (size_t j = 0; j < Py_ARRAY_LENGTH(HASHES[i].names); j++) {
            if (strcasecmp(name, HASHES[i].names[j]) == 0) return &HASHES[i];
        }
    }
    return NULL;
}

/* Puts the end mark and the length (in bits, at the end of the block) into `block`,
 * whose first `used` bytes are message. The caller knows that they fit. */
static void pad_block(const hash_kind *hash, uint8_t *block, size_t used, uint64_t message_bytes) {
    uint64_t bits = message_bytes * 8; /* no message here reaches 2^61 bytes */
    block[used] = 0x80;
    memset(block + used + 1, 0, hash->block_size - used - 1);
    if (hash->big_endian_length) bits = __builtin_bswap64(bits);
    memcpy(block + hash->block_size - 8, &bits, 8);
}

/* The room that a block must have left for end mark and length. */
static size_t padding_size(const hash_kind *hash) { return 1 + (hash->block_size == 128 ? 16 : 8); }

/* Hashes `data` followed by `tail` (shorter than a block) into `state`, which has already
 * absorbed `before` bytes (whole blocks), and finishes the message. */
static void absorb_and_finish(const hash_kind *hash, hash_state *state, uint64_t before,
                              const uint8_t *data, size_t data_size, const uint8_t *tail, size_t tail_size) {
    uint8_t block[2 * MAX_BLOCK];
    uint64_t total = before + data_size + tail_size;
    size_t whole = data_size / hash->block_size;
    if (whole > 0) hash->compress(state, (uint8_t *)data, (uint32_t)whole);
    data += whole * hash->block_size;
    size_t used = data_size - whole * hash->block_size;
    memcpy(block, data, used);
    memcpy(block + used, tail, tail_size);
    used += tail_size;
    if (used >= hash->block_size) {
        hash->compress(state, block, 1);
        used -= hash->block_size;
        memmove(block, block + hash->block_size, used);
    }
    if (used + padding_size(hash) > hash->block_size) {
        block[used] = 0x80;
        memset(block + used + 1, 0, hash->block_size - used - 1);
        hash->compress(state, block, 1);
        pad_block(hash, block, 0, total);
        block[0] = 0; /* the end mark stands in the block before */
    } else {
        pad_block(hash, block, used, total);
    }
    hash->compress(state, block, 1);
}

/* ---- HMAC and PBKDF2 ---- */

typedef struct {
    hash_state inner, outer; /* after the padded key */
} hmac_key;

static void hmac_key_init(const hash_kind *hash, hmac_key *key, const uint8_t *secret, size_t size) {
    uint8_t block[MAX_BLOCK] = {0};
    if (size > hash->block_size) {
        hash_state state;
        hash->init(&state);
        absorb_and_finish(hash, &state, 0, secret, size, block, 0);
        hash->output(&state, block);
    } else if (size > 0) {
        memcpy(block, secret, size);
    }
    for (unsigned i = 0; i < hash->block_size; i++) block[i] ^= 0x36;
    hash->init(&key->inner);
    hash->compress(&key->inner, block, 1);
    for (unsigned i = 0; i < hash->block_size; i++) block[i] ^= 0x36 ^ 0x5c;
    hash->init(&key->outer);
    hash->compress(&key->outer, block, 1);
}

/* Writes `size` bytes of key; -1 with an exception if a signal handler raised. */
static int pbkdf2(const hash_kind *hash, const uint8_t *password, size_t password_size,
                  const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t *out, size_t size) {
    hmac_key key;
    hash_state state;
    uint8_t inner[MAX_BLOCK], outer[MAX_BLOCK], sum[MAX_DIGEST];
    unsigned length = hash->digest_size;
    uint32_t until_check = ITERATIONS_PER_CHECK;

    hmac_key_init(hash, &key, password, password_size);
    /* Both messages of an iteration are one digest long: their padding never changes. */
    pad_block(hash, inner, length, hash->block_size + length);
    pad_block(hash, outer, length, hash->block_size + length);

    for (uint32_t number = 1; size > 0; number++) {
        uint8_t counter[4] = {number >> 24, number >> 16, number >> 8, number};
        state = key.inner;
        absorb_and_finish(hash, &state, hash->block_size, salt, salt_size, counter, sizeof counter);
        for (uint32_t i = 0;;) {
            hash->output(&state, outer);
            state = key.outer;
            hash->compress(&state, outer, 1);
            hash->output(&state, inner);
            if (i == 0) {
                memcpy(sum, inner, length);
            } else {
                for (unsigned j = 0; j < length; j++) sum[j] ^= inner[j];
            }
            if (--until_check == 0) {
                until_check = ITERATIONS_PER_CHECK;
                if (PyErr_CheckSignals() < 0) return -1;
            }
            if (++i == iterations) break;
            state = key.inner;
            hash->compress(&state, inner, 1);
        }
        size_t part = size < length ? size : length;
        memcpy(out, sum, part);
        out += part;
        size -= part;
    }
    return 0;
}

/* ---- scrypt (RFC 7914) ---- */

#define ROTATE(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define QUARTER(a, b, c, d)              \
    x[b] ^= ROTATE(x[a] + x[d], 7);      \
    x[c] ^= ROTATE(x[b] + x[a], 9);      \
    x[d] ^= ROTATE(x[c] + x[b], 13);     \
    x[a] ^= ROTATE(x[d] + x[c], 18)

static void salsa20_8(uint32_t block[16]) {
    uint32_t x[16];
    memcpy(x, block, sizeof x);
    for (int round = 0; round < 8; round += 2) {
        QUARTER(0, 4, 8, 12);
        QUARTER(5, 9, 13, 1);
        QUARTER(10, 14, 2, 6);
        QUARTER(15, 3, 7, 11);
        QUARTER(0, 1, 2, 3);
        QUARTER(5, 6, 7, 4);
        QUARTER(10, 11, 8, 9);
        QUARTER(15, 12, 13, 14);
    }
    for (int i = 0; i < 16; i++) block[i] += x[i];
}

/* One block mix of 2r blocks of 16 words, from `in` to `out`. */
static void block_mix(const uint32_t *in, uint32_t *out, size_t r) {
    uint32_t x[16];
    memcpy(x, in + 16 * (2 * r - 1), sizeof x);
    for (size_t i = 0; i < 2 * r; i++) {
        for (int j = 0; j < 16; j++) x[j] ^= in[16 * i + j];
        salsa20_8(x);
        memcpy(out + 16 * ((i & 1) * r + i / 2), x, sizeof x);
    }
}

/* `block` is 32r words, `table` n times that, `scratch` the size of `block`. The guest is
 * little-endian, like scrypt, so bytes and words are the same thing. */
static int rom_mix(uint32_t *block, uint32_t *table, uint32_t *scratch, uint64_t n, size_t r) {
    size_t words = 32 * r;
    uint64_t per_check = SCRYPT_BYTES_PER_CHECK / (words * 4) + 1;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(table + words * i, block, words * 4);
        block_mix(table + words * i, block, r);
        if (i % per_check == 0 && PyErr_CheckSignals() < 0) return -1;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t *row = table + words * (block[words - 16] & (n - 1));
        for (size_t j = 0; j < words; j++) scratch[j] = block[j] ^ row[j];
        block_mix(scratch, block, r);
        if (i % per_check == 0 && PyErr_CheckSignals() < 0) return -1;
    }
    return 0;
}

/* What OpenSSL refuses. Sets the exception it sets. */
static int check_scrypt(uint64_t n, uint64_t r, uint64_t p, uint64_t maxmem) {
    if (r == 0 || p == 0) {
        PyErr_SetString(PyExc_ValueError, "Invalid parameter combination for n, r, p, maxmem.");
        return -1;
    }
    int fits = p <= SCRYPT_PR_MAX / r && (16 * r >= 64 || n < 1ull << (16 * r));
    if (fits) {
        uint64_t block_bytes = p * 128 * r; /* below 2^37 after the check above */
        uint64_t rows = maxmem / (128 * r);
        fits = block_bytes <= maxmem && n <= rows && (n + 2) * 128 * r <= maxmem - block_bytes;
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "[digital envelope routines] memory limit exceeded");
        return -1;
    }
    return 0;
}

static int scrypt(const Py_buffer *password, const Py_buffer *salt, uint64_t n, size_t r, size_t p, uint8_t *out, size_t size) {
    size_t block_bytes = 128 * r;
    uint8_t *blocks = PyMem_RawMalloc(block_bytes * p);
    uint32_t *scratch = PyMem_RawMalloc(block_bytes);
    uint32_t *table = PyMem_RawMalloc(block_bytes * n);
    int status = -1;
    if (blocks == NULL || scratch == NULL || table == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    if (pbkdf2(SHA256, password->buf, password->len, salt->buf, salt->len, 1, blocks, block_bytes * p) < 0) goto end;
    for (size_t i = 0; i < p; i++) {
        if (rom_mix((uint32_t *)(blocks + block_bytes * i), table, scratch, n, r) < 0) goto end;
    }
    status = pbkdf2(SHA256, password->buf, password->len, blocks, block_bytes * p, 1, out, size);
end:
    PyMem_RawFree(table);
    PyMem_RawFree(scratch);
    PyMem_RawFree(blocks);
    return status;
}

/* ---- the Python functions ---- */

/* PyLong_AsLong of a machine whose long has 64 bits, as on the machines hashlib's
 * users come from; WASI's has 32, and would give other errors for large numbers. */
static int as_long64(PyObject *value, long long *result) {
    *result = PyLong_AsLongLong(value);
    if (*result == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_SetString(PyExc_OverflowError, "Python int too large to convert to C long");
        }
        return -1;
    }
    return 0;
}

/* Fills `slots`, with NULL for what was left out. The parser answers the caller's own
 * array when nothing but positional arguments came, and that array ends with the last. */
static int unpack(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, _PyArg_Parser *parser,
                  int required, int positional, PyObject **slots) {
    PyObject *const *found = _PyArg_UnpackKeywords(args, nargs, NULL, kwnames, parser, required, positional, 0, slots);
    if (found == NULL) return -1;
    if (found != slots) memcpy(slots, found, nargs * sizeof *slots);
    return 0;
}

PyDoc_STRVAR(pbkdf2_doc,
"pbkdf2_hmac($module, /, hash_name, password, salt, iterations, dklen=None)\n--\n\n"
"Password based key derivation function 2 (PKCS #5 v2.0) with HMAC as pseudorandom function.");

static PyObject *kdf_pbkdf2_hmac(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    static const char *const keywords[] = {"hash_name", "password", "salt", "iterations", "dklen", NULL};
    static _PyArg_Parser parser = {.keywords = keywords, .fname = "pbkdf2_hmac"};
    PyObject *arg[5] = {NULL};
    PyObject *result = NULL;
    Py_buffer password = {NULL}, salt = {NULL};
    long long iterations, dklen;

    if (unpack(args, nargs, kwnames, &parser, 4, 5, arg) < 0) return NULL;
    if (!PyUnicode_Check(arg[0])) {
        _PyArg_BadArgument("pbkdf2_hmac", "argument 'hash_name'", "str", arg[0]);
        return NULL;
    }
    Py_ssize_t name_size;
    const char *name = PyUnicode_AsUTF8AndSize(arg[0], &name_size);
    if (name == NULL) return NULL;
    if (strlen(name) != (size_t)name_size) {
        PyErr_SetString(PyExc_ValueError, "embedded null character");
        return NULL;
    }
    if (PyObject_GetBuffer(arg[1], &password, PyBUF_SIMPLE) < 0) goto end;
    if (PyObject_GetBuffer(arg[2], &salt, PyBUF_SIMPLE) < 0) goto end;
    if (as_long64(arg[3], &iterations) < 0) goto end;

    const hash_kind *hash = find_hash(name);
    if (hash == NULL) {
        PyErr_Format(PyExc_ValueError, "unsupported hash type %s", name);
        goto end;
    }
    if (iterations < 1) {
        PyErr_SetString(PyExc_ValueError, "iteration value must be greater than 0.");
        goto end;
    }
    if (iterations > INT_MAX) {
        PyErr_SetString(PyExc_OverflowError, "iteration value is too great.");
        goto end;
    }
    if (arg[4] == NULL || arg[4] == Py_None) {
        dklen = hash->digest_size;
    } else if (as_long64(arg[4], &dklen) < 0) {
        goto end;
    }
    if (dklen < 1) {
        PyErr_SetString(PyExc_ValueError, "key length must be greater than 0.");
        goto end;
    }
    if (dklen > INT_MAX) {
        PyErr_SetString(PyExc_OverflowError, "key length is too great.");
        goto end;
    }
    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)dklen);
    if (result != NULL && pbkdf2(hash, password.buf, password.len, salt.buf, salt.len, (uint32_t)iterations,
                                 (uint8_t *)PyBytes_AS_STRING(result), (size_t)dklen) < 0) {
        Py_CLEAR(result);
    }
end:
    if (password.obj != NULL) PyBuffer_Release(&password);
    if (salt.obj != NULL) PyBuffer_Release(&salt);
    return result;
}

/* One of scrypt's n, r and p: absent, not an int, or out of range are three different errors. */
static int scrypt_number(PyObject *value, const char *name, unsigned long long *result) {
    if (value != NULL) {
        if (!PyLong_Check(value)) {
            char label[] = "argument ' '";
            label[10] = name[0];
            _PyArg_BadArgument("scrypt", label, "int", value);
            return -1;
        }
        *result = PyLong_AsUnsignedLongLong(value);
        if (*result != (unsigned long long)-1 || !PyErr_Occurred()) return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s is required and must be an unsigned int", name);
    return -1;
}

PyDoc_STRVAR(scrypt_doc,
"scrypt($module, /, password, *, salt=None, n=None, r=None, p=None, maxmem=0, dklen=64)\n--\n\n"
"scrypt password-based key derivation function.");

static PyObject *kdf_scrypt(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    static const char *const keywords[] = {"password", "salt", "n", "r", "p", "maxmem", "dklen", NULL};
    static _PyArg_Parser parser = {.keywords = keywords, .fname = "scrypt"};
    PyObject *arg[7] = {NULL};
    PyObject *result = NULL;
    Py_buffer password = {NULL}, salt = {NULL};
    unsigned long long n, r, p;
    long long maxmem = 0, dklen = 64;

    if (unpack(args, nargs, kwnames, &parser, 1, 1, arg) < 0) return NULL;
    if (PyObject_GetBuffer(arg[0], &password, PyBUF_SIMPLE) < 0) goto end;
    if (arg[1] != NULL && PyObject_GetBuffer(arg[1], &salt, PyBUF_SIMPLE) < 0) goto end;
    if (arg[5] != NULL && as_long64(arg[5], &maxmem) < 0) goto end;
    if (arg[6] != NULL && as_long64(arg[6], &dklen) < 0) goto end;
    if (salt.obj == NULL) {
        PyErr_SetString(PyExc_TypeError, "salt is required");
        goto end;
    }
    if (scrypt_number(arg[2], "n", &n) < 0) goto end;
    if (n < 2 || (n & (n - 1)) != 0) {
        PyErr_SetString(PyExc_ValueError, "n must be a power of 2.");
        goto end;
    }
    if (scrypt_number(arg[3], "r", &r) < 0 || scrypt_number(arg[4], "p", &p) < 0) goto end;
    if (maxmem < 0 || maxmem > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "maxmem must be positive and smaller than %d", INT_MAX);
        goto end;
    }
    if (dklen < 1 || dklen > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "dklen must be greater than 0 and smaller than %d", INT_MAX);
        goto end;
    }
    if (check_scrypt(n, r, p, maxmem != 0 ? (uint64_t)maxmem : SCRYPT_DEFAULT_MAXMEM) < 0) goto end;

    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)dklen);
    /* After the check everything is far below 2^31, so the casts lose nothing. */
    if (result != NULL && scrypt(&password, &salt, n, (size_t)r, (size_t)p, (uint8_t *)PyBytes_AS_STRING(result), (size_t)dklen) < 0) {
        Py_CLEAR(result);
    }
end:
    if (password.obj != NULL) PyBuffer_Release(&password);
    if (salt.obj != NULL) PyBuffer_Release(&salt);
    return result;
}

static PyMethodDef kdf_methods[] = {
    {"pbkdf2_hmac", _PyCFunction_CAST(kdf_pbkdf2_hmac), METH_FASTCALL | METH_KEYWORDS, pbkdf2_doc},
    {"scrypt", _PyCFunction_CAST(kdf_scrypt), METH_FASTCALL | METH_KEYWORDS, scrypt_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef kdf_module = {
    PyModuleDef_HEAD_INIT, "_belljar_kdf", "Key derivation functions for hashlib.", 0, kdf_methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__belljar_kdf(void) { return PyModuleDef_Init(&kdf_module); }
