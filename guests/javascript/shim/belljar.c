/* The reactor around QuickJS: what the host may call. `guests/abi.h` is the contract;
 * guests/README.md tells the story. Everything that can be written in JavaScript is in
 * ../driver instead. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "shim.h"

/* wasi-libc: forget what the boot machine gave, so that the next host's
 * directories and environment are looked up afresh. */
extern void __wasilibc_reset_preopens(void);
extern void __wasilibc_deinitialize_environ(void);

/* How much of the stack JavaScript may use before it gets a RangeError. The rest of the
 * stack in linear memory (recipe/quickjs.sh) and the native stack that goes with it are for
 * C functions between two checks. */
#define SCRIPT_STACK_BYTES (1152 * 1024)

volatile uint32_t belljar_interrupt;
int belljar_user_depth;
bool belljar_memory_refused;

/* The driver's handle(request): answer. */
static JSValue handle_request;
/* The last answer; it stays alive until the next call. */
static const char *last_answer;
/* Requests that fit are written here by the host, which saves it a call. One byte more
 * for the zero that the parser of JSON wants. */
static _Alignas(16) char request_buffer[BELLJAR_REQUEST_BUFFER_BYTES + 1];

/* ---- memory: QuickJS tells nobody when there is none left, so it is noted here ---- */

static void *noted(void *memory) {
    if (memory == NULL) belljar_memory_refused = true;
    return memory;
}

static void *take_cleared(void *opaque, size_t count, size_t size) { return noted(calloc(count, size)); }
static void *take(void *opaque, size_t size) { return noted(malloc(size)); }
static void give_back(void *opaque, void *memory) { free(memory); }
static void *resize(void *opaque, void *memory, size_t size) {
    void *resized = realloc(memory, size);
    return size == 0 ? resized : noted(resized);
}

extern size_t malloc_usable_size(void *);
static size_t usable_size(const void *memory) { return malloc_usable_size((void *)memory); }

static const JSMallocFunctions memory_functions = {take_cleared, take, give_back, resize, usable_size};

/* ---- boot: runs once, when the image is made ---- */

static int look_for_interrupt(JSRuntime *rt, void *opaque) { return belljar_interrupt != 0 && belljar_user_depth > 0; }

static void die(const char *what) {
    JSValue error = JS_GetException(belljar_driver);
    const char *text = JS_ToCString(belljar_driver, error);
    JSValue stack = JS_GetPropertyStr(belljar_driver, error, "stack");
    const char *trace = JS_ToCString(belljar_driver, stack);
    fprintf(stderr, "belljar guest: %s failed: %s\n%s\n", what, text ? text : "?", trace ? trace : "");
    abort();
}

static void start_interpreter(void) {
    JSRuntime *rt = JS_NewRuntime2(&memory_functions, NULL);
    if (rt == NULL) abort();
    JS_SetMaxStackSize(rt, SCRIPT_STACK_BYTES);
    JS_SetInterruptHandler(rt, look_for_interrupt, NULL);
    modules_install(rt);
    belljar_user = JS_NewContext(rt);
    belljar_driver = JS_NewContext(rt);
    if (belljar_user == NULL || belljar_driver == NULL) abort();
    JS_AddIntrinsicDOMException(belljar_user);
    JS_AddIntrinsicDOMException(belljar_driver);
}

/* Runs driver/main.js, a module of the driver's realm, which sets `handle`. */
static void load_driver(void) {
    JSContext *ctx = belljar_driver, *job_context;
    JSValue global = JS_GetGlobalObject(ctx), host = JS_NewObject(ctx);
    barrier_define(ctx, host);
    portal_define(ctx, host);
    objects_define(ctx, host);
    system_define(ctx, host);
    files_define(ctx, host);
    natives_define(ctx, host);
    JS_SetPropertyStr(ctx, global, "host", host);
    JSValue loaded = JS_LoadModule(ctx, "", "/boot/driver/main.js");
    while (JS_ExecutePendingJob(JS_GetRuntime(ctx), &job_context) > 0) continue;
    if (JS_PromiseState(ctx, loaded) != JS_PROMISE_FULFILLED) {
        JS_Throw(ctx, JS_PromiseResult(ctx, loaded));
        die("loading the driver");
    }
    JS_FreeValue(ctx, loaded);
    handle_request = JS_GetPropertyStr(ctx, global, "handle");
    if (!JS_IsFunction(ctx, handle_request)) die("finding the driver's handle");
    JS_FreeValue(ctx, global);
}

/* The driver answers a few requests of its own, so that what it does at first is done. */
static void warm_up(void) {
    JSContext *ctx = belljar_driver;
    JSValue global = JS_GetGlobalObject(ctx), warm = JS_GetPropertyStr(ctx, global, "warmUp");
    JSValue done = JS_Call(ctx, warm, JS_UNDEFINED, 0, NULL);
    if (JS_IsException(done)) die("warming up");
    JS_FreeValue(ctx, warm);
    JS_FreeValue(ctx, global);
}

BELLJAR_EXPORT("belljar_abi_version") int32_t belljar_abi_version(void) { return BELLJAR_ABI_VERSION; }

BELLJAR_EXPORT("belljar_boot") void belljar_boot(void) {
    start_interpreter();
    load_driver();
    engine_freeze();
    warm_up();
    engine_freeze();
    if (chdir("/app") != 0) die("entering the workspace");
    fflush(NULL);
    __wasilibc_reset_preopens();
    __wasilibc_deinitialize_environ();
}

/* Where the host finds the words it may write between two of the guest's steps.
 * Asked once, when the image is made; the answer goes into the manifest. */
BELLJAR_EXPORT("belljar_layout") const uint32_t *belljar_layout(void) {
    static uint32_t layout[BELLJAR_LAYOUT_WORDS];
    layout[BELLJAR_INTERRUPT_TRIPPED] = (uint32_t)(uintptr_t)&belljar_interrupt;
    layout[BELLJAR_RANDOM_STATE] = (uint32_t)(uintptr_t)natives_random_state;
    layout[BELLJAR_RANDOM_STATE_BYTES] = sizeof natives_random_state;
    layout[BELLJAR_REQUEST_BUFFER] = (uint32_t)(uintptr_t)request_buffer;
    return layout;
}

/* ---- run: everything below is called in a live sandbox ---- */

BELLJAR_EXPORT("belljar_alloc") void *belljar_alloc(size_t size) { return malloc(size + 1); }

/* Takes the request (in the request buffer or from belljar_alloc), gives the response as address << 32 | length;
 * 0 when the driver itself failed. */
BELLJAR_EXPORT("belljar_call") uint64_t belljar_call(char *request, size_t len) {
    JSContext *ctx = belljar_driver;
    JS_UpdateStackTop(JS_GetRuntime(ctx));
    belljar_user_depth = 0;
    belljar_memory_refused = false;
    if (last_answer != NULL) JS_FreeCString(ctx, last_answer);
    last_answer = NULL;

    /* Values in a request are the user's from the start. Reading JSON runs no code. */
    request[len] = 0;
    JSValue parsed = JS_ParseJSON(belljar_user, request, len, "<request>");
    if (request != request_buffer) free(request);
    JSValue answer = JS_IsException(parsed) ? JS_EXCEPTION : JS_Call(ctx, handle_request, JS_UNDEFINED, 1, &parsed);
    JS_FreeValue(ctx, parsed);
    size_t answer_len = 0;
    if (!JS_IsException(answer)) last_answer = JS_ToCStringLen(ctx, &answer_len, answer);
    JS_FreeValue(ctx, answer);
    if (last_answer == NULL) {
        JS_FreeValue(ctx, JS_GetException(ctx));
        return 0;
    }
    return (uint64_t)(uintptr_t)last_answer << 32 | (uint32_t)answer_len;
}
