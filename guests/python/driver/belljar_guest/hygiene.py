"""Mends between two cells what the first has broken, and keeps the driver working meanwhile."""

from . import __builtins__

import __main__
import builtins
import io
import sys
from sys import getprofile, getrecursionlimit, gettrace, setprofile, setrecursionlimit, settrace

# Less than this is too little for the driver to say what happened.
LEAST_RECURSION_LIMIT = 500

_namespace = vars(builtins)
_pristine = {}
_missing = object()
# What user code has made of builtins; theirs while their code runs.
_overrides = {}
_users_recursion_limit = None


def open_stream(name):
    """Line-buffered, so that what was printed is out when a limit stops the program."""
    fd, mode, errors = _STREAMS[name]
    raw = io.open(fd, mode, closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=True)


_STREAMS = {
    "stdin": (0, "rb", "surrogateescape"),
    "stdout": (1, "wb", "surrogateescape"),
    "stderr": (2, "wb", "backslashreplace"),
}


def remember_builtins():
    _pristine.update(_namespace)


def before_user():
    """Before the user's code runs: gives it what it needs to run at all."""
    global _users_recursion_limit
    namespace = __main__.__dict__
    if type(namespace.get("__builtins__")) not in _KINDS_OF_BUILTINS:
        namespace["__builtins__"] = builtins
    if "__name__" not in namespace:
        namespace["__name__"] = "__main__"
    for name in ("stdout", "stderr"):
        if _is_broken(getattr(sys, name, None)):
            _reopen(name)
    if _overrides:
        _namespace.update(_overrides)
        _overrides.clear()
    if _users_recursion_limit is not None:
        setrecursionlimit(_users_recursion_limit)
        _users_recursion_limit = None


_KINDS_OF_BUILTINS = (type(builtins), dict)


def _is_broken(stream):
    """Closed, detached, or nothing one could write to."""
    try:
        return not callable(stream.write) or getattr(stream, "closed", False)
    except BaseException:
        return True


def _reopen(name):
    original = getattr(sys, f"__{name}__", None)
    if type(original) is not io.TextIOWrapper or _is_broken(original):
        original = open_stream(name)
        setattr(sys, f"__{name}__", original)
    setattr(sys, name, original)


def after_user():
    """After the user's code: what the driver and the library need is as it was."""
    global _users_recursion_limit
    if gettrace() is not None:
        settrace(None)
    if getprofile() is not None:
        setprofile(None)
    if getrecursionlimit() < LEAST_RECURSION_LIMIT:
        _users_recursion_limit = getrecursionlimit()
        setrecursionlimit(1000)
    if _builtins_changed():
        _set_builtins_aside()


def _builtins_changed():
    try:
        return _namespace != _pristine
    except BaseException:
        return True  # something there does not like to be compared


def _set_builtins_aside():
    """A builtin that is gone or cannot be called any more is broken for good and comes back;
    one that was replaced by another function is the user's wish."""
    for name, value in _pristine.items():
        theirs = _namespace.get(name, _missing)
        if theirs is not value:
            _namespace[name] = value
            if theirs is not _missing and callable(theirs) == callable(value):
                _overrides[name] = theirs


def flush():
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        try:
            getattr(sys, name).flush()
        except BaseException:
            pass


def print_error(text):
    # The user's streams may be broken or gone; the host has the error all the same.
    try:
        sys.stdout.flush()
    except BaseException:
        pass
    try:
        sys.stderr.write(text)
    except BaseException:
        pass
