"""The host's tools as functions of the guest: `NAME(...)`, `await NAME(...)`, `NAME.aio(...)`."""

from . import __builtins__

import __main__
import opcode
from asyncio import events, gather
from inspect import signature
from sys import _getframe

from . import api, awaiting, calls, interrupts, signatures, utilities
from .loop import session_loop

# Calling instruction -> bytes from its start to the next instruction, which lies behind its cache.
_AFTER_CALL = {
    opcode.opmap[name]: 2 + 2 * opcode._inline_cache_entries.get(name, 0)
    for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX")
}
_GET_AWAITABLE = opcode.opmap["GET_AWAITABLE"]


def _wanted_as(frame):
    """None when what this frame calls right now shall block; else what makes a future what is awaited."""
    code, at = frame.f_code.co_code, frame.f_lasti
    after = at + _AFTER_CALL.get(code[at], len(code))
    if after < len(code) and code[after] == _GET_AWAITABLE:
        return awaiting.itself
    return awaiting.wanted_as(frame)


def _current_loop():
    return events._get_running_loop() or session_loop()


class _Documentation:
    """`__doc__`: of a tool what the host says about it, of its class what is said here."""

    def __init__(self, text):
        self._text = text

    def __get__(self, tool, kind):
        return self._text if tool is None else tool._documentation() or self._text


class _Signature:
    """`__signature__`, read when somebody asks: hardly any program does."""

    def __get__(self, tool, kind):
        if tool is None:
            raise AttributeError("__signature__")
        return tool._read_signature() or signature(tool.__call__)


class Tool(calls.HostFunction):
    __doc__ = _Documentation("A function of the host. `await` it for its result later; without `await` it blocks.")
    __signature__ = _Signature()

    # What the host says about it, if anything.
    _doc = _signature_text = None

    def __init__(self, name):
        self.__name__ = self.__qualname__ = self._name = name
        self.__module__ = "belljar.tools"

    def __repr__(self):
        return f"<tool {self._name}>"

    def __get__(self, instance, owner=None):
        """Makes `help` take it for a function, and show its signature. It is bound to nothing."""
        return self

    def _describe(self, doc, signature_text):
        self._doc, self._signature_text = doc, signature_text

    def _read_signature(self):
        return self._signature_text and signatures.read(self._signature_text)

    def _documentation(self):
        text = self._signature_text
        if not text or self._read_signature():
            return self._doc
        return f"{self._name}{text}\n\n{self._doc or ''}".rstrip()

    def __call__(self, /, *args, **kwargs):
        wanted = _wanted_as(_getframe(1))
        if wanted is not None:
            return wanted(self.aio(*args, **kwargs))
        return calls.call(self._name, args, kwargs)

    def aio(self, /, *args, **kwargs):
        """Begins the call and gives an asyncio future of its result."""
        return calls.begin(self._name, args, kwargs, calls.ToolFuture(_current_loop()))


class ContextTool(Tool):
    __doc__ = _Documentation("rlm_query: works on `context` unless it is given something else.")

    def __call__(self, task, ctx=None):
        wanted = _wanted_as(_getframe(1))
        if wanted is not None:
            return wanted(self.aio(task, ctx))
        return calls.call(self._name, (task, _context_or(ctx)), {})

    def aio(self, task, ctx=None):
        """Begins the call and gives an asyncio future of its result."""
        return calls.begin(self._name, (task, _context_or(ctx)), {}, calls.ToolFuture(_current_loop()))


def _context_or(ctx):
    return __main__.__dict__.get("context") if ctx is None else ctx


class BatchTool(calls.HostFunction):
    """Calls a tool once for each item, all at the same time; results come in the order of the items."""

    def __init__(self, name, tool, make_args):
        self.__name__ = self.__qualname__ = self._name = name
        self.__module__ = "belljar.tools"
        self._tool, self._make_args = tool, make_args

    __repr__ = Tool.__repr__

    def __call__(self, items):
        wanted = _wanted_as(_getframe(1))
        if wanted is not None:
            return wanted(self.aio(items))
        slots = []
        try:
            for args in self._each(items):
                slots.append(calls.begin(self._tool, args, {}, calls.ToolSlot()))
            while any(slot.answer is None for slot in slots):
                calls.wait(None)
                interrupts.check()
        except BaseException:
            for slot in slots:
                calls.drop(slot)
            raise
        for slot in slots:
            if "error" in slot.answer:
                raise calls.exception_of(slot.answer["error"])
        return [slot.answer["value"] for slot in slots]

    def aio(self, items):
        """Begins all calls and gives an awaitable of the list of their results."""
        loop, futures = _current_loop(), []
        try:
            for args in self._each(items):
                futures.append(calls.begin(self._tool, args, {}, calls.ToolFuture(loop)))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return loop.create_task(_all_of(futures), name=self._name)

    def _each(self, items):
        if isinstance(items, (str, bytes, dict)):
            raise TypeError(f"{self._name}() takes a list, not one {type(items).__name__}")
        return [self._make_args(item) for item in items]


async def _all_of(futures):
    if not futures:
        return []
    results = await gather(*futures, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _tool(name):
    known = _offered.get(name)
    if isinstance(known, Tool):
        return known
    return ContextTool(name) if name == "rlm_query" else Tool(name)


_BATCHED = {"llm_query": lambda prompt: (prompt,), "rlm_query": lambda task: (task, _context_or(None))}

# Everything that was put into the user's namespace by us.
_offered = {}
# The names of those the host has said something about.
_described = set()


def offer(names, docs=None):
    """Makes these the tools there are. What user code has bound to one of the names stays."""
    wanted = {name: _tool(name) for name in names}
    if docs or _described:
        _describe(wanted, docs or {})
    for name, make_args in _BATCHED.items():
        if name in wanted:
            batched = f"{name}_batched"
            wanted.setdefault(batched, _offered.get(batched) or BatchTool(batched, name, make_args))
    namespace, shelf = __main__.__dict__, api.tools.__dict__
    for name, tool in _offered.items():
        if name not in wanted:
            shelf.pop(name, None)
            if namespace.get(name) is tool:
                del namespace[name]
    for name, tool in wanted.items():
        shelf[name] = tool
        if namespace.setdefault(name, tool) is not tool and namespace[name] is _offered.get(name):
            namespace[name] = tool
    awaiting.active = bool(wanted)
    if wanted:
        utilities.introduce()
    _offered.clear()
    _offered.update(wanted)


def _describe(wanted, docs):
    for name in _described.union(docs).intersection(wanted):
        about = docs.get(name, {})
        wanted[name]._describe(about.get("doc"), about.get("signature"))
    _described.clear()
    _described.update(docs)
