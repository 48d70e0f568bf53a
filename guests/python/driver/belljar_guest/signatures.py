"""Signatures that the host tells as text, for `inspect.signature`. Nothing in them is run."""

from . import __builtins__

import ast
from ast import get_source_segment, literal_eval, parse
from inspect import Parameter, Signature


class _Text(str):
    """What means something at the host only: shown as it is written there."""

    __repr__ = str.__str__


def read(text):
    """A signature like "(a: str, *, b=1) -> int", or None for a text that is none."""
    source = f"def _{text}: ..."
    try:
        (function,) = parse(source).body
        (body,) = function.body
        if type(function) is not ast.FunctionDef or body.value.value is not ...:
            return None
        return Signature(_parameters(function.args, source), return_annotation=_shown(function.returns, source))
    except Exception:
        # Whatever the parser or the signature does not like about it, it is no signature.
        return None


def _parameters(args, source):
    positional = args.posonlyargs + args.args
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    for index, (arg, default) in enumerate(zip(positional, defaults)):
        only = index < len(args.posonlyargs)
        yield _parameter(arg, Parameter.POSITIONAL_ONLY if only else Parameter.POSITIONAL_OR_KEYWORD, default, source)
    if args.vararg:
        yield _parameter(args.vararg, Parameter.VAR_POSITIONAL, None, source)
    for arg, default in zip(args.kwonlyargs, args.kw_defaults):
        yield _parameter(arg, Parameter.KEYWORD_ONLY, default, source)
    if args.kwarg:
        yield _parameter(args.kwarg, Parameter.VAR_KEYWORD, None, source)


def _parameter(arg, kind, default, source):
    annotation = _shown(arg.annotation, source)
    return Parameter(arg.arg, kind, default=_default(default, source), annotation=annotation)


def _default(node, source):
    try:
        value = Parameter.empty if node is None else literal_eval(node)
    except (TypeError, ValueError):
        value = ...
    # An ellipsis, too, stands for something that only the host has.
    return _shown(node, source) if value is ... else value


def _shown(node, source):
    return Parameter.empty if node is None else _Text(get_source_segment(source, node))
