/* From the user's code into the driver and back. A portal is a function of the user's
 * realm; the driver's function behind it cannot be reached through it, and neither can
 * any other object of the driver's: not as a result, not as an error. */
#include <string.h>

#include "shim.h"

static JSValue copy_property(JSValueConst from, JSValueConst to, const char *name) {
    JSValue value = JS_GetPropertyStr(belljar_driver, from, name);
    if (JS_IsString(value) || JS_IsNumber(value))
        JS_DefinePropertyValueStr(belljar_user, to, name, value, JS_PROP_C_W_E);
    else
        JS_FreeValue(belljar_user, value);
    return JS_UNDEFINED;
}

/* Throws the driver's error again as one of the user's realm. Errors that are the user's already stay as they are. */
static JSValue hand_over_error(void) {
    JSValue error = JS_GetException(belljar_driver);
    if (!engine_is_drivers(error)) return JS_Throw(belljar_user, error);
    JSValue name = JS_GetPropertyStr(belljar_driver, error, "name");
    JSValue message = JS_GetPropertyStr(belljar_driver, error, "message");
    const char *class_name = JS_ToCString(belljar_driver, name);
    JSValue copy = engine_error(class_name, JS_UNDEFINED, message);
    if (!JS_IsException(copy)) {
        copy_property(error, copy, "code");
        copy_property(error, copy, "path");
        if (JS_IsUncatchableError(error)) JS_SetUncatchableError(belljar_user, copy);
    }
    JS_FreeCString(belljar_driver, class_name);
    JS_FreeValue(belljar_driver, name);
    JS_FreeValue(belljar_driver, message);
    JS_FreeValue(belljar_driver, error);
    return JS_IsException(copy) ? JS_EXCEPTION : JS_Throw(belljar_user, copy);
}

static JSValue pass(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int magic, JSValueConst *data) {
    JSValue value = JS_Call(belljar_driver, data[0], JS_UNDEFINED, argc, argv);
    if (JS_IsException(value)) return hand_over_error();
    if (engine_is_drivers(value)) {
        JS_FreeValue(belljar_driver, value);
        return JS_UNDEFINED;
    }
    return value;
}

/* portal(name, length, function): a function of the user's realm. */
static JSValue portal(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *name = JS_ToCString(ctx, argv[0]);
    if (name == NULL) return JS_EXCEPTION;
    JSValue made = JS_NewCFunctionData2(belljar_user, pass, name, JS_VALUE_GET_INT(argv[1]), 0, 1, argv + 2);
    JS_FreeCString(ctx, name);
    return made;
}

/* error(class name or prototype, message): an error of the user's realm, to throw or to reject with. */
static JSValue error(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    if (JS_IsObject(argv[0])) return engine_error(NULL, argv[0], argv[1]);
    const char *name = JS_ToCString(ctx, argv[0]);
    if (name == NULL) return JS_EXCEPTION;
    JSValue made = engine_error(name, JS_UNDEFINED, argv[1]);
    JS_FreeCString(ctx, name);
    return made;
}

/* object(), array(): empty ones of the user's realm. */
static JSValue object(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewObject(belljar_user);
}

static JSValue array(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewArray(belljar_user);
}

/* parse(text): JSON as values of the user's realm. */
static JSValue parse(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const char *text = JS_ToCStringLen(ctx, &len, argv[0]);
    if (text == NULL) return JS_EXCEPTION;
    JSValue value = JS_ParseJSON(belljar_user, text, len, "<JSON>");
    JS_FreeCString(ctx, text);
    return value;
}

/* promise(): [promise, resolve, reject]; these three are of the user's realm, the array is not. */
static JSValue promise(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSValue parts[3];
    parts[0] = JS_NewPromiseCapability(belljar_user, parts + 1);
    if (JS_IsException(parts[0])) return JS_EXCEPTION;
    return JS_NewArrayFrom(ctx, 3, parts);
}

/* evaluate(source, name): runs a script of ours in the user's realm. */
static JSValue evaluate(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const char *source = JS_ToCStringLen(ctx, &len, argv[0]), *name = JS_ToCString(ctx, argv[1]);
    JSValue value = JS_Eval(belljar_user, source, len, name, JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT);
    JS_FreeCString(ctx, source);
    JS_FreeCString(ctx, name);
    return value;
}

/* global(): the user's global object. */
static JSValue global(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_GetGlobalObject(belljar_user);
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("portal", 3, portal), JS_CFUNC_DEF("error", 2, error),       JS_CFUNC_DEF("object", 0, object),
    JS_CFUNC_DEF("array", 0, array),   JS_CFUNC_DEF("parse", 1, parse),       JS_CFUNC_DEF("promise", 0, promise),
    JS_CFUNC_DEF("global", 0, global), JS_CFUNC_DEF("evaluate", 2, evaluate),
};

void portal_define(JSContext *ctx, JSValueConst host) {
    JS_SetPropertyFunctionList(ctx, host, functions, sizeof functions / sizeof *functions);
}
