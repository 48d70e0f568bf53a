/* Included in quickjs.c before js_parse_source_element: import and export in a cell.
 *
 * A cell is a script, not a module: its variables are the session's. So an import
 * declaration becomes what a person would write in its place,
 *     const { a, b: c } = await import('…')
 * except that a missing export is an error; and `export` is read and ignored. */

static void belljar_begin_cell_statement(JSParseState *s) {
    /* A lone semicolon after the last expression does not take its value away. */
    if (s->token.val == ';') return;
    set_eval_ret_undefined(s);
    s->at_cell_top = true;
}

/* `from '…' [with {…}]`: emits code that leaves the module's namespace on the stack. */
static __exception int js_parse_source_element(JSParseState *s);

static __exception int belljar_parse_from(JSParseState *s, bool needs_from) {
    JSContext *ctx = s->ctx;
    JSValue attributes = JS_UNDEFINED;
    if (needs_from) {
        if (!token_is_pseudo_keyword(s, JS_ATOM_from)) return js_parse_error(s, "from clause expected");
        if (next_token(s)) return -1;
    }
    if (s->token.val != TOK_STRING) return js_parse_error(s, "string expected");
    emit_source_loc(s);
    if (emit_push_const(s, s->token.u.str.str, true)) return -1;
    if (next_token(s)) return -1;
    if (js_parse_with_clause(s, &attributes)) {
        JS_FreeValue(ctx, attributes);
        return -1;
    }
    if (JS_IsUndefined(attributes)) {
        emit_op(s, OP_undefined);
    } else {
        /* Only `type` means something, to us as to others. */
        JSValue type = JS_GetPropertyStr(ctx, attributes, "type");
        JS_FreeValue(ctx, attributes);
        JSAtom type_atom = JS_NewAtom(ctx, "type");
        emit_op(s, OP_object);
        emit_op(s, OP_object);
        int failed = JS_IsException(type) || type_atom == JS_ATOM_NULL || emit_push_const(s, type, true);
        JS_FreeValue(ctx, type);
        if (failed) {
            JS_FreeAtom(ctx, type_atom);
            return -1;
        }
        emit_op(s, OP_define_field);
        emit_atom(s, type_atom);
        JS_FreeAtom(ctx, type_atom);
        emit_op(s, OP_define_field);
        emit_atom(s, JS_ATOM_with);
    }
    emit_op(s, OP_import);
    emit_op(s, OP_await);
    s->cur_func->has_await = true;
    return 0;
}

/* What `import` binds: exported name and own name, in pairs. */
struct belljar_bindings {
    JSAtom (*pairs)[2];
    int count, capacity;
};

static int belljar_add_binding(JSContext *ctx, struct belljar_bindings *bindings, JSAtom exported, JSAtom local) {
    if (js_resize_array(ctx, (void **)&bindings->pairs, sizeof *bindings->pairs, &bindings->capacity,
                        bindings->count + 1))
        return -1;
    bindings->pairs[bindings->count][0] = JS_DupAtom(ctx, exported);
    bindings->pairs[bindings->count++][1] = JS_DupAtom(ctx, local);
    return 0;
}

static __exception int belljar_declare(JSParseState *s, struct belljar_bindings *bindings, JSAtom exported, JSAtom local) {
    if (js_define_var(s, local, TOK_CONST)) return -1;
    return belljar_add_binding(s->ctx, bindings, exported, local);
}

/* Takes the identifier that is the current token as a name of the cell's. */
static __exception int belljar_parse_local(JSParseState *s, struct belljar_bindings *bindings, JSAtom exported) {
    if (s->token.val != TOK_IDENT) return js_parse_error(s, "identifier expected");
    if (s->token.u.ident.is_reserved) return js_parse_error_reserved_identifier(s);
    if (belljar_declare(s, bindings, exported, s->token.u.ident.atom)) return -1;
    return next_token(s);
}

/* `name`, `name as local` or `'name' as local`; takes over `exported`, whose token is the current one. */
static __exception int belljar_parse_named_import(JSParseState *s, struct belljar_bindings *bindings, JSAtom exported) {
    bool is_name = s->token.val == TOK_IDENT && !s->token.u.ident.is_reserved;
    int failed = next_token(s);
    if (!failed && token_is_pseudo_keyword(s, JS_ATOM_as))
        failed = next_token(s) || belljar_parse_local(s, bindings, exported);
    else if (!failed && is_name)
        failed = belljar_declare(s, bindings, exported, exported);
    else if (!failed)
        failed = js_parse_error(s, "expecting 'as'");
    JS_FreeAtom(s->ctx, exported);
    return failed ? -1 : 0;
}

static __exception int belljar_parse_named_imports(JSParseState *s, struct belljar_bindings *bindings) {
    if (next_token(s)) return -1;
    while (s->token.val != '}') {
        JSAtom exported;
        if (s->token.val == TOK_STRING)
            exported = JS_ValueToAtom(s->ctx, s->token.u.str.str);
        else if (token_is_ident(s->token.val))
            exported = JS_DupAtom(s->ctx, s->token.u.ident.atom);
        else
            return js_parse_error(s, "identifier or string expected");
        if (exported == JS_ATOM_NULL || belljar_parse_named_import(s, bindings, exported)) return -1;
        if (s->token.val != ',') break;
        if (next_token(s)) return -1;
    }
    return js_parse_expect(s, '}');
}

static __exception int belljar_parse_import_clause(JSParseState *s, struct belljar_bindings *bindings) {
    if (s->token.val == TOK_IDENT) {
        if (belljar_parse_local(s, bindings, JS_ATOM_default)) return -1;
        if (s->token.val != ',') return 0;
        if (next_token(s)) return -1;
    }
    if (s->token.val == '{') return belljar_parse_named_imports(s, bindings);
    if (s->token.val != '*') return js_parse_error(s, "invalid import syntax");
    if (next_token(s)) return -1;
    if (!token_is_pseudo_keyword(s, JS_ATOM_as)) return js_parse_error(s, "expecting 'as'");
    if (next_token(s)) return -1;
    return belljar_parse_local(s, bindings, JS_ATOM__star_);
}

/* namespace -> namespace, with one name of the cell's initialised from it. */
static void belljar_emit_binding(JSParseState *s, JSAtom exported, JSAtom local) {
    emit_op(s, OP_dup);
    if (exported != JS_ATOM__star_) {
        emit_op(s, OP_push_atom_value);
        emit_atom(s, exported);
        emit_op(s, OP_swap);
        emit_op(s, OP_in);
        int found = emit_goto(s, OP_if_true, -1);
        emit_op(s, OP_throw_error);
        emit_atom(s, exported);
        emit_u8(s, BELLJAR_THROW_NO_EXPORT);
        emit_label(s, found);
        emit_op(s, OP_dup);
        emit_op(s, OP_get_field);
        emit_atom(s, exported);
    }
    emit_op(s, OP_scope_put_var_init);
    emit_atom(s, local);
    emit_u16(s, s->cur_func->scope_level);
}

static __exception int belljar_parse_import(JSParseState *s) {
    JSContext *ctx = s->ctx;
    struct belljar_bindings bindings = {0};
    if (next_token(s)) return -1;
    bool bare = s->token.val == TOK_STRING;
    int failed = !bare && belljar_parse_import_clause(s, &bindings);
    failed = failed || belljar_parse_from(s, !bare);
    for (int i = 0; i < bindings.count; i++) {
        if (!failed) belljar_emit_binding(s, bindings.pairs[i][0], bindings.pairs[i][1]);
        JS_FreeAtom(ctx, bindings.pairs[i][0]);
        JS_FreeAtom(ctx, bindings.pairs[i][1]);
    }
    js_free(ctx, bindings.pairs);
    if (failed) return -1;
    emit_op(s, OP_drop);
    return js_parse_expect_semi(s);
}

/* `export … from '…'` still runs the other module. */
static __exception int belljar_parse_reexport(JSParseState *s) {
    if (belljar_parse_from(s, true)) return -1;
    emit_op(s, OP_drop);
    return js_parse_expect_semi(s);
}

static __exception int belljar_parse_export_default(JSParseState *s) {
    int after;
    if (next_token(s)) return -1;
    bool declares = (s->token.val == TOK_CLASS || s->token.val == TOK_FUNCTION) &&
                    (after = peek_token(s, false)) == TOK_IDENT;
    if (declares) return js_parse_source_element(s);
    s->at_cell_top = false;
    emit_source_loc(s);
    if (js_parse_assign_expr(s)) return -1;
    emit_op(s, OP_put_loc);
    emit_u16(s, s->cur_func->eval_ret_idx);
    return js_parse_expect_semi(s);
}

static __exception int belljar_parse_export(JSParseState *s) {
    if (next_token(s)) return -1;
    switch (s->token.val) {
    case TOK_DEFAULT:
        return belljar_parse_export_default(s);
    case '*':
        if (next_token(s)) return -1;
        if (token_is_pseudo_keyword(s, JS_ATOM_as) && (next_token(s) || next_token(s))) return -1;
        return belljar_parse_reexport(s);
    case '{':
        while (s->token.val != '}') {
            if (s->token.val == TOK_EOF) return js_parse_error(s, "Unexpected end of input");
            if (next_token(s)) return -1;
        }
        if (next_token(s)) return -1;
        if (token_is_pseudo_keyword(s, JS_ATOM_from)) return belljar_parse_reexport(s);
        return js_parse_expect_semi(s);
    default:
        return js_parse_source_element(s);
    }
}
