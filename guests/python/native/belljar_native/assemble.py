"""Puts the driver together: what `belljar_guest.boot` does for the frozen guest, for a process."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType


def load():
    """Loads the driver. Nothing here opens a descriptor or starts a thread, so a zygote can do it before forking."""
    from . import host, older

    sys.modules["_belljar_host"] = host.module()
    main = ModuleType("__main__")
    # With this name a spawned process does not look for the program's file.
    main.__spec__ = ModuleSpec("__main__", None)
    # Whoever started us keeps its own module alive.
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main

    opcode = older.before_import()
    from . import loop

    sys.modules["belljar_guest.loop"] = loop
    from belljar_guest import api, driver, hygiene, questions

    from . import asking  # noqa: F401  a session that was forked should find it loaded

    older.after_import(opcode)
    for name in ("stdin", "stdout", "stderr"):
        stream = hygiene.open_stream(name)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    questions.install()
    api.install()
    hygiene.remember_builtins()
    return driver


def connect(incoming, outgoing):
    """Connects the loaded driver with its host."""
    from . import interrupts, loop
    from .asking import Asking
    from .channel import Channel

    asking = Asking(Channel(incoming, outgoing))
    asking.install()
    loop.install(asking.watch)
    interrupts.install()
    return asking
