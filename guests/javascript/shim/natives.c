/* Functions of the user's realm that need nothing of the driver. */
#include <string.h>
#include <unistd.h>

#include "shim.h"

/* xoshiro256**: fast, and its state is small enough to be renewed with every sandbox. */
uint64_t natives_random_state[4] = {1, 2, 3, 4};

static uint64_t rotated(uint64_t word, int by) { return word << by | word >> (64 - by); }

static JSValue math_random(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    uint64_t *state = natives_random_state, next = rotated(state[1] * 5, 7) * 9, shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotated(state[3], 45);
    return JS_NewFloat64(ctx, (double)(next >> 11) * 0x1p-53);
}

/* fillRandom(typed array): from the host. */
static JSValue fill_random(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t offset, len, element, size;
    JSValue buffer = JS_GetTypedArrayBuffer(ctx, argv[0], &offset, &len, &element);
    if (JS_IsException(buffer)) return buffer;
    uint8_t *bytes = JS_GetArrayBuffer(ctx, &size, buffer);
    JS_FreeValue(ctx, buffer);
    if (bytes == NULL) return JS_EXCEPTION;
    for (size_t done = 0; done < len;) {
        size_t part = len - done < 256 ? len - done : 256;
        if (getentropy(bytes + offset + done, part) != 0) return JS_ThrowInternalError(ctx, "no randomness");
        done += part;
    }
    return JS_DupValue(ctx, argv[0]);
}

static JSValue random_uuid(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[16];
    char text[37];
    if (getentropy(bytes, sizeof bytes) != 0) return JS_ThrowInternalError(ctx, "no randomness");
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    char *at = text;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    return JS_NewStringLen(ctx, text, 36);
}

/* encode(text): its UTF-8 as a Uint8Array; halves of surrogate pairs become U+FFFD. */
static JSValue encode(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const char *text = JS_ToCStringLen(ctx, &len, argv[0]);
    if (text == NULL) return JS_EXCEPTION;
    JSValue bytes = JS_NewUint8ArrayCopy(ctx, (const uint8_t *)text, len);
    JS_FreeCString(ctx, text);
    return bytes;
}

/* The length of the well-formed UTF-8 sequence at `at`; 0 when there is none, -1 when it is only cut short. */
static int sequence(const uint8_t *at, size_t left) {
    uint8_t first = at[0];
    if (first < 0x80) return 1;
    int len = first >= 0xc2 && first <= 0xdf ? 2 : first >= 0xe0 && first <= 0xef ? 3 : first >= 0xf0 && first <= 0xf4 ? 4 : 0;
    if (len == 0) return 0;
    if (left > 1) {
        uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (at[1] < low || at[1] > high) return 0;
    }
    for (int i = 2; i < len && (size_t)i < left; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return left < (size_t)len ? -1 : len;
}

/* utf8Problem(bytes): where the first ill-formed sequence begins, or -1; one cut short at the end begins at its place. */
static JSValue utf8_problem(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const uint8_t *bytes = JS_GetUint8Array(ctx, &len, argv[0]);
    if (bytes == NULL) return JS_EXCEPTION;
    for (size_t at = 0; at < len;) {
        int step = sequence(bytes + at, len - at);
        if (step <= 0) return JS_NewInt64(ctx, (int64_t)at);
        at += (size_t)step;
    }
    return JS_NewInt32(ctx, -1);
}

/* cutShort(bytes): how many bytes at the end are the beginning of a longer sequence. */
static JSValue cut_short(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const uint8_t *bytes = JS_GetUint8Array(ctx, &len, argv[0]);
    if (bytes == NULL) return JS_EXCEPTION;
    for (size_t back = 1; back <= 3 && back <= len; back++)
        if (bytes[len - back] >= 0xc0) return JS_NewInt32(ctx, sequence(bytes + len - back, back) < 0 ? (int)back : 0);
    return JS_NewInt32(ctx, 0);
}

/* decode(bytes): UTF-8 as text; what is ill-formed becomes U+FFFD. */
static JSValue decode(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const uint8_t *bytes = JS_GetUint8Array(ctx, &len, argv[0]);
    return bytes == NULL ? JS_EXCEPTION : JS_NewStringLen(ctx, (const char *)bytes, len);
}

/* clone(value): a deep copy of what can be copied. */
static JSValue clone(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t size;
    uint8_t *written = JS_WriteObject(ctx, &size, argv[0], JS_WRITE_OBJ_REFERENCE);
    if (written == NULL) return JS_EXCEPTION;
    JSValue copy = JS_ReadObject(ctx, written, size, JS_READ_OBJ_REFERENCE);
    js_free(ctx, written);
    return copy;
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("fillRandom", 1, fill_random), JS_CFUNC_DEF("randomUUID", 0, random_uuid),
    JS_CFUNC_DEF("encode", 1, encode),          JS_CFUNC_DEF("decode", 1, decode),
    JS_CFUNC_DEF("utf8Problem", 1, utf8_problem), JS_CFUNC_DEF("cutShort", 1, cut_short),
    JS_CFUNC_DEF("clone", 1, clone),
};

void natives_define(JSContext *ctx, JSValueConst host) {
    JSValue natives = JS_NewObject(belljar_user), global = JS_GetGlobalObject(belljar_user);
    JS_SetPropertyFunctionList(belljar_user, natives, functions, sizeof functions / sizeof *functions);
    JS_SetPropertyStr(ctx, host, "natives", natives);
    JSValue math = JS_GetPropertyStr(belljar_user, global, "Math");
    JS_DefinePropertyValueStr(belljar_user, math, "random", JS_NewCFunction(belljar_user, math_random, "random", 0),
                              JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_FreeValue(belljar_user, math);
    JS_FreeValue(belljar_user, global);
}
