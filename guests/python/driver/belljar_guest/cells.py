"""Runs one piece of code in `__main__` and tells what came of it."""

from . import __builtins__

import __main__
from errno import ENOSPC
from inspect import CO_COROUTINE

from _belljar_host import DRIVER, USER, compile_cell, phase

from . import awaiting, calls, display, errors, hygiene, interrupts, sources
from .loop import Run
from .wire import encode_own

# The cell that waits for the host, if one does.
_waiting = None

NO_ERROR = '{"end":"finished","exit_code":0,"error":null,"value":null}'


def run(source, filename, want_value):
    global _waiting
    abandoned = _waiting is not None
    if abandoned:
        _waiting.abandon()
        _waiting = None
    interrupts.forget()
    hygiene.before_user()
    value = failure = None
    # From here the user's limits count; the host ignores a second call.
    phase(USER)
    try:
        if abandoned:
            display.discard_extras()
        sources.remember(source, filename)
        body, expression = compile_cell(source, filename, want_value)
        awaiting.look_at(source, filename)
        interrupts.check()
        if not body.co_flags & CO_COROUTINE:
            eval(body, __main__.__dict__)
            body = None
        if body is not None or expression is not None and expression.co_flags & CO_COROUTINE:
            value = _go_on(Run(_main(body, expression, want_value)))
        elif expression is not None:
            value = display.describe(eval(expression, __main__.__dict__))
        elif want_value:
            value = display.describe(None)
        interrupts.check()
    except BaseException as error:
        failure = error
        display.discard_extras()
    return _conclude(value, failure)


async def _main(body, expression, want_value):
    """What awaits anything runs in the loop, and so does what comes after it."""
    if body is not None:
        await eval(body, __main__.__dict__)
    if expression is None:
        return display.describe(None) if want_value else None
    value = eval(expression, __main__.__dict__)
    return display.describe(await value if expression.co_flags & CO_COROUTINE else value)


def resume(answers, interrupt):
    """Goes on with the cell that waits."""
    global _waiting
    run, _waiting = _waiting, None
    interrupts.forget()
    hygiene.before_user()
    value = failure = None
    phase(USER)
    try:
        calls.deliver(answers)
        if run is not None:
            if interrupt:
                run.interrupt()
            value = _go_on(run)
    except BaseException as error:
        failure = error
        display.discard_extras()
    return _conclude(value, failure)


def _go_on(run):
    """The value, or the run itself when it has to wait."""
    return run.result() if run.go_on() else run


def _conclude(value, failure):
    """The answer to the host, as JSON text."""
    global _waiting
    # With the user's memory cap lifted a little there is room to report a full memory.
    phase(DRIVER)
    hygiene.after_user()
    if failure is not None:
        answer = explain(failure)
    elif type(value) is Run:
        _waiting = value
        timer = value.loop.seconds_to_next_timer()
        answer = f'{{"end":"waiting","timer":{"null" if timer is None else timer}}}'
    elif value is None:
        answer = NO_ERROR
    else:
        answer = f'{{"end":"finished","exit_code":0,"error":null,"value":{value}}}'
    hygiene.flush()
    return answer


def check(source, filename):
    """Whether the source compiles, as an answer."""
    phase(USER)
    try:
        compile_cell(source, filename, False)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        phase(DRIVER)
        sources.lend(source, filename)
        return encode_own({"end": "raised", "error": errors.describe(error)})
    phase(DRIVER)
    return '{"end":"finished","error":null}'


def explain(failure):
    try:
        kind = type(failure)
        if issubclass(kind, SystemExit):
            return f'{{"end":"exited","exit_code":{_exit_code(failure.code)},"error":null,"value":null}}'
        if _is_unsaid_memory_error(failure):
            failure, kind = MemoryError().with_traceback(failure.__traceback__), MemoryError
        end = "raised"
        if issubclass(kind, MemoryError):
            end = "out_of_memory"
        elif issubclass(kind, OSError) and failure.errno == ENOSPC:
            end = "no_space"
    except BaseException:
        end = "raised"
    error = errors.describe(failure)
    hygiene.print_error(error["traceback"])
    return f'{{"end":"{end}","exit_code":1,"error":{encode_own(error)},"value":null}}'


def _is_unsaid_memory_error(failure):
    """The interpreter forgets to say so when it has no memory for one more frame."""
    return type(failure) is SystemError and failure.args == ("error return without exception set",)


def _exit_code(code):
    """As the interpreter does it at the end of a process."""
    if code is None:
        return 0
    if isinstance(code, int):
        code = int(code)
        return code & 0xFF if -(2**31) <= code < 2**31 else 0xFF
    hygiene.print_error(f"{errors.text_of(code)}\n")
    return 1
