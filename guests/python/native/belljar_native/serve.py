"""Answers the host's requests, one after another, until it hangs up."""

from belljar_guest import __builtins__

import sys
import threading
from json import loads
from os import _exit

from belljar_guest import cells, driver, hygiene
from belljar_guest.wire import quote

from . import interrupts, loop
from .asking import Asking
from .channel import INVALID_PARAMS, METHOD_NOT_FOUND, Channel
from .surroundings import settle_in

# Operation -> its parameters and their types.
PARAMETERS = {
    "initialize": {"surroundings": dict},
    "execute": {"code": str, "filename": str, "value": bool},
    "validate": {"code": str, "filename": str},
    "define": {"variables": dict},
    "inspect": {"name": str},
    "complete": {"code": str, "cursor": int},
}


def main(arguments):
    """The driver of one session, on the descriptors it was started with."""
    if arguments:
        sys.exit("usage: main.py takes no arguments but --zygote; requests come on descriptor 3, answers go to 4")
    serve(3, 4)


@interrupts.defer
def serve(incoming, outgoing, begin=None):
    """`begin` is called when the first request has come."""
    asking = Asking(Channel(incoming, outgoing))
    asking.install()
    loop.install(asking.watch)
    interrupts.install()
    while True:
        method, params, id = _next(asking)
        if begin is not None:
            begin()
            begin = None
        try:
            answer = _answer(method, params)
            asking.drop_of_closed_loops()
        except BaseException as error:
            answer = _own_failure(error)
        if not asking.channel.is_ours():
            _end_fork(answer)
        try:
            _send(asking.channel, id, answer)
        except (ValueError, MemoryError) as error:
            # Too long a line, or no memory to make it: nothing was sent.
            _send(asking.channel, id, _own_failure(error))
        except BaseException:
            pass  # a signal handler of the user's, again; the line is out


def _next(asking):
    while True:
        try:
            return asking.next_request()
        except BaseException:
            pass  # a signal handler of the user's may raise anything anywhere


def _answer(method, params):
    """The result as JSON text, or the error as a pair of code and message."""
    wanted = PARAMETERS.get(method)
    if wanted is None:
        return METHOD_NOT_FOUND, f"there is no method {method!r}; there are {', '.join(PARAMETERS)}"
    for name, kind in wanted.items():
        if type(params.get(name)) is not kind:
            return INVALID_PARAMS, f"{method} needs {name!r}, of type {kind.__name__}"
    if method == "initialize":
        return settle_in(params["surroundings"])
    if method == "execute":
        return _execute(params)
    return driver._operations[method](params)


def _execute(params):
    try:
        answer = driver._operations["execute"](params)
        return _drain(answer) if params.get("drain") is True else answer
    finally:
        interrupts.install()


def _drain(answer):
    """Waits for the threads a program would wait for at its end."""
    try:
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.main_thread() and not _is_pooled(thread):
                _join(thread)
    except BaseException as error:
        answer = cells.explain(error)
    hygiene.flush()
    return answer


def _is_pooled(thread):
    """A thread of an executor waits for more work and never ends."""
    pools = sys.modules.get("concurrent.futures.thread")
    return pools is not None and thread in pools._threads_queues


@interrupts.strike
def _join(thread):
    thread.join()


def _own_failure(error):
    return str(driver._own_failure(error), "utf-8")


def _send(channel, id, answer):
    if type(answer) is str:
        channel.send(f'{{"jsonrpc":"2.0","id":{id},"result":{answer}}}')
    else:
        code, message = answer
        channel.send_error(id, code, quote(message))


def _end_fork(answer):
    """A process that the cell has forked has come to the end of its program. The host knows nothing of it."""
    hygiene.flush()
    _exit(loads(answer).get("exit_code", 0) if type(answer) is str else 1)
