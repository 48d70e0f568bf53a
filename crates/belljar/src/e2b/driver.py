"""Goes along with code to whatever Python a service has, runs it there, and tells what came of it
in the words of Belljar's own drivers: values as JSON, the user's part of tracebacks, exit codes.

What it tells is the value of the cell that carried it, in a form of a type that notebooks pass on.
"""

from . import __builtins__

import __main__
import sys
from asyncio import CancelledError, current_task
from inspect import CO_COROUTINE

from . import display, errors, sources
from .compiling import compile_cell
from .wire import encode_own, quote

# Each piece of what is told has this type with its number after it: some services bound a form.
TOLD = "application/vnd.belljar.told"
PIECE_CHARS = 4 * 1024 * 1024

# What a cell that awaits has left to do.
_rest = None


class Told:
    def __init__(self, text):
        # What JSON cannot carry (a lone half of a surrogate pair) becomes a question mark.
        text = text.encode("utf-8", "replace").decode()
        starts = range(0, len(text), PIECE_CHARS)
        self.forms = {f"{TOLD}.{at // PIECE_CHARS}": text[at : at + PIECE_CHARS] for at in starts}

    def __repr__(self):
        return "what Belljar is told"

    def _repr_mimebundle_(self, *_, **__):
        return self.forms


def run(source, filename):
    """Runs a cell. One that awaits only begins: whoever sent it sends `go_on` into the loop there."""
    global _rest
    value = failure = _rest = None
    try:
        # Where a last line has no end, older versions set the marks below it off by one.
        ended = source if sys.version_info >= (3, 13) or source.endswith("\n") else source + "\n"
        sources.remember(ended, filename)
        body, expression = compile_cell(source, filename, True)
        if body.co_flags & CO_COROUTINE:
            _rest = body, expression
            return Told('{"end":"waiting"}')
        eval(body, __main__.__dict__)
        if expression is not None:
            value = display.describe(eval(expression, __main__.__dict__))
    except BaseException as error:
        failure = error
    return _conclude(value, failure)


async def go_on():
    """The rest of a cell that awaits."""
    global _rest
    (body, expression), _rest = _rest, None
    value = failure = None
    try:
        await eval(body, __main__.__dict__)
        if expression is not None:
            value = eval(expression, __main__.__dict__)
            value = display.describe(await value if expression.co_flags & CO_COROUTINE else value)
    except CancelledError as error:
        # Whoever ends the whole cell says why.
        if current_task().cancelling():
            raise
        failure = error
    except BaseException as error:
        failure = error
    return _conclude(value, failure)


def check(source, filename):
    """Whether the source compiles."""
    try:
        compile_cell(source, filename, False)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        sources.lend(source, filename)
        return _told("raised", 1, encode_own(errors.describe(error)))
    return _told("finished", 0)


def inspect(name):
    """Describes a variable."""
    described = "null"
    if name in __main__.__dict__:
        described = display.describe_variable(__main__.__dict__[name])
    return Told(f'{{"end":"finished","variable":{described}}}')


def _conclude(value, failure):
    if failure is None:
        told = _told("finished", 0, value=value or "null")
    else:
        told = _explain(failure)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    return told


def _told(end, exit_code, error="null", value="null"):
    version = quote(sys.version.split()[0])
    return Told(
        f'{{"end":"{end}","exit_code":{exit_code},"error":{error},"value":{value},"version":{version}}}'
    )


def _explain(failure):
    try:
        if issubclass(type(failure), SystemExit):
            return _told("exited", _exit_code(failure.code))
    except BaseException:
        pass
    error = errors.describe(failure)
    _print_error(error["traceback"])
    return _told("raised", 1, encode_own(error))


def _exit_code(code):
    """As the interpreter does it at the end of a process."""
    if code is None:
        return 0
    if isinstance(code, int):
        code = int(code)
        return code & 0xFF if -(2**31) <= code < 2**31 else 0xFF
    _print_error(f"{errors.text_of(code)}\n")
    return 1


def _print_error(text):
    # The user's streams may be broken or gone; the error is told all the same.
    try:
        sys.stdout.flush()
        sys.stderr.write(text)
    except BaseException:
        pass
