"""Cells, variables and the protocol itself.   python3 -m unittest discover -s guests/python/native/tests"""

import os
import subprocess
import sys
import tempfile
import unittest

from harness import COMMAND, DriverTest


class Cells(DriverTest):
    def test_state_values_and_errors(self):
        self.assertIsNone(self.value("x = 3"))
        self.assertEqual(self.value("x + 1"), 4)
        error = self.raises("def f():\n  return 1 / 0\nf()", "ZeroDivisionError", "division by zero")
        self.assertNotIn("belljar", error["traceback"])
        self.assertIn('File "<cell 3>", line 2, in f\n    return 1 / 0\n', error["traceback"])
        self.assertEqual(self.session.err.decode(), error["traceback"])
        self.assertIn('<cell 3>", line 2', self.raises("f()", "ZeroDivisionError")["traceback"])

    def test_a_whole_traceback(self):
        error = self.raises("import json\njson.loads('{')", "JSONDecodeError")
        lines = [line for line in error["traceback"].splitlines() if line.startswith(("  File", "Trace", "json"))]
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertEqual(lines[1], '  File "<cell 1>", line 2, in <module>')
        self.assertTrue(lines[-1].startswith("json.decoder.JSONDecodeError: Expecting property name"))

    def test_chained_errors_show_the_users_lines_only(self):
        code = "try:\n  1 / 0\nexcept ZeroDivisionError as e:\n  raise ValueError('v') from e"
        error = self.raises(code, "ValueError", "v")
        self.assertEqual(error["traceback"].count("Traceback (most recent call last)"), 2)
        self.assertNotIn("belljar", error["traceback"])
        error = self.raises("import asyncio\nasync def f():\n  await asyncio.sleep(0)\n  1 / 0\nawait f()", "ZeroDivisionError")
        self.assertNotIn("belljar", error["traceback"])
        self.assertIn("await f()", error["traceback"])

    def test_marks_point_at_the_right_place(self):
        if sys.version_info < (3, 11):
            self.skipTest("this version marks nothing")
        self.assertIn("    1/0\n    ~^~\n", self.raises("1/0", "ZeroDivisionError")["traceback"])

    def test_syntax_errors(self):
        error = self.raises("x = 1\nx +", "SyntaxError")
        self.assertIn('File "<cell 1>", line 2', error["traceback"])
        self.raises("'a\0b'", "SyntaxError", "source code string cannot contain null bytes")
        self.assertEqual(self.session.request("validate", code="await x", filename="<v>"), {"end": "finished", "error": None})
        self.assertEqual(self.session.request("validate", code="x +", filename="<v>")["error"]["name"], "SyntaxError")
        self.assertIn("break", self.session.request("validate", code="x = 1\nbreak", filename="<v>")["error"]["traceback"])

    def test_the_future_holds_for_the_last_expression(self):
        code = "from __future__ import annotations\n(lambda: 0, [f for f in [1]])\n"
        self.assertEqual(self.run_cell(code)["end"], "finished")
        self.assertEqual(self.value("async def f(): return 2\nawait f()"), 2)

    def test_values(self):
        self.assertEqual(self.run_cell("[1, 'ü', None]")["value"], {"text": "[1, 'ü', None]", "json": [1, "ü", None], "mime": {}})
        self.assertEqual(self.run_cell("{1}")["value"], {"text": "{1}", "json": None, "mime": {}})
        code = "class P:\n  def _repr_html_(self): return '<b>'\n  def _repr_png_(self): return b'png'\n  def __repr__(self): return 'P'\nP()"
        self.assertEqual(self.run_cell(code)["value"], {"text": "P", "json": None, "mime": {"text/html": "<b>", "image/png": "cG5n"}})
        self.assertIsNone(self.session.finish(self.session.begin("execute", code="1", filename="<c>", value=False))["result"]["value"])

    def test_large_values_and_output(self):
        self.assertEqual(len(self.run_cell("'x' * 10**6")["value"]["text"]), 256 * 1024 + len("... (value truncated)"))
        self.assertEqual(self.value("'x' * 900_000"), "x" * 900_000)
        self.assertEqual(len(self.printed("print('y' * 5_000_000)")), 5_000_001)
        self.session.request("define", variables={"big": "z" * 5_000_000})
        self.assertEqual(self.value("len(big)"), 5_000_000)

    def test_top_level_await(self):
        self.assertEqual(self.value("import asyncio\nawait asyncio.sleep(0.01, 'slept')"), "slept")
        self.value("t = asyncio.create_task(asyncio.sleep(0.01, 7))")
        self.assertEqual(self.value("await t"), 7)
        self.value("t = asyncio.get_event_loop().create_task(asyncio.sleep(0.01, 8))")
        self.assertEqual(self.value("await t"), 8)
        self.assertEqual(self.value("asyncio.run(asyncio.sleep(0, 9))"), 9)
        self.assertEqual(self.value("asyncio.run(asyncio.sleep(0))\nasyncio.get_event_loop().run_until_complete(asyncio.sleep(0, 9))"), 9)
        self.assertEqual(self.value("mine = asyncio.new_event_loop(); asyncio.set_event_loop(mine)\nasyncio.get_event_loop() is mine"), True)
        self.assertEqual(self.value("mine.close()\nasyncio.get_event_loop() is mine"), False)
        self.assertEqual(self.value("await asyncio.sleep(0, 10)"), 10)
        self.raises("asyncio.get_running_loop().stop()\nawait asyncio.sleep(9)", "RuntimeError", "Event loop stopped before Future completed.")
        self.assertEqual(self.value("async def f():\n  with open(__file__) as g: pass\nawait asyncio.sleep(0, 11)"), 11)

    def test_exits(self):
        self.assertEqual(self.run_cell("import sys; y = 1; sys.exit(3)")["exit_code"], 3)
        self.assertEqual(self.value("y"), 1)
        for code in ("import asyncio\nawait asyncio.sleep(0)\nsys.exit(4)", "exit(4)",
                     "async def b(): sys.exit(4)\nt = asyncio.create_task(b())\nawait asyncio.sleep(9)",
                     "async def b(): sys.exit(4)\nasyncio.run(b())"):
            answer = self.run_cell(code)
            self.assertEqual((answer["end"], answer["exit_code"]), ("exited", 4), code)
            self.assertEqual(self.value("import asyncio\nawait asyncio.sleep(0, 1)"), 1)
        self.assertEqual((self.run_cell("sys.exit('why')")["exit_code"], self.session.err), (1, b"why\n"))

    def test_input(self):
        self.session.answer_input = lambda prompt: f"answer to {prompt}"
        self.assertEqual(self.value("input('name? ')"), "answer to name? ")
        self.session.answer_input = None
        self.raises("input()", "EOFError", "nobody here")
        self.assertEqual(self.value("import sys\nsys.stdin.read()"), "")

    def test_output_of_every_kind(self):
        self.assertEqual(self.printed("import os, subprocess, sys\nprint('a', flush=True)\nos.write(1, b'b\\n')\nsubprocess.run(['echo', 'c'])\n"
                                      "os.system('echo d')\nprint('e', end='')"), "a\nb\nc\nd\ne")
        self.run_cell("print('\\ud800ü', file=sys.stderr)\nsubprocess.run('echo to >&2', shell=True)")
        self.assertEqual(self.session.err.decode(), "\\ud800ü\nto\n")
        self.assertEqual(self.session.out, b"")

    def test_threads_processes_and_pools(self):
        self.assertEqual(self.value("import threading\nr = []\nt = threading.Thread(target=r.append, args=(1,)); t.start(); t.join()\nr"), [1])
        self.assertEqual(self.value("import asyncio\nloop = asyncio.get_event_loop()\nawait loop.run_in_executor(None, sum, [1, 2])"), 3)
        self.assertEqual(self.value("p = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1)\n(await p.communicate())[0].decode()"), "x\n")
        code = ("import multiprocessing\nc = multiprocessing.get_context('fork')\ndef double(n): return 2 * n\n"
                "with c.Pool(2) as pool: r = pool.map(double, [1, 2, 3])\nr")
        self.assertEqual(self.value(code), [2, 4, 6])
        code = ("import math\nwith multiprocessing.get_context('spawn').Pool(1) as pool: r = pool.map(math.sqrt, [4])\nr")
        self.assertEqual(self.value(code), [2.0])
        code = ("async def echo(r, w): w.write(await r.readline()); w.close()\ns = await asyncio.start_server(echo, '127.0.0.1', 0)\n"
                "r, w = await asyncio.open_connection(*s.sockets[0].getsockname())\nw.write(b'hi\\n')\n(await r.readline()).decode()")
        self.assertEqual(self.value(code), "hi\n")

    def test_draining_waits_for_threads_as_a_program_does(self):
        code = "import threading, time\ndef late():\n  time.sleep(0.2)\n  print('late')\nthreading.Thread(target=late).start()"
        self.assertEqual(self.printed(code, drain=True), "late\n")
        self.assertEqual(self.printed(code, drain=False), "")


class Variables(DriverTest):
    def test_define_inspect_complete(self):
        self.session.request("define", variables={"context": "long text", "n": [1, {"a": None}]})
        self.assertEqual(self.value("[context, n]"), ["long text", [1, {"a": None}]])
        self.assertEqual(self.session.request("inspect", name="n")["variable"], {"type": "list", "text": "[1, {'a': None}]", "json": [1, {"a": None}]})
        self.assertIsNone(self.session.request("inspect", name="missing")["variable"])
        self.assertEqual(self.value("[m['match'] for m in search_context('t.')]"), ["te", "t"][:1])
        self.assertEqual(self.session.request("complete", code="pri", cursor=3), {"end": "finished", "start": 0, "matches": ["print"]})


class Surroundings(DriverTest):
    def test_the_workspace_is_where_a_script_would_be(self):
        with tempfile.TemporaryDirectory() as workspace, tempfile.TemporaryDirectory() as packages:
            workspace = os.path.realpath(workspace)
            for name in ("mine", "traceback", "json"):
                with open(f"{workspace}/{name}.py", "w") as file:
                    file.write("value = 'from the workspace'\n")
            with open(f"{packages}/extra.py", "w") as file:
                file.write("value = 'extra'\n")
            self.session.initialize(workspace, env={"GREETING": "hello"}, path=[packages], argv=["prog", "-v"])
            code = "import mine, extra, os, sys\n[mine.value, extra.value, os.getcwd(), os.environ['GREETING'], sys.argv, sys.path[0]]"
            self.assertEqual(self.value(code), ["from the workspace", "extra", workspace, "hello", ["prog", "-v"], workspace])
            # Files with the names of modules that the driver uses do it no harm.
            self.assertIn("1 / 0", self.raises("1 / 0", "ZeroDivisionError")["traceback"])

    def test_the_drivers_own_folders_are_not_importable(self):
        self.raises("import harness", "ModuleNotFoundError")
        self.assertEqual(self.value("import sys\n[p for p in sys.path if 'guests' in p]"), [])

    def test_site_packages_are_importable(self):
        self.assertEqual(self.run_cell("import pip")["end"], self.expected_of_pip())

    def expected_of_pip(self):
        import importlib.util

        return "finished" if importlib.util.find_spec("pip") else "raised"

    def test_main_is_the_users(self):
        self.assertEqual(self.value("sorted(globals())"), ["__builtins__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"])


class Protocol(DriverTest):
    def error(self, line):
        self.session.send_line(line)
        message = self.session.read_message()
        return message["id"], message["error"]["code"]

    def test_malformed_lines_are_answered_and_survived(self):
        for line in (b"", b"{", b"[]", b"nonsense", b"{} {}", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000):
            self.assertEqual(self.error(line), (None, -32700), line[:20])
        for line in (b'{"method":3,"id":1}', b'{"method":"execute","id":1,"params":[]}', b'{"method":"execute"}', b'{"method":"execute","id":[]}'):
            self.assertEqual(self.error(line)[1], -32600, line)
        self.assertEqual(self.error(b'{"id":7,"method":"resume"}'), (7, -32601))
        self.assertEqual(self.error(b'{"id":"s","method":"execute","params":{"code":3}}'), ("s", -32602))
        self.assertEqual(self.error(b'{"id":8,"method":"initialize","params":{"surroundings":{"path":3}}}'), (8, -32602))
        self.session.send({"jsonrpc": "2.0", "id": 99, "result": "an answer nobody waits for"})
        self.session.send({"jsonrpc": "2.0", "id": [1], "error": "strange"})
        self.assertEqual(self.value("1 + 1"), 2)

    def test_a_line_over_the_cap(self):
        self.assertEqual(self.error(b" " * (65 * 1024 * 1024)), (None, -32700))
        self.assertEqual(self.value("1 + 1"), 2)

    def test_a_missing_workspace_is_said(self):
        id = self.session.begin("initialize", surroundings={"workspace": "/no/such/place"})
        error = {"code": -32602, "message": "surroundings: [Errno 2] No such file or directory: '/no/such/place'"}
        self.assertEqual(self.session.finish(id)["error"], error)
        self.assertEqual(self.value("1 + 1"), 2)

    def test_without_a_connection_it_says_so(self):
        done = subprocess.run(COMMAND, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, b"belljar: descriptor 3 is not open: the host's connection belongs there\n")

    def test_hanging_up_ends_it_at_once(self):
        self.session.close()
        self.assertEqual(self.session.process.wait(10), 0)

    def test_hanging_up_while_a_cell_awaits_ends_it(self):
        self.session.begin_cell("import asyncio\nprint('now')\nawait asyncio.sleep(60)")
        while b"now" not in self.session.out:
            self.session.drain_output(1)
        self.session.close()
        self.assertEqual(self.session.process.wait(10), 0)


if __name__ == "__main__":
    unittest.main()
