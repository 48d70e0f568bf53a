"""Puts the driver together: what `belljar_guest.boot` does for the frozen guest, for a process."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType


def load():
    """Loads the driver, before anything else of it is imported.

    Nothing here opens a descriptor or starts a thread, so a zygote can do it before forking.
    """
    from . import host, older

    sys.modules["_belljar_host"] = host.module()
    main = ModuleType("__main__")
    # With this name a spawned process does not look for the program's file.
    main.__spec__ = ModuleSpec("__main__", None)
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main

    opcode = older.before_import()
    from . import loop

    sys.modules["belljar_guest.loop"] = loop
    from belljar_guest import api, hygiene, questions

    older.after_import(opcode)
    for name in ("stdin", "stdout", "stderr"):
        stream = hygiene.open_stream(name)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    questions.install()
    api.install()
    hygiene.remember_builtins()
