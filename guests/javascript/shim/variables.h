/* Included in quickjs.c beside its handling of global variables. */

/* A `var` or function takes the name of a `let` of an earlier cell: the let goes, its
 * value stays. Returns -1 on an exception. */
static int belljar_lexical_becomes_var(JSContext *ctx, JSAtom name) {
    JSObject *lexicals = JS_VALUE_GET_OBJ(ctx->global_var_obj);
    JSProperty *property;
    if (!find_own_property(&property, lexicals, name)) return 0;
    JSValue value = js_dup(property->u.value);
    if (delete_property(ctx, lexicals, name) < 0) {
        JS_FreeValue(ctx, value);
        return -1;
    }
    if (JS_IsUninitialized(value)) return 0;
    int defined = JS_DefinePropertyValue(ctx, ctx->global_obj, name, value, JS_PROP_C_W_E);
    return defined < 0 ? -1 : 0;
}
