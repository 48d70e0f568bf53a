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

    def test_a_session_that_has_waited_is_as_fresh_as_any(self):
        waiting = self.zygote.spawn()
        self.addCleanup(waiting.close)
        time.sleep(0.3)
        waiting.initialize()
        code = "import logging, time\nstart = logging._startTime\ntime.time() - (start / 1e9 if start > 1e12 else start) < 0.2"
        self.assertEqual(self.value(waiting, code), True)

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
        self.assertIn("3 descriptors", self.zygote.request("spawn")["error"]["message"])
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


# A library with the jail's functions that places descriptors and confines nothing.
LIBRARY = r"""
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
static char plan;
static int forks;
int belljar_open(int fd) { return pread(fd, &plan, 1, 0) == 1 ? 0 : -EINVAL; }
int belljar_before_fork(void) { return forks++ ? -EBUSY : 0; }
int belljar_after_fork(void) { forks = 0; return plan == 'y' ? -EPERM : 0; }
const char *belljar_failure(void) { return "lock the door"; }
int belljar_enter(const int *given) {
    if (plan == 'x') return -EPERM;
    int high[5] = {0, given[2], given[3], given[0], given[1]}, status = fcntl(given[5], F_DUPFD, 300), ended;
    for (int n = 1; n < 5; n++) high[n] = fcntl(high[n], F_DUPFD, 100);
    pid_t pid = fork();
    if (pid == 0) {
        for (int n = 1; n < 5; n++) dup2(high[n], n);
        for (int fd = 5; fd < 1024; fd++) close(fd);
        return 0;
    }
    for (int fd = 0; fd < 300; fd++) close(fd);
    waitpid(pid, &ended, 0);
    write(status, &ended, 4);
    _exit(WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended));
}
"""


@unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
class Jailed(unittest.TestCase):
    def zygote(self, plan):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{folder}/jail.so"], input=LIBRARY.encode(), check=True)
        with open(f"{folder}/plan", "w") as file:
            file.write(plan)
        fds = [os.open(f"{folder}/{name}", os.O_RDONLY) for name in ("jail.so", "plan")]
        zygote = Zygote("--jailed", fds)
        for fd in fds:
            os.close(fd)
        self.addCleanup(zygote.close)
        return zygote

    def spawn(self, zygote):
        """A session, and the pipe on which its end will be told."""
        status, status_end = os.pipe()
        workspace = os.open("/", os.O_PATH)
        session = zygote.spawn((status_end, workspace))
        os.close(status_end)
        os.close(workspace)
        self.addCleanup(os.close, status)
        self.addCleanup(session.close)
        return session, status

    def test_the_library_is_called_and_sessions_work(self):
        zygote = self.zygote("p")
        for _ in range(3):
            session, status = self.spawn(zygote)
            session.initialize()
            answer = session.run("import os\n[os.getppid(), os.listdir('/proc/self/fd')]")
            parent, fds = answer["value"]["json"]
            self.assertEqual(parent, session.pid)
            # Standard streams, the protocol twice, the directory.
            self.assertEqual(len(fds), 6)
            session.begin_cell("os._exit(3)")
            self.assertEqual(zygote.wait_for_exit(session.pid), {"code": 3})
            self.assertEqual(os.read(status, 9), (3 << 8).to_bytes(4, "little"))

    def test_a_session_that_cannot_be_confined_runs_nothing(self):
        zygote = self.zygote("x")
        session, status = self.spawn(zygote)
        with self.assertRaises(Gone):
            session.initialize()
        self.assertEqual(zygote.wait_for_exit(session.pid), {"code": 125})
        self.assertEqual(os.read(status, 9), b"")
        session.drain_output(1)
        self.assertEqual(session.err, b"belljar: this session could not be confined: [Errno 1] cannot lock the door: Operation not permitted\n")

    def test_a_zygote_whose_jail_fails_forks_no_more(self):
        zygote = self.zygote("y")
        fds = [os.open(os.devnull, os.O_RDWR) for _ in range(5)]
        answer = zygote.request("spawn", fds)
        for fd in fds:
            os.close(fd)
        self.assertEqual(answer["error"]["message"], "[Errno 1] cannot lock the door: Operation not permitted")
        with self.assertRaises(Gone):
            zygote.read()

    def test_without_a_choice_it_refuses(self):
        for arguments in ([], ["--jail"], ["--unconfined", "--jailed"]):
            done = subprocess.run([*COMMAND, "--zygote", *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stderr[:6]), (1, b"usage:"), arguments)


if __name__ == "__main__":
    unittest.main()
