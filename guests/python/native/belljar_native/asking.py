"""What the host is asked: tools and input, from any thread and any event loop.

There is no thread that reads: a process with threads cannot fork safely, and programs do
fork. Whoever waits for an answer reads, and hands out what it reads for others. One reads
at a time; the rest wait for their bell. An event loop is told by its own selector.
"""

from belljar_guest import __builtins__

from _thread import allocate_lock, get_ident
from asyncio import events
from collections import deque
from itertools import count
from threading import RLock
from time import monotonic
from weakref import WeakSet

from belljar_guest import calls
from belljar_guest.wire import quote

from . import channel as wire
from .interrupts import check, defer, strike

# A signal that comes right before a system call is seen this much later.
SLICE_SECONDS = 0.2
# Requests the host may send ahead; it sends one at a time.
MAX_QUEUED = 64

NO_LOOP_HERE = "a thread without a running event loop cannot await a tool: call it without .aio and without await"


class _Waiter:
    """Somebody who waits for something to be read."""

    def __init__(self):
        self.answer = None
        self._bell = allocate_lock()
        self._bell.acquire()

    def ring(self):
        try:
            self._bell.release()
        except RuntimeError:
            pass  # it rings already

    @strike
    def listen(self, seconds):
        self._bell.acquire(True, seconds)


class Asking:
    def __init__(self, channel):
        self.channel = channel
        self._reading = allocate_lock()
        self._main_thread = get_ident()
        self._ids = count(1)
        # Everybody who waits, so that one of them reads on when the reader leaves.
        self._waiters = set()
        # Message id -> who waits for its answer; and both ways between ids and begun calls.
        self._asked, self._begun, self._id_of = {}, {}, {}
        self._loops = WeakSet()
        self._requests, self._idle = deque(), _Waiter()
        self._numbering = RLock()

    def install(self):
        begin, take = calls.begin, calls.ToolFuture.take
        calls.ask = self.ask
        calls.begin = lambda *call: self._begin(begin, *call)
        calls.ToolFuture.take = lambda future, answer: _take(take, future, answer)

    # ---- the driver's requests ----

    @defer
    def ask(self, request):
        """Takes what `belljar_guest.calls` writes, `{"do":"…",…}`, and gives the answer it expects."""
        kind, _, rest = request[len('{"do":"') :].partition('",')
        answer = self._asks[kind](self, rest)
        self._check_interrupt()
        return answer

    def _call(self, params):
        return self._question("tool.call", params)

    def _input(self, params):
        answer = self._question("input", params)
        if answer.get("code") == wire.METHOD_NOT_FOUND:
            raise RuntimeError("the host answers no questions")
        return answer

    def _question(self, method, params):
        id, waiter = next(self._ids), _Waiter()
        self._asked[id] = waiter
        try:
            self._send(id, method, params)
            self._wait_for(waiter, lambda: waiter.answer is not None)
        except BaseException:
            if self._asked.pop(id, None) is not None and self.channel.is_ours():
                self._send_drop(id)
            raise
        return waiter.answer

    def _begin_call(self, rest):
        number, _, params = rest[len('"id":') :].partition(",")
        number, id = int(number), next(self._ids)
        self._begun[id], self._id_of[number] = number, id
        self._send(id, "tool.call", params)
        return {}

    def _drop(self, rest):
        id = self._id_of.pop(int(rest[len('"id":') : -1]), None)
        if id is not None and self._begun.pop(id, None) is not None and self.channel.is_ours():
            self._send_drop(id)
        return {}

    def _wait(self, rest):
        """Returns when something was answered, or after a moment: whoever asks looks again."""
        outstanding = len(self._begun)
        self._wait_for(_Waiter(), lambda: len(self._begun) < outstanding, SLICE_SECONDS)
        return {"answers": []}

    _asks = {"call": _call, "input": _input, "begin": _begin_call, "drop": _drop, "wait": _wait}

    def _send(self, id, method, params):
        self.channel.send(f'{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}')

    def _send_drop(self, id):
        self.channel.send(f'{{"jsonrpc":"2.0","method":"tool.drop","params":{{"id":{id}}}}}')

    @defer
    def _begin(self, begin, name, args, kwargs, receiver):
        """`calls.begin`, for several threads and any loop."""
        loop = receiver.loop
        if loop is not None:
            if events._get_running_loop() is None and get_ident() != self._main_thread:
                raise RuntimeError(NO_LOOP_HERE)
            self.watch(loop)
        with self._numbering:
            return begin(name, args, kwargs, receiver)

    def drop_of_closed_loops(self):
        """After a cell: what was begun in a loop that is gone wakes nobody."""
        for receiver in list(calls._begun.values()):
            if receiver.loop is not None and receiver.loop.is_closed():
                calls.drop(receiver)

    # ---- reading ----

    def watch(self, loop):
        """From now on this loop reads answers when it has nothing to do."""
        if loop not in self._loops and self.channel.is_ours():
            loop.add_reader(self.channel.incoming, self._glance)
            self._loops.add(loop)

    @defer
    def _glance(self):
        if self.channel.is_ours() and self._reading.acquire(False):
            try:
                if self.channel.wait(0):
                    self._take_in()
            finally:
                self._stop_reading()

    def next_request(self):
        """The host's next request as (message, id as JSON text); waits for it."""
        self._wait_for(self._idle, lambda: self._requests)
        return self._requests.popleft()

    @defer
    def _wait_for(self, waiter, is_there, seconds=None):
        end = None if seconds is None else monotonic() + seconds
        self._waiters.add(waiter)
        try:
            while not is_there() and (end is None or monotonic() < end):
                if self._reading.acquire(False):
                    try:
                        while not is_there() and (end is None or monotonic() < end):
                            if self.channel.wait(SLICE_SECONDS if waiter is not self._idle else None):
                                self._take_in()
                            self._check_interrupt(waiter)
                    finally:
                        self._stop_reading()
                else:
                    waiter.listen(SLICE_SECONDS)
                    self._check_interrupt(waiter)
        finally:
            self._waiters.discard(waiter)

    def _check_interrupt(self, waiter=None):
        if waiter is not self._idle and get_ident() == self._main_thread:
            check()

    def _stop_reading(self):
        self._reading.release()
        for waiter in list(self._waiters):
            waiter.ring()

    def _take_in(self):
        for line in self.channel.receive():
            try:
                message = wire.parse(line)
            except ValueError as error:
                self.channel.send_error("null", wire.PARSE_ERROR, quote(str(error)))
                continue
            if "method" in message:
                self._take_request(message)
            else:
                self._take_answer(message)

    def _take_request(self, message):
        id = message.get("id")
        kind = type(id)
        text = str(id) if kind is int else quote(id) if kind is str else "null"
        params = message.get("params", {})
        if type(message["method"]) is not str or type(params) is not dict or kind not in (int, str):
            self.channel.send_error(text, wire.INVALID_REQUEST, '"a request has an id, a method and named parameters"')
        elif len(self._requests) >= MAX_QUEUED:
            self.channel.send_error(text, wire.INVALID_REQUEST, '"one request at a time, please"')
        else:
            self._requests.append((message["method"], params, text))
            self._idle.ring()

    def _take_answer(self, message):
        id = message.get("id")
        if type(id) is not int:
            return
        answer = _outcome(message)
        waiter = self._asked.pop(id, None)
        if waiter is not None:
            waiter.answer = answer
            waiter.ring()
            return
        number = self._begun.pop(id, None)
        # Nobody waits for an answer that was dropped.
        if number is not None:
            self._id_of.pop(number, None)
            answer["id"] = number
            calls.deliver([answer])


def _outcome(message):
    """The result or error of an answer, as the driver knows them."""
    error = message.get("error")
    if error is None:
        return {"value": message.get("result")}
    if type(error) is not dict:
        error = {}
    data = error.get("data")
    name = data.get("name") if type(data) is dict else None
    text = error.get("message")
    described = {
        "name": name if type(name) is str else "ToolError",
        "message": text if type(text) is str else "the host gave no reason",
    }
    return {"error": described, "code": error.get("code")}


def _take(take, future, answer):
    """Sets a result in the thread of its loop."""
    if events._get_running_loop() is future.loop:
        take(future, answer)
        return
    try:
        future.loop.call_soon_threadsafe(take, future, answer)
    except RuntimeError:
        pass  # the loop is closed
