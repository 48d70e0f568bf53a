"""`_belljar_host` where Python runs in Pyodide, and JSON-RPC with the host behind it.

It lies in the driver's own folder of the virtual file system, so its frames count as the driver's: not
shown in tracebacks, and no place for an interrupt to strike.
"""

from . import __builtins__

import __future__
import ast
import signal
import sys
from time import monotonic

from .wire import decode, encode_own

DRIVER, USER = 0, 1

TIMED_OUT, INTERRUPTED = 0, 1

_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag

# What JavaScript offers: send(line), receive(milliseconds), pause(milliseconds), forgetSignal(), enter(folders).
link = None

_last_id = 0
# Number of a request to the host -> the driver's number of the call that was begun, or None for one that is waited for.
_asked = {}
# The driver's number of a begun call -> number of the request.
_request_of = {}
# Answers to begun calls that the driver has not seen yet.
_answers = []
# Number of the request that is waited for -> its answer.
_replies = {}


def phase(whose):
    """The limits of a process do not depend on whose code runs."""


def compile_cell(source, filename, want_value):
    """The statements, and apart from them the last expression whose value the cell shows, or None."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    module = compile(source, filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    last = module.body.pop() if want_value and module.body and type(module.body[-1]) is ast.Expr else None
    body = compile(module, filename, "exec", flags, dont_inherit=True)
    if last is None:
        return body, None
    flags |= body.co_flags & _FUTURES
    return body, compile(ast.Expression(last.value), filename, "eval", flags, dont_inherit=True)


def call(request):
    """A request of the driver: bytes in, bytes out."""
    request = decode(request)
    return encode_own(_OPERATIONS[request["do"]](request)).encode("utf-8", "replace")


def send(message):
    """One message to the host. Halves of surrogate pairs become question marks."""
    link.send(encode_own(message).encode("utf-8", "replace").decode())


def _ask(method, params, begun):
    global _last_id
    _last_id += 1
    _asked[_last_id] = begun
    send({"jsonrpc": "2.0", "id": _last_id, "method": method, "params": params})
    return _last_id


def _call_tool(request):
    return _answer_to(_ask("tool.call", {key: request[key] for key in ("name", "args", "kwargs")}, None))


def _ask_for_input(request):
    return _answer_to(_ask("input", {"prompt": request["prompt"]}, None))


def _answer_to(number):
    try:
        while number not in _replies:
            if take_message(None) == INTERRUPTED:
                _strike()
        return _replies.pop(number)
    except BaseException:
        _drop(number)
        raise


def _begin(request):
    params = {key: request[key] for key in ("name", "args", "kwargs")}
    _request_of[request["id"]] = _ask("tool.call", params, request["id"])
    return {}


def _wait(request):
    if wait_for_answers(request["seconds"]):
        _strike()
    return {"answers": take_answers()}


def _drop_begun(request):
    number = _request_of.pop(request["id"], None)
    if number is not None:
        _drop(number)
    return {}


def _drop(number):
    if _asked.pop(number, _asked) is not _asked:
        send({"jsonrpc": "2.0", "method": "tool.drop", "params": {"id": number}})
    _replies.pop(number, None)


_OPERATIONS = {"call": _call_tool, "begin": _begin, "wait": _wait, "drop": _drop_begun, "input": _ask_for_input}


def _strike():
    """The signal came while JavaScript waited, where the interpreter does not look for signals."""
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, sys._getframe(1))


def wait_for_answers(seconds):
    """Until a begun call is answered or the time is over; whether a signal came instead."""
    end = None if seconds is None else monotonic() + seconds
    while not _answers:
        left = None if end is None else end - monotonic()
        if left is not None and left <= 0:
            break
        if take_message(left) == INTERRUPTED:
            return True
    return False


def take_answers():
    taken = _answers[:]
    _answers.clear()
    return taken


def take_message(seconds):
    """Takes one message while a request is worked on: TIMED_OUT, INTERRUPTED or None."""
    line = link.receive() if seconds is None else link.receive(max(0.0, seconds) * 1000)
    if type(line) is not str:
        return line
    try:
        message = decode(line.encode())
        if "method" not in message:
            take_reply(message)
        elif "id" in message:
            busy = {"code": -32600, "message": "another request is being worked on; one at a time"}
            send({"jsonrpc": "2.0", "id": message["id"], "error": busy})
    except (ValueError, StopIteration, TypeError, KeyError, RecursionError):
        send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON-RPC message"}})
    return None


def take_reply(message):
    number = message.get("id")
    begun = _asked.pop(number, _asked) if type(number) is int else _asked
    if begun is _asked:
        return  # dropped, or never asked
    if "error" in message:
        error = message["error"]
        data = error.get("data") or {}
        reply = {"error": {"name": data.get("name", "ToolError"), "message": str(error["message"])}}
    else:
        reply = {"value": message["result"]}
    if begun is None:
        _replies[number] = reply
    else:
        _request_of.pop(begun, None)
        _answers.append({"id": begun, **reply})


def sleep(seconds, /):
    """Delay execution for a given number of seconds.  The argument may be
a floating-point number for subsecond precision."""
    seconds = float(seconds) if not hasattr(seconds, "__index__") else seconds.__index__()
    if seconds != seconds:
        raise ValueError("Invalid value NaN (not a number)")
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    end = monotonic() + seconds
    while (left := end - monotonic()) > 0:
        if link.pause(left * 1000) == INTERRUPTED:
            _strike()
