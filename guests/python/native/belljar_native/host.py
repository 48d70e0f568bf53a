"""Stands where the guest has its C module `_belljar_host`."""

from belljar_guest import __builtins__

import __future__
import ast
from inspect import CO_COROUTINE
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from types import ModuleType

DRIVER, USER = 0, 1

# Kept free while the user's code runs, so that the driver can still speak when that has
# used up all the memory there may be. Never touched: it costs address space only.
RESERVE_BYTES = 8 * 1024 * 1024
_reserve = None


def phase(whose):
    """Whose code comes next."""
    global _reserve
    if _reserve is not None:
        _reserve.close()
        _reserve = None
    if whose == USER:
        try:
            # Where there is no more than this left, the user needs it to clean up.
            _map(2 * RESERVE_BYTES).close()
            _reserve = _map(RESERVE_BYTES)
        except (OSError, MemoryError):
            pass


def _map(size):
    return mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS)


_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
# Generators and nested scopes have flags that mean something else today.
_FUTURES &= ~0xFF
# Makes a coroutine of the statements it is added to, and does nothing.
_NEVER_AWAITS = compile("if 0: await 0", "", "exec", _AWAIT | ast.PyCF_ONLY_AST).body


def compile_cell(source, filename, want_value):
    """The code of the statements, and of the last expression or None."""
    if "\0" in source:
        raise SyntaxError("source code string cannot contain null bytes")
    tree = compile(source, filename, "exec", _AWAIT | ast.PyCF_ONLY_AST, dont_inherit=True)
    last = None
    if want_value and tree.body and type(tree.body[-1]) is ast.Expr:
        last = ast.Expression(tree.body.pop().value)
    body = compile(tree, filename, "exec", _AWAIT, dont_inherit=True)
    if last is None:
        return body, None
    # What the statements import from the future holds for the expression too.
    value = compile(last, filename, "eval", _AWAIT | body.co_flags & _FUTURES, dont_inherit=True)
    if value.co_flags & CO_COROUTINE and not body.co_flags & CO_COROUTINE:
        # Where the last line awaits, those before it may need the running loop: clients of
        # network libraries are made there.
        tree.body += _NEVER_AWAITS
        body = compile(tree, filename, "exec", _AWAIT, dont_inherit=True)
    return body, value


def module():
    host = ModuleType("_belljar_host", "The driver's view of its host.")
    host.DRIVER, host.USER = DRIVER, USER
    host.phase = phase
    host.compile_cell = compile_cell
    # Nothing goes by way of bytes here: `asking` replaces what would use it.
    host.call = None
    return host
