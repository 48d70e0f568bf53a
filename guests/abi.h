/* The contract between the guests and belljar-wasm. Changing anything here means a
 * new version number, here and in crates/belljar-wasm/src/abi.rs. */
#ifndef BELLJAR_ABI_H
#define BELLJAR_ABI_H

#include <stdint.h>

#define BELLJAR_ABI_VERSION 2

/* Whose code runs. The host lifts the memory cap a little for its own driver
 * and counts fuel from the first step of the user's code. */
#define BELLJAR_PHASE_DRIVER 0
#define BELLJAR_PHASE_USER 1

/* Words of belljar_layout(): addresses in the guest's memory. 0 means that this guest
 * has no such thing. */
enum {
    /* Set to 1 to interrupt, and back to 0 before the next call. */
    BELLJAR_INTERRUPT_TRIPPED,
    /* Likewise. */
    BELLJAR_ANY_TRIPPED,
    /* Bit 1 is set to interrupt and cleared before the next call. */
    BELLJAR_EVAL_BREAKER,
    /* Gets 624 whenever the random state is renewed: all of its numbers are used up. */
    BELLJAR_RANDOM_INDEX,
    /* Filled with random bytes when a sandbox starts, is forked or restored. */
    BELLJAR_RANDOM_STATE,
    /* How many of them; at most 4096. Not an address. */
    BELLJAR_RANDOM_STATE_BYTES,
    /* Where requests go that fit it. */
    BELLJAR_REQUEST_BUFFER,
    BELLJAR_LAYOUT_WORDS,
};

#define BELLJAR_REQUEST_BUFFER_BYTES (16 * 1024)

#define BELLJAR_EXPORT(name) __attribute__((export_name(name), used))
#define BELLJAR_IMPORT(name) __attribute__((import_module("belljar"), import_name(name)))

BELLJAR_IMPORT("phase") void belljar_import_phase(int32_t phase);
/* Sends a request; answers the size of the reply, or a negative number. */
BELLJAR_IMPORT("host_call") int32_t belljar_import_host_call(const char *request, int32_t len);
/* Copies the reply of the last host_call; `size` is what host_call answered. */
BELLJAR_IMPORT("host_take") void belljar_import_host_take(char *reply, int32_t size);

#endif
