"""Sessions forked from a warm interpreter."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import COMMAND, Gone, Zygote


class Zygotes(unittest.TestCase):
    def setUp(self):
        self.zygote = Zygote()
        self.addCleanup(self.zygote.close)

    def children(self):
        pid = self.zygote.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return file.read().split()

    def spawn(self):
        session = self.zygote.spawn()
        self.addCleanup(lambda: session.is_open() and session.close())
        session.initialize()
        return session

    def value(self, session, code):
        answer = session.run(code)
        self.assertEqual(answer["end"], "finished", answer)
        return answer["value"]["json"]

    def test_one_after_another(self):
        for n in range(20):
            session = self.spawn()
            self.assertEqual(session.run(f"print({n})")["end"], "finished")
            self.assertEqual(session.out, f"{n}\n".encode())
            session.close()
            self.assertEqual(self.zygote.wait_for_exit(session.pid), {"code": 0})
        self.assertEqual(self.children(), [])

    def test_many_at_once(self):
        sessions = [self.spawn() for _ in range(20)]
        ids = [session.begin_cell("import asyncio, os\nawait asyncio.sleep(0.05)\nprint(os.getpid())\nos.getpid()") for session in sessions]
        for session, id in zip(sessions, ids):
            self.assertEqual(session.finish(id)["result"]["value"]["json"], session.pid)
            self.assertEqual(session.out, f"{session.pid}\n".encode())
        self.assertEqual(len(self.children()), 20)
        for session in sessions:
            session.close()
            self.assertEqual(self.zygote.wait_for_exit(session.pid), {"code": 0})
        self.assertEqual(self.children(), [])

    def test_nothing_is_shared(self):
        first, second = self.spawn(), self.spawn()
        for session in (first, second):
            # So that both have a loop.
            self.value(session, "import asyncio\nawait asyncio.sleep(0, 1)")
        self.value(first, "x = 1\nx")
        self.assertEqual(second.run("x")["error"]["name"], "NameError")
        code = "import random, tempfile, uuid\n[random.random(), next(tempfile._get_candidate_names()), str(uuid.uuid4()), str(uuid.uuid1())]"
        for one, other in zip(self.value(first, code), self.value(second, code)):
            self.assertNotEqual(one, other)
        code = "import os\nsorted(os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}'))"
        mine, theirs = self.value(first, code), self.value(second, code)
        self.assertEqual(set(mine) & set(theirs) - {"anon_inode:[eventpoll]"}, {"/dev/null"})
        self.assertEqual(len(mine), len(theirs))

    def test_a_session_is_like_any_other(self):
        session = self.spawn()
        session.tools["add"] = lambda a, b: a + b
        session.initialize(tools=["add"])
        self.assertEqual(self.value(session, "add(1, 2) + await add(3, 4)"), 10)
        self.assertEqual(self.value(session, "import threading\nthreading.current_thread() is threading.main_thread()"), True)
        self.assertEqual(self.value(session, "import subprocess\nsubprocess.run(['echo', 'x'], stdout=-1).stdout.decode()"), "x\n")
        self.assertEqual(self.value(session, "sorted(n for n in globals() if n[:1] != '_')"), ["add", "chunk_text", "search_context", "subprocess", "threading"])
        error = session.run("1 / 0")["error"]
        self.assertEqual(error["traceback"].splitlines()[1], '  File "<cell 5>", line 1, in <module>')

    def test_interrupt_and_kill(self):
        session = self.spawn()
        id = session.begin_cell("print('now')\nwhile True: pass")
        while b"now" not in session.out:
            session.drain_output(5)
        self.assertEqual(self.zygote.request("interrupt", pid=session.pid)["result"], {})
        self.assertEqual(session.finish(id)["result"]["error"]["name"], "KeyboardInterrupt")
        self.assertEqual(self.value(session, "1 + 1"), 2)
        self.assertEqual(self.zygote.request("kill", pid=session.pid)["result"], {})
        self.assertEqual(self.zygote.wait_for_exit(session.pid), {"signal": 9})
        self.assertIn("error", self.zygote.request("kill", pid=session.pid))

    def test_how_a_session_ended(self):
        session = self.spawn()
        session.begin_cell("import os; os._exit(7)")
        self.assertEqual(self.zygote.wait_for_exit(session.pid), {"code": 7})

    def test_nonsense_is_refused_and_survived(self):
        self.assertIn("three descriptors", self.zygote.request("spawn")["error"]["message"])
        for method, params in (("nonsense", {}), ("kill", {}), ("kill", {"pid": 1}), ("interrupt", {"pid": "x"}), ("kill", {"pid": os.getpid()})):
            self.assertIn("error", self.zygote.request(method, **params))
        for line in (b"nonsense\n", b"[]\n", b'{"method":"kill","params":[]}\n', b"\n"):
            self.zygote.control.sendall(line)
            self.assertIn("error", self.zygote.read())
        self.assertEqual(self.value(self.spawn(), "1 + 1"), 2)

    def test_sigint_does_not_end_it(self):
        self.zygote.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        self.assertEqual(self.value(self.spawn(), "1 + 1"), 2)

    def test_when_the_host_hangs_up_sessions_end(self):
        session = self.spawn()
        session.begin_cell("while True: pass")
        self.zygote.close()
        with self.assertRaises(Gone):
            session.read_message(10)


# A library with the jail's functions that only tells what it was called for.
LIBRARY = r"""
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int belljar_prepare(void) { return setenv("PREPARED", "1", 1); }
int belljar_restore(void) { return unsetenv("PREPARED"); }
int belljar_confine(int plan) {
    char byte = 0;
    if (pread(plan, &byte, 1, 0) != 1 || byte == 'x') { errno = EPERM; return -1; }
    pid_t pid = fork();
    if (pid <= 0) return pid;
    int status;
    for (int fd = 0; fd < 1024; fd++) close(fd);
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}
"""


@unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
class Jailed(unittest.TestCase):
    def zygote(self, plan):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run(["cc", "-w", "-include", "stdlib.h", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{folder}/jail.so"],
                       input=LIBRARY.encode(), check=True)
        with open(f"{folder}/plan", "w") as file:
            file.write(plan)
        fd = os.open(f"{folder}/plan", os.O_RDONLY)
        self.addCleanup(os.close, fd)
        zygote = Zygote(["--jail", f"{folder}/jail.so", "--plan", str(fd)], pass_fds=[fd])
        self.addCleanup(zygote.close)
        return zygote

    def test_the_library_is_called_and_sessions_work(self):
        zygote = self.zygote("p")
        for _ in range(3):
            session = zygote.spawn()
            self.addCleanup(session.close)
            session.initialize()
            answer = session.run("import os\n[os.getppid(), os.listdir('/proc/self/fd')]")
            parent, fds = answer["value"]["json"]
            self.assertEqual(parent, session.pid)
            # Standard streams, the protocol twice, the directory.
            self.assertEqual(len(fds), 6)
            session.begin_cell("os._exit(3)")
            self.assertEqual(zygote.wait_for_exit(session.pid), {"code": 3})

    def test_a_session_that_cannot_be_confined_runs_nothing(self):
        zygote = self.zygote("x")
        session = zygote.spawn()
        self.addCleanup(session.close)
        with self.assertRaises(Gone):
            session.initialize()
        self.assertEqual(zygote.wait_for_exit(session.pid), {"code": 125})
        session.drain_output(1)
        self.assertEqual(session.err, b"belljar: this session could not be confined: [Errno 1] belljar_confine: Operation not permitted\n")

    def test_without_a_choice_it_refuses(self):
        for arguments in ([], ["--jail", "x"], ["--jail", "x", "--plan", "y"], ["--unconfined", "--jail"]):
            done = subprocess.run([*COMMAND, "--zygote", *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stderr[:6]), (1, b"usage:"), arguments)


if __name__ == "__main__":
    unittest.main()
