/* ES modules: the user's from the workspace, the driver's from /boot when the image is made. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

static bool is_path(const char *name) {
    return name[0] == '/' || !strncmp(name, "./", 2) || !strncmp(name, "../", 3) || !strcmp(name, ".") || !strcmp(name, "..");
}

/* What a program for Node or a browser may ask for, and what to tell it. */
static void throw_not_a_path(JSContext *ctx, const char *name) {
    if (strstr(name, "://") != NULL)
        JS_ThrowTypeError(ctx, "Cannot import '%s': the Belljar sandbox does not offer network access", name);
    else if (!strncmp(name, "node:", 5) || !strcmp(name, "fs") || !strcmp(name, "path") || !strcmp(name, "os") ||
             !strcmp(name, "fs/promises") || !strcmp(name, "http") || !strcmp(name, "https") ||
             !strcmp(name, "child_process") || !strcmp(name, "util") || !strcmp(name, "crypto"))
        JS_ThrowTypeError(ctx, "Cannot find module '%s': the Belljar sandbox does not offer the modules of Node; "
                               "readText, writeText, readJson, writeJson and listFiles work on files", name);
    else
        JS_ThrowTypeError(ctx, "Cannot find package '%s': the Belljar sandbox imports files of the workspace, by a path "
                               "like './%s.js'", name, name);
}

/* Joins and removes "." and ".." without looking at any file. */
static char *join(JSContext *ctx, const char *directory, size_t directory_len, const char *name) {
    size_t room = directory_len + strlen(name) + 3;
    char *path = js_malloc(ctx, room);
    if (path == NULL) return NULL;
    size_t len = 0;
    path[0] = 0;
    const char *parts[2] = {name[0] == '/' ? "" : directory, name};
    size_t lens[2] = {name[0] == '/' ? 0 : directory_len, strlen(name)};
    for (int i = 0; i < 2; i++) {
        const char *at = parts[i], *end = at + lens[i];
        while (at < end) {
            const char *slash = memchr(at, '/', (size_t)(end - at));
            size_t part = (size_t)((slash != NULL ? slash : end) - at);
            if (part == 2 && at[0] == '.' && at[1] == '.') {
                while (len > 0 && path[--len] != '/') continue;
            } else if (part > 0 && !(part == 1 && at[0] == '.')) {
                path[len++] = '/';
                memcpy(path + len, at, part);
                len += part;
            }
            at += part + 1;
        }
    }
    path[len] = 0;
    return path;
}

static char *normalise(JSContext *ctx, const char *base, const char *name, void *opaque) {
    if (!is_path(name)) {
        throw_not_a_path(ctx, name);
        return NULL;
    }
    char workspace[PATH_MAX];
    const char *slash = base[0] == '/' ? strrchr(base, '/') : NULL;
    if (slash != NULL) return join(ctx, base, (size_t)(slash - base), name);
    /* From a cell: relative to the workspace. */
    if (getcwd(workspace, sizeof workspace) == NULL) strcpy(workspace, "/");
    return join(ctx, workspace, strlen(workspace), name);
}

static int export_json(JSContext *ctx, JSModuleDef *module) {
    return JS_SetModuleExport(ctx, module, "default", JS_GetModulePrivateValue(ctx, module));
}

static JSModuleDef *json_module(JSContext *ctx, const char *name, const char *text, size_t len) {
    JSValue value = JS_ParseJSON(ctx, text, len, name);
    if (JS_IsException(value)) return NULL;
    JSModuleDef *module = JS_NewCModule(ctx, name, export_json);
    if (module == NULL) {
        JS_FreeValue(ctx, value);
        return NULL;
    }
    JS_AddModuleExport(ctx, module, "default");
    JS_SetModulePrivateValue(ctx, module, value);
    return module;
}

static void describe(JSContext *ctx, JSModuleDef *module, const char *name) {
    JSValue meta = JS_GetImportMeta(ctx, module);
    if (JS_IsException(meta)) return;
    char url[PATH_MAX + 8];
    const char *slash = strrchr(name, '/');
    snprintf(url, sizeof url, "file://%s", name);
    JS_DefinePropertyValueStr(ctx, meta, "url", JS_NewString(ctx, url), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, meta, "filename", JS_NewString(ctx, name), JS_PROP_C_W_E);
    if (slash != NULL)
        JS_DefinePropertyValueStr(ctx, meta, "dirname", JS_NewStringLen(ctx, name, (size_t)(slash - name)), JS_PROP_C_W_E);
    JS_FreeValue(ctx, meta);
}

static bool ends_with(const char *text, size_t len, const char *end) {
    size_t end_len = strlen(end);
    return len >= end_len && !memcmp(text + len - end_len, end, end_len);
}

static JSModuleDef *load(JSContext *ctx, const char *name, void *opaque, JSValueConst attributes) {
    /* `?…` makes another module of the same file, as elsewhere. */
    size_t path_len = strcspn(name, "?#"), len;
    char *path = js_strndup(ctx, name, path_len);
    if (path == NULL) return NULL;
    char *source = files_read(path, &len);
    JSModuleDef *module = NULL;
    if (source == NULL) {
        files_throw(ctx, errno, "import", path);
    } else if (ends_with(path, path_len, ".json")) {
        module = json_module(ctx, name, source, len);
    } else {
        JSValue compiled = JS_Eval(ctx, source, len, name, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
        if (!JS_IsException(compiled)) {
            module = JS_VALUE_GET_PTR(compiled);
            describe(ctx, module, path);
            JS_FreeValue(ctx, compiled);
        }
    }
    free(source);
    js_free(ctx, path);
    return module;
}

void modules_install(JSRuntime *rt) { JS_SetModuleLoaderFunc2(rt, normalise, load, NULL, NULL); }
