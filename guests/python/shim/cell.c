/* Compiling a cell: the statements, and apart from them the last expression whose
 * value the cell shows. Done on the C syntax tree, because building `ast` objects
 * for it would cost more than a whole small execution. */
#define PY_SSIZE_T_CLEAN
#include "cell.h"

#include <string.h>

#include "internal/pycore_ast.h"
#include "internal/pycore_compile.h"
#include "internal/pycore_parser.h"
#include "internal/pycore_pyarena.h"

static PyObject *compile_parsed(mod_ty module, PyObject *filename, PyCompilerFlags *flags, PyArena *arena) {
    return (PyObject *)_PyAST_Compile(module, filename, flags, -1, arena);
}

/* Takes the last statement off the module when it is an expression. */
static expr_ty take_last_expression(mod_ty module) {
    asdl_stmt_seq *body = module->v.Module.body;
    Py_ssize_t count = asdl_seq_LEN(body);
    if (count == 0) return NULL;
    stmt_ty last = asdl_seq_GET(body, count - 1);
    if (last->kind != Expr_kind) return NULL;
    body->size = count - 1;
    return last->v.Expr.value;
}

PyObject *belljar_compile_cell(PyObject *self, PyObject *args) {
    const char *source;
    Py_ssize_t len;
    PyObject *filename;
    int want_value;
    if (!PyArg_ParseTuple(args, "s#Up", &source, &len, &filename, &want_value)) return NULL;
    if (strlen(source) != (size_t)len) {
        PyErr_SetString(PyExc_SyntaxError, "source code string cannot contain null bytes");
        return NULL;
    }
    PyArena *arena = _PyArena_New();
    if (arena == NULL) return NULL;

    PyCompilerFlags flags = _PyCompilerFlags_INIT;
    flags.cf_flags = PyCF_SOURCE_IS_UTF8 | PyCF_IGNORE_COOKIE | PyCF_ALLOW_TOP_LEVEL_AWAIT;
    PyObject *body = NULL, *value = NULL, *pair = NULL;
    mod_ty module = _PyParser_ASTFromString(source, filename, Py_file_input, &flags, arena);
    if (module == NULL) goto done;
    expr_ty last = want_value ? take_last_expression(module) : NULL;
    body = compile_parsed(module, filename, &flags, arena);
    if (body == NULL) goto done;
    if (last != NULL) {
        mod_ty expression = _PyAST_Expression(last, arena);
        if (expression == NULL) goto done;
        value = compile_parsed(expression, filename, &flags, arena);
        if (value == NULL) goto done;
    }
    pair = PyTuple_Pack(2, body, value != NULL ? value : Py_None);
done:
    Py_XDECREF(body);
    Py_XDECREF(value);
    _PyArena_Free(arena);
    return pair;
}
