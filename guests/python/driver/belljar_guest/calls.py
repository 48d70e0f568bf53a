"""Requests to the host: tools that are waited for, tools that are begun, and answers to the latter."""

from . import __builtins__

from asyncio import Future

from _belljar_host import call as _ask_host

from . import interrupts
from .wire import decode, encode, quote


class ToolError(RuntimeError):
    """A tool of the host failed."""


class ToolLimitError(ToolError):
    """The policy allows no more: calls, bytes or depth."""


for _error in (ToolError, ToolLimitError):
    _error.__module__ = "belljar"

_ERRORS = {"ToolError": ToolError, "ToolLimitError": ToolLimitError, "InputRefused": EOFError}

# Number of a begun call -> who gets its answer. Numbers are never used again, not even by a fork.
_begun = {}
_last_id = 0


def ask(request):
    return decode(_ask_host(request.encode()))


def exception_of(error):
    return _ERRORS.get(error["name"], ToolError)(error["message"])


def call(name, args, kwargs):
    """Runs a tool and gives its value."""
    answer = ask(f'{{"do":"call","name":{quote(name)},{_arguments(name, args, kwargs)}}}')
    if "error" in answer:
        raise exception_of(answer["error"])
    return answer["value"]


def begin(name, args, kwargs, receiver):
    """Starts a tool; `receiver.take(answer)` is called when the answer is known."""
    global _last_id
    arguments = _arguments(name, args, kwargs)
    _last_id = number = _last_id + 1
    receiver.number = number
    _begun[number] = receiver
    try:
        answer = ask(f'{{"do":"begin","id":{number},"name":{quote(name)},{arguments}}}')
    except BaseException:
        drop(receiver)
        raise
    if "error" in answer:
        deliver([{"id": number, "error": answer["error"]}])
    return receiver


def drop(receiver):
    """Tells the host that nobody wants this answer any more."""
    if _begun.pop(receiver.number, None) is not None:
        try:
            ask(f'{{"do":"drop","id":{receiver.number}}}')
        except RuntimeError:
            pass


@interrupts.defer
def wait(seconds):
    """Blocks until something is answered, the time is over or the cell is interrupted; answers how many."""
    return deliver(ask(f'{{"do":"wait","seconds":{"null" if seconds is None else float(seconds)}}}')["answers"])


def deliver(answers):
    """Hands answers out; those nobody waits for any more are ignored."""
    taken = 0
    for answer in answers:
        receiver = _begun.pop(answer["id"], None)
        if receiver is not None:
            receiver.take(answer)
            taken += 1
    return taken


def outstanding(loop):
    """Whether an answer could still wake something in this loop."""
    for receiver in _begun.values():
        if receiver.loop is loop:
            return True
    return False


def drop_all(loop):
    for receiver in [receiver for receiver in _begun.values() if receiver.loop is loop]:
        drop(receiver)


class HostFunction:
    """Has a method `aio` that begins the call instead of waiting for it."""


class ToolFuture(Future):
    """The result of a begun tool, in an event loop."""

    def __init__(self, loop):
        super().__init__(loop=loop)
        self.loop, self.number = loop, 0

    def take(self, answer):
        if self.done() or self.loop.is_closed():
            return
        if "error" in answer:
            awaited = self._callbacks
            self.set_exception(exception_of(answer["error"]))
            if not awaited:
                # Whoever awaits it yet will see it; that nobody does is no news.
                self._log_traceback = False
        else:
            self.set_result(answer["value"])

    def cancel(self, msg=None):
        if not super().cancel(msg):
            return False
        drop(self)
        return True


class ToolSlot:
    """The result of a begun tool, outside of event loops."""

    loop = None

    def __init__(self):
        self.number, self.answer = 0, None

    def take(self, answer):
        self.answer = answer


def _arguments(name, args, kwargs):
    try:
        text = f'"args":{encode(args)},"kwargs":{encode(kwargs)}'
        text.encode()
        return text
    except (TypeError, ValueError, RecursionError):
        for position, value in enumerate(args, 1):
            _check(value, f"argument {position} of {name}()")
        for key, value in kwargs.items():
            _check(value, f"argument {key!r} of {name}()")
        raise


def _check(value, what):
    """Says what is wrong with an argument, by its name."""
    try:
        encode(value).encode()
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply for JSON") from None
    except UnicodeError:
        raise ValueError(f"{what} holds half of a surrogate pair, which JSON cannot carry") from None
    except ValueError as error:
        reason = "it contains itself" if "ircular" in str(error) else str(error)
        raise ValueError(f"{what} cannot be sent as JSON: {reason}") from None
    except TypeError as error:
        raise TypeError(f"{what} cannot be sent as JSON: {error}") from None
