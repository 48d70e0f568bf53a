/* Shared by the files of the shim. */
#ifndef BELLJAR_SHIM_H
#define BELLJAR_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

/* The host writes 1 here to interrupt the user's code. */
extern volatile uint32_t belljar_interrupt;
/* How many barriers (barrier.c) are on the stack: only below one may code be interrupted. */
extern int belljar_user_depth;
/* Memory was wanted and not given. */
extern bool belljar_memory_refused;

/* barrier.c: the only ways from the driver into the user's code. */
void barrier_define(JSContext *ctx, JSValueConst host);
/* portal.c: the only ways from the user's code into the driver. */
void portal_define(JSContext *ctx, JSValueConst host);
/* objects.c: looking at the user's values without running code of theirs. */
void objects_define(JSContext *ctx, JSValueConst host);
/* system.c: time, randomness, output, the host. */
void system_define(JSContext *ctx, JSValueConst host);
/* files.c: the workspace. */
void files_define(JSContext *ctx, JSValueConst host);
/* Throws an error with a code like ENOENT. */
JSValue files_throw(JSContext *ctx, int error, const char *what, const char *path);
/* A whole file, zero-terminated, or NULL with errno set. Freed with free(). */
char *files_read(const char *path, size_t *len);
/* modules.c: ES modules. */
void modules_install(JSRuntime *rt);
/* natives.c: functions of the user's realm that need no driver. */
void natives_define(JSContext *ctx, JSValueConst host);
extern uint64_t natives_random_state[4];

#endif
