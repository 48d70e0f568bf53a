"""Forking a session: plainly, or into a jail by way of the jail's own library.

The library does its part in C because between the fork and the closed jail no
interpreter should run. The sequence, for each session:

    parent   belljar_prepare()          0, or -1 with errno
    parent   fork
    child    closes everything of the zygote's; has /dev/null, the session's stdout and
             stderr, its protocol socket and the plan
    child    belljar_confine(plan_fd)   forks once more: process 1 of the jail stays inside
                                        as its init, process 2 returns 0; -1 with errno
    parent   belljar_restore()          undoes what prepare did to the parent; 0, or -1
"""

import fcntl
import os
import sys

# What a child ends with when its jail could not be closed. It has run nothing of anybody's.
NOT_CONFINED = 125


# Out of the way of what a session closes.
LEAST_PLAN_FD = 150


class Unconfined:
    """For tests, and for hosts that were told so."""

    @staticmethod
    def fork():
        return os.fork()

    @staticmethod
    def confine():
        pass


class Jailed:
    def __init__(self, library, plan_fd):
        import ctypes

        self._errno, self._library = ctypes.get_errno, ctypes.CDLL(library, use_errno=True)
        self._plan_fd = fcntl.fcntl(plan_fd, fcntl.F_DUPFD_CLOEXEC, LEAST_PLAN_FD)
        os.close(plan_fd)

    def fork(self):
        """Like os.fork; the child has to call `confine` before anything else happens in it."""
        self._call("belljar_prepare")
        try:
            pid = os.fork()
        except OSError:
            self._call("belljar_restore")
            raise
        if pid != 0:
            self._call("belljar_restore")
        return pid

    def confine(self):
        """Returns confined or not at all."""
        try:
            self._call("belljar_confine", self._plan_fd)
            os.close(self._plan_fd)
        except BaseException as error:
            os.write(2, f"belljar: this session could not be confined: {error}\n".encode())
            os._exit(NOT_CONFINED)

    def _call(self, name, *arguments):
        if getattr(self._library, name)(*arguments) != 0:
            number = self._errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")


def chosen(arguments):
    """By the command line: `--unconfined`, or `--jail LIBRARY --plan DESCRIPTOR`. There is no default."""
    if arguments == ["--unconfined"]:
        return Unconfined()
    if len(arguments) == 4 and arguments[0] == "--jail" and arguments[2] == "--plan" and arguments[3].isdigit():
        return Jailed(arguments[1], int(arguments[3]))
    sys.exit("usage: main.py --zygote (--jail LIBRARY --plan DESCRIPTOR | --unconfined)")
