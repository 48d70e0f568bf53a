/* QuickJS, and what has to be done from inside it. */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Weverything"
#include "quickjs.c"
#pragma clang diagnostic pop

#include "engine.h"

JSContext *belljar_user;
JSContext *belljar_driver;

/* What exists when the image is made. Never collected: see engine_freeze. */
static struct list_head frozen_objects;

static bool belljar_hides_frame(const JSObject *function) {
    if (js_class_has_bytecode(function->class_id)) return function->u.func.function_bytecode->is_belljars;
    if (function->class_id == JS_CLASS_C_FUNCTION) return function->u.cfunc.realm == belljar_driver;
    return function->class_id == JS_CLASS_C_FUNCTION_DATA;
}

/* error.stack: the error itself, then where it came from. May run the error's own toString. */
static JSValue belljar_stack_text(JSContext *ctx, JSValueConst error, JSValueConst frames) {
    if (!JS_IsString(frames)) return js_dup(frames);
    JSValue head = js_error_toString(ctx, error, 0, NULL);
    if (JS_IsException(head)) return head;
    size_t len;
    const char *lines = JS_ToCStringLen(ctx, &len, frames);
    if (lines == NULL) {
        JS_FreeValue(ctx, head);
        return JS_EXCEPTION;
    }
    while (len > 0 && lines[len - 1] == '\n') len--;
    JSValue rest = JS_NewStringLen(ctx, lines, len);
    JS_FreeCString(ctx, lines);
    if (JS_IsException(rest) || len == 0) {
        JS_FreeValue(ctx, rest);
        return head;
    }
    return JS_ConcatString(ctx, JS_ConcatString3(ctx, "", head, "\n"), rest);
}

JSValue engine_compile_cell(const char *source, size_t len, const char *filename) {
    return JS_Eval(belljar_user, source, len, filename,
                   JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_ASYNC | JS_EVAL_FLAG_COMPILE_ONLY |
                       JS_EVAL_FLAG_BACKTRACE_BARRIER | BELLJAR_EVAL_FLAG_CELL);
}

/* The collector visits every object on its list and writes to each. Off the list, an
 * object of the image is left alone: its page stays shared with every other sandbox,
 * and what it refers to counts as in use. */
void engine_freeze(void) {
    JSRuntime *rt = belljar_user->rt;
    belljar_booting = false;
    JS_RunGC(rt);
    init_list_head(&frozen_objects);
    struct list_head *element, *next;
    list_for_each_safe(element, next, &rt->gc_obj_list) {
        list_del(element);
        list_add_tail(element, &frozen_objects);
    }
    JS_SetGCThreshold(rt, rt->malloc_state.malloc_size + 1024 * 1024);
}

void engine_drop_jobs(void) {
    JSRuntime *rt = belljar_user->rt;
    struct list_head *element, *next;
    list_for_each_safe(element, next, &rt->job_list) {
        JSJobEntry *job = list_entry(element, JSJobEntry, link);
        list_del(&job->link);
        for (int i = 0; i < job->argc; i++) JS_FreeValueRT(rt, job->argv[i]);
        js_free_rt(rt, job);
    }
}

bool engine_is_drivers(JSValueConst value) {
    if (!JS_IsObject(value)) return false;
    const JSObject *root = JS_VALUE_GET_OBJ(belljar_driver->class_proto[JS_CLASS_OBJECT]);
    const JSObject *object = JS_VALUE_GET_OBJ(value);
    while (object != NULL && object != root) object = object->shape->proto;
    return object != NULL;
}

JSValue engine_error(const char *class_name, JSValueConst prototype, JSValueConst message) {
    JSContext *ctx = belljar_user;
    JSValueConst proto = JS_IsObject(prototype) ? prototype : ctx->class_proto[JS_CLASS_ERROR];
    for (size_t i = 0; class_name != NULL && i < countof(native_error_name); i++)
        if (!strcmp(class_name, native_error_name[i])) proto = ctx->native_error_proto[i];
    JSValue error = JS_NewObjectProtoClass(ctx, proto, JS_CLASS_ERROR);
    if (JS_IsException(error)) return error;
    JS_DefinePropertyValue(ctx, error, JS_ATOM_message, js_dup(message), JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    build_backtrace(ctx, error, JS_UNDEFINED, NULL, 0, 0, 0);
    return error;
}

JSValue engine_error_stack(JSValueConst error) {
    JSObject *object;
    JSProperty *property;
    if (!JS_IsObject(error)) return JS_UNDEFINED;
    object = JS_VALUE_GET_OBJ(error);
    JSShapeProperty *own = find_own_property(&property, object, JS_ATOM_stack);
    if (own && (own->flags & JS_PROP_TMASK) == JS_PROP_NORMAL)
        return JS_IsString(property->u.value) ? js_dup(property->u.value) : JS_UNDEFINED;
    if (object->class_id != JS_CLASS_ERROR || !JS_IsString(object->u.object_data)) return JS_UNDEFINED;
    return js_dup(object->u.object_data);
}

JSValue engine_named_keys(JSContext *ctx, JSValueConst object) {
    JSValue keys = JS_NewArray(ctx);
    JSShape *shape = JS_VALUE_GET_OBJ(object)->shape;
    uint32_t count = 0;
    for (int i = 0; !JS_IsException(keys) && i < shape->prop_count; i++) {
        JSAtom key = get_shape_prop(shape)[i].atom;
        if (key == JS_ATOM_NULL || __JS_AtomIsTaggedInt(key) || JS_AtomGetKind(ctx, key) == JS_ATOM_KIND_PRIVATE) continue;
        if (JS_SetPropertyUint32(ctx, keys, count++, JS_AtomToValue(ctx, key)) < 0) break;
    }
    return keys;
}

bool engine_is_class(JSValueConst value) {
    if (!JS_IsObject(value) || !js_class_has_bytecode(JS_VALUE_GET_OBJ(value)->class_id)) return false;
    JSFunctionBytecode *code = JS_VALUE_GET_OBJ(value)->u.func.function_bytecode;
    return code->source != NULL && code->source_len > 5 && !strncmp(code->source, "class", 5);
}

JSValue engine_throw_uncatchable(JSContext *ctx, const char *message) {
    JS_ThrowInternalError(ctx, "%s", message);
    JS_SetUncatchableError(ctx, ctx->rt->current_exception);
    return JS_EXCEPTION;
}

int engine_get_variable(JSAtom name, JSValue *value) {
    JSContext *ctx = belljar_user;
    JSProperty *property;
    if (find_own_property(&property, JS_VALUE_GET_OBJ(ctx->global_var_obj), name)) {
        if (JS_IsUninitialized(property->u.value)) return 0;
        *value = js_dup(property->u.value);
        return 1;
    }
    JSPropertyDescriptor descriptor;
    int found = JS_GetOwnPropertyInternal(ctx, &descriptor, JS_VALUE_GET_OBJ(ctx->global_obj), name);
    if (found <= 0) {
        if (found < 0) JS_FreeValue(ctx, JS_GetException(ctx));
        return 0;
    }
    bool is_plain = !(descriptor.flags & JS_PROP_GETSET);
    *value = is_plain ? js_dup(descriptor.value) : JS_UNDEFINED;
    js_free_desc(ctx, &descriptor);
    return is_plain;
}

int engine_set_variable(JSAtom name, JSValue value) {
    JSContext *ctx = belljar_user;
    if (delete_property(ctx, JS_VALUE_GET_OBJ(ctx->global_var_obj), name) < 0) {
        JS_FreeValue(ctx, value);
        return -1;
    }
    return JS_DefinePropertyValue(ctx, ctx->global_obj, name, value, JS_PROP_C_W_E);
}

void engine_forget_variable(JSAtom name) {
    JSContext *ctx = belljar_user;
    delete_property(ctx, JS_VALUE_GET_OBJ(ctx->global_var_obj), name);
    delete_property(ctx, JS_VALUE_GET_OBJ(ctx->global_obj), name);
}

JSValue engine_lexical_names(JSContext *ctx) {
    JSObject *lexicals = JS_VALUE_GET_OBJ(belljar_user->global_var_obj);
    JSValue names = JS_NewArray(ctx);
    JSShape *shape = lexicals->shape;
    uint32_t count = 0;
    if (JS_IsException(names)) return names;
    for (int i = 0; i < shape->prop_count; i++) {
        JSAtom name = get_shape_prop(shape)[i].atom;
        if (name == JS_ATOM_NULL || JS_IsUninitialized(lexicals->prop[i].u.value)) continue;
        if (JS_SetPropertyUint32(ctx, names, count++, JS_AtomToString(ctx, name)) < 0) break;
    }
    return names;
}

void engine_drop_uninitialised(void) {
    JSContext *ctx = belljar_user;
    JSObject *lexicals = JS_VALUE_GET_OBJ(ctx->global_var_obj);
    for (int i = 0; i < lexicals->shape->prop_count; i++) {
        JSAtom name = get_shape_prop(lexicals->shape)[i].atom;
        if (name == JS_ATOM_NULL || !JS_IsUninitialized(lexicals->prop[i].u.value)) continue;
        if (delete_property(ctx, lexicals, name) < 0) JS_FreeValue(ctx, JS_GetException(ctx));
        i = -1; /* deleting may have moved the others */
    }
}
