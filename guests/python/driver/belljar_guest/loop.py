"""An event loop for a place without sockets and threads: tasks, timers, and tools of the host."""

from . import __builtins__

import asyncio
from asyncio import base_events, events, exceptions, tasks
from contextvars import Context
from functools import partial
from heapq import heappop
from time import monotonic, sleep

from . import calls, interrupts
from .unsupported import refuse_process

NOTHING_LEFT = "asyncio: every task is waiting and nothing in the sandbox can wake one"
STOPPED = "Event loop stopped before Future completed."
# How often a loop that is never idle looks for answers of the host.
POLL_SECONDS = 0.02
# An answer may take some rounds to arrive where it is awaited (through gather, say).
SETTLE_ROUNDS = 16


class _HostSelector:
    """Stands where other loops have a selector: waits for time and for answers of the host."""

    def __init__(self, loop):
        self._loop, self._polled = loop, 0.0

    @interrupts.strike
    def select(self, timeout=None):
        interrupts.check()
        if calls.outstanding(self._loop):
            now = monotonic()
            if timeout != 0 or now - self._polled > POLL_SECONDS:
                self._polled = now
                return calls.wait(timeout)
        elif timeout is None:
            raise RuntimeError(NOTHING_LEFT)
        elif timeout > 0:
            sleep(timeout)
        return 0

    def close(self):
        pass

    def get_map(self):
        return {}


class SandboxLoop(base_events.BaseEventLoop):
    def __init__(self):
        super().__init__()
        self._selector = _HostSelector(self)

    def _process_events(self, answers):
        if answers:
            self.settle()

    @interrupts.defer
    def settle(self):
        """Runs what is ready and leaves timers alone: an answer wins over a time-out that is due."""
        ready = self._ready
        for _ in range(SETTLE_ROUNDS):
            if not ready:
                break
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()

    def seconds_to_next_timer(self):
        """None without timers."""
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            heappop(timers)._scheduled = False
            self._timer_cancelled_count -= 1
        return max(0.0, timers[0]._when - self.time()) if timers else None

    def _write_to_self(self):
        pass

    def default_exception_handler(self, context):
        # These end the cell, which is how they are reported.
        if not isinstance(context.get("exception"), (KeyboardInterrupt, SystemExit)):
            super().default_exception_handler(context)

    def close(self):
        calls.drop_all(self)
        super().close()

    def run_in_executor(self, executor, func, *args):
        """There are no threads: a tool of the host is begun, anything else runs here and now."""
        tool, arguments, keywords = _without_partial(func, args)
        if isinstance(tool, calls.HostFunction):
            return tool.aio(*arguments, **keywords)
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def subprocess_exec(self, *args, **kwargs):
        refuse_process()

    subprocess_shell = subprocess_exec


def _without_partial(func, args):
    """asyncio.to_thread(f, x) comes as partial(context.run, f, x)."""
    if type(func) is not partial:
        return func, args, {}
    inner, arguments = func.func, func.args + args
    if arguments and type(getattr(inner, "__self__", None)) is Context:
        inner, *arguments = arguments
    return inner, arguments, func.keywords


class SandboxLoopPolicy(events.BaseDefaultEventLoopPolicy):
    _loop_factory = SandboxLoop

    def get_event_loop(self):
        loop = self._local._loop
        return session_loop() if loop is None or loop.is_closed() else loop


_session_loop = None


def session_loop():
    """The loop in which cells await; it lives as long as the sandbox, and background tasks with it."""
    global _session_loop
    if _session_loop is None or _session_loop.is_closed():
        _session_loop = SandboxLoop()
    return _session_loop


class Run:
    """A coroutine on its way through the session's loop; it may stop and go on many times."""

    def __init__(self, coroutine):
        self.loop = session_loop()
        self.task = self.loop.create_task(coroutine)
        # What has put an end to it from outside.
        self.ending = None

    def interrupt(self):
        self._end_with(KeyboardInterrupt())

    def abandon(self):
        self.task.cancel()

    @interrupts.defer
    def go_on(self):
        """True when it is done; False when it waits for the host and there is nothing else to do."""
        loop, task = self.loop, self.task
        events._set_running_loop(None)
        loop._run_forever_setup()
        try:
            self._step(loop.settle)
            while not task.done():
                self._step(interrupts.check)
                if not loop._ready:
                    timer = loop.seconds_to_next_timer()
                    if calls.outstanding(loop):
                        if timer is None or timer > 0:
                            return False
                    elif timer is None:
                        if self.ending is not None:
                            # It did not even end when told to.
                            task._log_destroy_pending = False
                            return True
                        self._end_with(RuntimeError(NOTHING_LEFT))
                self._step(loop._run_once)
                if loop._stopping:
                    loop._stopping = False
                    self._end_with(RuntimeError(STOPPED))
            return True
        finally:
            loop._run_forever_cleanup()

    def _step(self, step):
        try:
            step()
        except (KeyboardInterrupt, SystemExit) as stop:
            self._end_with(stop)

    def _end_with(self, ending):
        # A task that has ended by itself tells its own story.
        if not self.task.done():
            self.ending = ending
            self.task.cancel()

    def result(self):
        task, ending = self.task, self.ending
        if not task.done():
            raise ending
        if ending is None:
            return task.result()
        try:
            value = task.result()
            if isinstance(ending, KeyboardInterrupt):
                return value
        except exceptions.CancelledError as cancelled:
            # Where it was waiting says more than where the loop was.
            ending.__traceback__ = cancelled.__traceback__
        except BaseException:
            if isinstance(ending, KeyboardInterrupt):
                raise
        ending.__context__ = None
        raise ending


# Between two steps of tasks: what was taken from the queue must not get lost.
interrupts.defer(base_events.BaseEventLoop._run_once)


def create_task(coro, *, name=None, context=None):
    """Schedules a coroutine in the running event loop; in a cell that awaits nothing, in the loop of later cells."""
    loop = events._get_running_loop() or session_loop()
    return loop.create_task(coro, name=name, context=context)


def install():
    events.set_event_loop_policy(SandboxLoopPolicy())
    session_loop()
    create_task.__module__ = "asyncio"
    asyncio.create_task = tasks.create_task = create_task
