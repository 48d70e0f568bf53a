/* The reactor around CPython: what the host may call, and the two things the
 * guest may ask of the host. `abi.h` is the contract; guests/README.md tells the
 * story. Everything that can be written in Python is in ../driver instead. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal/pycore_pystate.h"
#include "internal/pycore_runtime.h"
#include "internal/pycore_signal.h"

#include "abi.h"
#include "cell.h"
#include "immortal.h"

/* wasi-libc: forget what the boot machine gave, so that the next host's
 * directories and environment are looked up afresh. */
extern void __wasilibc_reset_preopens(void);
extern void __wasilibc_deinitialize_environ(void);

extern PyObject *PyInit__belljar_kdf(void);

/* belljar_guest.driver.handle: bytes -> bytes. */
static PyObject *handle_request;
/* The last response; it stays alive until the next call. */
static PyObject *last_response;
/* Requests that fit are written here by the host, which saves it a call. */
static _Alignas(16) char request_buffer[BELLJAR_REQUEST_BUFFER_BYTES];

/* ---- the module `_belljar_host` ---- */

static PyObject *host_phase(PyObject *self, PyObject *arg) {
    long phase = PyLong_AsLong(arg);
    if (phase == -1 && PyErr_Occurred()) return NULL;
    belljar_import_phase((int32_t)phase);
    Py_RETURN_NONE;
}

static PyObject *host_call(PyObject *self, PyObject *arg) {
    char *request;
    Py_ssize_t len;
    if (PyBytes_AsStringAndSize(arg, &request, &len) < 0) return NULL;
    int32_t size = belljar_import_host_call(request, (int32_t)len);
    if (size < 0) {
        PyErr_SetString(PyExc_RuntimeError, "the host refused the call");
        return NULL;
    }
    PyObject *answer = PyBytes_FromStringAndSize(NULL, size);
    if (answer != NULL) belljar_import_host_take(PyBytes_AS_STRING(answer), size);
    return answer;
}

static PyMethodDef host_methods[] = {
    {"phase", host_phase, METH_O, "Tell the host whose code runs: USER or DRIVER."},
    {"call", host_call, METH_O, "Send a request to the host and return its answer."},
    {"compile_cell", belljar_compile_cell, METH_VARARGS,
     "compile_cell(source, filename, want_value) -> (code, code of the last expression or None)"},
    {"make_immortal", belljar_make_immortal, METH_O, "Stop counting references to these objects and all they lead to."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef host_module = {
    PyModuleDef_HEAD_INIT, "_belljar_host", "The host's side of the sandbox.", -1, host_methods,
};

static PyObject *init_host_module(void) {
    PyObject *module = PyModule_Create(&host_module);
    if (module == NULL) return NULL;
    if (PyModule_AddIntConstant(module, "DRIVER", BELLJAR_PHASE_DRIVER) < 0 ||
        PyModule_AddIntConstant(module, "USER", BELLJAR_PHASE_USER) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

/* ---- boot: runs once, when the image is made ---- */

static void die(const char *what) {
    fprintf(stderr, "belljar guest: %s failed\n", what);
    if (PyErr_Occurred()) PyErr_Print();
    abort();
}

static void check(PyStatus status, const char *what) {
    if (PyStatus_Exception(status)) {
        fprintf(stderr, "belljar guest: %s: %s\n", what, status.err_msg ? status.err_msg : "?");
        abort();
    }
}

static void start_interpreter(void) {
    PyPreConfig pre;
    PyPreConfig_InitIsolatedConfig(&pre);
    pre.utf8_mode = 1;
    check(Py_PreInitialize(&pre), "pre-initialisation");

    if (PyImport_AppendInittab("_belljar_host", init_host_module) < 0 ||
        PyImport_AppendInittab("_belljar_kdf", PyInit__belljar_kdf) < 0) die("registering modules");

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.install_signal_handlers = 0;
    config.write_bytecode = 0;
    /* The seed would be frozen in the image anyway; a fixed one makes the image reproducible. */
    config.use_hash_seed = 1;
    config.hash_seed = 0x5eed;
    config.module_search_paths_set = 1;
    check(PyWideStringList_Append(&config.module_search_paths, L"/boot/stdlib.zip"), "search path");
    check(PyWideStringList_Append(&config.module_search_paths, L"/boot/driver"), "search path");
    struct { wchar_t **field; const wchar_t *value; } strings[] = {
        {&config.program_name, L"python3"},
        {&config.executable, L"/bin/python3"},
        {&config.home, L"/"},
        {&config.stdlib_dir, L"/lib/python3.13"},
        {&config.prefix, L"/"},
        {&config.exec_prefix, L"/"},
        {&config.base_prefix, L"/"},
        {&config.base_exec_prefix, L"/"},
    };
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        check(PyConfig_SetString(&config, strings[i].field, strings[i].value), "configuration");
    check(Py_InitializeFromConfig(&config), "initialisation");
    PyConfig_Clear(&config);
}

BELLJAR_EXPORT("belljar_abi_version") int32_t belljar_abi_version(void) { return BELLJAR_ABI_VERSION; }

BELLJAR_EXPORT("belljar_boot") void belljar_boot(void) {
    start_interpreter();
    PyObject *boot = PyImport_ImportModule("belljar_guest.boot");
    if (boot == NULL) die("importing belljar_guest.boot");
    handle_request = PyObject_CallMethod(boot, "boot", NULL);
    if (handle_request == NULL) die("boot");
    Py_DECREF(boot);
    fflush(NULL);
    __wasilibc_reset_preopens();
    __wasilibc_deinitialize_environ();
}

/* Where the host finds the words it may write between two of the guest's steps.
 * Asked once, when the image is made; the answer goes into the manifest. */
BELLJAR_EXPORT("belljar_layout") const uint32_t *belljar_layout(void) {
    static uint32_t layout[BELLJAR_LAYOUT_WORDS];
    PyObject *random = PyImport_ImportModule("random");
    PyObject *instance = random ? PyObject_GetAttrString(random, "_inst") : NULL;
    if (instance == NULL) die("finding random._inst");
    /* Modules/_randommodule.c: PyObject_HEAD; int index; uint32_t state[624]. */
    char *generator = (char *)instance + sizeof(PyObject);
    layout[BELLJAR_INTERRUPT_TRIPPED] = (uint32_t)(uintptr_t)&_PyRuntime.signals.handlers[SIGINT].tripped;
    layout[BELLJAR_ANY_TRIPPED] = (uint32_t)(uintptr_t)&_PyRuntime.signals.is_tripped;
    layout[BELLJAR_EVAL_BREAKER] = (uint32_t)(uintptr_t)&_PyRuntime.main_tstate->eval_breaker;
    layout[BELLJAR_RANDOM_INDEX] = (uint32_t)(uintptr_t)generator;
    layout[BELLJAR_RANDOM_STATE] = (uint32_t)(uintptr_t)(generator + sizeof(int));
    layout[BELLJAR_RANDOM_STATE_BYTES] = 624 * sizeof(uint32_t);
    layout[BELLJAR_REQUEST_BUFFER] = (uint32_t)(uintptr_t)request_buffer;
    Py_DECREF(instance);
    Py_DECREF(random);
    return layout;
}

/* ---- run: everything below is called in a live sandbox ---- */

BELLJAR_EXPORT("belljar_alloc") void *belljar_alloc(size_t size) { return malloc(size); }

/* Takes the request (in the request buffer or from belljar_alloc), gives the response as address << 32 | length;
 * 0 when the driver itself failed. */
BELLJAR_EXPORT("belljar_call") uint64_t belljar_call(char *request, size_t len) {
    PyObject *bytes = PyBytes_FromStringAndSize(request, (Py_ssize_t)len);
    if (request != request_buffer) free(request);
    Py_CLEAR(last_response);
    if (bytes != NULL) {
        last_response = PyObject_CallOneArg(handle_request, bytes);
        Py_DECREF(bytes);
    }
    if (last_response == NULL || !PyBytes_Check(last_response)) {
        PyErr_Clear();
        Py_CLEAR(last_response);
        return 0;
    }
    return (uint64_t)(uintptr_t)PyBytes_AS_STRING(last_response) << 32 |
           (uint32_t)PyBytes_GET_SIZE(last_response);
}
