"""Changes CPython's sources before they are built. Each change says why.

    python patch_cpython.py SOURCE_DIR

Plain replacements rather than a diff: they need no `patch` tool, they carry their reason,
and one that no longer fits a newer CPython stops the build.

Most of them make the guest faster and leave its behaviour alone. Calls, and loads that
depend on each other, cost more in WebAssembly than in native code, because every call checks
the stack limit and no registers are shared between functions. So the point is to make fewer.
"""

import sys
from pathlib import Path

# ---- the object allocator ----

# A guest has one thread. All its interpreters can share one allocator, whose address is then
# a constant instead of three loads, each waiting for the one before.
ONE_ALLOCATOR = [
    (
        "Objects/obmalloc.c",
        """    PyInterpreterState *interp = _PyInterpreterState_GET();
    assert(interp->obmalloc != NULL); // otherwise not initialized or freed
    return interp->obmalloc;
""",
        """    return &obmalloc_state_main;
""",
    ),
    (
        "Objects/obmalloc.c",
        """    if (_Py_IsMainInterpreter(interp)
            || _PyInterpreterState_HasFeature(interp,
                                              Py_RTFLAGS_USE_MAIN_OBMALLOC)) {
        interp->obmalloc""",
        """    if (1) {
        interp->obmalloc""",
    ),
]

# The rare paths of malloc and free stay out of line: inlined, they made the common path
# save and restore five registers for nothing.
SMALL_FAST_PATHS = [
    ("Objects/obmalloc.c", f"static {kind}\n{function}(", f"static Py_NO_INLINE {kind}\n{function}(")
    for kind, function in [
        ("void", "pymalloc_pool_extend"),
        ("void*", "allocate_from_new_pool"),
        ("void", "insert_to_usedpool"),
        ("void", "insert_to_freepool"),
    ]
]

# ---- ints ----

# Ints of one and two digits are kept for reuse, as CPython has always done with floats (and
# does with ints from 3.14 on). Int arithmetic then rarely needs the allocator. The lists are linked through the tag, which a dead int does
# not need; an int's block is never smaller than its digits, so a recycled one always fits.
FREE_INTS = [
    (
        "Include/internal/pycore_long.h",
        "/* runtime lifecycle */\n",
        """/* Dead ints of one and of two digits, for reuse. */
#define _Py_FREE_INTS_MAX 128
struct _Py_free_ints {
    PyLongObject *first;
    Py_ssize_t room;
};
extern struct _Py_free_ints _Py_free_ints[2];

// The deallocator of exact ints.
extern void _PyLong_ExactDealloc(PyObject *self);

// A block for an int of `digits` digits (1 or 2), or NULL.
static inline PyLongObject *
_PyLong_Recycle(size_t digits)
{
    struct _Py_free_ints *list = &_Py_free_ints[digits - 1];
    PyLongObject *op = list->first;
    if (op != NULL) {
        list->first = (PyLongObject *)op->long_value.lv_tag;
        list->room++;
    }
    return op;
}

/* runtime lifecycle */
""",
    ),
    (
        "Objects/longobject.c",
        """static inline void
_Py_DECREF_INT(PyLongObject *op)
{
    assert(PyLong_CheckExact(op));
    _Py_DECREF_SPECIALIZED((PyObject *)op, (destructor)PyObject_Free);
""",
        """struct _Py_free_ints _Py_free_ints[2] = {
    {NULL, _Py_FREE_INTS_MAX},
    {NULL, _Py_FREE_INTS_MAX},
};

void
_PyLong_ExactDealloc(PyObject *self)
{
    PyLongObject *op = (PyLongObject *)self;
    size_t list = _PyLong_DigitCount(op) - 1;
    if (list < 2 && _Py_free_ints[list].room > 0) {
        op->long_value.lv_tag = (uintptr_t)_Py_free_ints[list].first;
        _Py_free_ints[list].first = op;
        _Py_free_ints[list].room--;
        return;
    }
    PyObject_Free(self);
}

static inline void
_Py_DECREF_INT(PyLongObject *op)
{
    assert(PyLong_CheckExact(op));
    _Py_DECREF_SPECIALIZED((PyObject *)op, _PyLong_ExactDealloc);
""",
    ),
    (
        "Objects/longobject.c",
        """    result = PyObject_Malloc(offsetof(PyLongObject, long_value.ob_digit) +
                             ndigits*sizeof(digit));
    if (!result) {
""",
        """    result = ndigits <= 2 ? _PyLong_Recycle(ndigits) : NULL;
    if (!result) {
        result = PyObject_Malloc(offsetof(PyLongObject, long_value.ob_digit) +
                                 ndigits*sizeof(digit));
    }
    if (!result) {
""",
    ),
    (
        "Objects/longobject.c",
        """    /* We could use a freelist here */
    PyLongObject *v = PyObject_Malloc(sizeof(PyLongObject));
    if (v == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
""",
        """    PyLongObject *v = _PyLong_Recycle(1);
    if (v == NULL) {
        v = PyObject_Malloc(sizeof(PyLongObject));
        if (v == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
    }
""",
    ),
    (
        "Objects/longobject.c",
        """        _Py_SetImmortal(self);
        return;
    }
    Py_TYPE(self)->tp_free(self);
""",
        """        _Py_SetImmortal(self);
        return;
    }
    if (PyLong_CheckExact(self)) {
        _PyLong_ExactDealloc(self);
        return;
    }
    Py_TYPE(self)->tp_free(self);
""",
    ),
]
# In the bytecodes this deallocator is only ever used for ints.
INT_BYTECODES = ["Python/bytecodes.c", "Python/generated_cases.c.h", "Python/executor_cases.c.h"]

# ---- recursion ----

# How deep C code may call itself, whatever sys.setrecursionlimit says. CPython's value for WASI
# lets `def f(x): sorted([1, 2], key=f)` run through the 4 MiB of shadow stack (link.sh), which
# ends the session instead of raising RecursionError. 3000 is what CPython uses on Windows.
RECURSION = [
    ("Include/cpython/pystate.h", "#  define Py_C_RECURSION_LIMIT 5000\n", "#  define Py_C_RECURSION_LIMIT 3000\n"),
]


def main(source):
    root = Path(source)
    for path, old, new in ONE_ALLOCATOR + SMALL_FAST_PATHS + FREE_INTS + RECURSION:
        replace(root / path, old, new)
    for path in INT_BYTECODES:
        replace(root / path, "(destructor)PyObject_Free", "_PyLong_ExactDealloc", once=False)


def replace(path, old, new, once=True):
    text = path.read_text("utf-8")
    found = text.count(old)
    if found == 0 or (once and found > 1):
        sys.exit(f"{path}: found {found} times instead of once:\n{old}")
    path.write_text(text.replace(old, new), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
