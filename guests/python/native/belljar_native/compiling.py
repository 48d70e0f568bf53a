"""Compiles a cell where there is no C function for it. Used by more than this package: it imports nothing of ours."""

import __future__
import ast
from builtins import SyntaxError, compile, type
from inspect import CO_COROUTINE

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
