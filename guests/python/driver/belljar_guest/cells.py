"""Runs one piece of code in `__main__` and tells what came of it."""

import __main__
import asyncio
import linecache
import sys
import traceback
from inspect import CO_COROUTINE

from _belljar_host import DRIVER, USER, compile_cell, phase

from . import display

MAX_TRACEBACK_CHARS = 256 * 1024
MAX_MESSAGE_CHARS = 64 * 1024

_driver_files = (__file__,)


class Outcome:
    """How a cell ended."""

    __slots__ = ("exit_code", "error", "value")

    def __init__(self):
        self.exit_code, self.error, self.value = 0, None, None


def run(source, filename, want_value):
    outcome = Outcome()
    failure = None
    # From here the user's limits count; the host ignores a second call.
    phase(USER)
    try:
        code, expression = compile_cell(source, filename, want_value)
        _remember_source(source, filename)
        _evaluate(code)
        if expression is not None:
            outcome.value = display.describe(_evaluate(expression))
    except BaseException as error:
        failure = error
    # With the user's memory cap lifted a little there is room to report a full memory.
    phase(DRIVER)
    if failure is not None:
        _explain(failure, outcome)
    _flush()
    return outcome


def check(source, filename):
    """None when the source compiles, else the error."""
    phase(USER)
    try:
        compile_cell(source, filename, False)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        phase(DRIVER)
        return _describe_error(error)
    phase(DRIVER)
    return None


def _evaluate(code):
    result = eval(code, __main__.__dict__)
    if code.co_flags & CO_COROUTINE:
        return asyncio.run(result)
    return result


def _remember_source(source, filename):
    """For tracebacks and inspect.getsource."""
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)


def _explain(failure, outcome):
    if isinstance(failure, SystemExit):
        outcome.exit_code = _exit_code(failure.code)
        if outcome.exit_code != 0:
            outcome.error = {"name": "SystemExit", "message": str(failure.code), "traceback": ""}
        return
    outcome.exit_code = 1
    outcome.error = _describe_error(failure)
    _print_error(outcome.error["traceback"])


def _exit_code(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    _print_error(f"{code}\n")
    return 1


def _describe_error(failure):
    name = type(failure).__name__
    try:
        message = str(failure)
    except BaseException:
        message = "<the exception's own text failed>"
    try:
        text = "".join(traceback.format_exception(type(failure), failure, _users_part(failure.__traceback__)))
    except BaseException:
        text = f"{name}: {message}\n"
    return {
        "name": name,
        "message": _shorten(message, MAX_MESSAGE_CHARS),
        "traceback": _shorten(text, MAX_TRACEBACK_CHARS),
    }


def _users_part(tb):
    """The traceback without the driver's own frames at its start."""
    while tb is not None and tb.tb_frame.f_code.co_filename in _driver_files:
        tb = tb.tb_next
    return tb


def _shorten(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"


def _print_error(text):
    try:
        sys.stdout.flush()
        sys.stderr.write(text)
    except BaseException:
        # The user's own stream objects may be broken; the host has the error all the same.
        pass


def _flush():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except BaseException:
            pass
