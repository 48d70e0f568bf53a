"""Changes QuickJS-NG's sources for Belljar. Every change says what it is for.

    python patch_quickjs.py SOURCE_DIR

A change whose place is not found stops the build: after an update of QuickJS each
must be looked at again.
"""

import re
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

change(
    "libregexp.c",
    "declarations for the changes below",
    '#include "libregexp.h"\n',
    '#include "libregexp.h"\n#include "stack.h"\n',
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
    "an end that comes too early is called so, as in other places of the parser",
    """    default:
        return js_parse_error(s, "unexpected token in expression: '%.*s'",""",
    """    case TOK_EOF:
        return js_parse_error(s, "Unexpected end of input");
    default:
        return js_parse_error(s, "unexpected token in expression: '%.*s'",""",
)

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
    "error.stack begins with the error, as programs written for other engines expect",
    """    if (p->class_id != JS_CLASS_ERROR)
        return JS_UNDEFINED;
    return js_dup(p->u.object_data);""",
    """    if (p->class_id != JS_CLASS_ERROR)
        return JS_UNDEFINED;
    return belljar_stack_text(ctx, this_val, p->u.object_data);""",
)

change(
    "quickjs.c",
    "code at the top of a cell or module has no function's name",
    """            if (!func_name_str || func_name_str[0] == '\\0')
                str1 = "<anonymous>";
            else
                str1 = func_name_str;
            dbuf_printf(&dbuf, "    at %s", str1);
            JS_FreeCString(ctx, func_name_str);

            if (b && sf->cur_pc) {""",
    """            bool is_nameless = !func_name_str || func_name_str[0] == '\\0' || !strcmp(func_name_str, "<eval>");
            if (is_nameless)
                str1 = b && sf->cur_pc ? "" : "<anonymous>";
            else
                str1 = func_name_str;
            is_nameless = str1[0] == '\\0';
            dbuf_printf(&dbuf, "    at %s", str1);
            JS_FreeCString(ctx, func_name_str);

            if (b && sf->cur_pc) {""",
)

change(
    "quickjs.c",
    "likewise",
    """                dbuf_printf(&dbuf, " (%s", atom_str ? atom_str : "<null>");
                JS_FreeCString(ctx, atom_str);
                if (line_num1 != -1)
                    dbuf_printf(&dbuf, ":%d:%d", line_num1, col_num1);
                dbuf_putc(&dbuf, ')');""",
    """                dbuf_printf(&dbuf, is_nameless ? "%s" : " (%s", atom_str ? atom_str : "<null>");
                JS_FreeCString(ctx, atom_str);
                if (line_num1 != -1)
                    dbuf_printf(&dbuf, ":%d:%d", line_num1, col_num1);
                if (!is_nameless)
                    dbuf_putc(&dbuf, ')');""",
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


# ---- recursion in C ----

# QuickJS measures how deep it is by the stack in linear memory. C functions whose variables
# all fit registers leave nothing there, however much native stack they use: without this,
# recursion through them would end in a trap instead of an error. So each function through
# which data or source can make QuickJS call itself takes some of that stack, a third of what
# it and those between take of the native one.
FRAMES = {
    "quickjs.c": {
        "static JSValue json_parse_value(JSParseState *s, JSONParseRecord *pr)": 576,
        "static int js_json_to_str(JSContext *ctx, JSONStringifyContext *jsc,": 704,
        "static JSValue internalize_json_property(JSContext *ctx, JSValueConst holder,": 704,
        "static int JS_WriteObjectRec(BCWriterState *s, JSValueConst obj)": 1728,
        "static JSValue JS_ReadObjectRec(BCReaderState *s)": 1728,
        "static int js_proxy_has(JSContext *ctx, JSValueConst obj, JSAtom atom)": 640,
        "static JSValue js_proxy_get(JSContext *ctx, JSValueConst obj, JSAtom atom,": 512,
        "static int js_proxy_set(JSContext *ctx, JSValueConst obj, JSAtom atom,": 512,
        "static int js_proxy_get_own_property(JSContext *ctx, JSPropertyDescriptor *pdesc,": 512,
        "static int js_proxy_define_own_property(JSContext *ctx, JSValueConst obj,": 640,
        "static int js_proxy_delete_property(JSContext *ctx, JSValueConst obj,": 704,
        "static int js_proxy_get_own_property_names(JSContext *ctx,": 1152,
        "static __exception int js_parse_assign_expr2(JSParseState *s, int parse_flags)": 1344,
        "static __exception int js_parse_unary(JSParseState *s, int parse_flags)": 576,
        "static __exception int js_parse_postfix_expr(JSParseState *s, int parse_flags)": 512,
        "static __exception int js_parse_template(JSParseState *s, int call, int *argc)": 1600,
        "static JSValue js_proxy_call(JSContext *ctx, JSValueConst func_obj,": 320,
        "static JSValue js_proxy_call_constructor(JSContext *ctx, JSValueConst func_obj,": 320,
        "int JS_OrdinaryIsInstanceOf(JSContext *ctx, JSValueConst val,": 320,
        "static int64_t JS_FlattenIntoArray(JSContext *ctx, JSValueConst target,": 960,
        "static JSValue js_iterator_wrap_next(JSContext *ctx, JSValueConst this_val,": 256,
        "static JSValue js_iterator_helper_next(JSContext *ctx, JSValueConst this_val,": 256,
        "static JSValue js_iterator_concat_next(JSContext *ctx, JSValueConst this_val,": 256,
        "static int js_resolve_module(JSContext *ctx, JSModuleDef *m)": 512,
        "static int js_create_module_function(JSContext *ctx, JSModuleDef *m)": 512,
        "static JSValue js_create_function(JSContext *ctx, JSFunctionDef *fd)": 1024,
    },
    "libregexp.c": {
        "static int re_parse_disjunction(REParseState *s, bool is_backward_dir)": 512,
        "static int re_parse_nested_class(REParseState *s, REStringList *cr, const uint8_t **pp)": 512,
    },
}

# These call each other without a look at the stack.
UNCHECKED = {
    "static JSValue js_iterator_wrap_next(JSContext *ctx, JSValueConst this_val,",
    "static JSValue js_iterator_helper_next(JSContext *ctx, JSValueConst this_val,",
    "static JSValue js_iterator_concat_next(JSContext *ctx, JSValueConst this_val,",
}


def take_frames(text, functions):
    for head, size in functions.items():
        places = [match.start() for match in re.finditer(re.escape(head), text)]
        bodies = [text.index("{", place) for place in places if ";" not in text[place : text.index("{", place)]]
        if len(bodies) != 1:
            sys.exit(f"found {len(bodies)} functions instead of 1: {head}")
        at = bodies[0] + 1
        added = f"\n    BELLJAR_TAKE_STACK({size});\n"
        if head in UNCHECKED:
            added += "    if (js_check_stack_overflow(ctx->rt, 0)) {\n        *pdone = false;\n        return JS_ThrowStackOverflow(ctx);\n    }\n"
        text = f"{text[:at]}{added}{text[at:]}"
    return text


def main(source_dir):
    texts = {}
    for file, why, old, new, count in CHANGES:
        path = Path(source_dir) / file
        text = texts.setdefault(path, path.read_text("utf-8"))
        if text.count(old) != count:
            sys.exit(f"{file}: found {text.count(old)} places instead of {count}: {why}")
        texts[path] = text.replace(old, new)
    for file, functions in FRAMES.items():
        path = Path(source_dir) / file
        texts[path] = take_frames(texts.get(path) or path.read_text("utf-8"), functions)
    for path, text in texts.items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
