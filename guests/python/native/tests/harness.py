"""The host's side of the protocol, for tests: a real process, a real socket, no pretence."""

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

MAIN = Path(__file__).resolve().parent.parent / "main.py"
COMMAND = [sys.executable, "-I", "-B", "-X", "utf8", str(MAIN)]
# Longer than anything here takes, on a slow machine.
PATIENCE = 30


class Gone(Exception):
    """The process has hung up."""


class Session:
    """Talks to one driver. `tools` are functions by name; a tool in `held` is answered by the test itself."""

    def __init__(self, sock, out, err, pid):
        self.sock, self.out_fd, self.err_fd, self.pid = sock, out, err, pid
        self.out, self.err, self.buffer = b"", b"", b""
        self.tools, self.held, self.log = {}, set(), []
        self.answer_input = None
        self.last_id = self.cells = 0

    # ---- raw ----

    def send(self, message):
        self.send_line(json.dumps(message).encode())

    def send_line(self, line):
        data = memoryview(line + b"\n")
        end = time.monotonic() + PATIENCE
        while data:
            self.drain_output(0)
            _, writable, _ = select.select([], [self.sock], [], 0.05)
            if writable:
                try:
                    data = data[self.sock.send(data, socket.MSG_DONTWAIT) :]
                except BrokenPipeError:
                    raise Gone(self.err) from None
            assert time.monotonic() < end, "the driver does not read"

    def drain_output(self, seconds):
        """Reads what there is of stdout and stderr; whether the socket has something."""
        fds = [fd for fd in (self.sock, self.out_fd, self.err_fd) if fd is not None]
        ready, _, _ = select.select(fds, [], [], seconds)
        for name in ("out", "err"):
            fd = getattr(self, name + "_fd")
            if fd in ready:
                data = os.read(fd, 1 << 16)
                setattr(self, name, getattr(self, name) + data)
                if not data:
                    os.close(fd)
                    setattr(self, name + "_fd", None)
        return self.sock in ready

    def read_message(self, patience=PATIENCE):
        end = time.monotonic() + patience
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left < 0:
                raise TimeoutError(f"no answer; stdout {self.out!r}, stderr {self.err!r}")
            if self.drain_output(left):
                try:
                    data = self.sock.recv(1 << 20)
                except ConnectionResetError:
                    data = b""
                if not data:
                    raise Gone(self.err)
                self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    # ---- requests ----

    def begin(self, method, **params):
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        return self.last_id

    def finish(self, id, patience=PATIENCE):
        while True:
            message = self.read_message(patience)
            if message.get("id") == id and "method" not in message:
                for _ in range(20):
                    before = len(self.out) + len(self.err)
                    self.drain_output(0)
                    if len(self.out) + len(self.err) == before:
                        break
                return message
            self.take(message)

    def take(self, message):
        self.log.append(message)
        params = message.get("params", {})
        if message.get("method") == "tool.call" and params["name"] not in self.held:
            try:
                value = self.tools[params["name"]](*params["args"], **params["kwargs"])
                self.reply(message["id"], value)
            except Exception as error:
                name = "ToolLimitError" if isinstance(error, LookupError) else "ToolError"
                self.refuse(message["id"], name, str(error))
        elif message.get("method") == "input":
            if self.answer_input is None:
                self.refuse(message["id"], "InputRefused", "nobody here")
            else:
                self.reply(message["id"], self.answer_input(params["prompt"]))

    def reply(self, id, value):
        self.send({"jsonrpc": "2.0", "id": id, "result": value})

    def refuse(self, id, name, message):
        self.send({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": message, "data": {"name": name}}})

    def wait_for_calls(self, count):
        """Reads until so many calls have been made."""
        while sum(message.get("method") == "tool.call" for message in self.log) < count:
            self.take(self.read_message())
        return [message for message in self.log if message.get("method") == "tool.call"]

    def request(self, method, **params):
        message = self.finish(self.begin(method, **params))
        assert "result" in message, message
        return message["result"]

    def initialize(self, workspace="/tmp", tools=(), **more):
        surroundings = {"workspace": workspace, "env": {}, "path": [], "argv": [""], "tools": list(tools)}
        surroundings.update(more)
        return self.request("initialize", surroundings=surroundings)

    def begin_cell(self, code, **more):
        self.cells += 1
        self.out = self.err = b""
        return self.begin("execute", code=code, filename=f"<cell {self.cells}>", value=True, **more)

    def run(self, code, **more):
        return self.finish(self.begin_cell(code, **more))["result"]

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def is_open(self):
        return self.sock.fileno() >= 0

    def close(self):
        self.sock.close()
        for fd in (self.out_fd, self.err_fd):
            if fd is not None:
                os.close(fd)
        self.out_fd = self.err_fd = None


def place(*fds):
    """For a child process: these become 3 and up, whatever their numbers are now."""

    def place():
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in fds]
        for number, fd in enumerate(high, 3):
            os.dup2(fd, number)
            os.close(fd)

    return {"preexec_fn": place, "pass_fds": tuple(range(3, 3 + len(fds)))}


def start(command=COMMAND, **options):
    """A session in a process of its own."""
    ours, theirs = socket.socketpair()
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out_end, stderr=err_end,
                               **place(theirs.fileno(), theirs.fileno()), **options)
    theirs.close()
    os.close(out_end)
    os.close(err_end)
    session = Session(ours, out, err, process.pid)
    session.process = process
    return session


class DriverTest(unittest.TestCase):
    """Each test has a process of its own."""

    def setUp(self):
        self.session = start()
        self.addCleanup(self.stop)
        self.session.initialize()

    def stop(self):
        self.session.close()
        try:
            self.session.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.session.process.kill()
            self.session.process.wait()
            self.fail("the driver did not end when its host hung up")

    def offer(self, held=(), **functions):
        self.session.tools.update(functions)
        self.session.held.update(held)
        self.session.initialize(tools=[*functions, *held])

    def run_cell(self, code, **more):
        return self.session.run(code, **more)

    def value(self, code):
        answer = self.run_cell(code)
        self.assertEqual(answer["end"], "finished", (answer, self.session.err))
        return answer["value"] and answer["value"]["json"]

    def raises(self, code, name, message=None):
        return self.check_raised(self.run_cell(code), name, message)

    def check_raised(self, answer, name, message=None):
        self.assertEqual((answer["end"], answer["error"] and answer["error"]["name"]), ("raised", name), answer)
        if message is not None:
            self.assertEqual(answer["error"]["message"], message)
        return answer["error"]

    def printed(self, code, **more):
        answer = self.run_cell(code, **more)
        self.assertEqual(answer["end"], "finished", answer)
        return self.session.out.decode()


class Zygote:
    """A warm interpreter and the sessions it forks."""

    def __init__(self, confinement="--unconfined", more_fds=()):
        self.control, theirs = socket.socketpair()
        self.process = subprocess.Popen([*COMMAND, "--zygote", confinement], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        **place(theirs.fileno(), theirs.fileno(), *more_fds))
        theirs.close()
        self.buffer, self.last_id, self.exits, self.notes = b"", 0, {}, []
        self.version = self.read()["params"]["version"]

    def read(self, patience=PATIENCE):
        self.control.settimeout(patience)
        while b"\n" not in self.buffer:
            data = self.control.recv(1 << 16)
            if not data:
                raise Gone
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def request(self, method, fds=(), **params):
        self.last_id += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}).encode() + b"\n"
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds))]
        self.control.sendmsg([line], rights if fds else [])
        while True:
            message = self.read()
            if message.get("id") == self.last_id:
                return message
            self.note(message)

    def note(self, message):
        assert message["method"] == "exited", message
        how = message["params"]
        self.exits[how.pop("pid")] = how

    def spawn(self, more_fds=()):
        ours, theirs = socket.socketpair()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        answer = self.request("spawn", (theirs.fileno(), out_end, err_end, *more_fds))
        theirs.close()
        os.close(out_end)
        os.close(err_end)
        return Session(ours, out, err, answer["result"]["pid"])

    def wait_for_exit(self, pid):
        while pid not in self.exits:
            self.note(self.read())
        return self.exits[pid]

    def close(self):
        self.control.close()
        self.process.wait(PATIENCE)
