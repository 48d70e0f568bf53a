#ifndef BELLJAR_IMMORTAL_H
#define BELLJAR_IMMORTAL_H

#include <Python.h>

PyObject *belljar_make_immortal(PyObject *self, PyObject *objects);

#endif
