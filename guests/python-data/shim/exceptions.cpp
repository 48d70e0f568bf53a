// Where there is no memory, C++ code gets an exception. Debian's operator new, built without
// exceptions, would end the sandbox.
//
// Only matplotlib and what it stands on is compiled to catch, and does so before it returns to CPython
// (kiwisolver by a patch). numpy and pandas look for memory before they call C++ code; what it throws
// all the same ends the sandbox, unless it was called from matplotlib's C++, which then gets a
// MemoryError while the interpreter has lost track: whoever does that harms nobody but himself.
#include <cstdlib>
#include <new>

void *operator new(size_t size) {
    void *memory = std::malloc(size ? size : 1);
    if (!memory) throw std::bad_alloc();
    return memory;
}

void *operator new[](size_t size) { return operator new(size); }

void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }
