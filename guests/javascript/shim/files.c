/* Files of the workspace, for the driver. Paths are relative to it or absolute. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim.h"

static const struct {
    int number;
    const char *code, *text;
} errors[] = {
    {ENOENT, "ENOENT", "no such file or directory"},
    {EACCES, "EACCES", "permission denied"},
    {EPERM, "EPERM", "operation not permitted"},
    {ENOTCAPABLE, "EACCES", "permission denied"},
    {EROFS, "EROFS", "read-only file system"},
    {EEXIST, "EEXIST", "file already exists"},
    {ENOTDIR, "ENOTDIR", "not a directory"},
    {EISDIR, "EISDIR", "illegal operation on a directory"},
    {ENOTEMPTY, "ENOTEMPTY", "directory not empty"},
    {ENOSPC, "ENOSPC", "no space left on device"},
    {EDQUOT, "ENOSPC", "no space left on device"},
    {EFBIG, "EFBIG", "file too large"},
    {EMFILE, "EMFILE", "too many open files"},
    {ENAMETOOLONG, "ENAMETOOLONG", "name too long"},
    {ELOOP, "ELOOP", "too many symbolic links"},
    {EINVAL, "EINVAL", "invalid argument"},
    {ENOMEM, "ENOMEM", "not enough memory"},
};

JSValue files_throw(JSContext *ctx, int error, const char *what, const char *path) {
    const char *code = "EIO", *text = strerror(error);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].number == error) code = errors[i].code, text = errors[i].text;
    char message[1024];
    snprintf(message, sizeof message, "%s: %s, %s '%.800s'", code, text, what, path);
    JSValue thrown = JS_NewError(ctx);
    if (JS_IsException(thrown)) return thrown;
    int flags = JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE;
    JS_DefinePropertyValueStr(ctx, thrown, "message", JS_NewString(ctx, message), flags);
    JS_DefinePropertyValueStr(ctx, thrown, "code", JS_NewString(ctx, code), flags | JS_PROP_ENUMERABLE);
    JS_DefinePropertyValueStr(ctx, thrown, "path", JS_NewString(ctx, path), flags | JS_PROP_ENUMERABLE);
    return JS_Throw(ctx, thrown);
}

char *files_read(const char *path, size_t *len) {
    int file = open(path, O_RDONLY);
    if (file < 0) return NULL;
    struct stat status;
    size_t capacity = fstat(file, &status) == 0 && status.st_size > 0 ? (size_t)status.st_size : 4096;
    char *contents = malloc(capacity + 1);
    *len = 0;
    while (contents != NULL) {
        if (*len == capacity) {
            capacity *= 2;
            char *larger = realloc(contents, capacity + 1);
            if (larger == NULL) free(contents);
            contents = larger;
            continue;
        }
        ssize_t got = read(file, contents + *len, capacity - *len);
        if (got < 0) {
            int error = errno;
            free(contents);
            close(file);
            errno = error;
            return NULL;
        }
        if (got == 0) break;
        *len += (size_t)got;
    }
    close(file);
    if (contents == NULL) {
        belljar_memory_refused = true;
        errno = ENOMEM;
        return NULL;
    }
    contents[*len] = 0;
    return contents;
}

static JSValue thrown(JSContext *ctx, const char *what, const char *path) {
    int error = errno;
    JSValue result = error == ENOMEM ? JS_ThrowOutOfMemory(ctx) : files_throw(ctx, error, what, path);
    JS_FreeCString(ctx, path);
    return result;
}

/* read(path, as bytes?): the text of a file, or a Uint8Array of the user's realm. */
static JSValue read_file(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *path = JS_ToCString(ctx, argv[0]);
    if (path == NULL) return JS_EXCEPTION;
    size_t len;
    char *contents = files_read(path, &len);
    if (contents == NULL) return thrown(ctx, "open", path);
    JSValue value = JS_VALUE_GET_BOOL(argv[1]) ? JS_NewUint8ArrayCopy(belljar_user, (uint8_t *)contents, len)
                                               : JS_NewStringLen(ctx, contents, len);
    free(contents);
    JS_FreeCString(ctx, path);
    return value;
}

/* write(path, text or Uint8Array, append?) */
static JSValue write_file(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *path = JS_ToCString(ctx, argv[0]), *text = NULL;
    size_t len;
    const uint8_t *bytes = JS_GetTypedArrayType(argv[1]) >= 0 ? JS_GetUint8Array(ctx, &len, argv[1]) : NULL;
    if (bytes == NULL) bytes = (const uint8_t *)(text = JS_ToCStringLen(ctx, &len, argv[1]));
    if (path == NULL || bytes == NULL) return JS_EXCEPTION;
    int file = open(path, O_WRONLY | O_CREAT | (JS_VALUE_GET_BOOL(argv[2]) ? O_APPEND : O_TRUNC), 0666);
    bool failed = file < 0;
    for (size_t done = 0; !failed && done < len;) {
        ssize_t written = write(file, bytes + done, len - done);
        if (written < 0) failed = true;
        else done += (size_t)written;
    }
    int error = errno;
    if (file >= 0) close(file);
    if (text != NULL) JS_FreeCString(ctx, text);
    errno = error;
    if (failed) return thrown(ctx, file < 0 ? "open" : "write", path);
    JS_FreeCString(ctx, path);
    return JS_UNDEFINED;
}

/* list(path): names in a directory, directories with a slash behind. */
static JSValue list(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *path = JS_ToCString(ctx, argv[0]);
    if (path == NULL) return JS_EXCEPTION;
    DIR *directory = opendir(path);
    if (directory == NULL) return thrown(ctx, "scandir", path);
    JSValue names = JS_NewArray(ctx);
    uint32_t count = 0;
    for (struct dirent *entry; !JS_IsException(names) && (entry = readdir(directory)) != NULL;) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        char name[PATH_MAX + 2];
        snprintf(name, sizeof name, "%s%s", entry->d_name, entry->d_type == DT_DIR ? "/" : "");
        JS_SetPropertyUint32(ctx, names, count++, JS_NewString(ctx, name));
    }
    closedir(directory);
    JS_FreeCString(ctx, path);
    return names;
}

/* status(path): "file", "directory", "other", or null when there is nothing. */
static JSValue status(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *path = JS_ToCString(ctx, argv[0]);
    if (path == NULL) return JS_EXCEPTION;
    struct stat found;
    int failed = stat(path, &found);
    JS_FreeCString(ctx, path);
    if (failed) return JS_NULL;
    return JS_NewString(ctx, S_ISDIR(found.st_mode) ? "directory" : S_ISREG(found.st_mode) ? "file" : "other");
}

static JSValue remove_path(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *path = JS_ToCString(ctx, argv[0]);
    if (path == NULL) return JS_EXCEPTION;
    struct stat found;
    bool is_directory = lstat(path, &found) == 0 && S_ISDIR(found.st_mode);
    if ((is_directory ? rmdir(path) : unlink(path)) != 0) return thrown(ctx, is_directory ? "rmdir" : "unlink", path);
    JS_FreeCString(ctx, path);
    return JS_UNDEFINED;
}

static JSValue make_directory(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *path = JS_ToCString(ctx, argv[0]);
    if (path == NULL) return JS_EXCEPTION;
    if (mkdir(path, 0777) != 0) return thrown(ctx, "mkdir", path);
    JS_FreeCString(ctx, path);
    return JS_UNDEFINED;
}

static JSValue rename_path(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *from = JS_ToCString(ctx, argv[0]), *to = JS_ToCString(ctx, argv[1]);
    if (from == NULL || to == NULL) return JS_EXCEPTION;
    int failed = rename(from, to);
    JS_FreeCString(ctx, to);
    if (failed) return thrown(ctx, "rename", from);
    JS_FreeCString(ctx, from);
    return JS_UNDEFINED;
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("readFile", 2, read_file), JS_CFUNC_DEF("writeFile", 3, write_file),
    JS_CFUNC_DEF("list", 1, list),          JS_CFUNC_DEF("status", 1, status),
    JS_CFUNC_DEF("remove", 1, remove_path), JS_CFUNC_DEF("makeDirectory", 1, make_directory),
    JS_CFUNC_DEF("rename", 2, rename_path),
};

void files_define(JSContext *ctx, JSValueConst host) {
    JS_SetPropertyFunctionList(ctx, host, functions, sizeof functions / sizeof *functions);
}
