"""What the driver, written for CPython 3.13, needs where it finds an older one.

`before_import` is called before any module of the driver is loaded, `after_import` when
all are. Each step says since which version it is not needed.
"""

import sys
from types import SimpleNamespace

VERSION = sys.version_info[:2]


def before_import():
    import asyncio
    import opcode

    if VERSION < (3, 13):
        # tools.py looks up instructions by the names of 3.13; after_import gives it the right table.
        names = {"CALL": -1, "CALL_KW": -2, "CALL_FUNCTION_EX": -3, "GET_AWAITABLE": opcode.opmap["GET_AWAITABLE"]}
        sys.modules["opcode"] = SimpleNamespace(opmap=names, _inline_cache_entries={})
    if VERSION < (3, 9):
        # errors.py finds the library by a file name, with str.removesuffix.
        code = SimpleNamespace(co_filename=_Path(asyncio.base_events.__file__))
        function = SimpleNamespace(__code__=code)
        asyncio.base_events = SimpleNamespace(BaseEventLoop=SimpleNamespace(run_forever=function))
        __import__("belljar_guest.errors")
        asyncio.base_events = sys.modules["asyncio.base_events"]
    return opcode


class _Path(str):
    def removesuffix(self, suffix):
        return self[: -len(suffix)] if self.endswith(suffix) else str(self)


def after_import(opcode):
    from belljar_guest import api, calls, errors, sources, tools

    if VERSION < (3, 13):
        # Where a last line has no end, the marks below it are off by one.
        sources.remember, sources.lend = _with_last_line_ended(sources.remember), _with_last_line_ended(sources.lend)
        sys.modules["opcode"] = opcode
        tools._AFTER_CALL = _sizes_of_calls(opcode)
    if VERSION < (3, 11):
        # Without exception groups there is nothing in them.
        errors.TracebackException.exceptions = None
    if VERSION < (3, 10):
        errors.TracebackException = _traceback_exception(errors.TracebackException)
        errors._keep_users_frames = lambda report: _keep_users_frames(errors, report)
        api._no_such_tool = lambda name: _no_such_tool(api.tools, name)
    if VERSION < (3, 9):
        calls.ToolFuture.cancel = lambda self, msg=None: _cancel(calls, self)


def _with_last_line_ended(keep):
    return lambda source, filename: keep(source if source.endswith("\n") else source + "\n", filename)


def _sizes_of_calls(opcode):
    """Calling instruction -> bytes from its start to the next instruction."""
    caches = getattr(opcode, "_inline_cache_entries", None)
    calling = ("CALL", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_FUNCTION_EX", "CALL_METHOD")
    codes = [opcode.opmap[name] for name in calling if name in opcode.opmap]
    return {code: 2 + 2 * (caches[code] if caches else 0) for code in codes}


def _traceback_exception(original):
    def make(kind, failure, tb, limit=None, compact=True):
        return original(kind, failure, tb, limit=limit)

    return make


def _keep_users_frames(errors, report):
    """As the driver does it; here the header of a traceback hangs on another attribute."""
    pending = [report]
    while pending:
        part = pending.pop()
        part.stack = errors._users_part(part.stack)
        if not part.stack:
            part.exc_traceback = None
        pending += filter(None, (part.__cause__, part.__context__))


def _no_such_tool(tools, name):
    offered = ", ".join(sorted(key for key in tools.__dict__ if not key.startswith("_"))) or "none"
    raise AttributeError(f"the host offers no tool {name!r}; it offers: {offered}")


def _cancel(calls, future):
    if not super(calls.ToolFuture, future).cancel():
        return False
    calls.drop(future)
    return True
