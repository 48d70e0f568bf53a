/* numpy calls itself through the objects in an array, and takes kilobytes of stack each time: more
 * than CPython reckons with when it counts calls. The stack stands first in memory, so an address
 * on it says how much is left. */
#ifndef BELLJAR_STACK_H
#define BELLJAR_STACK_H

#include <Python.h>
#include <stdint.h>

#define BELLJAR_STACK_RESERVE (1024 * 1024)

static inline int belljar_stack_is_low(void) { return (uintptr_t)__builtin_frame_address(0) < BELLJAR_STACK_RESERVE; }

/* True with a RecursionError set. */
static inline int belljar_stack_is_short(void) {
    if (!belljar_stack_is_low()) return 0;
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded in numpy");
    return 1;
}

#endif
