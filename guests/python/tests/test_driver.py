"""Tests of the guest's driver on this machine's own interpreter, with a pretended host.

Seconds instead of the minutes of a bake; what needs the real guest is tested by the
Rust suites. Needs a CPython of the guest's version, which the recipe leaves behind:

    guests/build/native/python guests/python/tests/test_driver.py
"""

import ast
import io
import json
import linecache
import signal
import sys
import time
import traceback
import types
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "driver"))
tests = sys.modules["__main__"]
# The driver's user works in a `__main__` of their own.
main = sys.modules["__main__"] = types.ModuleType("__main__")


class Host:
    """The other side of `_belljar_host.call`."""

    def __init__(self):
        self.phases, self.log, self.begun, self.tools, self.refuse, self.slow = [], [], {}, {}, False, False

    def phase(self, phase):
        self.phases.append(phase)

    def call(self, request):
        request = json.loads(request)
        self.log.append(request)
        if self.refuse:
            raise RuntimeError("the host refused the call")
        reply = getattr(self, "do_" + request.pop("do"))(**request)
        return json.dumps(reply).encode()

    def outcome(self, name, args, kwargs):
        try:
            return {"value": self.tools[name](*args, **kwargs)}
        except LookupError as error:
            return {"error": {"name": "ToolLimitError", "message": str(error)}}
        except Exception as error:
            return {"error": {"name": "ToolError", "message": str(error)}}

    def do_call(self, name, args, kwargs):
        return self.outcome(name, args, kwargs)

    def do_begin(self, id, name, args, kwargs):
        self.begun[id] = (name, args, kwargs)
        return {}

    def do_wait(self, seconds):
        return {"answers": [] if self.slow else self.answers()}

    def do_drop(self, id):
        self.begun.pop(id)
        return {}

    def do_input(self, prompt):
        return {"value": f"answer to {prompt}"}

    def answers(self):
        answers = [{"id": id, **self.outcome(*call)} for id, call in self.begun.items()]
        self.begun.clear()
        return answers


host = Host()
dumps, loads = json.dumps, json.loads


def compile_cell(source, filename, want_value):
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(source, filename, "exec", flags | ast.PyCF_ONLY_AST)
    value = None
    if want_value and tree.body and isinstance(tree.body[-1], ast.Expr):
        value = compile(ast.Expression(tree.body.pop().value), filename, "eval", flags)
    return compile(tree, filename, "exec", flags), value


sys.modules["_belljar_host"] = types.SimpleNamespace(
    DRIVER=0, USER=1, compile_cell=compile_cell, make_immortal=lambda objects: None,
    phase=lambda phase: host.phase(phase), call=lambda request: host.call(request),
)

from belljar_guest import api, calls, display, driver, hygiene, interrupts, loop, questions, surroundings, tools  # noqa: E402

questions.install()
api.install()
loop.install()
interrupts.install()
hygiene.remember_builtins()


def request(op, **fields):
    host.phases.clear()
    answer = loads(driver.handle(dumps({"op": op, **fields}).encode()))
    assert host.phases == [1, 0], (op, host.phases)
    return answer


class DriverTest(unittest.TestCase):
    def setUp(self):
        global host
        host = Host()
        main.__dict__.clear()
        main.__dict__["__name__"] = "__main__"
        tools.offer(())
        for name in ("chunk_text", "search_context"):
            main.__dict__.pop(name, None)
        self.real = sys.stdout, sys.stderr
        self.cells = 0
        self.out, self.err = io.StringIO(), io.StringIO()

    def tearDown(self):
        sys.stdout, sys.stderr = self.real

    def offer(self, **functions):
        host.tools.update(functions)
        tools.offer(list(functions))

    def start(self, code, **fields):
        """One request; the cell may wait afterwards."""
        self.cells += 1
        return self.guarded("execute", code=code, filename=f"<cell {self.cells}>", value=True, drain=False, **fields)

    def resume(self, answers=(), interrupt=False):
        return self.guarded("resume", answers=list(answers), interrupt=interrupt)

    def guarded(self, op, **fields):
        real = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = self.out, self.err
        try:
            return request(op, **fields)
        finally:
            sys.stdout, sys.stderr = real

    def run_cell(self, code):
        """To its end, as a host does it: answers whatever was begun, all at once."""
        answer = self.start(code)
        while answer["end"] == "waiting":
            if not host.begun:
                self.assertIsNotNone(answer["timer"])
                time.sleep(answer["timer"])
            answer = self.resume(host.answers())
        return answer

    def value(self, code):
        answer = self.run_cell(code)
        self.assertEqual(answer["end"], "finished", answer)
        return answer["value"] and answer["value"]["json"]

    def raises(self, code, name, message=None):
        answer = self.run_cell(code)
        self.assertEqual((answer["end"], answer["error"] and answer["error"]["name"]), ("raised", name), answer)
        if message is not None:
            self.assertEqual(answer["error"]["message"], message)
        return answer["error"]

    def quiet(self):
        self.assertEqual(self.err.getvalue(), "")


class Cells(DriverTest):
    def test_state_values_and_errors(self):
        self.assertIsNone(self.value("x = 3"))
        self.assertEqual(self.value("x + 1"), 4)
        error = self.raises("def f():\n  return 1 / 0\nf()", "ZeroDivisionError", "division by zero")
        self.assertNotIn("belljar_guest", error["traceback"])
        self.assertIn("return 1 / 0", error["traceback"])
        self.assertIn('<cell 3>", line 2', self.raises("f()", "ZeroDivisionError")["traceback"])
        self.assertIn("return 1 / 0", self.raises("import linecache; linecache.clearcache(); f()", "ZeroDivisionError")["traceback"])

    def test_exit_keeps_the_session(self):
        self.assertEqual(self.run_cell("import sys; y = 1; sys.exit(3)")["exit_code"], 3)
        self.assertEqual(self.value("y"), 1)

    def test_validate(self):
        self.assertEqual(request("validate", code="await x", filename="<v>"), {"end": "finished", "error": None})
        self.assertEqual(request("validate", code="x +", filename="<v>")["error"]["name"], "SyntaxError")
        self.assertIn("break", request("validate", code="x = 1\nbreak", filename="<v>")["error"]["traceback"])

    def test_sources_are_bounded(self):
        for n in range(250):
            self.start(f"n = {n}")
        from belljar_guest import sources
        self.assertEqual(len(sources._entries), sources.MAX_CELLS)

    def test_broken_builtins(self):
        for line in ("print = 3", "import builtins; builtins.len = None", "builtins.print = None",
                     "del builtins.__build_class__", "builtins.isinstance = lambda *a: True",
                     "builtins.__import__ = None", "builtins.str = builtins.type = int", "__builtins__ = None",
                     "import sys; sys.setrecursionlimit(60)", "sys.settrace(lambda *a: 1 / 0)",
                     "sys.setprofile(lambda *a: 1 / 0)", "globals().clear()", "del __builtins__",
                     "import json; json.dumps = json.loads = None; json.encoder.c_make_encoder = None",
                     "import traceback, linecache; traceback.TracebackException = linecache.getline = None",
                     "import linecache; linecache.cache = None"):
            with self.subTest(line):
                patched = json, json.encoder, traceback, linecache
                saved = [dict(vars(module)) for module in patched]
                answer = self.run_cell("import builtins, sys\n" + line)
                for module, attributes in zip(patched, saved):
                    vars(module).update(attributes)
                self.assertIn(answer["end"], ("finished", "raised"))
                self.assertEqual(self.value("class C: pass\n[1, 'two']"), [1, "two"])
                self.raises("def f(): nope\nf()", "NameError", "name 'nope' is not defined")
                hygiene._overrides.clear()
                sys.setrecursionlimit(1000)

    def test_a_wished_builtin_stays(self):
        self.value("import builtins; builtins.len = lambda x: 42")
        self.assertEqual(self.value("len('a')"), 42)
        self.value("del builtins.len")
        self.assertEqual(self.value("len('a')"), 1)

    def test_evil_objects(self):
        self.raises("class E(Exception):\n  def __str__(self): raise ValueError\n  __repr__ = __str__\nraise E", "E", "<its text cannot be had>")
        self.raises("class R:\n  def __repr__(self): raise KeyError('r')\nR()", "KeyError")
        self.assertEqual(self.run_cell("class H:\n  def _repr_html_(self): 1 / 0\n  def __repr__(self): return 'H'\nH()")["value"],
                         {"text": "H", "json": None, "mime": {}})
        self.raises("class X(Exception):\n  @property\n  def __class__(self): 1 / 0\nraise X('x')", "X", "x")
        self.raises("class O(OSError):\n  @property\n  def errno(self): 1 / 0\nraise O('x')", "O", "x")
        self.raises("class S(str):\n  def __len__(self): 1/0\nclass T(Exception):\n  def __str__(self): return S('t')\nraise T", "T", "t")
        self.assertIn("...", self.run_cell("a = []; a.append(a); a")["value"]["text"])
        self.assertIsNone(self.run_cell("a")["value"]["json"])
        self.assertLess(len(self.run_cell("'x' * 10**6")["value"]["text"]), 300_000)
        self.value("class D(dict):\n  n = 0\n  def items(self):\n    D.n += 1\n    if D.n > 1: raise SystemExit\n    return [('a', 1)]\n[D(a=1)]")
        self.assertEqual(self.run_cell("from unittest.mock import MagicMock; MagicMock()")["end"], "finished")
        self.assertEqual(self.run_cell("class M(type):\n  def __eq__(s, o): 1/0\n  __hash__ = None\nclass W(metaclass=M): pass\nW")["end"], "finished")

    def test_streams(self):
        for line in ("sys.stdout.close()", "sys.stdout = None", "del sys.stdout", "sys.stderr = sys.stdout = 3", "sys.stdout.detach()"):
            request("execute", code="import sys\n" + line, filename="<c>", value=True)
            self.assertEqual(request("execute", code="1 + 1", filename="<c>", value=True)["value"]["json"], 2)
            sys.stdout, sys.stderr = self.real

    def test_input(self):
        self.assertEqual(self.value("input('name? ')"), "answer to name? ")
        host.refuse = True
        self.raises("input()", "EOFError", "the Belljar sandbox does not offer input: nobody is there to answer")


class Album:
    """What an image may add to `display.extras`: shows what a cell has put into it."""

    def __init__(self):
        self.pages, self.failure = [], None

    def show(self, value):
        pages, self.pages, failure, self.failure = self.pages, [], self.failure, None
        if failure is not None:
            raise failure
        return (f"{len(pages)} pages", {"image/png": b"png", "text/html": "page"}) if pages else None

    def discard(self):
        self.pages = []
        raise RuntimeError("nobody hears this")


class Extras(DriverTest):
    def setUp(self):
        super().setUp()
        self.album = Album()
        main.album = self.album
        display.extras.append(self.album)
        self.addCleanup(display.extras.clear)

    def shown(self, code):
        answer = self.run_cell(code)
        self.assertEqual(answer["end"], "finished", answer)
        return answer["value"]

    def test_nothing_to_add(self):
        self.assertIsNone(self.shown("x = 1"))
        self.assertIsNone(self.shown("None"))
        self.assertEqual(self.shown("2"), {"text": "2", "json": 2, "mime": {}})

    def test_without_a_value(self):
        page = {"text": "1 pages", "json": None, "mime": {"image/png": "cG5n", "text/html": "page"}}
        for code in ("album.pages.append(1)", "album.pages.append(1); x = 1", "import asyncio\nawait asyncio.sleep(0)\nalbum.pages.append(1)",
                     "import asyncio\nalbum.pages.append(1)\nfor _ in (1, 2): await asyncio.sleep(0)"):
            with self.subTest(code):
                self.assertEqual(self.shown(code), page)
                self.assertIsNone(self.shown("x = 1"))

    def test_with_a_value_whose_own_forms_win(self):
        forms = {"image/png": "cG5n", "text/html": "page"}
        self.assertEqual(self.shown("album.pages.append(1); [3]"), {"text": "[3]", "json": [3], "mime": forms})
        value = self.shown("class C:\n  def _repr_html_(self): return 'own'\n  def __repr__(self): return 'C'\nalbum.pages.append(1)\nC()")
        self.assertEqual(value, {"text": "C", "json": None, "mime": {"image/png": "cG5n", "text/html": "own"}})

    def test_an_error_while_showing_is_the_cells(self):
        self.raises("album.failure = ValueError('torn')\n3", "ValueError", "torn")
        self.assertEqual(self.run_cell("album.failure = MemoryError()")["end"], "out_of_memory")
        self.raises("album.failure = KeyboardInterrupt()", "KeyboardInterrupt")
        self.assertIsNone(self.shown("x = 1"))

    def test_a_cell_that_failed_leaves_nothing(self):
        self.raises("album.pages.append(1); 1 / 0", "ZeroDivisionError")
        self.assertIsNone(self.shown("x = 1"))
        self.offer(later=lambda: None)
        self.assertEqual(self.start("album.pages.append(1)\nawait later()")["end"], "waiting")
        self.assertIsNone(self.shown("x = 1"))

    def test_where_no_value_is_wanted(self):
        answer = self.guarded("execute", code="album.pages.append(1)", filename="<c>", value=False, drain=False)
        self.assertEqual((answer["end"], answer["value"]), ("finished", None))
        self.assertEqual(self.shown("x = 1")["text"], "1 pages")


class Variables(DriverTest):
    def inspect(self, name):
        return self.guarded("inspect", name=name)["variable"]

    def test_define_and_inspect(self):
        self.guarded("define", variables={"context": "long text", "n": [1, {"a": None}]})
        self.assertEqual(self.value("[context, n]"), ["long text", [1, {"a": None}]])
        self.assertEqual(self.inspect("n"), {"type": "list", "text": "[1, {'a': None}]", "json": [1, {"a": None}]})
        self.assertEqual(self.value("chunk_text('abcdef', 4, 2)"), ["abcd", "cdef"])
        self.value("del context\nz = None\nclass R:\n  def __repr__(s): 1/0\nr = R(); s = {1}")
        self.assertEqual(self.inspect("z"), {"type": "NoneType", "text": "None", "json": None})
        self.assertEqual(self.inspect("s"), {"type": "set", "text": "{1}"})
        self.assertEqual(self.inspect("r"), {"type": "R", "text": "<R whose repr() raises ZeroDivisionError>"})
        for name in ("context", "a.b", "if", "", "print", "0"):
            self.assertIsNone(self.inspect(name))
        self.raises("search_context('x')", "ValueError")

    def test_utilities(self):
        self.guarded("define", variables={"context": "one two one"})
        self.assertEqual(self.value("search_context('one', window=2)"), [
            {"match": "one", "start": 0, "end": 3, "context": "one t"},
            {"match": "one", "start": 8, "end": 11, "context": "o one"}])
        self.guarded("define", variables={"context": {"a": ["b"] * 2000}})
        self.assertEqual(self.value("len(search_context('b'))"), 1000)
        self.assertEqual(self.value("[chunk_text('', 3), chunk_text('abc', 3), chunk_text('abcd', 3)]"), [[], ["abc"], ["abc", "d"]])
        for bad in ("0", "-1", "2, 2", "2, -1"):
            self.raises(f"chunk_text('abc', {bad})", "ValueError")

    def complete(self, code, cursor=None):
        answer = request("complete", code=code, cursor=len(code) if cursor is None else cursor)
        return answer["start"], answer["matches"]

    def test_complete(self):
        self.value("import os.path, sys\nnumbers = {'first': 1, 'second': 2}\nclass C:\n  kind = os\n  def method(self): pass\n"
                   "  def __getattr__(self, name): raise SystemExit\n  @property\n  def prop(self): raise SystemExit\nc = C(); c.attr = numbers")
        self.assertEqual(self.complete("x = numb"), (4, ["numbers"]))
        self.assertEqual(self.complete("pri"), (0, ["print"]))
        self.assertEqual(self.complete("os.path.joi"), (8, ["join"]))
        self.assertEqual(self.complete("numbers['f"), (9, ["first"]))
        self.assertEqual(self.complete("c.attr['se"), (8, ["second"]))
        self.assertEqual(self.complete("c."), (2, ["attr", "kind", "method", "prop"]))
        self.assertEqual(self.complete("c.prop.x"), (7, []))
        self.assertEqual(self.complete("c.kind.getcw"), (7, ["getcwd", "getcwdb"]))
        self.assertEqual(self.complete("nothing.at.all"), (11, []))
        self.assertEqual(self.complete("(1).re"), (4, []))
        self.assertEqual(self.complete("é = numb; os", 8), (4, ["numbers"]))
        self.assertEqual(self.complete("", 0)[0], 0)
        self.assertEqual(self.complete("x", 99)[0], 0)
        self.assertLessEqual(len(self.complete("", 0)[1]), 100)


class Tools(DriverTest):
    def test_without_tools_no_names(self):
        self.raises("llm_query('x')", "NameError")

    def test_blocking_and_awaited(self):
        self.offer(add=lambda a, b=0: a + b)
        self.assertEqual(self.value("add(1, 2)"), 3)
        self.assertEqual([r for r in host.log if "id" in r], [])
        for call in ("add(1, 2)", "add(1, b=2)", "add(*(1, 2))", "add(*[1], **{'b': 2})", "(add(1, 2))", "belljar.tools.add(1, 2)"):
            self.assertEqual(self.value(f"import belljar\nawait {call}"), 3, call)
        self.assertEqual(len([r for r in host.log if "id" in r]), 6)
        code = "async def f():\n  return await add(5)\n[await f(), [await add(n) for n in range(3)], add(1)]"
        self.assertEqual(self.value(code), [5, [0, 1, 2], 1])

    def test_many_times_so_that_the_call_specialises(self):
        self.offer(add=lambda a, b=0: a + b)
        self.assertEqual(self.value("n = 0\nfor i in range(500): n = await add(n, b=1)\nfor i in range(500): n = add(n, 1)\nn"), 1000)

    def test_in_large_code_with_extended_arguments(self):
        self.offer(echo=lambda *args: len(args))
        many = ", ".join(["1"] * 300)
        self.assertEqual(self.value(f"await echo({many})"), 300)
        self.assertEqual(self.value("".join(f"v{i} = {i}.5\n" for i in range(600)) + "await echo(v599)"), 1)

    def test_inside_generators_and_finalisers(self):
        self.offer(echo=lambda x: x)
        self.assertEqual(self.value("list(echo(i) for i in range(3))"), [0, 1, 2])
        self.assertEqual(self.value("class D:\n  def __del__(self): self.seen.append(echo(7))\n  seen = []\nD()\nD.seen"), [7])
        self.assertEqual(self.value("from functools import partial\n[partial(echo, 1)(), (lambda: echo(2))(), *map(echo, [3])]"), [1, 2, 3])

    def test_gather_tasks_and_groups(self):
        self.offer(echo=lambda x: x)
        self.assertEqual(self.value("import asyncio\nawait asyncio.gather(*(echo.aio(i) for i in range(5)))"), [0, 1, 2, 3, 4])
        self.assertEqual(self.value("async with asyncio.TaskGroup() as g:\n  async def one(i): return await echo(i)\n"
                                    "  ts = [g.create_task(one(i)) for i in range(3)]\n[t.result() for t in ts]"), [0, 1, 2])
        self.assertEqual(self.value("await asyncio.gather(*(asyncio.to_thread(echo, i) for i in range(3)))"), [0, 1, 2])
        self.assertEqual(len([r for r in host.log if "id" in r]), 11)
        self.quiet()

    def test_in_a_loop_of_the_users(self):
        self.offer(echo=lambda x: x)
        self.assertEqual(self.value("import asyncio\nasync def f(): return await asyncio.gather(echo.aio(1), echo.aio(2))\nasyncio.run(f())"), [1, 2])
        self.assertEqual(self.value("asyncio.get_event_loop().run_until_complete(f())"), [1, 2])
        self.assertEqual(self.value("asyncio.run(asyncio.wait_for(f(), 5))"), [1, 2])
        self.raises("asyncio.run(asyncio.Event().wait())", "RuntimeError", loop.NOTHING_LEFT)
        self.assertEqual(self.value("async def forget():\n  echo.aio(9)\nasyncio.run(forget())"), None)
        self.assertEqual(host.begun, {})

    def test_errors(self):
        def fail(): raise RuntimeError("broken")
        def limit(): raise LookupError("too many")
        self.offer(fail=fail, limit=limit)
        error = self.raises("fail()", "ToolError", "broken")
        self.assertEqual(error["traceback"].splitlines()[-1], "belljar.ToolError: broken")
        self.assertEqual(len(error["traceback"].splitlines()), 5)
        self.raises("await fail()", "ToolError", "broken")
        self.raises("limit()", "ToolLimitError", "too many")
        self.assertEqual(self.value("from belljar import ToolError\ntry:\n  await limit()\nexcept ToolError as e:\n  s = str(e)\ns"), "too many")

    def test_arguments(self):
        self.offer(echo=lambda *a, **k: [a, k])
        self.assertEqual(self.value("echo(1, [2.5, None, True], key={'a': 'ü'})"), [[1, [2.5, None, True]], {"key": {"a": "ü"}}])
        self.raises("echo(1, {2})", "TypeError", "argument 2 of echo() cannot be sent as JSON: set is no JSON type")
        self.raises("echo(k=[object()])", "TypeError", "argument 'k' of echo() cannot be sent as JSON: object is no JSON type")
        self.raises("await echo(b'')", "TypeError", "argument 1 of echo() cannot be sent as JSON: bytes is no JSON type")
        self.raises("echo(float('nan'))", "ValueError")
        self.raises("a = []; a.append(a); echo(a)", "ValueError", "argument 1 of echo() cannot be sent as JSON: it contains itself")
        self.raises("b = []\nfor _ in range(10**5): b = [b]\necho(0, b)", "ValueError", "argument 2 of echo() is nested too deeply for JSON")
        self.raises("echo('\\ud800')", "ValueError", "argument 1 of echo() holds half of a surrogate pair, which JSON cannot carry")
        self.assertEqual(host.begun, {})

    def test_batches_and_contexts(self):
        def llm_query(prompt):
            if prompt == "bad": raise RuntimeError("bad prompt")
            return prompt.upper()
        self.offer(llm_query=llm_query, rlm_query=lambda task, ctx: [task, ctx])
        self.assertEqual(self.value("llm_query_batched(['a', 'b'])"), ["A", "B"])
        self.assertEqual(self.value("await llm_query_batched(['a', 'b'])"), ["A", "B"])
        self.assertEqual(self.value("llm_query_batched([]) + await llm_query_batched([])"), [])
        self.raises("llm_query_batched(['a', 'bad', 'c'])", "ToolError", "bad prompt")
        self.raises("await llm_query_batched(['a', 'bad', 'c'])", "ToolError", "bad prompt")
        self.raises("llm_query_batched('abc')", "TypeError")
        self.raises("llm_query_batched(['a', {1}])", "TypeError")
        self.assertEqual(host.begun, {})
        self.assertEqual(self.value("rlm_query('t')"), ["t", None])
        self.value("context = 'C'")
        self.assertEqual(self.value("[rlm_query('t'), await rlm_query('t', ctx=1), await rlm_query.aio('u'), *rlm_query_batched(['v'])]"),
                         [["t", "C"], ["t", 1], ["u", "C"], ["v", "C"]])

    def test_offering_again(self):
        self.offer(a=lambda: 1, b=lambda: 2)
        self.value("b = 'mine'")
        self.guarded("execute", code="", filename="<c>", value=True, surroundings={
            "env": {}, "workspace": "/nowhere", "path": ["x"], "argv": [], "tools": ["b", "c"], "renewed": True})
        self.assertEqual(self.value("[b, 'a' in globals(), 'c' in globals()]"), ["mine", False, True])
        self.raises("import belljar; belljar.tools.a", "AttributeError", "the host offers no tool 'a'; it offers: b, c")

    def test_documentation(self):
        docs = {"price": {"doc": "The price of an article.\n\nIn cents.", "signature": "(article: str, n: int = 1, *, when=now()) -> int"}}
        self.move(["price", "plain", "rlm_query"], docs)
        self.assertEqual(self.value("price.__doc__"), docs["price"]["doc"])
        self.assertEqual(self.value("[price.__name__, repr(price)]"), ["price", "<tool price>"])
        self.assertEqual(self.value("import inspect; str(inspect.signature(price))"), docs["price"]["signature"])
        self.assertEqual(self.value("s = inspect.signature(price).parameters; [s['n'].default, s['article'].annotation]"), [1, "str"])
        self.value("help(price)")
        self.assertEqual(self.out.getvalue().split("\n\n", 1)[1],
                         "price(article: str, n: int = 1, *, when=now()) -> int\n    The price of an article.\n\n    In cents.\n\n")
        self.assertEqual(self.value("[str(inspect.signature(t)) for t in (plain, rlm_query)]"), ["(*args, **kwargs)", "(task, ctx=None)"])
        self.assertIn("A function of the host", self.value("plain.__doc__"))
        self.assertEqual(self.value("class C:\n  p = price\n[C().p is price, C.p is price]"), [True, True])
        self.assertEqual(self.value("str(inspect.signature(type(price)))"), "(name)")

    def test_documentation_moves(self):
        self.move(["a", "b", "c"], {name: {"doc": f"old {name}", "signature": "(old)"} for name in "abc"})
        self.value("c.__doc__ = 'mine'; kept = a")
        self.move(["a", "b", "c"], {"a": {"doc": "new a"}, "c": {"doc": "new c", "signature": "(new)"}})
        self.assertEqual(self.value("import inspect; [a is kept, a.__doc__, str(inspect.signature(a))]"), [True, "new a", "(*args, **kwargs)"])
        self.assertIn("A function of the host", self.value("b.__doc__"))
        self.assertEqual(self.value("[c.__doc__, str(inspect.signature(c))]"), ["mine", "(new)"])
        self.move(["a", "llm_query"], None)
        self.assertIn("A function of the host", self.value("a.__doc__"))
        # The name was the driver's own before.
        self.move(["llm_query_batched"], {"llm_query_batched": {"doc": "of the host"}})
        self.assertEqual(self.value("llm_query_batched.__doc__"), "of the host")

    def test_texts_that_are_no_signature(self):
        texts = ["(x): import os #", "(x):\n  boom()\nboom(", "(x: str): number", "(x: string, n = 1) => number", "(x, x)", "(", "", ")", "()()",
                 "(x): 1; boom()", "(x): boom()", "(x): ...\n@boom()\ndef g()", "(" * 4000, "(a=1, b)", "\0", "(x\0)"]
        for text in texts:
            self.move(["f"], {"f": {"doc": "about f", "signature": text}})
            self.value("def boom(*args): raise SystemExit(9)")
            self.assertEqual(self.value("import inspect; str(inspect.signature(f))"), "(*args, **kwargs)", text)
            self.assertEqual(self.value("f.__doc__"), f"f{text}\n\nabout f" if text else "about f")
        self.move(["f"], {"f": {"signature": "(x) => y"}})
        self.assertEqual(self.value("f.__doc__"), "f(x) => y")

    def test_nothing_in_a_signature_is_run(self):
        self.value("ran = []\ndef boom(*args): ran.append(args)")
        for text in ["(x=boom())", "(x: boom() = 1)", "(*a: boom(), **k: boom()) -> boom()", "(w=..., x=[boom() for y in 'ab'], /, *, z=(lambda: boom())())",
                     "(x: 'a' = {'k': [1, (2.5, None)]}, y=-1, z=b'')"]:
            self.move(["f"], {"f": {"signature": text}})
            self.assertEqual(self.value("import inspect; [str(inspect.signature(f)), ran]"), [text, []])

    def move(self, names, docs):
        moved = {"env": {}, "tools": names, "renewed": True, **({} if docs is None else {"tool_docs": docs})}
        self.guarded("execute", code="", filename="<c>", value=True, surroundings=moved)

    def test_environment_moves(self):
        import os
        surroundings._given.update(HOST="1", CHANGED="1")
        os.environ.update(HOST="1", CHANGED="2", MINE="3")
        surroundings.settle_in({"env": {"NEW": "4", "MINE": "5"}, "renewed": True})
        self.assertEqual([os.environ.get(n) for n in ("HOST", "CHANGED", "MINE", "NEW")], [None, "2", "3", "4"])

    def test_renewal(self):
        renewed = []
        surroundings.renewals.append(lambda: renewed.append(1))
        try:
            self.guarded("execute", code="", filename="<c>", value=True, surroundings={
                "env": {}, "workspace": "/nowhere", "path": [], "argv": [], "tools": [], "renewed": True})
            self.value("1")
        finally:
            surroundings.renewals.clear()
        self.assertEqual(renewed, [1])


class Waiting(DriverTest):
    def test_unwinding(self):
        self.offer(echo=lambda x: x)
        self.assertEqual(self.start("r = await echo(1)\nr"), {"end": "waiting", "timer": None})
        self.assertEqual(self.guarded("inspect", name="r")["variable"], None)
        id, = host.begun
        self.assertEqual(self.resume([{"id": 99, "value": 0}]), {"end": "waiting", "timer": None})
        self.assertEqual(self.resume([{"id": id, "value": 5}])["value"]["json"], 5)
        self.assertEqual(self.resume([{"id": id, "value": 6}])["end"], "finished")

    def test_timers_beside_calls(self):
        self.offer(echo=lambda x: x)
        answer = self.start("import asyncio\nawait asyncio.wait_for(echo.aio(1), 30)")
        self.assertTrue(29 < answer["timer"] <= 30)
        self.assertEqual(self.resume(host.answers())["value"]["json"], 1)
        host.slow = True
        answer = self.start("try:\n  await asyncio.wait_for(echo.aio(1), 0.01)\nexcept TimeoutError:\n  r = 'late'\nr")
        time.sleep(0.02)
        answer = self.resume()
        self.assertEqual(answer["value"] and answer["value"]["json"], "late", answer)
        self.assertEqual(host.begun, {})
        self.quiet()

    def test_an_answer_wins_over_a_due_timeout(self):
        self.offer(echo=lambda x: x)
        for waits in ("echo.aio(1)", "asyncio.gather(echo.aio(1))", "f()"):
            self.start("import asyncio\nasync def f(): return await asyncio.gather(echo.aio(1), echo.aio(2))\n"
                       f"await asyncio.wait_for({waits}, 0.01)")
            time.sleep(0.03)
            answer = self.resume(host.answers())
            self.assertEqual(answer["end"], "finished", answer)

    def test_only_timers_sleep_here(self):
        self.assertEqual(self.start("import asyncio\nawait asyncio.sleep(0.01, 'slept')")["value"]["json"], "slept")

    def test_nothing_left(self):
        error = self.raises("import asyncio\nawait asyncio.Event().wait()", "RuntimeError", loop.NOTHING_LEFT)
        self.assertIn("await asyncio.Event().wait()", error["traceback"])
        self.raises("while True:\n  try: await asyncio.Event().wait()\n  except asyncio.CancelledError: pass", "RuntimeError", loop.NOTHING_LEFT)
        self.assertEqual(self.value("await asyncio.sleep(0, 1)"), 1)
        self.assertNotIn("Task ", self.err.getvalue())

    def test_background_tasks_live_on(self):
        self.offer(echo=lambda x: x)
        self.value("import asyncio\nseen = []\nasync def work():\n  for i in range(3):\n    seen.append(await echo(i))\n    await asyncio.sleep(0.001)\nt = asyncio.create_task(work())\nawait asyncio.sleep(0)")
        self.assertEqual(self.value("seen"), [])
        self.assertEqual(self.value("await t\nseen"), [0, 1, 2])
        self.value("f = echo.aio(4)")
        self.assertEqual(self.value("await f"), 4)
        self.value("t = asyncio.get_event_loop().create_task(work())")
        self.value("await t")
        self.quiet()

    def test_a_busy_loop_sees_answers(self):
        self.offer(echo=lambda x: x)
        self.assertEqual(self.start("import asyncio\nt = asyncio.ensure_future(echo.aio(3))\nwhile not t.done(): await asyncio.sleep(0)\nt.result()")["value"]["json"], 3)

    def test_cancelling_drops(self):
        self.offer(echo=lambda x: x)
        self.assertEqual(self.value("import asyncio\nf = echo.aio(1)\nf.cancel()\ntry: await f\nexcept asyncio.CancelledError: r = 'cancelled'\nr"), "cancelled")
        self.assertEqual(host.begun, {})
        self.assertEqual(len([r for r in host.log if list(r) == ["id"]]), 1)

    def test_interrupted_while_waiting(self):
        self.offer(echo=lambda x: x)
        self.start("import asyncio\ntry:\n  await echo(1)\nfinally:\n  cleaned = True")
        answer = self.resume(interrupt=True)
        self.assertEqual((answer["end"], answer["error"]["name"]), ("raised", "KeyboardInterrupt"))
        self.assertIn("await echo(1)", answer["error"]["traceback"])
        self.assertEqual((self.value("cleaned"), host.begun), (True, {}))
        self.start("while True:\n  try: await echo(1); break\n  except asyncio.CancelledError: pass\n'went on'")
        self.assertEqual(self.resume(interrupt=True)["end"], "waiting")
        self.assertEqual(self.resume(host.answers())["value"]["json"], "went on")

    def test_interrupted_with_children(self):
        self.offer(echo=lambda x: x)
        self.start("import asyncio\nasync def w(i): return await echo(i)\nasync with asyncio.TaskGroup() as g:\n  for i in range(3): g.create_task(w(i))")
        self.assertEqual(self.resume(interrupt=True)["error"]["name"], "KeyboardInterrupt")
        self.assertEqual(host.begun, {})
        self.assertEqual(self.value("await asyncio.sleep(0, 1)"), 1)
        self.assertNotIn("Task ", self.err.getvalue())

    def test_signals(self):
        self.offer(echo=lambda x: x)
        stop = "import signal, asyncio\ndef stop(): signal.raise_signal(signal.SIGINT)\n"
        for code in ("stop()", "await asyncio.sleep(0)\nstop()", "async def b(): stop()\nt = asyncio.create_task(b())\nawait asyncio.sleep(9)",
                     "asyncio.get_event_loop().call_soon(stop)\nawait asyncio.sleep(9)", "asyncio.run(asyncio.sleep(stop()))",
                     "async def b(): stop()\nasyncio.run(b())", "async def b():\n  asyncio.get_running_loop().call_soon(stop)\n  await asyncio.sleep(9)\nasyncio.run(b())"):
            with self.subTest(code):
                self.raises(stop + code, "KeyboardInterrupt")
                self.assertEqual(self.value("await asyncio.sleep(0.001, 1)"), 1)
                self.assertEqual(self.value("asyncio.run(asyncio.sleep(0, 2))"), 2)
        import gc
        gc.collect()
        for noise in ("never retrieved", "never awaited", "destroyed"):
            self.assertNotIn(noise, self.err.getvalue())

    def test_signals_at_any_moment(self):
        self.offer(echo=lambda x: x)
        self.value("import asyncio\nasync def spin():\n  for i in range(10**9): await asyncio.sleep(0)\n"
                   "async def both():\n  await asyncio.gather(spin(), spin(), spin())")
        signal.signal(signal.SIGALRM, lambda number, frame: interrupts._on_signal(number, frame))
        for n in range(60):
            signal.setitimer(signal.ITIMER_REAL, 0.003 + n * 0.00001)
            self.raises("await both()" if n % 2 else "asyncio.run(both())", "KeyboardInterrupt")
            self.assertEqual(self.value("await asyncio.sleep(0, 1)"), 1)

    def test_exits(self):
        for code in ("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(4)",
                     "async def b(): sys.exit(4)\nt = asyncio.create_task(b())\nawait asyncio.sleep(9)",
                     "async def b(): sys.exit(4)\nasyncio.run(b())"):
            self.assertEqual(self.run_cell(code)["exit_code"], 4)
            self.assertEqual(self.value("await asyncio.sleep(0, 1)"), 1)
        self.value("import gc; del t; gc.collect()")
        self.quiet()

    def test_a_stopped_or_closed_loop(self):
        self.raises("import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop().stop()\nawait asyncio.sleep(5)", "RuntimeError", loop.STOPPED)
        self.value("asyncio.get_event_loop().close()")
        self.assertEqual(self.value("await asyncio.sleep(0, 1)"), 1)

    def test_errors_nobody_awaits_are_quiet(self):
        def fail(): raise RuntimeError("broken")
        self.offer(fail=fail)
        self.start("f = fail.aio()\nimport gc, asyncio\nawait asyncio.sleep(0)")
        self.assertEqual(self.resume(host.answers())["end"], "finished")
        self.value("del f; gc.collect()")
        self.quiet()

    def test_interrupts_of_a_sleeping_loop_name_the_line(self):
        signal.signal(signal.SIGALRM, lambda number, frame: interrupts._on_signal(number, frame))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        error = self.raises("import asyncio\nawait asyncio.sleep(9)", "KeyboardInterrupt")
        self.assertIn("await asyncio.sleep(9)", error["traceback"])

    def test_an_abandoned_cell(self):
        self.offer(echo=lambda x: x)
        self.start("await echo(1)")
        self.assertEqual(self.start("1 + 1")["value"]["json"], 2)
        self.value("import asyncio\nawait asyncio.sleep(0)")
        self.assertEqual(host.begun, {})
        self.quiet()

    def test_calls_of_a_copy_wait_on(self):
        self.offer(echo=lambda x: x)
        self.value("f = echo.aio(1)")
        moved = {"env": {}, "tools": ["echo"], "renewed": True}
        self.assertEqual(self.start("await f", surroundings=moved), {"end": "waiting", "timer": None})
        self.assertEqual(self.resume(host.answers())["value"]["json"], 1)


if __name__ == "__main__":
    unittest.TextTestRunner(verbosity=1).run(unittest.defaultTestLoader.loadTestsFromModule(tests))
