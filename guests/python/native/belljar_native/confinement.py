"""Forking a session: plainly, or into a jail by way of the jail's own library.

The library does its part in C because between the fork and the closed jail no
interpreter should run. The sequence, for each session:

    parent   belljar_prepare()          0, or -1 with errno
    parent   fork
    child    belljar_confine(plan_fd)   forks once more: process 1 of the jail stays inside
                                        as its init, process 2 returns 0; -1 with errno
    parent   belljar_restore()          undoes what prepare did to the parent; 0, or -1
"""

import os
import sys

# What a child ends with when its jail could not be closed. It has run nothing of anybody's.
NOT_CONFINED = 125


class Unconfined:
    @staticmethod
    def fork():
        return os.fork()


class Jailed:
    def __init__(self, library, plan_fd):
        import ctypes

        self._errno, self._library, self._plan_fd = ctypes.get_errno, ctypes.CDLL(library, use_errno=True), plan_fd
        self._library.belljar_confine.argtypes = [ctypes.c_int]

    def fork(self):
        """Like os.fork, but a child that returns is confined."""
        self._call("belljar_prepare")
        try:
            pid = os.fork()
        except OSError:
            self._call("belljar_restore")
            raise
        if pid == 0:
            self._confine_or_end()
        else:
            self._call("belljar_restore")
        return pid

    def _confine_or_end(self):
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
