"""The process that sandboxes live in: started when it is needed, and again when it was lost."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Optional, Union
from weakref import WeakSet

from .binary import find_binary
from .connection import Connection, all_connections


class Engine:
    """A `belljar serve` process of one's own.

    Sandboxes share one per program, unless they are given another. What happens in it, up to its
    being killed, never harms this program.
    """

    def __init__(
        self,
        binary: Union[str, os.PathLike[str], None] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._binary = None if binary is None else Path(binary)
        self._env = env
        self._lock = threading.Lock()
        self._connection: Optional[Connection] = None
        _engines.add(self)

    @property
    def pid(self) -> Optional[int]:
        """The process, if one runs."""
        connection = self._connection
        return connection.pid if connection is not None and connection.is_alive else None

    @property
    def current(self) -> Optional[Connection]:
        """The connection there is, if it can be used."""
        connection = self._connection
        return connection if connection is not None and connection.is_alive else None

    def connect(self) -> Connection:
        """A connection that can be used; starts a process if there is none."""
        with self._lock:
            connection = self.current
            if connection is None:
                connection = Connection(self._binary or find_binary(), self._env)
                self._connection = connection
            return connection

    def close(self) -> None:
        """Ends the process with everything in it. The next sandbox starts another."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Nobody has it any more, neither have sandboxes. A constructor that failed left nothing.
        connection = getattr(self, "_connection", None)
        if connection is not None and connection.is_alive:
            connection.close_soon()

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._connection = None


_engines: WeakSet[Engine] = WeakSet()
_default = Engine()


def default_engine() -> Engine:
    """The one that all sandboxes of this program share."""
    return _default


def _end_all() -> None:
    for connection in all_connections():
        connection.close()


def _after_fork() -> None:
    for connection in all_connections():
        connection.leave_to_parent()
    for engine in tuple(_engines):
        engine._after_fork()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
