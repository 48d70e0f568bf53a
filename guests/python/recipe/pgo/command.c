/* A plain `python` command around the guest's CPython, for training, checks and
 * benchmarks on any WASI runtime. It is never shipped. */
#include <Python.h>

extern PyObject *PyInit__belljar_kdf(void);

#ifdef BELLJAR_PROFILE
extern int belljar_write_profile(const char *path);
#endif

int main(int argc, char **argv) {
    PyImport_AppendInittab("_belljar_kdf", PyInit__belljar_kdf);
    int status = Py_BytesMain(argc, argv);
#ifdef BELLJAR_PROFILE
    if (belljar_write_profile("/prof/raw.profraw") != 0) {
        fprintf(stderr, "the profile could not be written\n");
        return 3;
    }
#endif
    return status;
}
