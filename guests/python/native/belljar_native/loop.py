"""Stands where the guest has `belljar_guest.loop`: an ordinary event loop that lives as long as the session."""

from belljar_guest import __builtins__

import asyncio
import selectors
from _thread import get_ident
from asyncio import base_events, events, exceptions, tasks
from _signal import set_wakeup_fd

from . import interrupts

STOPPED = "Event loop stopped before Future completed."

_session_loop = None
_main_thread = None


def _watch(loop):
    """Called with each loop the session gets; `install` puts what listens to the host here."""



class _Selector(selectors.DefaultSelector):
    """Where an event loop only waits, an interrupt may strike."""

    @interrupts.strike
    def select(self, timeout=None):
        # The interrupt is for the cell, not for a thread that happens to wait.
        if get_ident() == _main_thread:
            interrupts.check()
        return super().select(timeout)


# Between two steps of tasks: what was taken from the queue must not get lost.
interrupts.defer(base_events.BaseEventLoop._run_once)


def session_loop():
    """The loop in which cells await, and background tasks go on whenever one does."""
    global _session_loop
    if _session_loop is None or _session_loop.is_closed():
        _session_loop = asyncio.SelectorEventLoop(_Selector())
        _watch(_session_loop)
    return _session_loop


def install(watch):
    global _watch, _main_thread
    _watch, _main_thread = watch, get_ident()
    # For the loops that programs make themselves.
    selectors.DefaultSelector = _Selector
    _offer_session_loop()
    create_task.__module__ = "asyncio"
    asyncio.create_task = tasks.create_task = create_task


def _offer_session_loop():
    """Code that asks for an event loop outside of one gets the session's, unless it has set another."""
    # The public function warns in 3.14.
    policy = (getattr(events, "_get_event_loop_policy", None) or events.get_event_loop_policy)()
    as_before = policy.get_event_loop

    def get_event_loop():
        if get_ident() == _main_thread:
            current = policy._local._loop
            if current is None or current.is_closed():
                policy.set_event_loop(session_loop())
        return as_before()

    policy.get_event_loop = get_event_loop


def forget():
    """Before a fork: two processes cannot share a loop."""
    global _session_loop
    if _session_loop is not None:
        _session_loop.close()
        _session_loop = None
    events.set_event_loop(None)


def create_task(coro, *, name=None, **context):
    """Schedules a coroutine in the running event loop; in a cell that awaits nothing, in the loop of later cells."""
    if get_ident() == _main_thread:
        loop = events._get_running_loop() or session_loop()
    else:
        loop = events.get_running_loop()
    return loop.create_task(coro, name=name, **context)


class Run:
    """A coroutine on its way through the session's loop."""

    def __init__(self, coroutine):
        self.loop = session_loop()
        self.task = self.loop.create_task(coroutine)
        # What has put an end to it from outside.
        self.ending = None
        self._runs = False

    @interrupts.defer
    def go_on(self):
        """Runs it to its end."""
        global _session_loop
        loop, task = self.loop, self.task
        events._set_running_loop(None)
        task.add_done_callback(self._stop)
        # So that a signal wakes the loop however late it comes.
        previous = set_wakeup_fd(loop._csock.fileno(), warn_on_full_buffer=False)
        self._runs = True
        try:
            while not task.done():
                try:
                    loop.run_forever()
                except (KeyboardInterrupt, SystemExit) as stop:
                    self._end_with(stop)
                else:
                    # The task's own callback stops the loop; if it is not done, somebody else did.
                    self._end_with(RuntimeError(STOPPED))
        except BaseException:
            # It cannot even wait any more: its descriptors were closed, perhaps.
            task._log_destroy_pending = False
            _session_loop = None
            raise
        finally:
            self._runs = False
            _restore_wakeup_fd(previous)
        return True

    def _stop(self, task):
        # After an interrupt this may only be called in the run of a later cell.
        if self._runs:
            self.loop.stop()

    def _end_with(self, ending):
        # A task that has ended by itself tells its own story.
        if not self.task.done():
            self.ending = ending
            self.task.cancel()

    def result(self):
        task, ending = self.task, self.ending
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


def _restore_wakeup_fd(previous):
    try:
        set_wakeup_fd(previous, warn_on_full_buffer=False)
    except (OSError, ValueError):
        set_wakeup_fd(-1)
