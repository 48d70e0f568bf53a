"""Runs one piece of code in `__main__` and tells what came of it."""

import __main__
import asyncio
import linecache
import sys
import traceback
from errno import ENOSPC
from inspect import CO_COROUTINE

from _belljar_host import DRIVER, USER, compile_cell, phase

from . import display
from .importer import LIBRARY

MAX_NAME_CHARS = 256
MAX_MESSAGE_CHARS = 64 * 1024
MAX_TRACEBACK_CHARS = 256 * 1024
# A deep recursion is told by its ends; formatting all of it would take longer than it ran.
OUTER_FRAMES, INNER_FRAMES = 10, 40

# Where this package was compiled; its frames are not the user's business.
_DRIVER_PREFIX = __file__.rpartition("/")[0] + "/"
_LIBRARY_PREFIX = LIBRARY + "/"


class Outcome:
    """How a cell ended: `end` is finished, raised, exited, out_of_memory or no_space."""

    __slots__ = ("end", "exit_code", "error", "value")

    def __init__(self):
        self.end, self.exit_code, self.error, self.value = "finished", 0, None, None


def run(source, filename, want_value):
    outcome = Outcome()
    failure = None
    # From here the user's limits count; the host ignores a second call.
    phase(USER)
    try:
        _remember_source(source, filename)
        code, expression = compile_cell(source, filename, want_value)
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
    __main__.__file__ = filename
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)


def _explain(failure, outcome):
    if isinstance(failure, SystemExit):
        outcome.end, outcome.exit_code = "exited", _exit_code(failure.code)
        return
    if _is_unsaid_memory_error(failure):
        failure = MemoryError().with_traceback(failure.__traceback__)
    if isinstance(failure, MemoryError):
        outcome.end = "out_of_memory"
    elif isinstance(failure, OSError) and failure.errno == ENOSPC:
        outcome.end = "no_space"
    else:
        outcome.end = "raised"
    outcome.exit_code = 1
    outcome.error = _describe_error(failure)
    _print_error(outcome.error["traceback"])


def _is_unsaid_memory_error(failure):
    """The interpreter forgets to say so when it has no memory for one more frame."""
    return isinstance(failure, SystemError) and failure.args == ("error return without exception set",)


def _exit_code(code):
    """As the interpreter does it at the end of a process."""
    if code is None:
        return 0
    if isinstance(code, int):
        code = int(code)
        return code & 0xFF if -(2**31) <= code < 2**31 else 0xFF
    _print_error(f"{_text_of(code)}\n")
    return 1


def _text_of(thing):
    try:
        return str(thing)
    except BaseException:
        return "<its text cannot be had>"


def _describe_error(failure):
    name, message = type(failure).__name__, _text_of(failure)
    try:
        text = _format_traceback(failure)
    except BaseException:
        text = f"{name}: {message}\n"
    return {
        "name": _shorten(name, MAX_NAME_CHARS),
        "message": _shorten(message, MAX_MESSAGE_CHARS),
        "traceback": _shorten(text, MAX_TRACEBACK_CHARS),
    }


def _format_traceback(failure):
    if isinstance(failure, SyntaxError):
        _add_source_line(failure)
    tb = failure.__traceback__
    left_out = max(0, _depth(tb) - OUTER_FRAMES - INNER_FRAMES)
    limit = -INNER_FRAMES if left_out else None
    report = traceback.TracebackException(type(failure), failure, tb, limit=limit, compact=True)
    _keep_users_frames(report)
    text = "".join(report.format())
    if left_out:
        outer = _users_part(traceback.StackSummary.extract(traceback.walk_tb(tb), limit=OUTER_FRAMES))
        # What caused the exception comes first, so the last header is its own.
        causes, header, inner = text.rpartition("Traceback (most recent call last):\n")
        text = f"{causes}{header}{''.join(outer.format())}  [{left_out} frames left out]\n{inner}"
    return text


def _depth(tb):
    depth = 0
    while tb is not None:
        tb, depth = tb.tb_next, depth + 1
    return depth


def _add_source_line(error):
    """Errors found after parsing come without it: the compiler looks for a file."""
    if error.text is None and error.lineno is not None:
        error.text = linecache.getline(error.filename or "", error.lineno) or None


def _keep_users_frames(report):
    pending = [report]
    while pending:
        part = pending.pop()
        # Without frames the header above them would be odd.
        part.stack = _users_part(part.stack) or None
        pending += filter(None, (part.__cause__, part.__context__, *(part.exceptions or ())))


def _users_part(stack):
    """Drops the driver's frames everywhere, and the library's before the first of the user's."""
    frames = [frame for frame in stack if not frame.filename.startswith(_DRIVER_PREFIX)]
    first = next((i for i, frame in enumerate(frames) if not frame.filename.startswith(_LIBRARY_PREFIX)), 0)
    return traceback.StackSummary.from_list(frames[first:])


def _shorten(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"


def _print_error(text):
    # The user's streams may be broken or gone; the host has the error all the same.
    try:
        sys.stdout.flush()
    except BaseException:
        pass
    try:
        sys.stderr.write(text)
    except BaseException:
        pass


def _flush():
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        try:
            getattr(sys, name).flush()
        except BaseException:
            pass
