"""Forking a session: into a jail by way of the jail's own library, or plainly."""

import fcntl
import os
import sys

# Where the jail puts its library and its plan.
LIBRARY_FD, PLAN_FD = 5, 6
# What a child ends with when its jail could not be closed. It has run nothing of anybody's.
NOT_CONFINED = 125
# A zygote has fewer descriptors.
MORE_THAN_OPEN = 1024
# Stands for a descriptor that is not given.
NONE = -1


class Unconfined:
    """For tests, and for hosts that were told so."""

    # Those of `spawn`: protocol, stdout, stderr.
    descriptors = 3

    @staticmethod
    def fork():
        return os.fork()

    @staticmethod
    def enter(protocol, out, err):
        """Places the descriptors where a session expects them, and closes all others."""
        # None of them is in the way of another above these.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (out, err, protocol, protocol)]
        for number, fd in enumerate(high, 1):
            os.dup2(fd, number)
        os.closerange(5, MORE_THAN_OPEN)


class Jailed:
    # And the pipe for its status, and its workspace.
    descriptors = 5

    def __init__(self):
        import ctypes

        # Keeps the interpreter's lock: there is no other thread that could want it.
        self._library = ctypes.PyDLL(f"/proc/self/fd/{LIBRARY_FD}")
        self._library.belljar_failure.restype = ctypes.c_char_p
        self._numbers = ctypes.c_int * 8
        self._call("belljar_open", PLAN_FD)
        os.close(LIBRARY_FD)
        os.close(PLAN_FD)

    def fork(self):
        """Like os.fork; the child has to call `enter` before anything else happens in it."""
        self._call("belljar_before_fork")
        try:
            pid = os.fork()
        except OSError:
            self._call("belljar_after_fork")
            raise
        if pid != 0:
            self._call("belljar_after_fork")
        return pid

    def enter(self, protocol, out, err, status, workspace):
        """Returns confined, in another process than it was called in, or not at all."""
        try:
            numbers = self._numbers(protocol, protocol, out, err, workspace, status, NONE, NONE)
            self._call("belljar_enter", numbers)
        except BaseException as error:
            os.write(err, f"belljar: this session could not be confined: {error}\n".encode())
            os._exit(NOT_CONFINED)

    def _call(self, name, *arguments):
        number = -getattr(self._library, name)(*arguments)
        if number:
            step = self._library.belljar_failure().decode(errors="replace")
            raise NotConfined(number, f"cannot {step}: {os.strerror(number)}")


class NotConfined(OSError):
    """The jail's library has failed."""


def chosen(arguments):
    """By the command line: `--jailed` or `--unconfined`. There is no default."""
    if arguments == ["--unconfined"]:
        return Unconfined()
    if arguments == ["--jailed"]:
        return Jailed()
    sys.exit("usage: main.py --zygote (--jailed | --unconfined)")
