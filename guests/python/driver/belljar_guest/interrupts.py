"""Where an interrupt may strike: in the user's code, never in the middle of the driver's or the loop's."""

from . import __builtins__

import signal

from .errors import DRIVER_PREFIX, LIBRARY_PREFIX

# Code in which an interrupt would leave something half done: it is noted and raised a little later.
_deferring = set()
# Code in which it may strike although it is ours.
_striking = set()
_noted = False


def defer(function):
    """Marks a function: an interrupt in it, or in our functions that it calls, has to wait."""
    _deferring.add(function.__code__)
    return function


def strike(function):
    """Marks a function that only waits."""
    _striking.add(function.__code__)
    return function


def _on_signal(number, frame):
    """The host has marked SIGINT as arrived; `frame` is what runs."""
    global _noted
    while frame is not None:
        code = frame.f_code
        if code in _deferring:
            break
        if code in _striking or not code.co_filename.startswith((DRIVER_PREFIX, LIBRARY_PREFIX)):
            raise KeyboardInterrupt
        frame = frame.f_back
    _noted = True


def check():
    """Raises the interrupt that was noted, if any."""
    global _noted
    if _noted:
        _noted = False
        raise KeyboardInterrupt


def forget():
    """Before a call: what came too late for the last one is not meant for this one."""
    global _noted
    if _noted:
        _noted = False


def install():
    signal.signal(signal.SIGINT, _on_signal)
