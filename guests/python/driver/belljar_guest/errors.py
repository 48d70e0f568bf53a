"""Exceptions as the host gets to see them: name, message, and the user's part of the traceback."""

from . import __builtins__

import linecache
from asyncio import base_events
from traceback import StackSummary, TracebackException, walk_tb

from . import sources
from .wire import type_name

MAX_NAME_CHARS = 256
MAX_MESSAGE_CHARS = 64 * 1024
MAX_TRACEBACK_CHARS = 256 * 1024
# A deep recursion is told by its ends; formatting all of it would take longer than it ran.
OUTER_FRAMES, INNER_FRAMES = 10, 40

# Where this package and the library were compiled; their frames are not the user's business.
DRIVER_PREFIX = __file__.rpartition("/")[0] + "/"
LIBRARY_PREFIX = base_events.BaseEventLoop.run_forever.__code__.co_filename.removesuffix("asyncio/base_events.py")


def describe(failure):
    name, message = type_name(failure), text_of(failure)
    try:
        text = _format(failure)
    except BaseException:
        text = f"{name}: {message}\n"
    return {
        "name": _shorten(name, MAX_NAME_CHARS),
        "message": _shorten(message, MAX_MESSAGE_CHARS),
        "traceback": _shorten(text, MAX_TRACEBACK_CHARS),
    }


def text_of(thing):
    try:
        # Joining makes a plain str of a subclass, whose methods are the user's.
        return "".join((str(thing),))
    except BaseException:
        return "<its text cannot be had>"


def _format(failure):
    sources.refresh()
    if isinstance(failure, SyntaxError):
        _add_source_line(failure)
    tb = failure.__traceback__
    left_out = max(0, _depth(tb) - OUTER_FRAMES - INNER_FRAMES)
    limit = -INNER_FRAMES if left_out else None
    report = TracebackException(type(failure), failure, tb, limit=limit, compact=True)
    _keep_users_frames(report)
    text = "".join(report.format())
    if left_out:
        outer = _users_part(StackSummary.extract(walk_tb(tb), limit=OUTER_FRAMES))
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
    frames = [frame for frame in stack if not frame.filename.startswith(DRIVER_PREFIX)]
    first = next((i for i, frame in enumerate(frames) if not frame.filename.startswith(LIBRARY_PREFIX)), 0)
    return StackSummary.from_list(frames[first:])


def _shorten(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"
