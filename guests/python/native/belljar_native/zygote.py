"""An interpreter that has loaded everything and forks a session whenever the host asks for one.

The host talks to it on descriptors 3 and 4, one Unix stream socket: JSON-RPC 2.0, one message a
line.

    spawn {}           with descriptors attached: protocol socket, stdout, stderr, and for a jail
                       the pipe for its status and its workspace -> {pid}
    interrupt {pid}    SIGINT -> {}
    kill {pid}         SIGKILL -> {}
    ready {version}    notification, once, when sessions can be had
    exited {pid, code} or {pid, signal}    notification, for every session, always after its {pid}

A session that is confined says `ready` on its own protocol socket before it is asked anything.
When the host hangs up, every session is killed.
"""

# Without the enumerations around it: a fork pays for every page it touches.
import _signal as signal
import array
import gc
import os
import select
import socket
import sys
import time
from collections import deque
from json import dumps

from belljar_guest import sources
from belljar_guest.boot import COMMON
from belljar_guest.warm_up import CELLS

from . import channel, confinement, loop, serve

MAX_LINE_BYTES = 64 * 1024
# What a session says before it is asked.
READY = b'{"jsonrpc":"2.0","method":"ready","params":{}}\n'
# As many as the host may attach before it has its answers.
MAX_WAITING_FDS = 200


def main(arguments):
    jail = confinement.chosen(arguments[1:])
    control = socket.socket(fileno=3)
    os.close(4)
    _preload()
    _warm_up()
    _check_single_thread()
    gc.collect()
    gc.freeze()
    Zygote(control, jail).run()
    # Only a child gets here, with nothing of the zygote on its stack but this.
    os.write(4, READY)
    serve.serve(3, 4, _renew)


def _preload():
    for name in COMMON:
        try:
            __import__(name)
        except Exception:
            pass  # older versions and slim installations lack some


def _warm_up():
    """The common path, so that its caches are filled and its pages are there."""
    import __main__

    before, streams = dict(__main__.__dict__), [os.dup(fd) for fd in (1, 2)]
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for code in CELLS * 2:
        serve._answer("execute", {"code": code, "filename": "<warm-up>", "value": True})
    serve._answer("define", {"variables": {"context": "text"}})
    loop.forget()
    sources.clear()
    for number, fd in enumerate(streams, 1):
        os.dup2(fd, number)
    _close_all([null, *streams])
    __main__.__dict__.clear()
    __main__.__dict__.update(before)


def _check_single_thread():
    try:
        threads = len(os.listdir("/proc/self/task"))
    except OSError:
        return  # no /proc here
    if threads != 1:
        sys.exit(f"belljar: preloading has started {threads - 1} threads; a zygote must have none")


class Zygote:
    def __init__(self, control, jail):
        self._control, self._jail = control, jail
        self._buffer, self._fds = bytearray(), deque()
        self._sessions = set()

    def run(self):
        """Returns in a child only, when it is a session."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        poll = select.poll()
        for fd in (self._control.fileno(), woken):
            poll.register(fd, select.POLLIN)
        self._notify("ready", {"version": sys.version.split()[0]})
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if woken in ready:
                os.read(woken, 4096)
                self._reap()
            if self._control.fileno() in ready:
                for line in self._receive():
                    if self._obey(line):
                        return

    # ---- orders ----

    def _obey(self, line):
        """Whether this is a child that was just forked."""
        id = None
        try:
            message = channel.parse(line)
            id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
            if method == "spawn":
                return self._spawn(id)
            if method not in ("interrupt", "kill"):
                raise ValueError(f"there is no method {method!r}; there are spawn, interrupt, kill")
            pid = params.get("pid")
            if type(pid) is not int or pid not in self._sessions:
                raise ValueError(f"there is no session {pid!r}")
            os.kill(pid, signal.SIGINT if method == "interrupt" else signal.SIGKILL)
            self._send({"id": id, "result": {}})
        except (ValueError, OSError, AttributeError) as error:
            self._send({"id": id, "error": {"code": channel.INVALID_REQUEST, "message": str(error)}})
            if isinstance(error, confinement.NotConfined):
                # Whatever it forks now might be confined less than it should be.
                self._end()
        return False

    def _spawn(self, id):
        wanted = self._jail.descriptors
        if len(self._fds) < wanted:
            raise ValueError(f"spawn needs {wanted} descriptors, not {len(self._fds)}")
        fds = [self._fds.popleft() for _ in range(wanted)]
        try:
            pid = self._jail.fork()
        except BaseException:
            _close_all(fds)
            raise
        if pid == 0:
            try:
                self._become_session(fds)
                return True
            except BaseException:
                # Never back into the zygote's loop.
                os._exit(confinement.NOT_CONFINED)
        _close_all(fds)
        self._sessions.add(pid)
        self._send({"id": id, "result": {"pid": pid}})
        return False

    def _become_session(self, fds):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # The number will be somebody else's.
        self._control.detach()
        self._jail.enter(*fds)

    def _reap(self):
        while self._sessions:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._sessions.discard(pid)
            how = "signal" if os.WIFSIGNALED(status) else "code"
            value = os.WTERMSIG(status) if how == "signal" else os.WEXITSTATUS(status)
            self._notify("exited", {"pid": pid, how: value})

    # ---- the host ----

    def _notify(self, method, params):
        self._send({"method": method, "params": params})

    def _send(self, message):
        try:
            self._control.sendall(dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        except OSError:
            self._end()

    def _receive(self):
        """The lines that are complete; descriptors that came with them are kept in order."""
        space = socket.CMSG_SPACE(MAX_WAITING_FDS * array.array("i").itemsize)
        try:
            data, control, flags, _ = self._control.recvmsg(MAX_LINE_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            data, control, flags = b"", [], 0
        for level, kind, content in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
                self._fds.extend(fds)
        if not data or flags & socket.MSG_CTRUNC or len(self._fds) > MAX_WAITING_FDS:
            self._end()
        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer[:] = rest
        if len(rest) > MAX_LINE_BYTES:
            self._end()
        return lines

    def _end(self):
        """The host has hung up or does not make sense: nothing of its sessions stays behind."""
        for pid in self._sessions:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for _ in self._sessions:
            try:
                os.waitpid(-1, 0)
            except OSError:
                break
        os._exit(0)


def _close_all(fds):
    for fd in fds:
        os.close(fd)


def _renew():
    """What copies of one process must not have in common, and a session that has waited for its
    host must not have from before. The seed of hash() they share."""
    import logging
    import random
    import tempfile
    import uuid

    random.seed()
    tempfile._name_sequence = tempfile.tempdir = None
    uuid._last_timestamp = uuid._node = None
    logging._startTime = time.time_ns() if sys.version_info >= (3, 13) else time.time()
