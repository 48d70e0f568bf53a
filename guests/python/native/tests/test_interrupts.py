"""SIGINT: ends the cell and nothing else."""

import time
import unittest

from harness import DriverTest


class Interrupts(DriverTest):
    def interrupt(self, code, after="now"):
        """Runs a cell that prints `after`, then interrupts it."""
        id = self.session.begin_cell(code)
        while after.encode() not in self.session.out:
            self.session.drain_output(10)
        time.sleep(0.05)
        self.session.interrupt()
        return self.session.finish(id, 10)["result"]

    def survives(self):
        self.assertEqual(self.value("import asyncio\nawait asyncio.sleep(0.001, 1)"), 1)
        self.assertEqual(self.value("asyncio.run(asyncio.sleep(0, 2))"), 2)

    def test_in_the_users_code(self):
        for code in ("print('now')\nwhile True: pass", "import time\nprint('now')\ntime.sleep(60)",
                     "import threading\nprint('now')\nthreading.Event().wait()",
                     "import subprocess\nprint('now')\nsubprocess.run(['sleep', '60'])",
                     "import os\nprint('now')\nos.read(os.pipe()[0], 1)"):
            with self.subTest(code):
                error = self.check_raised(self.interrupt(code), "KeyboardInterrupt")
                self.assertNotIn("belljar", error["traceback"])
                self.assertIn("<cell", error["traceback"])
                self.survives()

    def test_while_it_awaits(self):
        for code in ("import asyncio\nprint('now')\nawait asyncio.sleep(60)",
                     "import asyncio\nprint('now')\nawait asyncio.Event().wait()",
                     "import asyncio\nprint('now')\nasyncio.run(asyncio.sleep(60))",
                     "import asyncio\nasync def spin():\n  while True: await asyncio.sleep(0)\nprint('now')\nawait asyncio.gather(spin(), spin())",
                     "import asyncio\nasync def spin():\n  while True: await asyncio.sleep(0)\nprint('now')\nasyncio.run(spin())",
                     "import asyncio\np = await asyncio.create_subprocess_exec('sleep', '60')\nprint('now')\ntry: await p.wait()\nfinally: p.kill()"):
            with self.subTest(code):
                error = self.check_raised(self.interrupt(code), "KeyboardInterrupt")
                self.assertNotIn("belljar", error["traceback"])
                self.survives()
        self.value("import gc; gc.collect()")
        self.assertEqual(self.session.err, b"")

    def test_while_a_tool_works(self):
        self.offer(held=["slow"])
        for code in ("slow(1)", "await slow(1)", "import asyncio\nawait asyncio.gather(slow.aio(1), slow.aio(2))",
                     "async def f(): return await slow(1)\nasyncio.run(asyncio.wait_for(f(), 60))"):
            with self.subTest(code):
                self.session.log.clear()
                id = self.session.begin_cell(code)
                self.session.wait_for_calls(1)
                time.sleep(0.1)
                self.session.interrupt()
                self.check_raised(self.session.finish(id, 10)["result"], "KeyboardInterrupt")
                self.survives()
                calls = [m["id"] for m in self.session.log if m.get("method") == "tool.call"]
                drops = [m["params"]["id"] for m in self.session.log if m.get("method") == "tool.drop"]
                self.assertEqual(sorted(drops), sorted(calls))

    def test_while_a_batch_works(self):
        self.offer(held=["llm_query"])
        id = self.session.begin_cell("llm_query_batched(['a', 'b'])")
        self.session.wait_for_calls(2)
        self.session.interrupt()
        self.check_raised(self.session.finish(id, 10)["result"], "KeyboardInterrupt")
        self.survives()

    def test_while_it_asks(self):
        self.session.take = self.session.log.append
        id = self.session.begin_cell("input('?')")
        self.session.take(self.session.read_message())
        self.session.interrupt()
        self.check_raised(self.session.finish(id, 10)["result"], "KeyboardInterrupt")
        self.survives()

    def test_swallowed_once(self):
        code = "import time\ntry:\n  print('now')\n  time.sleep(60)\nexcept KeyboardInterrupt:\n  r = 'swallowed'\nr"
        self.assertEqual(self.interrupt(code)["value"]["json"], "swallowed")
        code = "import asyncio\ntry:\n  print('now')\n  await asyncio.sleep(60)\nexcept asyncio.CancelledError:\n  r = 'went on'\nr"
        self.assertEqual(self.interrupt(code)["value"]["json"], "went on")
        self.survives()

    def test_cleaning_up_may_await(self):
        code = "import asyncio\ntry:\n  print('now')\n  await asyncio.sleep(60)\nfinally:\n  await asyncio.sleep(0.01)\n  cleaned = True"
        self.check_raised(self.interrupt(code), "KeyboardInterrupt")
        self.assertEqual(self.value("cleaned"), True)

    def test_between_cells_it_is_ignored(self):
        for _ in range(20):
            self.session.interrupt()
            time.sleep(0.002)
        self.assertEqual(self.value("1 + 1"), 2)
        self.assertEqual(self.session.err, b"")

    def test_the_users_handler_is_for_the_cell_only(self):
        self.value("import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)")
        self.session.interrupt()
        self.check_raised(self.interrupt("print('now')\nwhile True: pass"), "KeyboardInterrupt")
        self.survives()

    def test_at_any_moment(self):
        """Many interrupts at odd times; every cell ends, and none leaves anything broken."""
        self.offer(echo=lambda x: x)
        self.value("import asyncio\nasync def spin():\n  while True: await echo(1)\nasync def both(): await asyncio.gather(spin(), spin())\n"
                   "def loop():\n  while True: echo(1)")
        for n in range(60):
            id = self.session.begin_cell(("await both()", "asyncio.run(both())", "loop()")[n % 3])
            end = time.monotonic() + 0.004 + n * 0.0003
            while time.monotonic() < end:
                if self.session.buffer or self.session.drain_output(0.0005):
                    self.session.take(self.session.read_message())
            self.session.interrupt()
            self.check_raised(self.session.finish(id, 10)["result"], "KeyboardInterrupt")
            self.assertEqual(self.value("echo(7) + await echo(1)"), 8)
        self.survives()


if __name__ == "__main__":
    unittest.main()
