"""SIGINT: the driver's rules on where it may strike, extended to this package's code."""

from belljar_guest import __builtins__

# Without the enumerations around it: a fork pays for every page it touches.
import _signal

from belljar_guest import errors, interrupts
from belljar_guest.interrupts import check, defer, forget, strike  # noqa: F401

# Frames of ours never show in tracebacks, and the signal looks past them.
PREFIX = __file__.rpartition("/")[0] + "/"
_PASSED_OVER = (errors.DRIVER_PREFIX, errors.LIBRARY_PREFIX, PREFIX)

_set_handler, _get_handler, _SIGINT = _signal.signal, _signal.getsignal, _signal.SIGINT


def on_signal(number, frame):
    """As in the guest: raised in the user's code, noted in the middle of ours."""
    while frame is not None:
        code = frame.f_code
        if code in interrupts._deferring:
            break
        if code in interrupts._striking or not code.co_filename.startswith(_PASSED_OVER):
            raise KeyboardInterrupt
        frame = frame.f_back
    interrupts._noted = True


def install():
    """Also after a cell: a handler of the user's would run in the driver's code."""
    if _get_handler(_SIGINT) is not on_signal:
        _set_handler(_SIGINT, on_signal)


errors.DRIVER_PREFIX = (errors.DRIVER_PREFIX, PREFIX)
