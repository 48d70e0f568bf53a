"""User code that breaks what it can: the driver goes on, or the process ends, and nothing else happens."""

import subprocess
import unittest

from harness import DriverTest, Gone


class Survived(DriverTest):
    def works(self):
        self.assertEqual(self.value("class C: pass\n[1, 'two']"), [1, "two"])
        self.raises("def f(): nope\nf()", "NameError", "name 'nope' is not defined")
        self.assertEqual(self.printed("print('out')"), "out\n")

    def test_broken_builtins_and_modules(self):
        for line in ("print = 3", "builtins.len = None", "builtins.print = None", "del builtins.__build_class__",
                     "builtins.isinstance = lambda *a: True", "builtins.__import__ = None", "builtins.str = builtins.type = int",
                     "vars(builtins).clear()", "__builtins__ = None", "sys.setrecursionlimit(60)",
                     "sys.settrace(lambda *a: 1 / 0)", "sys.setprofile(lambda *a: 1 / 0)", "globals().clear()",
                     "import json; json.dumps = json.loads = None; json.encoder.c_make_encoder = json.decoder.scanner = None",
                     "import linecache; linecache.cache = None", "import select; select.poll = None", "sys.modules.clear()",
                     "import threading; threading.Lock = threading.RLock = threading.main_thread = None",
                     "import os; os.read = os.write = os.getpid = os._exit = None", "sys.path[:] = []"):
            with self.subTest(line):
                self.assertIn(self.run_cell("import builtins, sys\n" + line)["end"], ("finished", "raised"))
                self.run_cell("del print")
                self.assertEqual(self.value("class C: pass\n[1, 'two']"), [1, "two"])
                self.stop()
                self.setUp()

    def test_broken_streams(self):
        for line in ("sys.stdout.close()", "sys.stdout = None", "del sys.stdout", "sys.stderr = sys.stdout = 3", "sys.stdout.detach()",
                     "sys.stdout = open('/dev/full', 'w')", "import io; sys.stdout = io.StringIO()"):
            with self.subTest(line):
                self.run_cell("import sys\n" + line)
                self.run_cell("sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__")
                self.works()

    def test_deep_recursion(self):
        error = self.raises("def f(n): return f(n + 1)\nf(0)", "RecursionError")
        self.assertIn("frames left out]", error["traceback"])
        self.run_cell("a = []\nfor _ in range(100_000): a = [a]\na")
        self.works()

    def test_signals_that_raise_anywhere(self):
        self.value("import signal\ndef ring(*a): raise TimeoutError('rang')\nsignal.signal(signal.SIGALRM, ring)")
        self.raises("signal.setitimer(signal.ITIMER_REAL, 0.05)\nwhile True: pass", "TimeoutError", "rang")
        self.value("signal.setitimer(signal.ITIMER_REAL, 0.05)\nNone")
        import time

        time.sleep(0.15)
        self.works()

    def test_a_tool_call_can_be_timed_out_by_an_alarm(self):
        self.offer(held=["slow"], echo=lambda x: x)
        self.raises("import signal\ndef ring(*a): raise TimeoutError('rang')\nsignal.signal(signal.SIGALRM, ring)\n"
                    "signal.setitimer(signal.ITIMER_REAL, 0.05)\nslow(1)", "TimeoutError", "rang")
        self.assertEqual(self.value("echo(3)"), 3)

    def test_fork_that_returns_into_the_cell(self):
        code = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('child' if pid == 0 else 'parent', flush=True)"
        self.assertEqual(self.printed(code), "child\nparent\n")
        self.works()

    def test_fork_that_fails_or_exits_in_the_cell(self):
        code = "import os, sys\npid = os.fork()\nif pid == 0: sys.exit(7)\nos.waitpid(pid, 0)[1] >> 8"
        self.assertEqual(self.value(code), 7)
        self.assertEqual(self.value("pid = os.fork()\nif pid == 0: 1 / 0\nos.waitpid(pid, 0)[1] >> 8"), 1)
        self.assertIn(b"ZeroDivisionError", self.session.err)
        self.works()

    def test_double_fork(self):
        code = "import os, time\nif os.fork() == 0:\n  if os.fork() == 0:\n    os.setsid(); time.sleep(0.2)\n  os._exit(0)\nos.wait()[1]"
        self.assertEqual(self.value(code), 0)
        self.works()

    def test_fork_without_telling_python(self):
        code = ("import ctypes, os\nlibc = ctypes.PyDLL(None)\npid = libc.fork()\nif pid == 0: raise SystemExit(5)\nos.waitpid(pid, 0)[1] >> 8")
        self.assertEqual(self.value(code), 5)
        self.works()

    def test_children_get_none_of_our_descriptors(self):
        code = ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import os; print(sorted(map(int, os.listdir(\"/proc/self/fd\")))[:9])'],"
                " close_fds=False)\nNone")
        listed = self.printed(code)
        # The last is the directory itself.
        self.assertEqual(listed, "[0, 1, 2, 3]\n")

    def test_no_descriptors_left(self):
        code = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"
        self.value(code)
        self.assertEqual(self.value("1 + 1"), 2)

    def test_full_memory(self):
        self.value("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))")
        for code in ("x = bytearray(2 << 30)", "x = []\nwhile True: x.append(bytearray(1 << 20))", "x = []\nwhile True: x.append([None] * 100)"):
            self.assertEqual(self.run_cell(code)["end"], "out_of_memory")
            self.run_cell("x = None")
            self.assertEqual(self.value("1 + 1"), 2)

    def test_low_descriptors_closed(self):
        self.value("import os\nos.closerange(0, 100)")
        self.assertEqual(self.value("1 + 1"), 2)


class Ended(DriverTest):
    """The process is gone, or the connection is: the host sees the end, never a hang."""

    def ends(self, code):
        self.session.begin_cell(code)
        with self.assertRaises(Gone):
            self.session.read_message(10)
        return self.session.process.wait(10)

    def test_all_descriptors_closed(self):
        self.assertEqual(self.ends("import os\nos.closerange(0, 65536)"), 1)

    def test_all_descriptors_closed_while_it_awaits(self):
        self.session.begin_cell("import asyncio, os\nawait asyncio.sleep(0)\nos.closerange(0, 65536)\nawait asyncio.sleep(60)")
        with self.assertRaises(Gone):
            self.session.read_message(10)

    def test_exit_at_once(self):
        self.assertEqual(self.ends("import os\nprint('last words')\nos._exit(9)"), 9)
        self.assertEqual(self.session.out, b"last words\n")

    def test_exec(self):
        self.assertEqual(self.ends("import os\nos.execv('/bin/sh', ['sh', '-c', 'echo from the shell; exit 4'])"), 4)
        while self.session.out_fd is not None:
            self.session.drain_output(5)
        self.assertEqual(self.session.out, b"from the shell\n")

    def test_killed_by_its_own_signal(self):
        self.assertEqual(self.ends("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"), -9)
        self.assertIsInstance(self.session.process, subprocess.Popen)


if __name__ == "__main__":
    unittest.main()
