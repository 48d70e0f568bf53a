#ifndef BELLJAR_CELL_H
#define BELLJAR_CELL_H

#include <Python.h>

PyObject *belljar_compile_cell(PyObject *self, PyObject *args);

#endif
