"""Answers the host's requests: JSON in, JSON out, one at a time."""

from . import __builtins__

from _belljar_host import DRIVER, phase

from . import cells, completion, variables
from .surroundings import settle_in
from .wire import decode, encode_own, type_name

_operations = {
    "execute": lambda request: cells.run(request["code"], request["filename"], request["value"]),
    "resume": lambda request: cells.resume(request["answers"], request["interrupt"]),
    "validate": lambda request: cells.check(request["code"], request["filename"]),
    "define": lambda request: variables.define(request["variables"]),
    "inspect": lambda request: variables.inspect(request["name"]),
    "complete": lambda request: completion.complete(request["code"], request["cursor"]),
}


def handle(request):
    try:
        request = decode(request)
        if "surroundings" in request:
            settle_in(request["surroundings"])
        # What JSON cannot carry (a lone half of a surrogate pair) becomes a question mark.
        return _operations[request["op"]](request).encode("utf-8", "replace")
    except BaseException as error:
        return _own_failure(error)


def _own_failure(error):
    """The driver could not do its work: no memory was left, or user code has broken what it rests on."""
    phase(DRIVER)
    end = "out_of_memory" if issubclass(type(error), MemoryError) else "raised"
    message = f"the sandbox's own driver failed with {type_name(error)}"
    described = {"name": "SystemError", "message": message, "traceback": f"SystemError: {message}\n"}
    return encode_own({"end": end, "exit_code": 1, "error": described, "value": None}).encode()
