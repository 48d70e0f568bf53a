"""Answers the host's requests as JSON-RPC, one line each."""

from . import __builtins__

import os
import sys

from . import interrupts, pyodide_host
from .driver import handle
from .surroundings import settle_in
from .wire import decode, encode_own

PARSE_ERROR, INVALID_REQUEST, NO_SUCH_METHOD, INVALID_PARAMS, REFUSED = -32700, -32600, -32601, -32602, -32000

# Method -> its parameters: name, type, and the default of those that may be missing.
_METHODS = {
    "execute": (("code", str), ("filename", str, "<cell>"), ("value", bool, True), ("drain", bool, False)),
    "validate": (("code", str), ("filename", str, "<cell>")),
    "define": (("variables", dict),),
    "inspect": (("name", str),),
    "complete": (("code", str), ("cursor", int)),
}

_initialized = False


class Refusal(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


def serve(line):
    """One line of the host, one line back; nothing for a notification or a late reply."""
    number = None
    try:
        try:
            message = decode(line.encode())
        except (ValueError, StopIteration, RecursionError):
            raise Refusal(PARSE_ERROR, "the line is no JSON") from None
        if type(message) is not dict or message.get("jsonrpc") != "2.0":
            raise Refusal(INVALID_REQUEST, "the line is no JSON-RPC 2.0 message")
        if "method" not in message:
            # A tool that a background task awaits may be answered between two cells.
            pyodide_host.take_reply(message)
            return
        if "id" not in message:
            return
        number = message["id"]
        if type(number) not in (int, str, type(None)):
            number = None
            raise Refusal(INVALID_REQUEST, "`id` must be a number or a string")
        result = _answer(message["method"], message.get("params", {}))
        pyodide_host.link.send(f'{{"jsonrpc":"2.0","id":{encode_own(number)},"result":{result}}}')
    except Refusal as refusal:
        _send_error(number, refusal.code, refusal.message)
    except Exception as error:
        _send_error(number, REFUSED, f"the driver failed with {type(error).__name__}: {error}")


def _send_error(number, code, message):
    pyodide_host.send({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})


def _answer(method, params):
    if type(params) is not dict:
        raise Refusal(INVALID_PARAMS, "`params` must be an object")
    if method == "initialize":
        return _initialize(params)
    if type(method) is not str or method not in _METHODS:
        raise Refusal(NO_SUCH_METHOD, f"there is no method {method!r}")
    if not _initialized:
        raise Refusal(INVALID_REQUEST, "`initialize` comes first")
    request = {"op": method}
    for name, kind, *default in _METHODS[method]:
        request[name] = _checked(params, name, kind, *default)
    return _run(request)


def _checked(params, name, kind, *default):
    value = params.get(name, *default)
    if type(value) is not kind:
        raise Refusal(INVALID_PARAMS, f"`{name}` must be {_NAMES[kind]}")
    return value


_NAMES = {str: "a string", bool: "true or false", dict: "an object", int: "a whole number", list: "a list"}


def _initialize(params):
    global _initialized
    if _initialized:
        raise Refusal(INVALID_REQUEST, "`initialize` comes only once")
    given = _checked(params, "surroundings", dict, {})
    surroundings = {
        "workspace": _checked(given, "workspace", str, "/app"),
        "env": _checked(given, "env", dict, {}),
        "path": _checked(given, "path", list, []),
        "argv": _checked(given, "argv", list, [""]),
        "tools": _checked(given, "tools", list, []),
        "tool_docs": _checked(given, "tool_docs", dict, {}),
    }
    for name in ("path", "argv", "tools"):
        if any(type(item) is not str for item in surroundings[name]):
            raise Refusal(INVALID_PARAMS, f"`{name}` must be a list of strings")
    if any(type(value) is not str for value in surroundings["env"].values()):
        raise Refusal(INVALID_PARAMS, "`env` must be an object of strings")
    workspace = surroundings["workspace"]
    failure = pyodide_host.link.enter(encode_own([workspace, *surroundings["path"]]))
    if failure:
        raise Refusal(REFUSED, failure)
    os.chdir(workspace)
    settle_in(surroundings)
    _initialized = True
    version = ".".join(map(str, sys.version_info[:3]))
    return encode_own({"language_version": version})


def _run(request):
    """The driver's answer. A cell that awaits tools is gone on with until it is over."""
    pyodide_host.link.forgetSignal()
    answer = handle(encode_own(request).encode("utf-8", "replace"))
    while answer.startswith(b'{"end":"waiting"'):
        interrupted = pyodide_host.wait_for_answers(decode(answer)["timer"])
        # Or it came between two steps of our own.
        if interrupts._noted:
            interrupts.forget()
            interrupted = True
        resume = {"op": "resume", "answers": pyodide_host.take_answers(), "interrupt": interrupted}
        answer = handle(encode_own(resume).encode("utf-8", "replace"))
    return answer.decode()
