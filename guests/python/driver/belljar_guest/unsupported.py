"""What a sandbox does not offer, each with one clear exception that says so.

The types are those a program expects where the thing is missing (ImportError for a
module, RuntimeError for a thread, OSError for a process or a socket), so code with
a fallback takes it.
"""

import errno

from . import importer

# Modules that need something outside the sandbox, and what that is.
ABSENT_MODULES = {
    "_ctypes": "native code",
    "_multiprocessing": "other processes",
    "_posixsubprocess": "other processes",
    "_ssl": "network access",
    "_tkinter": "a display",
    "ctypes": "native code",
    "curses": "a terminal",
    "ensurepip": "installing packages from inside",
    "fcntl": "file locks and descriptor control",
    "grp": "user accounts",
    "idlelib": "a display",
    "mmap": "memory-mapped files",
    "pip": "installing packages from inside",
    "pty": "a terminal",
    "pwd": "user accounts",
    "readline": "a terminal",
    "resource": "control of its own limits",
    "ssl": "network access",
    "syslog": "system logs",
    "termios": "a terminal",
    "tkinter": "a display",
    "tty": "a terminal",
    "turtle": "a display",
    "venv": "other interpreters",
}


def message(what):
    return f"the Belljar sandbox does not offer {what}"


class AbsentModules:
    """A finder that finds nothing: it explains why a module of the standard library is missing."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        reason = ABSENT_MODULES.get(name)
        if reason is not None:
            raise ModuleNotFoundError(f"No module named {name!r}: {message(reason)}", name=name)
        return None


def _refuse(exception, what, *head):
    def refused(*args, **kwargs):
        raise exception(*head, message(what))

    return refused


_no_thread = _refuse(RuntimeError, "threads")
refuse_process = _refuse(OSError, "other processes", errno.ENOSYS)
_no_socket = _refuse(OSError, "network access", errno.EPERM)


def _without_processes(subprocess):
    subprocess.Popen.__init__ = refuse_process
    # Popen.__del__ looks at attributes that __init__ would have set.
    subprocess.Popen._child_created = False
    subprocess.Popen.returncode = None


def _without_sockets(socket):
    socket.socket.__init__ = _no_socket
    for name in ("socketpair", "create_connection", "create_server", "getaddrinfo", "gethostbyname",
                 "gethostbyaddr", "gethostname", "getnameinfo", "fromfd"):
        setattr(socket, name, _no_socket)


def _without_multiprocessing(context):
    for name in ("Process", "Pool", "Manager", "Pipe", "Lock", "RLock", "Semaphore", "BoundedSemaphore",
                 "Condition", "Event", "Barrier", "Queue", "JoinableQueue", "SimpleQueue", "Value", "Array"):
        setattr(context.BaseContext, name, refuse_process)
    for kind in (context.DefaultContext, context.SpawnContext):
        kind.Process = refuse_process


def _without_process_objects(process):
    process.BaseProcess.__init__ = refuse_process


def _without_secure_urls(request):
    def unknown_open(self, req):
        if req.type == "https":
            raise request.URLError(message("network access"))
        raise request.URLError(f"unknown url type: {req.type}")

    request.UnknownHandler.unknown_open = unknown_open


def _explain_missing_function(name):
    """For attributes of `os` that other systems have: says why this one does not."""
    text = f"module 'os' has no attribute {name!r}"
    if name.startswith(("exec", "spawn", "posix_spawn", "fork", "kill", "wait")):
        text += f": {message('other processes')}"
    raise AttributeError(text, name=name)


def _without_process_pool(process):
    process.ProcessPoolExecutor.__init__ = refuse_process


def install():
    import _thread
    import os

    _thread.start_new_thread = _thread.start_new = _no_thread
    _thread.start_joinable_thread = _no_thread
    os.system = refuse_process
    os.__getattr__ = _explain_missing_function
    importer.after_import("subprocess", _without_processes)
    importer.after_import("socket", _without_sockets)
    importer.after_import("urllib.request", _without_secure_urls)
    importer.after_import("multiprocessing.process", _without_process_objects)
    importer.after_import("multiprocessing.context", _without_multiprocessing)
    importer.after_import("concurrent.futures.process", _without_process_pool)
