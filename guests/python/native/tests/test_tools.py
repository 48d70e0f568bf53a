"""Tools of the host: waited for, awaited, many at once, from threads and from forks."""

import sys
import time
import unittest

from harness import DriverTest


AWAITED_BY_ASYNCIO = (
    "await asyncio.gather(slow(0), slow(1))",
    "await asyncio.gather(*(slow(n) for n in numbers))",
    "await asyncio.gather(*[slow(n) for n in numbers])",
    "await asyncio.gather(*map(slow, numbers))",
    "calls = [slow(n) for n in numbers]\nawait asyncio.gather(*calls)",
    "calls = []\nfor n in numbers:\n  calls.append(belljar.tools.slow(n))\nawait asyncio.gather(*calls)",
    "calls = list(map(slow, numbers))\nawait asyncio.gather(*calls)",
    "[await asyncio.wait_for(call, 60) for call in [asyncio.ensure_future(slow(n)) for n in numbers]]",
    "done, _ = await asyncio.wait([slow(0), slow(1)])\nsorted(call.result() for call in done)",
    "calls = [asyncio.create_task(slow(n)) for n in numbers]\n[await call for call in calls]",
    "sorted([await call for call in asyncio.as_completed([slow(0), slow(1)])])",
    "async def f(): return await asyncio.gather(slow(0), slow(1))\nasyncio.run(f())",
)


def drops(session):
    return [message["params"]["id"] for message in session.log if message.get("method") == "tool.drop"]


class Tools(DriverTest):
    def test_without_tools_no_names(self):
        self.raises("llm_query('x')", "NameError")
        self.raises("import belljar; belljar.tools.x", "AttributeError", "the host offers no tool 'x'; it offers: none")

    def test_blocking_and_awaited(self):
        self.offer(add=lambda a, b=0: a + b)
        self.assertEqual(self.value("add(1, 2)"), 3)
        for call in ("add(1, 2)", "add(1, b=2)", "add(*(1, 2))", "add(*[1], **{'b': 2})", "(add(1, 2))", "belljar.tools.add(1, 2)", "add.aio(1, 2)"):
            self.assertEqual(self.value(f"import belljar\nawait {call}"), 3, call)
        code = "async def f():\n  return await add(5)\n[await f(), [await add(n) for n in range(3)], add(1)]"
        self.assertEqual(self.value(code), [5, [0, 1, 2], 1])
        code = "n = 0\nfor i in range(500): n = await add(n, b=1)\nfor i in range(500): n = add(n, 1)\nn"
        self.assertEqual(self.value(code), 1000)

    @unittest.skipIf(sys.version_info < (3, 11), "instructions have no places yet")
    def test_what_asyncio_awaits_is_begun(self):
        self.offer(held=["slow"])
        self.value("import asyncio\nimport belljar\nnumbers = (0, 1)")
        for code in AWAITED_BY_ASYNCIO:
            id = self.session.begin_cell(code)
            # Only calls that have begun can be open at the same time.
            for call in self.session.wait_for_calls(2)[-2:]:
                self.session.reply(call["id"], call["params"]["args"][0] * 10)
            self.assertEqual(self.session.finish(id)["result"]["value"]["json"], [0, 10], code)
            self.session.log.clear()

    def test_calls_elsewhere_block(self):
        self.offer(add=lambda a: a + 1)
        code = "import asyncio\nasync def later(n): return n\nawait asyncio.gather(later(add(1)), *[later(add(n)) for n in (1, 2)])"
        self.assertEqual(self.value(code), [2, 2, 3])
        self.assertEqual(self.value("def gather(*values): return list(values)\n[add(1), *map(add, (2,))]"), [2, 3])

    def test_many_arguments(self):
        self.offer(count=lambda *args: len(args))
        many = ", ".join(["1"] * 200)
        self.assertEqual(self.value(f"await count({many})"), 200)
        self.assertEqual(self.value("".join(f"v{i} = {i}.5\n" for i in range(600)) + "await count(v599)"), 1)

    def test_answers_out_of_order(self):
        self.offer(held=["slow"])
        id = self.session.begin_cell("import asyncio\nawait asyncio.gather(*(slow.aio(i) for i in range(5)))")
        calls = self.session.wait_for_calls(5)
        for call in reversed(calls):
            self.session.reply(call["id"], call["params"]["args"][0] * 10)
        self.assertEqual(self.session.finish(id)["result"]["value"]["json"], [0, 10, 20, 30, 40])

    def test_timers_run_beside_calls(self):
        self.offer(held=["slow"])
        id = self.session.begin_cell("import asyncio\nticks = 0\nasync def tick():\n  global ticks\n  while True:\n    await asyncio.sleep(0.01)\n    ticks += 1\n"
                                     "t = asyncio.create_task(tick())\nr = await slow(1)\nt.cancel()\n[r, ticks > 3]")
        call, = self.session.wait_for_calls(1)
        time.sleep(0.2)
        self.session.reply(call["id"], "done")
        self.assertEqual(self.session.finish(id)["result"]["value"]["json"], ["done", True])

    def test_cancelled_and_late_calls_are_dropped(self):
        self.offer(held=["slow"])
        code = "import asyncio\ntry:\n  await asyncio.wait_for(slow.aio(1), 0.05)\nexcept asyncio.TimeoutError:\n  r = 'late'\nr"
        self.assertEqual(self.value(code), "late")
        self.assertEqual(self.value("f = slow.aio(1)\nf.cancel()\ntry: await f\nexcept asyncio.CancelledError: r = 'cancelled'\nr"), "cancelled")
        self.value("async def forget(): slow.aio(9)\nasyncio.run(forget())")
        self.assertEqual(self.value("1"), 1)
        ids = [call["id"] for call in self.session.wait_for_calls(3)]
        self.assertEqual(drops(self.session), ids)
        for id in ids:
            self.session.reply(id, "too late")
        self.assertEqual(self.value("2"), 2)

    def test_in_a_loop_of_the_users(self):
        self.offer(echo=lambda x: x)
        code = "import asyncio\nasync def f(): return await asyncio.gather(echo.aio(1), echo.aio(2))\nasyncio.run(f())"
        self.assertEqual(self.value(code), [1, 2])
        self.assertEqual(self.value("asyncio.get_event_loop().run_until_complete(f())"), [1, 2])
        self.assertEqual(self.value("asyncio.run(asyncio.wait_for(f(), 5))"), [1, 2])
        self.value("g = echo.aio(4)")
        self.assertEqual(self.value("await g"), 4)
        self.value("g = echo.aio(5)\necho(6)")
        self.assertEqual(self.value("await g"), 5)

    def test_background_tasks_live_on(self):
        self.offer(echo=lambda x: x)
        self.value("import asyncio\nseen = []\nasync def work():\n  for i in range(3):\n    seen.append(await echo(i))\n"
                   "    await asyncio.sleep(0.001)\nt = asyncio.create_task(work())\nawait asyncio.sleep(0)")
        self.assertEqual(self.value("await t\nseen"), [0, 1, 2])

    def test_errors(self):
        def fail():
            raise RuntimeError("broken")

        def limit():
            raise LookupError("too many")

        self.offer(fail=fail, limit=limit)
        error = self.raises("fail()", "ToolError", "broken")
        self.assertEqual(error["traceback"].splitlines()[-1], "belljar.ToolError: broken")
        self.assertNotIn("belljar_", error["traceback"])
        self.assertNotIn("belljar_", self.raises("await fail()", "ToolError", "broken")["traceback"])
        self.raises("limit()", "ToolLimitError", "too many")
        self.assertEqual(self.value("from belljar import ToolError\ntry:\n  await limit()\nexcept ToolError as e:\n  s = str(e)\ns"), "too many")
        self.session.held.add("fail")
        for answer in ({"error": 3}, {"error": {}}, {"error": {"message": 1, "data": []}}):
            id = self.session.begin_cell("fail()")
            call = self.session.read_message()
            self.session.send({"jsonrpc": "2.0", "id": call["id"], **answer})
            self.check_raised(self.session.finish(id)["result"], "ToolError", "the host gave no reason")

    def test_arguments(self):
        self.offer(echo=lambda *a, **k: [a, k])
        self.assertEqual(self.value("echo(1, [2.5, None, True], key={'a': 'ü'})"), [[1, [2.5, None, True]], {"key": {"a": "ü"}}])
        self.raises("echo(1, {2})", "TypeError", "argument 2 of echo() cannot be sent as JSON: set is no JSON type")
        self.raises("await echo(b'')", "TypeError", "argument 1 of echo() cannot be sent as JSON: bytes is no JSON type")
        self.raises("echo('x' * (65 * 2**20))", "ValueError")
        self.raises("await echo('x' * (65 * 2**20))", "ValueError")
        self.assertEqual(self.value("echo('x' * 3_000_000)[0][0] == 'x' * 3_000_000"), True)

    def test_batches(self):
        self.offer(llm_query=str.upper, rlm_query=lambda task, ctx: [task, ctx])
        self.assertEqual(self.value("llm_query_batched(['a', 'b'])"), ["A", "B"])
        self.assertEqual(self.value("await llm_query_batched(['a', 'b'])"), ["A", "B"])
        self.assertEqual(self.value("context = 'C'\nrlm_query_batched(['v'])"), [["v", "C"]])

    def test_offering_again(self):
        self.offer(a=lambda: 1, b=lambda: 2)
        self.value("b = 'mine'")
        self.session.initialize(tools=["b", "c"])
        self.assertEqual(self.value("[b, 'a' in globals(), 'c' in globals()]"), ["mine", False, True])

    def test_documentation(self):
        docs = {"price": {"doc": "In cents.", "signature": "(article: str, n: int = 1) -> int"}}
        self.session.initialize(tools=["price", "plain"], tool_docs=docs)
        code = "import inspect\n[price.__doc__, price.__name__, str(inspect.signature(price)), str(inspect.signature(plain))]"
        self.assertEqual(self.value(code), ["In cents.", "price", docs["price"]["signature"], "(*args, **kwargs)"])
        self.value("help(price)")
        self.assertIn(b"price(article: str, n: int = 1) -> int\n    In cents.\n", self.session.out)
        # Another time: other words, or none.
        self.session.initialize(tools=["price"], tool_docs={"price": {"doc": "In dollars.", "signature": "(x): boom()"}})
        self.assertEqual(self.value("[price.__doc__, str(inspect.signature(price))]"), ["price(x): boom()\n\nIn dollars.", "(*args, **kwargs)"])
        self.session.initialize(tools=["price"])
        self.assertIn("A function of the host", self.value("price.__doc__"))


class Threads(DriverTest):
    def test_tools_in_threads(self):
        self.offer(echo=lambda x: x)
        code = "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool: r = list(pool.map(echo, range(200)))\nr == list(range(200))"
        self.assertEqual(self.value(code), True)
        code = "import asyncio\nloop = asyncio.get_event_loop()\nr = await asyncio.gather(*(loop.run_in_executor(None, echo, i) if i % 2 else echo.aio(i) for i in range(50)))\nr"
        self.assertEqual(self.value(code), list(range(50)))
        code = ("def work(n):\n  async def many(): return sum(await asyncio.gather(*(echo.aio(i) for i in range(n))))\n  return asyncio.run(many())\n"
                "with ThreadPoolExecutor(4) as pool: r = list(pool.map(work, [10] * 8))\nr")
        self.assertEqual(self.value(code), [45] * 8)

    def test_answers_out_of_order_between_threads(self):
        self.offer(held=["slow"])
        id = self.session.begin_cell("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool: r = list(pool.map(slow, range(4)))\nr")
        for call in reversed(self.session.wait_for_calls(4)):
            time.sleep(0.02)
            self.session.reply(call["id"], call["params"]["args"][0])
        self.assertEqual(self.session.finish(id)["result"]["value"]["json"], [0, 1, 2, 3])

    def test_a_thread_that_calls_between_cells(self):
        self.offer(held=["slow"])
        self.value("import threading\nr = []\nt = threading.Thread(target=lambda: r.append(slow(1)))\nt.start()")
        call, = self.session.wait_for_calls(1)
        self.assertEqual(self.value("1 + 1"), 2)
        self.session.reply(call["id"], "late")
        self.assertEqual(self.value("t.join()\nr"), ["late"])

    def test_awaiting_in_a_thread_without_a_loop_is_refused(self):
        self.offer(echo=lambda x: x)
        code = "import threading\ndef f():\n  try: echo.aio(1)\n  except RuntimeError as e: r.append(str(e))\nr = []\nt = threading.Thread(target=f); t.start(); t.join()\nr[0][:44]"
        self.assertEqual(self.value(code), "a thread without a running event loop cannot")


class Forks(DriverTest):
    def test_tools_in_a_fork_are_refused_and_harm_nothing(self):
        self.offer(echo=lambda x: x)
        code = ("import os, sys\npid = os.fork()\nif pid == 0:\n  try: echo(1)\n  except RuntimeError as e: print(str(e)[:34], flush=True)\n  os._exit(0)\n"
                "os.waitpid(pid, 0)\necho(2)")
        self.assertEqual(self.run_cell(code)["value"]["json"], 2)
        self.assertEqual(self.session.out, b"a forked process cannot use the ho\n")
        code = ("import multiprocessing\nc = multiprocessing.get_context('fork')\ndef work(n):\n  try: return echo(n)\n  except RuntimeError: return 'refused'\n"
                "with c.Pool(2) as pool: r = pool.map(work, [1, 2, 3])\n[r, echo(4)]")
        self.assertEqual(self.value(code), [["refused"] * 3, 4])


if __name__ == "__main__":
    unittest.main()
