/* The compiled modules of numpy and pandas, as built-in modules with dotted names. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "internal/pycore_import.h"

/* A module of the old kind (single-phase) takes its full name from the package context, which
 * CPython sets only for shared libraries. */
#define EXTENSION(full_name, name)                                           \
    extern PyObject *PyInit_##name(void);                                    \
    static PyObject *init_##name(void) {                                     \
        const char *context = _PyImport_SwapPackageContext(full_name);       \
        PyObject *module = PyInit_##name();                                  \
        _PyImport_SwapPackageContext(context);                               \
        return module;                                                       \
    }
#include "extensions.inc"
#undef EXTENSION

/* Before anything starts the interpreter. */
__attribute__((constructor)) static void register_extensions(void) {
#define EXTENSION(full_name, name) \
    if (PyImport_AppendInittab(full_name, init_##name) < 0) abort();
#include "extensions.inc"
}
