"""Requests that wait for their answers: in a thread, or in an event loop."""

from __future__ import annotations

import asyncio
from queue import SimpleQueue
from typing import Any, Optional

#: A line of output with its stream; or, with no stream, the outcome: a value or an exception.
Event = tuple[Optional[str], Any]


class Call:
    """A request that was sent. The thread that reads tells it what happens."""

    #: The sandbox whose code it runs, if it runs any.
    runs_in: Optional[int] = None
    #: Set when its answer has come, whether or not anybody waits for it.
    ended = False

    def tell(self, event: Event) -> None:
        """Passes something on to whoever waits."""
        raise NotImplementedError

    def end(self, outcome: Any) -> None:
        """The answer has come, or none will."""
        self.ended = True
        self.tell((None, outcome))


class BlockingCall(Call):
    """A call that a thread waits for."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()

    def tell(self, event: Event) -> None:
        """Passes something on to the thread that waits."""
        self._events.put(event)

    @property
    def is_silent(self) -> bool:
        """Whether nothing has happened that was not fetched."""
        return self._events.empty()

    def next_event(self, timeout: Optional[float] = None) -> Event:
        """The next thing that happens. Raises `queue.Empty` when nothing does in time."""
        return self._events.get(timeout=timeout)


class LoopCall(Call):
    """A call that a coroutine waits for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    def tell(self, event: Event) -> None:
        """Passes something on to the event loop, unless that is gone."""
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:
            # The loop is closed, so nobody waits any more.
            return

    async def next_event(self) -> Event:
        """The next thing that happens."""
        return await self._events.get()


class Forgotten(Call):
    """A call whose answer nobody wants."""

    def tell(self, event: Event) -> None:
        """Nobody is there to be told."""
