/* What boot has made lives as long as the image. Making it immortal means that no
 * sandbox counts references to it: reading an object then leaves its page as it is,
 * shared with every other sandbox. */
#define PY_SSIZE_T_CLEAN
#include "immortal.h"

#include <stdlib.h>

#include "internal/pycore_object.h"

/* Objects whose own references have still to be followed. */
struct pending {
    PyObject **objects;
    size_t count, capacity;
};

static int add(PyObject *object, void *list) {
    struct pending *pending = list;
    if (_Py_IsImmortal(object)) return 0;
    object->ob_refcnt = _Py_IMMORTAL_REFCNT;
    if (pending->count == pending->capacity) {
        size_t capacity = pending->capacity ? pending->capacity * 2 : 1 << 16;
        PyObject **grown = realloc(pending->objects, capacity * sizeof *grown);
        if (grown == NULL) return -1;
        pending->objects = grown;
        pending->capacity = capacity;
    }
    pending->objects[pending->count++] = object;
    return 0;
}

/* Code objects hold references but are unknown to the garbage collector. */
static int follow_code(PyCodeObject *code, struct pending *pending) {
    PyObject *parts[] = {
        code->co_consts, code->co_names, code->co_exceptiontable, code->co_localsplusnames, code->co_localspluskinds,
        code->co_filename, code->co_name, code->co_qualname, code->co_linetable,
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i] != NULL && add(parts[i], pending) < 0) return -1;
    return 0;
}

static int follow(PyObject *object, struct pending *pending) {
    if (PyCode_Check(object)) return follow_code((PyCodeObject *)object, pending);
    traverseproc traverse = Py_TYPE(object)->tp_traverse;
    return traverse != NULL ? traverse(object, add, pending) : 0;
}

PyObject *belljar_make_immortal(PyObject *self, PyObject *objects) {
    if (!PyList_Check(objects)) {
        PyErr_SetString(PyExc_TypeError, "expected a list of objects");
        return NULL;
    }
    struct pending pending = {0};
    int failed = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects) && !failed; i++)
        failed = add(PyList_GET_ITEM(objects, i), &pending) < 0;
    while (pending.count > 0 && !failed) failed = follow(pending.objects[--pending.count], &pending) < 0;
    free(pending.objects);
    if (failed) return PyErr_NoMemory();
    Py_RETURN_NONE;
}
