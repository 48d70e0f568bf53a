"""Changes QuickJS-NG's sources for Belljar. Every change says what it is for.

    python patch_quickjs.py SOURCE_DIR

A change whose place is not found stops the build: after an update of QuickJS each
must be looked at again.
"""

import sys
from pathlib import Path

CHANGES = []


def change(file, why, old, new, count=1):
    CHANGES.append((file, why, old, new, count))


change(
    "quickjs.c",
    "the stack check works on WASI as elsewhere: it watches the stack in linear memory",
    """#if defined(__wasi__)
    rt->stack_limit = 0; /* no limit */
#else
    if (rt->stack_size == 0) {
        rt->stack_limit = 0; /* no limit */
    } else {
        rt->stack_limit = rt->stack_top - rt->stack_size;
    }
#endif""",
    """    if (rt->stack_size == 0) {
        rt->stack_limit = 0; /* no limit */
    } else {
        rt->stack_limit = rt->stack_top - rt->stack_size;
    }""",
)

change(
    "quickjs.c",
    "WebAssembly has no computed goto: clang would turn each into a search through all labels",
    "#if defined(EMSCRIPTEN) || defined(_MSC_VER)\n#define DIRECT_DISPATCH  0",
    "#if defined(EMSCRIPTEN) || defined(_MSC_VER) || defined(__wasi__)\n#define DIRECT_DISPATCH  0",
)

change(
    "quickjs.c",
    "declarations for the changes below",
    "static inline JSValueConst *vc(JSValue *vals)",
    '#include "hooks.h"\n\nstatic inline JSValueConst *vc(JSValue *vals)',
)

# ---- variables of a session: a later cell may declare again what an earlier one has declared ----

change(
    "quickjs.c",
    "a global let, const or class may be declared again",
    """    /* check if there already is a lexical declaration */
    p = JS_VALUE_GET_OBJ(ctx->global_var_obj);
    prs = find_own_property1(p, prop);
    if (prs) {
    fail_redeclaration:
        JS_ThrowSyntaxErrorVarRedeclaration(ctx, prop);
        return -1;
    }
    return 0;
}""",
    """    return 0;
 fail_redeclaration:
    JS_ThrowSyntaxErrorVarRedeclaration(ctx, prop);
    return -1;
}

#include "variables.h\"""",
)

change(
    "quickjs.c",
    "a let declared again is as writable as the new declaration says; until it is initialised it keeps its value",
    """    prs = find_own_property1(p, prop);
    if (prs)
        return 0;
    if (!p->extensible)
        return 0;""",
    """    if (!(def_flags & DEFINE_GLOBAL_LEX_VAR) && belljar_lexical_becomes_var(ctx, prop))
        return -1;
    prs = find_own_property1(p, prop);
    if (prs && (def_flags & DEFINE_GLOBAL_LEX_VAR))
        return js_update_property_flags(ctx, p, &prs, flags);
    if (prs)
        return 0;
    if (!p->extensible)
        return 0;""",
)

change(
    "quickjs.c",
    "a function may take the name of a let",
    """    p = JS_VALUE_GET_OBJ(ctx->global_obj);
    prs = find_own_property1(p, prop);
    flags = JS_PROP_HAS_VALUE | JS_PROP_THROW;""",
    """    if (belljar_lexical_becomes_var(ctx, prop))
        return -1;
    p = JS_VALUE_GET_OBJ(ctx->global_obj);
    prs = find_own_property1(p, prop);
    flags = JS_PROP_HAS_VALUE | JS_PROP_THROW;""",
)

change(
    "quickjs.c",
    "a let may take the name of a global var: such a var is configurable, as one made by eval is",
    """            if (s->eval_type != JS_EVAL_TYPE_GLOBAL)
                flags |= JS_PROP_CONFIGURABLE;""",
    """            flags |= JS_PROP_CONFIGURABLE;""",
)

# ---- what a cell is: a script with await, import and export, whose value is its last expression ----

change(
    "quickjs.c",
    "the parser knows whether it reads a cell",
    "typedef struct JSParseState {\n    JSContext *ctx;\n",
    "typedef struct JSParseState {\n    JSContext *ctx;\n    bool is_cell;\n    bool at_cell_top; /* the next statement stands directly in the cell */\n",
)

change(
    "quickjs.c",
    "the parser knows whether it reads a cell",
    "    s->is_module = (m != NULL);\n    s->allow_html_comments = !s->is_module;",
    "    s->is_module = (m != NULL);\n    s->is_cell = (flags & BELLJAR_EVAL_FLAG_CELL) != 0;\n    s->allow_html_comments = !s->is_module;",
)

change(
    "quickjs.c",
    "the value of a cell is that of its last statement, if that is an expression",
    """    while (s->token.val != TOK_EOF) {
        if (js_parse_source_element(s))
            return -1;
        /* Check if""",
    """    while (s->token.val != TOK_EOF) {
        if (s->is_cell)
            belljar_begin_cell_statement(s);
        if (js_parse_source_element(s))
            return -1;
        /* Check if""",
)

change(
    "quickjs.c",
    "nested expressions are not the value of a cell",
    """    JSContext *ctx = s->ctx;
    JSAtom label_name;
    int tok;
""",
    """    JSContext *ctx = s->ctx;
    JSAtom label_name;
    int tok;
    bool is_value = !s->is_cell || s->at_cell_top;

    s->at_cell_top = false;
""",
)

change(
    "quickjs.c",
    "nested expressions are not the value of a cell",
    "        if (s->cur_func->eval_ret_idx >= 0) {\n            /* store the expression value",
    "        if (s->cur_func->eval_ret_idx >= 0 && is_value) {\n            /* store the expression value",
)

change(
    "quickjs.c",
    "import and export in cells",
    """static __exception int js_parse_source_element(JSParseState *s)
{
    JSFunctionDef *fd = s->cur_func;
    int tok;
""",
    """#include "syntax.h"

static __exception int js_parse_source_element(JSParseState *s)
{
    JSFunctionDef *fd = s->cur_func;
    int tok;

    if (s->is_cell && fd->is_eval) {
        if (s->token.val == TOK_EXPORT)
            return belljar_parse_export(s);
        if (s->token.val == TOK_IMPORT && ((tok = peek_token(s, false)) != '(' && tok != '.'))
            return belljar_parse_import(s);
    }
""",
)

change(
    "quickjs.c",
    "importing what a module does not export is an error",
    """                if (type == JS_THROW_ERROR_ITERATOR_THROW)
                    JS_ThrowTypeError(ctx, "iterator does not have a throw method");
                else""",
    """                if (type == JS_THROW_ERROR_ITERATOR_THROW)
                    JS_ThrowTypeError(ctx, "iterator does not have a throw method");
                else
                if (type == BELLJAR_THROW_NO_EXPORT)
                    JS_ThrowSyntaxErrorAtom(ctx, "the module has no export named '%s'", atom);
                else""",
)

# ---- errors ----

change(
    "quickjs.c",
    "functions made while booting are Belljar's own",
    "    /* XXX: 5 bits available */\n",
    "    uint8_t is_belljars : 1;\n    /* XXX: 4 bits available */\n",
)

change(
    "quickjs.c",
    "functions made while booting are Belljar's own",
    "    b->backtrace_barrier = fd->backtrace_barrier;\n",
    "    b->backtrace_barrier = fd->backtrace_barrier;\n    b->is_belljars = belljar_booting;\n",
)

change(
    "quickjs.c",
    "Belljar's own frames are no business of the user's, neither as text nor as CallSite objects",
    """        if (js_class_has_bytecode(p->class_id)) {
            b = p->u.func.function_bytecode;
            backtrace_barrier = b->backtrace_barrier;
        }

        if (has_prepare) {""",
    """        if (js_class_has_bytecode(p->class_id)) {
            b = p->u.func.function_bytecode;
            backtrace_barrier = b->backtrace_barrier;
        }
        if (belljar_hides_frame(p))
            continue;

        if (has_prepare) {""",
)

change(
    "quickjs.c",
    "no memory left to settle a promise: an error like any other, not the end of the guest",
    """                if (JS_IsUncatchableError(ctx->rt->current_exception)) {
                    is_success = false;
                } else {
                    abort(); /* BUG */
                }""",
    """                is_success = false;""",
)


def main(source_dir):
    texts = {}
    for file, why, old, new, count in CHANGES:
        path = Path(source_dir) / file
        text = texts.setdefault(path, path.read_text("utf-8"))
        if text.count(old) != count:
            sys.exit(f"{file}: found {text.count(old)} places instead of {count}: {why}")
        texts[path] = text.replace(old, new)
    for path, text in texts.items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
