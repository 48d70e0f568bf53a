"""Completes the text before a cursor with names, attributes and keys, without running the user's code."""

from . import __builtins__

import __main__
import builtins
import keyword
import re
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType

from _belljar_host import DRIVER, USER, phase

from .wire import encode_own

MAX_MATCHES = 100
# How far back from the cursor is looked.
MAX_CHARS = 1000

_KEY = re.compile(r"""((?:[^\W\d]\w*\.)*[^\W\d]\w*)\[(["'])((?:(?!\2)[^\\\n])*)$""")
_DOTTED = re.compile(r"((?:[^\W\d]\w*\.)*)((?:[^\W\d]\w*)?)$")
_AFTER_NUMBER_OR_CALL = re.compile(r"[\w\])\"'.]$")
_NOTHING = object()

_mro = type.__dict__["__mro__"].__get__
_class_dict = type.__dict__["__dict__"].__get__
_module_dict = ModuleType.__dict__["__dict__"].__get__


def complete(code, cursor):
    phase(USER)
    start, matches = cursor, []
    try:
        prefix, candidates = _look(code[max(0, cursor - MAX_CHARS) : cursor])
        start = min(cursor, len(code)) - len(prefix)
        fitting = {name for name in candidates if type(name) is str and name.startswith(prefix)}
        if not prefix.startswith("_"):
            public = {name for name in fitting if not name.startswith("_")}
            fitting = public or (fitting if prefix else public)
        matches = sorted(fitting)[:MAX_MATCHES]
    except Exception:
        pass
    phase(DRIVER)
    return encode_own({"end": "finished", "start": start, "matches": matches})


def _look(text):
    """What is being typed, and everything it could be the beginning of."""
    key = _KEY.search(text)
    if key is not None:
        thing = _resolve(key[1].split("."))
        return key[3], list(thing) if type(thing) is dict else ()
    path, prefix = _DOTTED.search(text).groups()
    if path:
        return prefix, _attributes(_resolve(path[:-1].split(".")))
    if _AFTER_NUMBER_OR_CALL.search(text[: len(text) - len(prefix)]):
        # An attribute of something that only running the code could tell.
        return prefix, ()
    return prefix, [*__main__.__dict__, *vars(builtins), *keyword.kwlist]


def _resolve(names):
    first, *rest = names
    thing = __main__.__dict__.get(first, _NOTHING)
    if thing is _NOTHING:
        thing = vars(builtins).get(first, _NOTHING)
    for name in rest:
        thing = _attribute(thing, name)
    return thing


def _own_dict(thing):
    """Its own attributes, looked up without asking it."""
    kind = type(thing)
    if issubclass(kind, ModuleType):
        return _module_dict(thing)
    if issubclass(kind, type):
        return {}
    for cls in _mro(kind):
        descriptor = _class_dict(cls).get("__dict__")
        if descriptor is not None:
            return descriptor.__get__(thing) if type(descriptor) is GetSetDescriptorType else {}
    return {}


def _classes(thing):
    kind = type(thing)
    return [*_mro(thing), *_mro(kind)] if issubclass(kind, type) else _mro(kind)


def _attributes(thing):
    if thing is _NOTHING:
        return ()
    names = set(_own_dict(thing))
    if not issubclass(type(thing), ModuleType):
        for cls in _classes(thing):
            names.update(_class_dict(cls))
    return names


def _attribute(thing, name):
    if thing is _NOTHING:
        return _NOTHING
    own = _own_dict(thing)
    if name in own:
        return own[name]
    for cls in _classes(thing):
        if name in _class_dict(cls):
            found = _class_dict(cls)[name]
            if type(found) is MemberDescriptorType:
                return found.__get__(thing) if not issubclass(type(thing), type) else found
            # Anything with __get__ would have to run to tell what it gives.
            return _NOTHING if any("__get__" in _class_dict(c) for c in _mro(type(found))) else found
    return _NOTHING
