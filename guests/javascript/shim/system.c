/* What the driver asks of the world: time, output, the host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wasi/api.h>

#include "abi.h"
#include "shim.h"

static JSValue phase(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    belljar_import_phase(JS_VALUE_GET_INT(argv[0]));
    return JS_UNDEFINED;
}

/* call(text): the host's answer as text, or null when it refused. */
static JSValue host_call(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const char *request = JS_ToCStringLen(ctx, &len, argv[0]);
    if (request == NULL) return JS_EXCEPTION;
    int32_t size = belljar_import_host_call(request, (int32_t)len);
    JS_FreeCString(ctx, request);
    if (size < 0) return JS_NULL;
    char *reply = malloc((size_t)size + 1);
    if (reply == NULL) {
        belljar_memory_refused = true;
        return JS_ThrowOutOfMemory(ctx);
    }
    belljar_import_host_take(reply, size);
    JSValue text = JS_NewStringLen(ctx, reply, (size_t)size);
    free(reply);
    return text;
}

/* write(descriptor, text) */
static JSValue write_text(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const char *text = JS_ToCStringLen(ctx, &len, argv[1]);
    if (text == NULL) return JS_EXCEPTION;
    for (size_t done = 0; done < len;) {
        ssize_t written = write(JS_VALUE_GET_INT(argv[0]), text + done, len - done);
        if (written <= 0) break;
        done += (size_t)written;
    }
    JS_FreeCString(ctx, text);
    return JS_UNDEFINED;
}

static double milliseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* now(): milliseconds since 1970. ticks(): milliseconds of a clock that only measures. */
static JSValue now(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewFloat64(ctx, milliseconds(CLOCK_REALTIME));
}

static JSValue ticks(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewFloat64(ctx, milliseconds(CLOCK_MONOTONIC));
}

/* sleep(milliseconds): comes back early when the host interrupts. */
static JSValue sleep_for(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    double wanted;
    if (JS_ToFloat64(ctx, &wanted, argv[0])) return JS_EXCEPTION;
    __wasi_subscription_t subscription = {0};
    subscription.u.tag = __WASI_EVENTTYPE_CLOCK;
    subscription.u.u.clock.id = __WASI_CLOCKID_MONOTONIC;
    subscription.u.u.clock.timeout = (__wasi_timestamp_t)(wanted * 1e6);
    __wasi_event_t event;
    __wasi_size_t count;
    (void)__wasi_poll_oneoff(&subscription, &event, 1, &count);
    return JS_UNDEFINED;
}

/* enter(directory): relative paths begin there from now on. */
static JSValue enter(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *path = JS_ToCString(ctx, argv[0]);
    if (path == NULL) return JS_EXCEPTION;
    JSValue entered = JS_NewBool(ctx, chdir(path) == 0);
    JS_FreeCString(ctx, path);
    return entered;
}

static JSValue version(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewString(ctx, JS_GetVersion());
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("phase", 1, phase),     JS_CFUNC_DEF("hostCall", 1, host_call), JS_CFUNC_DEF("write", 2, write_text),
    JS_CFUNC_DEF("now", 0, now),         JS_CFUNC_DEF("ticks", 0, ticks),        JS_CFUNC_DEF("sleep", 1, sleep_for),
    JS_CFUNC_DEF("version", 0, version), JS_CFUNC_DEF("enter", 1, enter),
};

void system_define(JSContext *ctx, JSValueConst host) {
    JS_SetPropertyFunctionList(ctx, host, functions, sizeof functions / sizeof *functions);
    JS_SetPropertyStr(ctx, host, "DRIVER", JS_NewInt32(ctx, BELLJAR_PHASE_DRIVER));
    JS_SetPropertyStr(ctx, host, "USER", JS_NewInt32(ctx, BELLJAR_PHASE_USER));
}
