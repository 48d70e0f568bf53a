// libc++ for WASI has no threads, and so none of what goes with them. Whoever is alone needs no lock,
// and nobody can start a second one.
#pragma once

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace std {

struct mutex {
    void lock() {}
    void unlock() {}
};

struct recursive_mutex : mutex {};

template <class Mutex>
struct unique_lock {
    explicit unique_lock(Mutex &) {}
};

struct condition_variable {
    template <class... Arguments>
    void wait(Arguments &&...) {}
    void notify_all() {}
};

struct thread {
    template <class... Arguments>
    explicit thread(Arguments &&...) { throw system_error(make_error_code(errc::resource_unavailable_try_again)); }
    void join() {}
    static unsigned hardware_concurrency() { return 1; }
};

} // namespace std
