/* What SQLite gets instead of fcntl().
 *
 * WASI has no file locks. SQLite's own answer is to make a folder beside the database while
 * it is in use, which has two faults here: two connections of one program lock each other
 * out, and a session that is stopped or rolled back leaves the folder behind and the database
 * locked for ever. SQLite's usual locking keeps count of the connections inside one process
 * by itself and asks the system only about other processes. A guest is one process, so the
 * system's part may simply say yes.
 *
 * The price: two sessions that write the same database file at the same time are not kept
 * apart. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

/* wasi-libc has no names for lock commands; dependencies.sh gives both files the same ones. */
int belljar_sqlite_fcntl(int file, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    int result;
    switch (command) {
    case F_GETLK:
        va_arg(arguments, struct flock *)->l_type = F_UNLCK;
        result = 0;
        break;
    case F_SETLK:
    case F_SETLKW:
        result = 0;
        break;
    case F_SETFD:
    case F_SETFL:
        result = fcntl(file, command, va_arg(arguments, int));
        break;
    case F_GETFD:
    case F_GETFL:
        result = fcntl(file, command);
        break;
    default:
        errno = EINVAL;
        result = -1;
    }
    va_end(arguments);
    return result;
}
