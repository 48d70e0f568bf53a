"""An event loop for a place without sockets and threads: tasks, timers, nothing else."""

import time
from asyncio import base_events, events

from .unsupported import refuse_process


class _Timers:
    """Stands where other loops have a selector: there is nothing to wait for but time."""

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("asyncio: every task is waiting and nothing in the sandbox can wake one")
        if timeout > 0:
            time.sleep(timeout)
        return ()

    def close(self):
        pass

    def get_map(self):
        return {}


class SandboxLoop(base_events.BaseEventLoop):
    def __init__(self):
        super().__init__()
        self._selector = _Timers()

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass

    def run_in_executor(self, executor, func, *args):
        """There are no threads: the function runs here and now."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def subprocess_exec(self, *args, **kwargs):
        refuse_process()

    subprocess_shell = subprocess_exec


class SandboxLoopPolicy(events.BaseDefaultEventLoopPolicy):
    _loop_factory = SandboxLoop


def install():
    events.set_event_loop_policy(SandboxLoopPolicy())
