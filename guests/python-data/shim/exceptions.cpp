// The C++ code in the guest is compiled without unwinding, so nothing can catch what it throws.
// What numpy and pandas would throw for (no memory) is checked before; this is the last resort,
// and it ends the sandbox, never the host.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

extern "C" {
void *__cxa_allocate_exception(size_t size) { return malloc(size); }
void __cxa_free_exception(void *exception) { free(exception); }
[[noreturn]] void __cxa_throw(void *, void *, void (*)(void *)) {
    fputs("belljar guest: C++ code failed, most likely for want of memory\n", stderr);
    abort();
}
}
