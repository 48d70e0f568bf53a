"""The user's variables, set and looked at by the host."""

from . import __builtins__

import __main__

from _belljar_host import DRIVER, USER, phase

from . import display, hygiene, interrupts, utilities
from .cells import NO_ERROR, explain


def define(variables):
    """Sets variables. `context` brings the helpers for working with it."""
    phase(USER)
    __main__.__dict__.update(variables)
    if "context" in variables:
        utilities.introduce()
    phase(DRIVER)
    return NO_ERROR


def inspect(name):
    """Describes a variable; its own methods are the user's code."""
    interrupts.forget()
    hygiene.before_user()
    described, failure = "null", None
    phase(USER)
    try:
        if name in __main__.__dict__:
            described = display.describe_variable(__main__.__dict__[name])
        interrupts.check()
    except BaseException as error:
        failure = error
    phase(DRIVER)
    hygiene.after_user()
    answer = explain(failure) if failure is not None else f'{{"end":"finished","variable":{described}}}'
    hygiene.flush()
    return answer
