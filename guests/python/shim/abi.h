/* The contract between a guest and belljar-wasm. Changing anything here means a
 * new version number, here and in crates/belljar-wasm/src/abi.rs. */
#ifndef BELLJAR_ABI_H
#define BELLJAR_ABI_H

#include <stdint.h>

#define BELLJAR_ABI_VERSION 1

/* Whose code runs. The host lifts the memory cap a little for its own driver
 * and counts fuel from the first step of the user's code. */
#define BELLJAR_PHASE_DRIVER 0
#define BELLJAR_PHASE_USER 1

/* Words of belljar_layout(): SIGINT's `tripped`, `is_tripped`, the main thread's
 * `eval_breaker`, the Mersenne state of the shared random generator, the request
 * buffer. */
#define BELLJAR_LAYOUT_WORDS 5

#define BELLJAR_REQUEST_BUFFER_BYTES (16 * 1024)

#define BELLJAR_EXPORT(name) __attribute__((export_name(name), used))
#define BELLJAR_IMPORT(name) __attribute__((import_module("belljar"), import_name(name)))

BELLJAR_IMPORT("phase") void belljar_import_phase(int32_t phase);
/* Sends a request; answers the size of the reply, or a negative number. */
BELLJAR_IMPORT("host_call") int32_t belljar_import_host_call(const char *request, int32_t len);
/* Copies the reply of the last host_call; `size` is what host_call answered. */
BELLJAR_IMPORT("host_take") void belljar_import_host_take(char *reply, int32_t size);

#endif
