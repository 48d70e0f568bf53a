/* From the driver into the user's code and back. Nothing the user's code does gets past
 * a barrier except as a value: no exception, no interrupt. */
#include <string.h>

#include "shim.h"

/* How a barrier was passed. */
enum { RETURNED, THREW, STOPPED, NOT_COMPILED };

/* What came through last: the value returned or the error thrown. */
static JSValue result;

static JSValue passed(JSContext *ctx, JSValue value) {
    int how = RETURNED;
    belljar_user_depth--;
    if (JS_IsException(value)) {
        value = JS_GetException(ctx);
        how = THREW;
        if (JS_IsUncatchableError(value)) {
            JS_ClearUncatchableError(ctx, value);
            how = STOPPED;
        }
    }
    JS_FreeValue(ctx, result);
    result = value;
    return JS_NewInt32(ctx, how);
}

/* result(): what came through the barrier last. */
static JSValue take_result(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSValue taken = result;
    result = JS_UNDEFINED;
    return taken;
}

/* start(source, filename): how; the result is a promise of { value }. */
static JSValue start(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const char *source = JS_ToCStringLen(ctx, &len, argv[0]), *filename = JS_ToCString(ctx, argv[1]);
    JSValue how = JS_EXCEPTION;
    if (source != NULL && filename != NULL) {
        belljar_user_depth++;
        JSValue cell = engine_compile_cell(source, len, filename);
        bool compiled = !JS_IsException(cell);
        how = passed(ctx, compiled ? JS_EvalFunction(belljar_user, cell) : cell);
        if (!compiled && JS_VALUE_GET_INT(how) == THREW) how = JS_NewInt32(ctx, NOT_COMPILED);
    }
    JS_FreeCString(ctx, source);
    JS_FreeCString(ctx, filename);
    return how;
}

/* compile(source, filename): how; nothing runs. */
static JSValue compile(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const char *source = JS_ToCStringLen(ctx, &len, argv[0]), *filename = JS_ToCString(ctx, argv[1]);
    JSValue how = JS_EXCEPTION;
    if (source != NULL && filename != NULL) {
        belljar_user_depth++;
        JSValue cell = engine_compile_cell(source, len, filename);
        if (!JS_IsException(cell)) {
            JS_FreeValue(ctx, cell);
            cell = JS_UNDEFINED;
        }
        how = passed(ctx, cell);
    }
    JS_FreeCString(ctx, source);
    JS_FreeCString(ctx, filename);
    return how;
}

/* call(function, this, …arguments): how. */
static JSValue call(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    belljar_user_depth++;
    return passed(ctx, JS_Call(belljar_user, argv[0], argv[1], argc > 2 ? argc - 2 : 0, argv + 2));
}

/* runJobs(): how; runs reactions of promises until none is left or one fails. */
static JSValue run_jobs(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSContext *job_context;
    int ran;
    belljar_user_depth++;
    do ran = JS_ExecutePendingJob(JS_GetRuntime(ctx), &job_context);
    while (ran > 0 && !belljar_interrupt);
    return passed(ctx, ran < 0 ? JS_EXCEPTION : JS_UNDEFINED);
}

static JSValue drop_jobs(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    engine_drop_jobs();
    return JS_UNDEFINED;
}

/* interrupted(): whether the host has interrupted; asking settles it. */
static JSValue interrupted(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    bool tripped = belljar_interrupt != 0;
    belljar_interrupt = 0;
    return JS_NewBool(ctx, tripped);
}

static JSValue memory_refused(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewBool(ctx, belljar_memory_refused);
}

/* stop(): ends the user's code that is running; no `catch` or `finally` of it runs. */
static JSValue stop(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return engine_throw_uncatchable(belljar_user, "stopped");
}

/* The driver's onRejection(promise, reason, handled). */
static JSValue on_rejection;

static void track_rejection(JSContext *ctx, JSValueConst promise, JSValueConst reason, bool handled, void *opaque) {
    if (JS_IsUndefined(on_rejection)) return;
    JSValueConst arguments[] = {promise, reason, handled ? JS_TRUE : JS_FALSE};
    JSValue ignored = JS_Call(belljar_driver, on_rejection, JS_UNDEFINED, 3, arguments);
    if (JS_IsException(ignored)) JS_FreeValue(ctx, JS_GetException(ctx));
    JS_FreeValue(ctx, ignored);
}

static JSValue set_on_rejection(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    on_rejection = JS_DupValue(ctx, argv[0]);
    JS_SetHostPromiseRejectionTracker(JS_GetRuntime(ctx), track_rejection, NULL);
    return JS_UNDEFINED;
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("result", 0, take_result),
    JS_CFUNC_DEF("start", 2, start),
    JS_CFUNC_DEF("compile", 2, compile),
    JS_CFUNC_DEF("call", 2, call),
    JS_CFUNC_DEF("runJobs", 0, run_jobs),
    JS_CFUNC_DEF("dropJobs", 0, drop_jobs),
    JS_CFUNC_DEF("interrupted", 0, interrupted),
    JS_CFUNC_DEF("memoryRefused", 0, memory_refused),
    JS_CFUNC_DEF("stop", 0, stop),
    JS_CFUNC_DEF("setOnRejection", 1, set_on_rejection),
};

void barrier_define(JSContext *ctx, JSValueConst host) {
    result = on_rejection = JS_UNDEFINED;
    JS_SetPropertyFunctionList(ctx, host, functions, sizeof functions / sizeof *functions);
}
