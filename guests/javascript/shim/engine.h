/* What the rest of the shim needs from inside QuickJS. engine.c contains QuickJS. */
#ifndef BELLJAR_ENGINE_H
#define BELLJAR_ENGINE_H

#include "quickjs.h"

/* The realm of the user's code. */
extern JSContext *belljar_user;
/* The realm of the driver: own built-in objects, which no user's code ever gets hold of. */
extern JSContext *belljar_driver;

/* Compiles a cell without running it; JS_EvalFunction runs it and gives a promise of { value }. */
JSValue engine_compile_cell(const char *source, size_t len, const char *filename);

/* From here on what is compiled is the user's. What exists is never collected, nor looked at by the collector. */
void engine_freeze(void);

/* Forgets the reactions that wait to run: those of an abandoned cell. */
void engine_drop_jobs(void);

/* True when a value is an object of the driver's realm. */
bool engine_is_drivers(JSValueConst value);

/* An error of the user's realm: of a built-in class by its name, or with the prototype given. */
JSValue engine_error(const char *class_name, JSValueConst prototype, JSValueConst message);

/* The text of an error's stack, or undefined; runs no code. */
JSValue engine_error_stack(JSValueConst error);

/* The names and symbols of an object's own properties without its indices; not for proxies. */
JSValue engine_named_keys(JSContext *ctx, JSValueConst object);

/* True for the constructor of a class. */
bool engine_is_class(JSValueConst value);

/* Throws what no `catch` catches. */
JSValue engine_throw_uncatchable(JSContext *ctx, const char *message);

/* A global variable of the user's, `let` or `var`. 1 found, 0 not, runs no code. */
int engine_get_variable(JSAtom name, JSValue *value);
int engine_set_variable(JSAtom name, JSValue value);
void engine_forget_variable(JSAtom name);
/* The names of the user's let, const and class. */
JSValue engine_lexical_names(JSContext *ctx);
/* Takes back declarations whose cell failed before they got a value. */
void engine_drop_uninitialised(void);

#endif
