/* The driver's looks at the user's values. What may run the user's code says so and runs
 * it in the user's realm: the arguments QuickJS makes for a proxy's handler are objects of
 * the realm it is called in. */
#include <string.h>

#include "shim.h"

/* kind(value): the built-in class of an object ("Map", "Error", …), "Proxy", or "" for what is no object. */
static JSValue kind(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    if (!JS_IsObject(argv[0])) return JS_NewString(ctx, "");
    if (JS_IsProxy(argv[0])) return JS_NewString(ctx, "Proxy");
    JSAtom name = JS_GetClassName(JS_GetRuntime(ctx), JS_GetClassID(argv[0]));
    JSValue text = JS_AtomToString(ctx, name);
    JS_FreeAtom(ctx, name);
    return text;
}

static JSValue proxy_target(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSValue target = JS_GetProxyTarget(ctx, argv[0]);
    if (!JS_IsException(target)) return target;
    JS_FreeValue(ctx, JS_GetException(ctx));
    return JS_NULL;
}

/* promiseState(promise): 0 pending, 1 fulfilled, 2 rejected, -1 no promise. */
static JSValue promise_state(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewInt32(ctx, JS_PromiseState(ctx, argv[0]));
}

static JSValue promise_result(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_PromiseResult(ctx, argv[0]);
}

/* markHandled(promise): its rejection is not to be reported. */
static JSValue mark_handled(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JS_PromiseMarkAsHandled(ctx, argv[0]);
    return JS_UNDEFINED;
}

static JSValue error_stack(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return engine_error_stack(argv[0]);
}

/* get(object, key): runs getters and handlers. */
static JSValue get(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSAtom key = JS_ValueToAtom(ctx, argv[1]);
    if (key == JS_ATOM_NULL) return JS_EXCEPTION;
    JSValue value = JS_GetProperty(belljar_user, argv[0], key);
    JS_FreeAtom(ctx, key);
    return value;
}

/* invoke(function, this, …arguments): runs it, inside of a portal; errors pass through. */
static JSValue invoke(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_Call(belljar_user, argv[0], argv[1], argc > 2 ? argc - 2 : 0, argv + 2);
}

/* toNumber(value), toText(value): may run the value's own conversion. */
static JSValue to_number(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    double number;
    return JS_ToFloat64(belljar_user, &number, argv[0]) ? JS_EXCEPTION : JS_NewFloat64(ctx, number);
}

static JSValue to_text(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_ToString(belljar_user, argv[0]);
}

/* variable(name): [value] of a global variable of the user's, or null; runs nothing. */
static JSValue variable(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSAtom name = JS_ValueToAtom(ctx, argv[0]);
    if (name == JS_ATOM_NULL) return JS_EXCEPTION;
    JSValue value;
    int found = engine_get_variable(name, &value);
    JS_FreeAtom(ctx, name);
    return found ? JS_NewArrayFrom(ctx, 1, &value) : JS_NULL;
}

static JSValue set_variable(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSAtom name = JS_ValueToAtom(ctx, argv[0]);
    if (name == JS_ATOM_NULL) return JS_EXCEPTION;
    int set = engine_set_variable(name, JS_DupValue(ctx, argv[1]));
    JS_FreeAtom(ctx, name);
    return set < 0 ? JS_EXCEPTION : JS_UNDEFINED;
}

static JSValue forget_variable(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSAtom name = JS_ValueToAtom(ctx, argv[0]);
    engine_forget_variable(name);
    JS_FreeAtom(ctx, name);
    return JS_UNDEFINED;
}

static JSValue named_keys(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return engine_named_keys(ctx, argv[0]);
}

static JSValue is_class(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewBool(ctx, engine_is_class(argv[0]));
}

/* then(promise, function): calls it when the promise is fulfilled. */
static JSValue then(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSValue next = JS_PromiseThen(belljar_user, argv[0], argv[1], JS_UNDEFINED);
    if (JS_IsException(next)) return next;
    JS_FreeValue(ctx, next);
    return JS_UNDEFINED;
}

static JSValue lexical_names(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return engine_lexical_names(ctx);
}

static JSValue drop_uninitialised(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    engine_drop_uninitialised();
    return JS_UNDEFINED;
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("kind", 1, kind),
    JS_CFUNC_DEF("proxyTarget", 1, proxy_target),
    JS_CFUNC_DEF("promiseState", 1, promise_state),
    JS_CFUNC_DEF("promiseResult", 1, promise_result),
    JS_CFUNC_DEF("markHandled", 1, mark_handled),
    JS_CFUNC_DEF("errorStack", 1, error_stack),
    JS_CFUNC_DEF("get", 2, get),
    JS_CFUNC_DEF("invoke", 2, invoke),
    JS_CFUNC_DEF("toNumber", 1, to_number),
    JS_CFUNC_DEF("toText", 1, to_text),
    JS_CFUNC_DEF("variable", 1, variable),
    JS_CFUNC_DEF("setVariable", 2, set_variable),
    JS_CFUNC_DEF("forgetVariable", 1, forget_variable),
    JS_CFUNC_DEF("namedKeys", 1, named_keys),
    JS_CFUNC_DEF("isClass", 1, is_class),
    JS_CFUNC_DEF("then", 2, then),
    JS_CFUNC_DEF("lexicalNames", 0, lexical_names),
    JS_CFUNC_DEF("dropUninitialised", 0, drop_uninitialised),
};

void objects_define(JSContext *ctx, JSValueConst host) {
    JS_SetPropertyFunctionList(ctx, host, functions, sizeof functions / sizeof *functions);
}
