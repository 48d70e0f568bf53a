/* Included near the top of quickjs.c by recipe/patch_quickjs.py: what the changed
 * places there need to know of us. */
#ifndef BELLJAR_HOOKS_H
#define BELLJAR_HOOKS_H

#include <stdbool.h>

#include "stack.h"

/* Read the source as a cell. Takes the flag that QuickJS does not use. */
#define BELLJAR_EVAL_FLAG_CELL JS_EVAL_FLAG_UNUSED

/* One more kind of OP_throw_error. */
#define BELLJAR_THROW_NO_EXPORT 16

/* True until the image is made: functions compiled meanwhile are Belljar's own. */
static bool belljar_booting = true;

static bool belljar_hides_frame(const JSObject *function);

static JSValue belljar_stack_text(JSContext *ctx, JSValueConst error, JSValueConst frames);

#endif
