"""The connection to the host: JSON-RPC 2.0, one message a line, on descriptors user code does not meet."""

from belljar_guest import __builtins__

import fcntl
import os
import select
from errno import EBADF
from json.decoder import JSONDecoder
from os import _exit, getpid, read, write
from threading import RLock

from .interrupts import defer, strike

# The host sends no longer line, and gets none from us.
MAX_LINE_BYTES = 64 * 1024 * 1024
READ_BYTES = 64 * 1024
# Programs that close or pass on "all" descriptors mostly mean the low ones.
HIGH_DESCRIPTORS = (200, 50, 10)

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

_scan = JSONDecoder().scan_once


class NotOurs(RuntimeError):
    """A forked process is not the one the host talks to."""

    def __init__(self):
        super().__init__("a forked process cannot use the host's tools: call them in the process that runs the cell")


class Channel:
    """Whoever reads must be alone in reading; writing is safe from every thread."""

    def __init__(self, incoming, outgoing):
        self.incoming, self._outgoing = _move_up(incoming), _move_up(outgoing)
        for fd in {incoming, outgoing}:
            os.close(fd)
        self._pid = getpid()
        self._poll = select.poll()
        self._poll.register(self.incoming, select.POLLIN)
        self._buffer, self._searched, self._skipping = bytearray(), 0, False
        self._lock, self._sending = RLock(), False
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def _leave_to_parent(self):
        """A forked process neither reads nor writes here, nor keeps the connection open."""
        for fd in (self.incoming, self._outgoing):
            try:
                os.close(fd)
            except OSError:
                pass

    def is_ours(self):
        return getpid() == self._pid

    @defer
    def send(self, text):
        """Sends a message without its end of line."""
        line = text.encode("utf-8", "replace") + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"a message to the host may have at most {MAX_LINE_BYTES} bytes, not {len(line)}")
        if not self.is_ours():
            raise NotOurs
        with self._lock:
            if self._sending:
                raise RuntimeError("a signal handler or finaliser cannot call the host while a message is being sent")
            self._sending = True
            try:
                self._write(line)
            finally:
                self._sending = False

    def _write(self, line):
        try:
            sent = write(self._outgoing, line)
            if sent < len(line):
                rest = memoryview(line)[sent:]
                while rest:
                    rest = rest[write(self._outgoing, rest) :]
        except OSError:
            # The host is gone, or user code has closed the descriptor: nobody would learn of anything more.
            _exit(1)

    def send_error(self, id, code, message):
        """`id` and `message` as JSON text."""
        self.send(f'{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}')

    @strike
    def wait(self, seconds):
        """Whether there is something to read; it may wake early."""
        return bool(self._poll.poll(None if seconds is None else seconds * 1000))

    @defer
    def receive(self):
        """Reads once and gives the lines that are complete; None stands for one that was too long."""
        try:
            data = read(self.incoming, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            # The host has hung up: the session is over, whatever still runs in it.
            _exit(0)
        buffer, lines = self._buffer, []
        buffer += data
        while True:
            end = buffer.find(b"\n", self._searched)
            if end < 0:
                break
            lines.append(None if self._skipping or end > MAX_LINE_BYTES else bytes(buffer[:end]))
            del buffer[: end + 1]
            self._searched, self._skipping = 0, False
        if len(buffer) > MAX_LINE_BYTES:
            buffer.clear()
            self._skipping = True
        self._searched = len(buffer)
        return lines


def _move_up(fd):
    for least in HIGH_DESCRIPTORS:
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError as error:
            if error.errno == EBADF:
                raise SystemExit(f"belljar: descriptor {fd} is not open: the host's connection belongs there") from None
    raise RuntimeError("the limit on open files leaves no descriptor for the connection to the host")


def parse(line):
    """A message as a dict; ValueError says what is wrong with it."""
    if line is None:
        raise ValueError(f"the line is longer than {MAX_LINE_BYTES} bytes")
    try:
        text = str(line, "utf-8")
        start = len(text) - len(text.lstrip())
        message, end = _scan(text, start)
    except StopIteration:
        raise ValueError("the line is no JSON") from None
    except RecursionError:
        raise ValueError("the line is nested too deeply") from None
    if text[end:].strip():
        raise ValueError("there is something behind the JSON")
    if type(message) is not dict:
        raise ValueError("the message is no object")
    return message
